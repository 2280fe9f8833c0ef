"""What starts at once: which modules the package, its help, its plan and the shell's completion load."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import naysayer
from helpers import every_command
from naysayer import cli
from naysayer.data.registry import REGISTRY

SOURCE = Path(naysayer.__file__).parent
HEAVY = {"torch", "scipy", "sklearn", "matplotlib", "pandas", "pyarrow", "sqlalchemy", "fastapi", "uvicorn", "PIL"}
COMMANDS = sorted(name for name, _ in every_command(get_command(cli.app)))
PUBLIC = [
    *("BoostedClassifier", "ComplementaryClassifier", "Population", "ReductionClassifier", "complement", "features"),
    *("losses", "metrics", "networks", "objectives", "open_stream", "ruled_out", "transition", "unbiased_weights"),
]
# Runs the command as the installed program does, and says at its end which packages are loaded.
PROGRAM = """
import atexit, json, os, sys
def tell():
    sys.stdout.flush()
    loaded = sorted({name.split(".")[0] for name in sys.modules})
    os.write(2, ("loaded: " + json.dumps(loaded) + "\\n").encode())
atexit.register(tell)
from naysayer.cli import main
sys.argv[0] = "naysayer"
main()
"""


def python(program, *arguments, **variables):
    """Run a program in a new interpreter; give its exit code, what it printed, and what it said on standard error."""
    environment = os.environ | {"PYTHONPATH": str(SOURCE.parent)} | variables
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120, env=environment
    )
    return done.returncode, done.stdout, done.stderr


def loaded_by(*arguments, code=0, **variables):
    """What the command printed, and the packages that it loaded."""
    got, out, err = python(PROGRAM, *arguments, **variables)
    assert got == code, err
    return out, set(json.loads(err.split("loaded: ")[1]))


# ---- what is loaded -------------------------------------------------------------------------------------------


def test_a_heavy_module_would_be_seen():
    _, loaded = loaded_by("data", "path", "digits")
    assert "sklearn" in loaded & HEAVY


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["data", "--help"]], ids=" ".join)
def test_the_command_itself_loads_nothing_heavy(arguments):
    _, loaded = loaded_by(*arguments)
    assert loaded & (HEAVY | {"numpy"}) == set()


def test_the_help_of_every_command_loads_nothing_heavy():
    """All in one interpreter: what any of them loads would stay."""
    program = f"""
import json, sys
from naysayer import cli
for name in {COMMANDS}:
    sys.argv = ["naysayer", *name.split(), "--help"]
    try:
        cli.main()
    except SystemExit as stop:
        assert stop.code == 0, name
print(json.dumps(sorted({{name.split(".")[0] for name in sys.modules}})))
"""
    code, out, err = python(program)
    assert code == 0, err
    assert out.count("Usage: naysayer ") == len(COMMANDS) >= 14
    assert set(json.loads(out.splitlines()[-1])) & (HEAVY | {"numpy"}) == set()


def test_the_command_takes_memory_as_it_needs_it(monkeypatch, naysayer):
    """The pool of pyarrow, which is asked when that is loaded, and no sooner than the command has said so."""
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    assert naysayer("--version").code == 0
    assert os.environ["ARROW_DEFAULT_MEMORY_POOL"] == "system"
    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
    assert naysayer("--version").code == 0
    assert os.environ["ARROW_DEFAULT_MEMORY_POOL"] == "jemalloc"  # whoever chooses is asked first


def test_a_plan_loads_nothing_heavy():
    out, loaded = loaded_by("plan", "--classes", "10")
    assert "35,109" in out
    assert loaded & (HEAVY | {"numpy"}) == set()


def test_a_mistake_is_answered_without_loading_anything_heavy(tmp_path):
    _, loaded = loaded_by("trian", code=2)
    assert loaded & HEAVY == set()
    (tmp_path / "model.json").write_text('{"extra": {}}')
    _, loaded = loaded_by("train", "table.csv", "--label", "not", "--out", str(tmp_path), code=2)
    assert loaded & HEAVY == set()


def test_the_version_is_printed():
    assert loaded_by("--version")[0] == f"naysayer {naysayer.__version__}\n"


# ---- the package ----------------------------------------------------------------------------------------------


def test_the_public_names():
    assert naysayer.__all__ == PUBLIC
    assert set(PUBLIC) <= set(dir(naysayer))
    assert {"__version__", "__doc__", "__all__"} <= set(dir(naysayer))
    assert not [name for name in dir(naysayer) if name.startswith("_") and not name.startswith("__")]


def test_importing_the_package_loads_none_of_its_parts():
    program = """
import sys
import naysayer
before = sorted(name for name in sys.modules if name.startswith("naysayer") or name in ("torch", "numpy"))
naysayer.complement([0, 1], 2, random_state=0)
print(before, "numpy" in sys.modules, "torch" in sys.modules)
"""
    assert python(program)[1] == "['naysayer'] True False\n"


def test_a_star_gives_all_public_names():
    space = {}
    exec("from naysayer import *", space)
    assert set(space) - {"__builtins__"} == set(PUBLIC)
    assert space["complement"] is naysayer.labels.drawing.complement


def test_a_name_that_is_not_there_is_said_to_be():
    with pytest.raises(AttributeError, match="module 'naysayer' has no attribute 'complment'"):
        naysayer.complment  # noqa: B018
    with pytest.raises(ImportError, match="complment"):
        exec("from naysayer import complment")


def test_editors_and_type_checkers_see_the_names_from_the_same_places():
    """What stands under TYPE_CHECKING is what is loaded at run time."""
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    assert set(seen) == set(PUBLIC)
    assert {name: home for name, home in seen.items() if home != "naysayer"} == naysayer._HOMES


def test_a_type_checker_knows_what_the_names_are(tmp_path):
    (tmp_path / "use.py").write_text(
        "import naysayer\n"
        "from naysayer import ruled_out\n"
        "reveal_type(naysayer.ComplementaryClassifier())\n"
        "reveal_type(ruled_out)\n"
        "naysayer.complment\n"
    )
    command = [sys.executable, "-m", "mypy", str(tmp_path / "use.py")]  # with the project's settings and cache
    environment = os.environ | {"MYPYPATH": str(SOURCE.parent)}
    done = subprocess.run(command, cwd=SOURCE.parents[1], capture_output=True, text=True, timeout=300, env=environment)
    said = done.stdout
    assert 'Revealed type is "naysayer.models.classifier.ComplementaryClassifier"' in said
    assert 'Revealed type is "def (labels:' in said
    assert 'Module has no attribute "complment"' in said
    assert done.returncode == 1


# ---- completion -----------------------------------------------------------------------------------------------


def complete(shell, *words):
    """What a shell is told when somebody presses Tab after these words; also which packages that loaded."""
    line = " ".join(["naysayer", *words])
    variables = {"_NAYSAYER_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line}
    variables |= {"COMP_WORDS": line, "COMP_CWORD": str(len(words)), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    out, loaded = loaded_by(**variables)
    assert loaded & (HEAVY | {"numpy"}) == set()
    if shell == "zsh":  # _arguments '*: :(("name":"description"
        return [line.split('"')[1] for line in out.splitlines()]
    return [line.split("\t")[0] for line in out.splitlines()]


SHELLS = pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])


@SHELLS
def test_a_shell_completes_commands(shell):
    assert set(complete(shell, "")) >= {"train", "predict", "evaluate", "plan", "data"}
    assert complete(shell, "pre") == ["predict"]
    assert complete(shell, "data", "p") == ["path"]


@SHELLS
def test_a_shell_completes_options(shell):
    assert complete(shell, "train", "--met") == ["--method"]
    assert {"--classes", "--margin", "--json"} <= set(complete(shell, "plan", "--"))


@SHELLS
def test_a_shell_completes_names(shell):
    assert complete(shell, "data", "path", "") == list(REGISTRY)
    assert complete(shell, "data", "get", "mnist", "f") == ["fashion"]
    assert complete(shell, "train", "--network", "c") == ["convolution"]
    assert complete(shell, "train", "--method", "f") == ["free", "forward", "forest"]
    assert complete(shell, "train", "--method", "forward,a") == ["forward,auto", "forward,ascent"]
    assert complete(shell, "reproduce", "table3", "--dataset", "ku") == ["kuzushiji"]


@pytest.mark.parametrize(
    ("shell", "words"),
    [("bash", "complete -o default -F"), ("zsh", "#compdef naysayer"), ("fish", "complete --command naysayer")],
)
def test_a_shell_gets_its_script(shell, words):
    out, loaded = loaded_by(_NAYSAYER_COMPLETE=f"source_{shell}")
    assert words in out
    assert f"_NAYSAYER_COMPLETE=complete_{shell}" in out
    assert loaded & HEAVY == set()


def test_what_is_completed_is_all_that_is_accepted():
    from naysayer import names, networks, objectives
    from naysayer.cli.train import _methods, _networks, _recipes
    from naysayer.engine import recipe
    from naysayer.names import OTHERS

    assert set(_methods("")) == {"auto", "linear", *objectives.OBJECTIVES, *OTHERS}
    assert set(_networks("")) == set(networks.NETWORKS)
    assert set(_recipes("")) == {"auto", *recipe.RECIPES}
    for table, places in (
        (objectives.OBJECTIVES, names.OBJECTIVES),
        (networks.NETWORKS, names.NETWORKS),
        (recipe.RECIPES, names.RECIPES),
    ):
        assert type(table) is dict
        assert list(table) == list(places)


def test_the_page_about_completion_says_what_works():
    page = (SOURCE.parents[1] / "docs" / "completion.md").read_text(encoding="utf8")
    for shell in ("bash", "zsh", "fish"):
        assert f"_NAYSAYER_COMPLETE=source_{shell} naysayer" in page
