"""A model on the disk: a folder with ``model.json``, which says what it is, and the safetensors file that it names.

This is the only place that reads or writes the tensors; :mod:`naysayer.models.description` has the file of words.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from naysayer.common.files import read_tensors, write_tensors
from naysayer.labels.transition import as_estimated
from naysayer.models.description import FORMAT, NETWORK, PARTS, read_description, write_description
from naysayer.models.objects import describe, rebuild

if TYPE_CHECKING:
    from torch import Tensor

Model = TypeVar("Model")


def write_model(
    folder: str | os.PathLike[str], about: dict[str, Any], tensors: dict[str, Tensor], kind: str = NETWORK
) -> None:
    """Write a model into a folder. No pickle.

    ``model.json`` is put in its place last, so a folder that held a model before holds a whole one at every moment.

    Parameters
    ----------
    folder : it is made where it is not there.
    about : "settings", "fitted" and "extra", each a dict of what JSON can hold, numpy's numbers and arrays included.
    tensors : the parameters, by name.
    kind : the class of the model, by which :func:`naysayer.models.loading.load_model` finds its reader.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"cannot save to {folder}: it is a file; give a folder")
    digest = hashlib.sha256(
        b"".join(np.ascontiguousarray(t.detach().cpu().numpy()).tobytes() for t in tensors.values())
    )
    weights = f"weights-{digest.hexdigest()[:16]}.safetensors"
    described = {"format": FORMAT, "model": kind} | {part: about[part] for part in PARTS} | {"weights": weights}
    text = json.dumps(described, indent=1, default=numpy_to_json) + "\n"
    write_tensors(folder / weights, tensors, {"format": FORMAT})
    write_description(folder, text)
    for old in folder.glob(f"weights-{'[0-9a-f]' * 16}.safetensors"):  # others are not ours
        if old.name != weights:
            old.unlink(missing_ok=True)


def read_model(folder: str | os.PathLike[str], kind: str = NETWORK) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what :func:`write_model` wrote of a model of this class: `about` and `tensors`."""
    folder = Path(folder)
    read = read_description(folder)
    if read["model"] != kind:
        raise ValueError(f"{folder} holds a {read['model']}, not a {kind}; use naysayer.models.loading.load_model")
    about, tensors = {part: read[part] for part in PARTS}, read_tensors(folder / read["weights"])[0]
    if kind == NETWORK and isinstance(about["settings"].get("transition"), dict):  # it was estimated
        about["settings"]["transition"] = rebuild(about["settings"]["transition"], tensors)
    return about, tensors


def write_estimator(folder: str | os.PathLike[str], model: Any, extra: dict[str, Any] | None, **replaced: Any) -> None:
    """Write a fitted estimator: its settings and all that fitting added, as :mod:`naysayer.models.objects` has them.

    `replaced` are attributes that are written as something else, which :func:`read_estimator`'s caller turns back.
    """
    settings = model.get_params(deep=False)
    fitted = {name: value for name, value in vars(model).items() if name not in settings and name != "extra_"}
    tensors: dict[str, Tensor] = {}
    about = {"settings": describe(settings, tensors), "fitted": describe(fitted | replaced, tensors)}
    write_model(folder, about | {"extra": extra or {}}, tensors, type(model).__name__)


def read_estimator(folder: str | os.PathLike[str], cls: type[Model]) -> Model:
    """Read what :func:`write_estimator` wrote of an estimator of this class."""
    about, tensors = read_model(folder, cls.__name__)
    try:
        settings, fitted = rebuild(about["settings"], tensors), rebuild(about["fitted"], tensors)
        model = cls(**settings)
    except (ValueError, TypeError) as error:
        raise ValueError(f"cannot load the model at {folder}: {error}") from None
    vars(model).update(fitted, extra_=about["extra"])
    return model


def numpy_to_json(value: Any) -> Any:
    """Give numpy's numbers and arrays as JSON has them; anything else it cannot hold."""
    if as_estimated(value) is not None:
        return describe(value, {})
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"cannot save {type(value).__name__} as JSON")
