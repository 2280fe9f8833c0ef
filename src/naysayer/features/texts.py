"""Texts into numbers: embeddings of a language model, or counts of their words."""

from __future__ import annotations

import base64
import hashlib
import os
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata, util
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from naysayer.common.checks import check_count
from naysayer.common.progress import progress_bar
from naysayer.data.items import Item
from naysayer.engine.population import pick_device
from naysayer.features.backbones import BackboneError, find, optional, same_backbone, weights_hash
from naysayer.features.cache import FeatureCache, content_hash, features_folder

MOST_WORDS = 2000
MOST_COMPONENTS = 50  # of the counts of words, beside embeddings
MOST_CHARACTERS = 20_000  # of a text, about 5,000 tokens; what comes after them is not read

_VERSION = "0.4.0.post1"  # of the package wordllama, as pyproject.toml has it

# Its files, from its folder on, and their SHA-256.
_WEIGHTS = ("weights/l2_supercat_256.safetensors", "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5")
_TOKENIZER = (
    "tokenizers/l2_supercat_tokenizer_config.json",
    "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
)


# ---- backbones ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TextBackbone:
    """What turns texts into rows of D numbers.

    Parameters
    ----------
    name, version, sha256 : what it is: its name here, the release of the package it is from, a checksum of its weights.
    width : D.
    encode : gives the rows (N, D) of N texts, computed on a device.
    by_device : whether the rows may depend on the device, if only by how it rounds.
    """

    name: str
    version: str
    sha256: str
    width: int
    encode: Callable[[list[str], str], NDArray[np.float32]]
    by_device: bool = True


def available() -> bool:
    """Whether the extra that embeddings of texts need is installed."""
    return all(util.find_spec(name) is not None for name in ("wordllama", "tokenizers"))


def _wordllama(_: str) -> TextBackbone:
    """Load the static embeddings that the package wordllama carries, without importing it."""
    spec = util.find_spec("wordllama")
    if spec is None or spec.origin is None or not available():
        raise BackboneError("embeddings of texts need wordllama and tokenizers; pip install 'naysayer[texts]'")
    from safetensors.numpy import load
    from scipy.sparse import csr_array
    from tokenizers import Tokenizer

    folder = Path(spec.origin).parent
    vectors = load(_checked(folder, *_WEIGHTS))["embedding.weight"].astype(np.float32)
    tokenizer = Tokenizer.from_buffer(_checked(folder, *_TOKENIZER))
    tokenizer.encode_special_tokens = True  # "<s>" in a text is three signs, not a command

    def encode(texts: list[str], device: str) -> NDArray[np.float32]:
        texts = [text.lower() if text.isupper() else text for text in texts]  # few words in capitals have a token
        tokens = [found.ids for found in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
        ends = np.cumsum([0, *map(len, tokens)])
        ids = np.fromiter(chain.from_iterable(tokens), dtype=np.int32, count=ends[-1])
        sums = csr_array((np.ones(len(ids), np.float32), ids, ends), shape=(len(texts), len(vectors))) @ vectors
        return sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)

    return TextBackbone(
        "wordllama", metadata.version("wordllama"), _WEIGHTS[1], vectors.shape[1], encode, by_device=False
    )


def _checked(folder: Path, name: str, sha256: str) -> bytes:
    """Read a file of wordllama; one that is gone or has another checksum is refused."""
    again = f"install it again: pip install --force-reinstall wordllama=={_VERSION}"
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise BackboneError(f"wordllama must have the file {folder / name}; {error.strerror}; {again}") from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise BackboneError(
            f"wordllama's file {folder / name} must have the checksum {sha256[:12]}…; got {found[:12]}…; {again}"
        )
    return content


def _sentence_transformer(name: str) -> TextBackbone:
    """Load a model of sentence-transformers from a folder, its cache or the network."""
    package = optional("sentence_transformers", "sentence-transformers", f"the backbone sentence-transformers:{name}")
    try:
        model = package.SentenceTransformer(name, device="cpu")
    except Exception as error:  # of many kinds: no such name, no files, no network
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise BackboneError(f"sentence-transformers must give {name!r}; it does not: {reason}") from None

    def encode(texts: list[str], device: str) -> NDArray[np.float32]:
        most = len(texts)
        while True:
            try:
                rows = model.encode(
                    texts, batch_size=most, show_progress_bar=False, convert_to_numpy=True, device=device
                )
                return np.asarray(rows, dtype=np.float32)
            except RuntimeError as error:
                if "memory" not in str(error).lower():
                    raise
                if most == 1:
                    raise ValueError(
                        f"{device} must have memory for one text; it does not; stop what else runs there, "
                        "or pass another `device`"
                    ) from None
                most //= 2

    return TextBackbone(
        f"sentence-transformers:{name}",
        str(package.__version__),
        weights_hash(model),
        int(model.get_sentence_embedding_dimension()),
        encode,
    )


TEXTS: dict[str, Callable[[str], TextBackbone]] = {
    "wordllama": _wordllama,
    "sentence-transformers:": _sentence_transformer,
}


@lru_cache(maxsize=2)
def load_backbone(name: str) -> TextBackbone:
    """Load a backbone by its name; what is loaded stays loaded."""
    return find(name, TEXTS)


# ---- the transformer ---------------------------------------------------------------------------------------------


class Texts(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn strings into embeddings of a language model: (N, D) float32; a scikit-learn transformer.

    "wordllama" (``pip install 'naysayer[texts]'``) takes the mean of the vectors of a text's tokens, D = 256, and makes
    its length 1; a text without a token is zeros. Runs of white space count as one space, a text all in capitals is
    read in small letters, only the first 20,000 characters are read, and half a character (a lone surrogate) is "?".
    Embeddings are kept on the disk by the content of the text, so that none is computed twice, also after an
    interruption and by another process.

    Parameters
    ----------
    backbone : "wordllama", or "sentence-transformers:NAME" for any model of that package, where it is installed.
    batch_size : texts per step.
    cache : True keeps embeddings in the folder that the environment variable ``NAYSAYER_CACHE`` names, or else in the
        user's cache; a path in that folder; False nowhere.
    device : of a sentence-transformers model, as torch calls it; "auto" is a GPU where there is one.
    verbose : 1 shows a progress bar.

    Attributes
    ----------
    backbone_ : the backbone's "name", "version" and "sha256".

    Examples
    --------
    >>> X = Texts().fit_transform(["A fine film.", "A good movie!", "It rained on Tuesday."])
    >>> X.shape
    (3, 256)
    >>> bool(X[0] @ X[1] > X[0] @ X[2])
    True
    """

    def __init__(
        self,
        backbone: str = "wordllama",
        *,
        batch_size: int = 256,
        cache: bool | str | os.PathLike[str] = True,
        device: str = "auto",
        verbose: int = 0,
    ) -> None:
        self.backbone = backbone
        self.batch_size = batch_size
        self.cache = cache
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any = None, y: Any = None) -> Texts:
        """Load the backbone and check it; there is nothing to learn from texts `X` or labels `y`."""
        check_count(self.batch_size, "`batch_size`")
        pick_device(self.device)
        loaded = load_backbone(self.backbone)
        self.backbone_ = {"name": loaded.name, "version": loaded.version, "sha256": loaded.sha256}
        self._n_features_out = loaded.width
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Embed texts: a list, array or column of N strings into (N, D)."""
        check_is_fitted(self, "backbone_")
        texts = [_readable(text) for text in check_texts(X)]
        backbone = same_backbone(load_backbone(self.backbone), self.backbone_, "read texts")
        device = pick_device(self.device).type
        key = {"name": backbone.name, "sha256": backbone.sha256, "characters": MOST_CHARACTERS}
        key |= {"device": device} if backbone.by_device else {}
        cache = FeatureCache(features_folder(self.cache), key)
        rows = np.empty((len(texts), backbone.width), dtype=np.float32)
        with progress_bar(len(texts), "embeddings of texts", self.verbose > 0) as bar:
            for start in range(0, len(texts), self.batch_size):
                some = texts[start : start + self.batch_size]
                rows[start : start + len(some)] = _embedded(some, backbone, device, cache)
                bar(len(some))
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        return tags


def check_texts(X: Any) -> list[str]:
    """Give the strings of a list, array or column; whatever else came is told with its row."""
    if isinstance(X, (str, bytes)) or not hasattr(X, "__iter__"):
        got = "one string; put it into a list" if isinstance(X, str) else type(X).__name__
        raise ValueError(f"texts must be a list of strings; got {got}")
    shape: tuple[int, ...] = np.shape(X) if hasattr(X, "shape") else (0,)
    if len(shape) == 2 and shape[1] == 1:  # a table of one column
        X = np.asarray(X, dtype=object)[:, 0]
    elif len(shape) != 1:
        raise ValueError(f"texts must be one column of strings; got the shape {shape}; pass a Texts for each column")
    texts = list(X)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(
                f"texts must be strings; got {str(text)[:40]} ({type(text).__name__}) at row {i}; "
                'leave the row out, or make it ""'
            )
    return texts


def _readable(text: str) -> str:
    """Cut a text, join its lines, and replace what no UTF-8 can hold."""
    return " ".join(text[:MOST_CHARACTERS].encode("utf8", "replace").decode("utf8").split())


def _embedded(texts: list[str], backbone: TextBackbone, device: str, cache: FeatureCache) -> NDArray[np.float32]:
    """Embed texts, those that the cache does not hold once each, and keep them there."""
    if cache.path is None:
        return backbone.encode(texts, device)
    hashes = [content_hash(text) for text in texts]
    rows = cache.get(hashes)
    new = {name: text for name, text in zip(hashes, texts) if name not in rows}
    if new:
        found = dict(zip(new, backbone.encode(list(new.values()), device)))
        cache.put(found)
        rows |= found
    return np.stack([rows[name] for name in hashes])


# ---- the encoder of items ----------------------------------------------------------------------------------------


FOR_ENGLISH = (
    "most letters of the texts are not Latin, and wordllama's vectors were made for English: expect little of them; "
    "see other backbones in docs/texts.md"
)


class TextEncoder:
    """Texts of items into numbers, (N, D) float32: their embeddings beside the main components of their words.

    Words are counted as TF-IDF of the 2,000 most frequent, logarithmic, rows of length 1. Beside the 256 numbers of an
    embedding stand 50 main components of the counts (fewer for less than 200 texts): they know the words of these very
    texts, which the language model may not. Where embeddings are not installed, texts become the counts themselves.

    Parameters
    ----------
    words, idf : the V words that are counted, and their inverse document frequencies; `fit` finds them.
    """

    kind = "text"
    device, verbose = "auto", 0

    def __init__(self, words: Sequence[str] = (), idf: Sequence[float] = ()) -> None:
        self.notes: list[str] = []
        self.texts: Texts | None = None
        self._set(words, idf)

    def _set(self, words: Sequence[str], idf: Sequence[float]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.words, self.idf = list(words), [float(value) for value in idf]
        self.components: NDArray[np.float16] | None = None  # (C, V)
        self._vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=self.words or None, dtype=np.float32)
        if self.words:
            self._vectorizer.idf_ = np.array(self.idf, dtype=np.float32)

    def fit(self, examples: Sequence[Item]) -> TextEncoder:
        """Load the embeddings, where they are installed, and count words."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        contents = _contents(examples)
        self.texts = Texts().fit() if available() else None
        vectorizer = TfidfVectorizer(max_features=MOST_WORDS)
        try:
            vectorizer.fit(contents)
            self._set(vectorizer.get_feature_names_out().tolist(), vectorizer.idf_)
        except ValueError:
            if self.texts is None:
                raise ValueError("texts must have words of at least two letters; got none in any of them") from None
            if not any(text.strip() for text in contents):
                raise ValueError("texts must have something to read; all of them are empty") from None
            self._set((), ())
        if self.texts is None:
            self.notes = [
                f"texts are read as counts of {len(self.words):,} words; embeddings need far fewer labels: "
                "pip install 'naysayer[texts]'"
            ]
        else:
            self._find_components(contents)
            self.notes = [
                f"texts are read through the embeddings of {self.texts.backbone_['name']}, beside their words"
            ]
            if not _mostly_latin(contents):
                self.notes.append(FOR_ENGLISH)
        return self

    def _find_components(self, contents: list[str]) -> None:
        from sklearn.decomposition import TruncatedSVD

        n = min(MOST_COMPONENTS, len(self.words), len(contents) // 4)
        if n:
            found = TruncatedSVD(n, random_state=0).fit(self._vectorizer.transform(contents))
            self.components = found.components_.astype(np.float16)  # as they are saved

    def transform(self, examples: Sequence[Item]) -> NDArray[np.float32]:
        """Embed texts and count their known words."""
        contents = _contents(examples)
        if self.texts is None:
            return np.asarray(self._vectorizer.transform(contents).toarray())
        embedded = self.texts.set_params(verbose=self.verbose, device=self.device).transform(contents)
        if self.components is None:
            return embedded
        counted = self._vectorizer.transform(contents) @ self.components.astype(np.float32).T
        return np.hstack([embedded, counted])

    def to_dict(self) -> dict[str, Any]:
        """Give the state as what JSON can hold; it names the backbone, its version and its checksum."""
        state: dict[str, Any] = {"kind": self.kind, "words": self.words, "idf": self.idf}
        if self.texts is not None:
            state["backbone"] = dict(self.texts.backbone_)
        if self.components is not None:
            state["components"] = base64.b64encode(self.components.astype("<f2").tobytes()).decode("ascii")
        return state

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> TextEncoder:
        """Make the encoder that :meth:`to_dict` described; the backbone must be here, and the same."""
        encoder = cls(state["words"], state["idf"])
        if "components" in state:
            values = np.frombuffer(base64.b64decode(state["components"]), dtype="<f2").astype(np.float16)
            encoder.components = values.reshape(-1, len(encoder.words))
        if "backbone" in state:
            wanted = state["backbone"]
            encoder.texts = Texts(wanted["name"]).fit()
            same_backbone(load_backbone(wanted["name"]), wanted, "read texts")
        return encoder


def _mostly_latin(contents: Sequence[str]) -> bool:
    """Whether at least half of the letters are Latin, by the first of each text and of some of the texts."""
    some = "".join(text[:500] for text in contents[:: max(1, len(contents) // 200)])
    letters = [sign for sign in some if sign.isalpha()]
    latin = sum(sign.isascii() or unicodedata.name(sign, "").startswith("LATIN") for sign in letters)
    return 2 * latin >= len(letters)


def _contents(examples: Sequence[Item]) -> list[str]:
    return [str(item.content) for item in examples]
