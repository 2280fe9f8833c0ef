"""What the folder of a model says in words: ``model.json``, which no other module reads or writes.

It loads no torch, so that a command can look at a folder before it begins.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from naysayer.common.files import write_text

NAME = "model.json"
FORMAT = 1
PARTS = ("settings", "fitted", "extra")
NETWORK = "ComplementaryClassifier"  # the class of models in folders that name none, as all did once


def write_description(folder: Path, text: str) -> None:
    """Put a description into its place."""
    write_text(folder / NAME, text)


def read_description(folder: Path) -> dict[str, Any]:
    """Read and check what a folder says of its model."""
    try:
        read = _parsed(folder)
        if read["format"] != FORMAT:
            raise ValueError(f"it has format {read['format']}, and this release reads {FORMAT}")
        about = {part: dict(read[part]) for part in PARTS}
        if "network" in about["extra"]:  # where models from stores used to keep the name of theirs
            about["settings"].setdefault("network", about["extra"]["network"])
        return about | {"model": str(read.get("model", NETWORK)), "weights": Path(str(read["weights"])).name}
    except NotADirectoryError:
        raise ValueError(f"a model is a folder; {folder} is a file") from None
    except FileNotFoundError:
        raise FileNotFoundError(f"no model at {folder}: it has no {NAME}") from None
    except KeyError as error:
        raise ValueError(f"{folder / NAME} is not a whole model file: it lacks {error}") from None
    except (ValueError, TypeError, OSError, RecursionError) as error:
        raise ValueError(f"{folder / NAME} is not a whole model file: {error}") from None


def kind_of(folder: str | os.PathLike[str]) -> str:
    """Name the class of the model in a folder."""
    return str(read_description(Path(folder))["model"])


def is_finished(folder: Path) -> bool:
    """Whether a folder has a model, other than the best so far of a training that was interrupted.

    A file that cannot be read counts as one, since it may be worth something to somebody.
    """
    try:
        return not _parsed(folder)["extra"].get("interrupted")
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):  # damaged, or of something else
        return True


def _parsed(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / NAME).read_text(encoding="utf8")))
