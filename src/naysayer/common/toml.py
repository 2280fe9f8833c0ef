"""Read TOML files, which people write by hand."""

from __future__ import annotations

import contextlib
import importlib
from pathlib import Path
from typing import Any


def toml_reader(what: str) -> Any:
    """Give the module that reads TOML; `what` is read with it, for the one who has none."""
    for name in ("tomllib", "tomli"):  # Python has the first from 3.11 on
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    raise ImportError(f"{what} takes Python 3.11 or later, or the package tomli; pip install tomli")


def read_toml(path: Path, what: str, help: str) -> dict[str, Any]:
    """Read a file that is to be `what`, such as "a survey"; `help` is for the one whose file is not there."""
    if path.is_dir():
        raise ValueError(f"{what} must be a TOML file; {path} is a folder")
    toml = toml_reader(f"{what} file")
    try:
        return toml.loads(path.read_text(encoding="utf-8-sig"))  # type: ignore[no-any-return]
    except FileNotFoundError:
        raise FileNotFoundError(f"no {what.removeprefix('a ')} file at {path}; {help}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be a TOML file in UTF-8; byte {error.start} is no text") from None
    except toml.TOMLDecodeError as error:
        raise ValueError(f"{path} must be a TOML file: {error}") from None
