"""The shape of the package: imports point one way, light things stay light, and every public name says what it is."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import naysayer

SOURCE = Path(naysayer.__file__).parent
# The rooms, from the ground up: a module may import from its own room and from those before it, at its top or inside a
# function; within a room there are no circles.
ROOMS = [
    *("names", "common", "labels", "losses", "risk", "objectives", "engine", "measure", "data", "features", "models"),
    *("transition", "networks", "metrics", "report", "experiments", "collect", "survey", "cli"),
]
CLI = (
    *("app", "ask", "benchmark", "console", "data", "evaluate", "exchange", "items", "labels", "people", "predict"),
    *("processes", "reproduce", "survey", "train", "tune"),
)


def room(module):
    """The room of a module, by its name within the package; the package itself and `python -m` stand above all."""
    first = module.split(".")[0]
    return len(ROOMS) if first in ("__init__", "__main__") else ROOMS.index(first)


@functools.cache
def modules():
    """The syntax trees of all modules of the package, by their names in it."""
    names = {".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in SOURCE.rglob("*.py")}
    return {name: ast.parse(path.read_text(encoding="utf8")) for name, path in names.items()}


@functools.cache  # of the trees of modules, which many tests look at
def imports(tree, top_only=False):
    """All modules that a syntax tree imports, by their full names; `from a import b` may be a.b."""
    found = set()
    for node in top_level(tree) if top_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


def top_level(tree):
    """The statements that run when a module is imported: all but those inside functions."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield node
            yield from top_level(node)


def own(tree):
    """The modules of the package that a syntax tree imports; of a room itself only where a name is taken from it."""
    names = {name.removeprefix("naysayer.") for name in imports(tree) if name.startswith("naysayer.")}
    known = modules().keys()
    found = names & known
    return found | {f"{name}.__init__" for name in names if not any(n.startswith(f"{name}.") for n in found)} & known


def packages(tree, top_only=False):
    return {name.split(".")[0] for name in imports(tree, top_only)}


def test_the_readers_of_imports_see_them():
    tree = ast.parse(
        "import a.b\nif x:\n    from naysayer import risk, other\ndef f():\n    from naysayer.labels.drawing import y"
    )
    assert imports(tree, top_only=True) == {"a.b", "naysayer", "naysayer.risk", "naysayer.other"}
    assert own(tree) == {"risk", "labels.drawing"}
    assert packages(tree) == {"a", "naysayer"}


def test_imports_point_one_way():
    found = modules()
    for name, tree in found.items():
        above = {other for other in own(tree) if room(other) > room(name)}
        assert not above, f"{name} imports {above}, whose rooms stand above its own"
    graph = {name: {n for n in own(tree) if n != name} for name, tree in found.items() if name != "__init__"}
    assert len(list(TopologicalSorter(graph).static_order())) == len(graph)  # it raises where there is a circle


def test_a_wrong_import_would_be_seen():
    tree = ast.parse("from naysayer.collect.store import Store")
    assert {other for other in own(tree) if room(other) > room("engine.stack")} == {"collect.store"}


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        ("typer", {f"cli.{name}" for name in CLI}),
        ("rich", {"common.progress"}),
        ("triton", {"engine._triton", "engine.kernels"}),
        ("safetensors", {"common.files", "features.texts"}),
        ("tokenizers", {"features.texts"}),
        ("matplotlib", {"experiments.demo", "experiments.plots"}),
        ("lightgbm", {"models.boosting"}),
        ("pyarrow", {"data.stream", "data.tables", "collect.exchange"}),
        (
            "PIL",
            {
                *("collect.previews", "data.items", "data.stream_images"),
                *("features.photos", "features.pictures", "report.pictures"),
            },
        ),
        ("ray", {"experiments.tasks"}),
        ("torchvision", set()),
        ("pandas", set()),
        ("pickle", {"data.human"}),  # which lets nothing but data through
    ],
)
def test_a_package_is_imported_where_it_belongs(package, allowed):
    assert {name for name, tree in modules().items() if package in packages(tree)} <= allowed


@pytest.mark.parametrize("package", ["fastapi", "starlette", "uvicorn", "sqlalchemy", "jinja2", "psycopg"])
def test_the_web_stack_is_imported_by_the_web_apps_alone(package):
    assert {name.split(".")[0] for name, tree in modules().items() if package in packages(tree)} <= {
        "collect",
        "survey",
    }


def texts(tree):
    """The strings of a module that do something: all but those which stand alone, as docstrings do."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return {node.value for node in strings if id(node) not in alone}


def classes(trees):
    """The modules of every class, by its name."""
    found = {}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(name)
    return found


def test_a_name_is_of_one_class():
    two = ast.parse("class A: ...\nclass B:\n    class A: ...")
    assert classes({"x": two, "y": ast.parse("class B: ...")}) == {"A": ["x", "x"], "B": ["x", "y"]}
    assert {name: sorted(homes) for name, homes in classes(modules()).items() if len(homes) > 1} == {
        # experiments: the first columns, or the settings, by which files of results are known again
        "Row": ["experiments.benchmark", "experiments.tune"],
        "Run": ["experiments.benchmark", "experiments.jobs"],
        "Training": ["collect.records", "experiments.benchmark"],
    }


def test_one_module_knows_the_file_that_describes_a_model():
    assert texts(ast.parse('def f(x):\n    "a"\n    return f"b {x}" + "c"')) == {"b ", "c"}
    knowing = {name for name, tree in modules().items() if any("model.json" in text for text in texts(tree))}
    assert knowing == {"models.description"}


@pytest.mark.parametrize(
    "package", ["rich", "matplotlib", "lightgbm", "pyarrow", "pandas", "torchvision", "pooch", "ray"]
)
def test_what_is_heavy_or_optional_is_imported_only_when_used(package):
    assert [name for name, tree in modules().items() if package in packages(tree, top_only=True)] == []


@pytest.mark.parametrize("module", ["naysayer", "naysayer.cli"])
def test_importing_the_package_does_not_need_what_is_optional(module):
    heavy = ["lightgbm", "matplotlib", "pooch", "torchvision", "triton"] + ["typer"] * (module == "naysayer")
    assert run(f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])") == "[]"
    absent = [*heavy, "pandas", "pyarrow"]  # scikit-learn imports these where it finds them
    program = f"import sys; sys.modules.update(dict.fromkeys({absent})); import {module}; print('imported')"
    assert run(program) == "imported"


def run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=True)
    return done.stdout.strip()


def test_every_public_name_is_there_and_says_what_it_is():
    assert list(naysayer.__all__) == sorted(naysayer.__all__)
    for name in naysayer.__all__:
        thing = getattr(naysayer, name)
        text = inspect.getdoc(thing)
        assert text, name
        first = text.splitlines()[0]
        assert first.endswith((".", ":")), f"{name}: {first}"
        if inspect.isclass(thing):
            undocumented = [
                f"{name}.{key}"
                for key, value in vars(thing).items()
                if callable(value) and not key.startswith("_") and not inspect.getdoc(value)
            ]
            assert not undocumented


def test_public_functions_of_public_modules_are_documented():
    undocumented = []
    for module in (getattr(naysayer, name) for name in naysayer.__all__):
        if not inspect.ismodule(module):
            continue
        for key, value in vars(module).items():
            ours = getattr(value, "__module__", None) == module.__name__
            if ours and callable(value) and not key.startswith("_") and not inspect.getdoc(value):
                undocumented.append(f"{module.__name__}.{key}")
    assert undocumented == []


def test_a_module_says_what_it_is_for():
    for name, tree in modules().items():
        assert ast.get_docstring(tree) or name == "__main__", name


def test_the_version_is_the_one_of_the_project():
    project = (SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf8")
    assert re.search(r'^version = "(.+)"', project, re.MULTILINE)[1] == naysayer.__version__
