"""Texts into numbers: embeddings of a language model, or counts of their words."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module, metadata, util
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from naysayer.common.checks import check_count, near
from naysayer.common.progress import progress_bar
from naysayer.data.items import Item

MOST_WORDS = 2000
MOST_CHARACTERS = 20_000  # of a text, about 5,000 tokens; what comes after them is not read

# The files of the package wordllama, from its folder on, and their SHA-256.
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
    about : its name, version and sha256; a saved model names them.
    width : D.
    encode : gives the rows (N, D) of N texts.
    kept : whether its rows are worth keeping on the disk.
    """

    about: dict[str, str]
    width: int
    encode: Callable[[list[str]], NDArray[np.float32]]
    kept: bool


def available() -> bool:
    """Whether the packages of the default backbone are installed."""
    return all(util.find_spec(name) is not None for name in ("wordllama", "tokenizers"))


@lru_cache(maxsize=4)
def load_backbone(name: str, device: str = "auto") -> TextBackbone:
    """Load a backbone, "wordllama" or "sentence-transformers:NAME"; what is loaded stays loaded."""
    family, _, model = name.partition(":")
    if family == "sentence-transformers" and model:
        return _sentence_transformer(model, device)
    if name != "wordllama":
        known = ("wordllama", "sentence-transformers:NAME")
        raise ValueError(f"the backbone of texts must be {' or '.join(known)}; got {near(name, known)}")
    return _wordllama()


def _wordllama() -> TextBackbone:
    """Load the static embeddings that the package wordllama carries, without importing it."""
    spec = util.find_spec("wordllama")
    if spec is None or spec.origin is None or not available():
        raise ImportError("embeddings of texts need wordllama and tokenizers; pip install 'naysayer[texts]'")
    from safetensors.numpy import load
    from scipy.sparse import csr_array
    from tokenizers import Tokenizer

    folder = Path(spec.origin).parent
    vectors = load(_checked(folder, *_WEIGHTS))["embedding.weight"].astype(np.float32)
    tokenizer = Tokenizer.from_buffer(_checked(folder, *_TOKENIZER))
    tokenizer.encode_special_tokens = True  # "<s>" in a text is three signs, not a command

    def encode(texts: list[str]) -> NDArray[np.float32]:
        tokens = [found.ids for found in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
        ends = np.cumsum([0, *map(len, tokens)])
        ids = np.fromiter((i for row in tokens for i in row), dtype=np.int32, count=ends[-1])
        sums = csr_array((np.ones(len(ids), np.float32), ids, ends), shape=(len(texts), len(vectors))) @ vectors
        return sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)

    about = {"name": "wordllama", "version": metadata.version("wordllama"), "sha256": _WEIGHTS[1]}
    return TextBackbone(about, vectors.shape[1], encode, kept=False)


def _checked(folder: Path, name: str, sha256: str) -> bytes:
    """Read a file of wordllama; one that is gone or has another checksum is refused."""
    again = "install it again: pip install --force-reinstall wordllama"
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise ValueError(f"wordllama must have the file {folder / name}; {error.strerror}; {again}") from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ValueError(
            f"wordllama's file {folder / name} must have the checksum {sha256[:12]}…; got {found[:12]}…; {again}"
        )
    return content


def _sentence_transformer(name: str, device: str) -> TextBackbone:
    """Load a model of sentence-transformers from its folder, its cache or the network."""
    try:
        package = import_module("sentence_transformers")
    except ImportError:
        raise ImportError(
            f"the backbone 'sentence-transformers:{name}' needs sentence-transformers, which is not installed; "
            "pip install sentence-transformers, or take the backbone 'wordllama'"
        ) from None
    import torch

    try:
        model = package.SentenceTransformer(name, device=None if device == "auto" else device)
    except Exception as error:  # the network, the hub and the files fail in many ways
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"the backbone 'sentence-transformers:{name}' cannot be loaded; {reason}") from None
    digest = hashlib.sha256()
    for part, values in sorted(model.state_dict().items()):
        digest.update(part.encode())
        digest.update(values.detach().cpu().contiguous().view(torch.uint8).numpy())

    def encode(texts: list[str]) -> NDArray[np.float32]:
        batch_size = len(texts)
        while True:
            try:
                rows = model.encode(texts, batch_size=batch_size, show_progress_bar=False, convert_to_numpy=True)
                return np.asarray(rows, dtype=np.float32)
            except torch.cuda.OutOfMemoryError:
                if batch_size == 1:
                    raise ValueError(
                        f"'sentence-transformers:{name}' must fit on the device; it has no memory for one text; "
                        "pass device='cpu'"
                    ) from None
                batch_size = -(-batch_size // 2)

    about = {"name": f"sentence-transformers:{name}", "version": package.__version__, "sha256": digest.hexdigest()}
    return TextBackbone(about, int(model.get_sentence_embedding_dimension()), encode, kept=True)


# ---- the transformer ---------------------------------------------------------------------------------------------


class Texts(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Strings into the embeddings of a language model, (N, D) float32; a scikit-learn transformer.

    "wordllama" (``pip install 'naysayer[texts]'``) takes the mean of the vectors of a text's tokens, D = 256, and makes
    its length 1; a text without a token is zeros. Runs of white space count as one space, only the first 20,000
    characters of a text are read, and half a character (a lone surrogate) is read as "?".

    Parameters
    ----------
    backbone : "wordllama", or "sentence-transformers:NAME" for any model of that package, where it is installed.
    batch_size : texts per step.
    cache : whether to keep embeddings on the disk: True, in the user's cache folder, or in that of the variable
        ``NAYSAYER_CACHE``; a path; or False. Those of wordllama are never kept: computing them takes no longer than
        looking them up.
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
        cache: Any = True,
        device: str = "auto",
        verbose: int = 0,
    ) -> None:
        self.backbone = backbone
        self.batch_size = batch_size
        self.cache = cache
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Texts:
        """Load the backbone and check the texts; nothing is learned from them."""
        check_count(self.batch_size, "`batch_size`")
        check_texts(X)
        self.backbone_ = dict(load_backbone(self.backbone, self.device).about)
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Embed texts: a list, array or column of N strings into (N, D)."""
        check_is_fitted(self)
        texts = [_readable(text) for text in check_texts(X)]
        backbone = load_backbone(self.backbone, self.device)
        check_same(self.backbone_, backbone.about)
        cache = self._cache(backbone)
        rows = np.empty((len(texts), backbone.width), dtype=np.float32)
        with progress_bar(len(texts), "reading texts", self.verbose > 0) as bar:
            for start in range(0, len(texts), self.batch_size):
                some = texts[start : start + self.batch_size]
                found = backbone.encode(some) if cache is None else _kept(some, backbone, cache)
                rows[start : start + len(some)] = found
                bar(len(some))
        return rows

    def _cache(self, backbone: TextBackbone) -> Any:
        """Give where the rows are kept; None for a backbone that is as quick as the disk."""
        if not backbone.kept or self.cache is False:
            return None
        from naysayer.features.cache import FeatureCache, features_folder

        return FeatureCache(features_folder(self.cache), backbone.about | {"characters": MOST_CHARACTERS})

    @property
    def _n_features_out(self) -> int:
        return load_backbone(self.backbone, self.device).width

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        return tags


def check_texts(X: Any) -> list[str]:
    """Give the strings of a list, array or column; whatever else came is told with its row."""
    if isinstance(X, (str, bytes)) or not hasattr(X, "__iter__"):
        got = "one string; put it into a list" if isinstance(X, str) else type(X).__name__
        raise ValueError(f"texts must be a list of strings; got {got}")
    shape = np.shape(X) if hasattr(X, "shape") else (0,)
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


def check_same(saved: dict[str, str], loaded: dict[str, str]) -> None:
    """Refuse a backbone that is not the one that a saved model names."""
    if saved["sha256"] != loaded["sha256"]:
        raise ValueError(
            f"the model reads texts with {saved['name']} {saved['version']}, checksum {saved['sha256'][:12]}…; "
            f"here is {loaded['version']} with {loaded['sha256'][:12]}…; install the version it names, or train again"
        )


def _readable(text: str) -> str:
    """Cut a text, join its lines, and replace what no UTF-8 can hold."""
    return " ".join(text[:MOST_CHARACTERS].encode("utf8", "replace").decode("utf8").split())


def _kept(texts: list[str], backbone: TextBackbone, cache: Any) -> NDArray[np.float32]:
    """Embed those texts that the cache does not hold, and keep them there."""
    from naysayer.features.cache import content_hash

    hashes = [content_hash(text) for text in texts]
    rows = cache.get(hashes)
    new = {name: text for name, text in zip(hashes, texts) if name not in rows}
    if new:
        found = dict(zip(new, backbone.encode(list(new.values()))))
        cache.put(found)
        rows |= found
    return np.stack([rows[name] for name in hashes])


# ---- the encoder of items ----------------------------------------------------------------------------------------


class TextEncoder:
    """Texts of items into their embeddings, (N, 256) float32; where those are not installed, into counts of words.

    The counts are TF-IDF of the 2,000 most frequent words, logarithmic, rows of length 1: (N, D) float32.

    Parameters
    ----------
    words, idf : the D words and their inverse document frequencies; `fit` counts them where it has no embeddings.
    texts : what embeds, fitted; None counts words.
    """

    kind = "text"

    def __init__(self, words: Sequence[str] = (), idf: Sequence[float] = (), texts: Texts | None = None) -> None:
        self.notes: list[str] = []
        self.texts = texts
        self._set(words, idf)

    def _set(self, words: Sequence[str], idf: Sequence[float]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.words, self.idf = list(words), [float(value) for value in idf]
        self._vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=self.words or None, dtype=np.float32)
        if self.words:
            self._vectorizer.idf_ = np.array(self.idf, dtype=np.float32)

    def fit(self, examples: Sequence[Item]) -> TextEncoder:
        """Load the embeddings; where they are not installed, count words."""
        contents = _contents(examples)
        if available():
            if not any(text.strip() for text in contents):
                raise ValueError("texts must have something to read; all of them are empty")
            self.texts = Texts().fit(contents)
            self._set((), ())
            self.notes = ["texts are read through wordllama's embeddings, 256 numbers for each"]
            return self
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(max_features=MOST_WORDS)
        try:
            vectorizer.fit(contents)
        except ValueError:
            raise ValueError("texts must have words of at least two letters; got none in any of them") from None
        self.texts = None
        self._set(vectorizer.get_feature_names_out().tolist(), vectorizer.idf_)
        self.notes = [
            f"texts are read as counts of {len(self.words):,} words; embeddings need far fewer labels: "
            "pip install 'naysayer[texts]'"
        ]
        return self

    def transform(self, examples: Sequence[Item]) -> NDArray[np.float32]:
        """Embed texts, or count their known words."""
        contents = _contents(examples)
        if self.texts is not None:
            return self.texts.transform(contents)
        return np.asarray(self._vectorizer.transform(contents).toarray())

    def to_dict(self) -> dict[str, Any]:
        """Give the state as what JSON can hold."""
        if self.texts is not None:
            return {"kind": self.kind, "backbone": self.texts.backbone_}
        return {"kind": self.kind, "words": self.words, "idf": self.idf}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> TextEncoder:
        """Make the encoder that :meth:`to_dict` described; another backbone than the one it names is refused."""
        if "backbone" not in state:
            return cls(state["words"], state["idf"])
        backbone = state["backbone"]
        texts = Texts(backbone["name"])
        try:
            check_same(backbone, texts.fit([]).backbone_)
        except ImportError as error:
            raise ValueError(f"the model reads texts with {backbone['name']}: {error}") from None
        return cls(texts=texts)


def _contents(examples: Sequence[Item]) -> list[str]:
    return [str(item.content) for item in examples]
