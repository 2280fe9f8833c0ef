"""Files that are whole or not there: written beside their place, then moved into it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # loading torch takes seconds, which a text file need not pay
    from torch import Tensor


@contextmanager
def whole_file(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[Path]:
    """Give a temporary path beside `path`; what was written there takes its place at once, or not at all.

    Where `path` is a link, what it leads to is replaced. A device or a pipe, such as ``/dev/null``, is written itself:
    a file in its place would take it from everybody. `private`: nobody else on this machine may read the file,
    whatever the umask says.
    """
    place = Path(os.path.realpath(path))
    temporary = place.parent / f".{place.name}.{os.urandom(4).hex()}"
    is_device = os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))
    try:
        if is_device:
            yield Path(path)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        # the system itself applies the umask, which can be read only by changing it, in all threads
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666))
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}; nothing was changed") from None
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        temporary.replace(place)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}; nothing was changed") from None
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str, *, private: bool = False) -> None:
    """Write a text file whole."""
    with whole_file(path, private=private) as temporary:
        temporary.write_text(text, encoding="utf8")


def begin_private(path: str | os.PathLike[str]) -> None:
    """Begin a file that nobody else on this machine may read; one that is there stays as it is.

    SQLite takes an empty file for a new database, and gives the files that it puts beside it the same permissions.
    """
    with suppress(OSError):  # it is there, or whoever opens it next will say what is wrong
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))


def write_tensors(path: str | os.PathLike[str], tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write tensors and a JSON-able description as one safetensors file."""
    from safetensors.torch import save

    content = save({k: t.detach().cpu().contiguous() for k, t in tensors.items()}, {"naysayer": json.dumps(about)})
    with whole_file(path) as temporary:
        temporary.write_bytes(content)


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`write_tensors` wrote; a file that is cut short or is something else is refused."""
    import torch
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    try:
        with safe_open(path, framework="pt") as opened:
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
            about = json.loads((opened.metadata() or {})["naysayer"])
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise ValueError(f"{path} is not a whole file of naysayer's: {error}") from None
    return {name: torch.as_tensor(tensor) for name, tensor in tensors.items()}, about
