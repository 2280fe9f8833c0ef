"""The shape of the package: imports point one way, light things stay light, and every public name says what it is."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import naysayer

SOURCE = Path(naysayer.__file__).parent
# From the ground up: a module may import those before it, at its top or inside a function.
ORDER = [
    *("checks", "transition", "labels", "losses", "_triton", "kernels", "risk", "objectives", "optimizers", "networks"),
    *(
        "files",
        "progress",
        "augment",
        "stack",
        "training",
        "intervals",
        "weights",
        "metrics",
        "encoding",
        "estimators",
        "reduction",
    ),
    *("boosting", "tables", "readers", "datasets", "planning", "doctor", "demo", "__init__"),
    *(f"experiments.{name}" for name in ("__init__", "jobs", "scale", "plots", "report", "paper", "selection")),
    *(f"experiments.{name}" for name in ("figure1", "figure2", "table3", "figure4", "selection_loss", "sweeps")),
    "experiments.reproduce",
    *(f"collect.{name}" for name in ("__init__", "items", "questions", "records", "schema", "database", "writer")),
    *(f"collect.{name}" for name in ("drawing", "replies", "store")),
    *(f"collect.{name}" for name in ("design", "answers", "tools", "exchange", "features", "learn")),
    *(f"collect.{name}" for name in ("security", "dashboard", "app")),
    *(f"collect.{name}" for name in ("survey", "survey_store", "survey_results", "survey_app")),
    *("console", "collect.commands", "cli", "__main__"),
]


def modules():
    names = {".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in SOURCE.rglob("*.py")}
    return {name: ast.parse(path.read_text(encoding="utf8")) for name, path in names.items()}


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
    """The modules of the package that a syntax tree imports."""
    return {name.removeprefix("naysayer.") for name in imports(tree)} & {*ORDER}


def packages(tree, top_only=False):
    return {name.split(".")[0] for name in imports(tree, top_only)}


def test_the_readers_of_imports_see_them():
    tree = ast.parse(
        "import a.b\nif x:\n    from naysayer import risk, other\ndef f():\n    from naysayer.labels import y"
    )
    assert imports(tree, top_only=True) == {"a.b", "naysayer", "naysayer.risk", "naysayer.other"}
    assert own(tree) == {"risk", "labels"}
    assert packages(tree) == {"a", "naysayer"}


def test_imports_point_one_way():
    found = modules()
    assert sorted(found) == sorted(ORDER), "a new module needs its place in ORDER"
    for name, tree in found.items():
        above = own(tree) - set(ORDER[: ORDER.index(name)])
        assert not above, f"{name} imports {above}, which stand above it"
    order = list(TopologicalSorter({name: own(tree) for name, tree in found.items()}).static_order())
    assert len(order) == len(ORDER)


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        ("typer", {"console", "collect.commands", "cli"}),
        ("rich", {"progress"}),
        ("triton", {"_triton", "kernels"}),
        ("safetensors", {"files"}),
        ("matplotlib", {"demo", "experiments.plots"}),
        ("lightgbm", {"boosting"}),
        ("pyarrow", {"tables", "collect.exchange"}),
        ("PIL", {"collect.items", "collect.features"}),
        ("torchvision", set()),
        ("pandas", set()),
        ("pickle", set()),
    ],
)
def test_a_package_is_imported_where_it_belongs(package, allowed):
    assert {name for name, tree in modules().items() if package in packages(tree)} <= allowed


@pytest.mark.parametrize("package", ["rich", "matplotlib", "lightgbm", "pyarrow", "pandas", "torchvision", "pooch"])
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
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
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
