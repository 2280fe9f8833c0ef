"""A model on the disk: a folder with ``model.json``, which says what it is, and the safetensors file that it names.

This is the only place that reads or writes such folders.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from naysayer.common.files import read_tensors, write_tensors, write_text
from naysayer.labels.transition import Estimated

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1
PARTS = ("settings", "fitted", "extra")


def write_model(folder: str | os.PathLike[str], about: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a model into a folder. No pickle.

    ``model.json`` is put in its place last, so a folder that held a model before holds a whole one at every moment.

    Parameters
    ----------
    folder : it is made where it is not there.
    about : "settings", "fitted" and "extra", each a dict of what JSON can hold, numpy's numbers and arrays included.
    tensors : the parameters, by name.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"cannot save to {folder}: it is a file; give a folder")
    digest = hashlib.sha256(
        b"".join(np.ascontiguousarray(t.detach().cpu().numpy()).tobytes() for t in tensors.values())
    )
    weights = f"weights-{digest.hexdigest()[:16]}.safetensors"
    described = {"format": FORMAT} | {part: about[part] for part in PARTS} | {"weights": weights}
    text = json.dumps(described, indent=1, default=numpy_to_json) + "\n"
    write_tensors(folder / weights, tensors, {"format": FORMAT})
    write_text(folder / "model.json", text)
    for old in folder.glob("weights-*.safetensors"):
        if old.name != weights:
            old.unlink(missing_ok=True)


def read_model(folder: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what :func:`write_model` wrote: `about` and `tensors`."""
    folder = Path(folder)
    try:
        read = dict(json.loads((folder / "model.json").read_text(encoding="utf8")))
        if read["format"] != FORMAT:
            raise ValueError(f"it has format {read['format']}, and this release reads {FORMAT}")
        about = {part: dict(read[part]) for part in PARTS}
        weights = Path(str(read["weights"])).name
        if isinstance(about["settings"].get("transition"), dict):
            about["settings"]["transition"] = Estimated.from_json(about["settings"]["transition"])
        if "network" in about["extra"]:  # where models from stores used to keep the name of theirs
            about["settings"].setdefault("network", about["extra"]["network"])
    except NotADirectoryError:
        raise ValueError(f"a model is a folder; {folder} is a file") from None
    except FileNotFoundError:
        raise FileNotFoundError(f"no model at {folder}: it has no model.json") from None
    except KeyError as error:
        raise ValueError(f"{folder / 'model.json'} is not a whole model file: it lacks {error}") from None
    except (ValueError, TypeError, OSError) as error:
        raise ValueError(f"{folder / 'model.json'} is not a whole model file: {error}") from None
    return about, read_tensors(folder / weights)[0]


def numpy_to_json(value: Any) -> Any:
    """Give numpy's numbers and arrays as JSON has them; anything else it cannot hold."""
    if isinstance(value, Estimated) and hasattr(value, "counts"):
        return value.to_json()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"cannot save {type(value).__name__} as JSON")
