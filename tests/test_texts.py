"""Texts into embeddings or counts of words: what they become, what is refused, what a saved state promises."""

from __future__ import annotations

import json
import pickle
import sys
from importlib import util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from tokenizers import Tokenizer

from helpers import raises
from naysayer import features
from naysayer.common import progress
from naysayer.data.items import text_item
from naysayer.data.tables import DataTable
from naysayer.features import texts as module
from naysayer.features.backbones import BackboneError
from naysayer.features.encoder import encoder_from_dict, fit_encoder
from naysayer.features.tables import Columns, TableEncoder
from naysayer.features.texts import FOR_ENGLISH, MOST_CHARACTERS, TextEncoder, Texts, available

SOME = ["A fine film.", "A good movie!", "It rained on Tuesday.", "Снег идёт", "雪が降る", "🎬🍿"]
FOLDER = Path(util.find_spec("wordllama").origin).parent
WEIGHTS, TOKENIZER = FOLDER / module._WEIGHTS[0], FOLDER / module._TOKENIZER[0]


@pytest.fixture(autouse=True)
def _loaded_anew():
    """Each test loads its backbones itself, and leaves none to the next."""
    module.load_backbone.cache_clear()
    yield
    module.load_backbone.cache_clear()


@pytest.fixture
def _not_installed(monkeypatch):
    """The extra is missing."""
    monkeypatch.setitem(sys.modules, "wordllama", None)


def items(*texts):
    return [text_item(text, f"row {i}") for i, text in enumerate(texts)]


# ---- embeddings -----------------------------------------------------------------------------------------------


def test_an_embedding_is_the_mean_of_its_tokens_with_length_one():
    vectors = load_file(WEIGHTS)["embedding.weight"].astype(np.float64)
    ids = Tokenizer.from_file(str(TOKENIZER)).encode(SOME[0], add_special_tokens=False).ids
    mean = vectors[ids].mean(axis=0)
    X = features.Texts(cache=False).fit_transform(SOME)
    assert X.shape == (6, 256)
    assert X.dtype == np.float32
    np.testing.assert_allclose(X[0], mean / np.linalg.norm(mean), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, atol=1e-5)


def test_rows_depend_on_their_own_text_alone():
    X = Texts(batch_size=4, cache=False).fit_transform(SOME)
    assert np.array_equal(Texts(batch_size=1, cache=False).fit_transform(SOME[::-1]), X[::-1])
    assert len(np.unique(X.round(4), axis=0)) == len(SOME)


@pytest.mark.parametrize(
    "X",
    [tuple(SOME), np.array(SOME), np.array(SOME, dtype=object), pd.Series(SOME, index=range(7, 13)),
     pd.DataFrame({"text": SOME}), np.array(SOME)[:, None], (text for text in SOME)],
    ids=["tuple", "array", "objects", "series", "table", "column", "generator"],
)  # fmt: skip
def test_texts_come_in_many_forms(X):
    texts = Texts().fit()
    assert np.array_equal(texts.transform(X), texts.transform(SOME))


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ("a fine film", "texts must be a list of strings; got one string; put it into a list"),
        (b"a fine film", "texts must be a list of strings; got bytes"),
        (None, "texts must be a list of strings; got NoneType"),
        (["a", None], "texts must be strings; got None (NoneType) at row 1; leave the row out"),
        (pd.Series(["a", "b", np.nan]), "texts must be strings; got nan (float) at row 2"),
        ([3], "texts must be strings; got 3 (int) at row 0"),
        ([b"\xff\xfe"], "(bytes) at row 0"),
        (np.zeros(2), "texts must be strings; got 0.0 (float64) at row 0"),
        (np.array([["a", "b"]]), "texts must be one column of strings; got the shape (1, 2)"),
    ],
)
def test_what_is_no_text_is_told(X, words):
    with raises(words):
        Texts().fit().transform(X)


def test_texts_with_nothing_to_read_are_zeros():
    X = Texts().fit_transform(["", "  \n\t ", "a"])
    assert not X[:2].any()
    assert X[2].any()
    assert Texts().fit_transform([]).shape == (0, 256)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("half \ud83d a sign", "half ? a sign"),
        ("two\nlines,  \t spaces ", "two lines, spaces"),
        ("NO DAMAGE REPORTED", "no damage reported"),
        ("word " * 200_000, ("word " * 200_000)[:MOST_CHARACTERS]),
        ("x" * 1_000_000, "x" * MOST_CHARACTERS),
    ],
    ids=["surrogate", "spaces", "capitals", "long", "one long word"],
)
def test_odd_texts_are_read_as(text, same):
    X = Texts(cache=False).fit_transform([text, same, "something else"])
    assert np.array_equal(X[0], X[1])
    assert not np.array_equal(X[0], X[2])


def test_rubbish_and_commands_are_read_as_signs():
    X = Texts().fit_transform(["\x00\x01\x7f\x00", "<s>", "</s>"])
    assert np.isfinite(X).all()
    special = load_file(WEIGHTS)["embedding.weight"].astype(np.float32)[1]
    assert X[1] @ special / np.linalg.norm(special) < 0.9


def test_it_is_a_transformer_of_scikit_learn():
    texts = clone(Texts(batch_size=2).set_params(verbose=0))
    assert texts.batch_size == 2
    with pytest.raises(NotFittedError):
        texts.transform(SOME)
    names = texts.fit(SOME).get_feature_names_out()
    assert (names[0], names[-1], len(names)) == ("texts0", "texts255", 256)
    films, rain = ["a fine film", "a good movie", "bad cinema"], ["heavy rain", "some snow", "a storm"]
    model = make_pipeline(Texts(), LogisticRegression(C=10)).fit(films + rain, [0, 0, 0, 1, 1, 1])
    assert model.predict(["an actor on screen", "wind and hail"]).tolist() == [0, 1]


def test_a_pickled_copy_is_small_and_does_the_same():
    texts = Texts().fit()
    packed = pickle.dumps(texts)
    assert len(packed) < 2_000
    assert np.array_equal(pickle.loads(packed).transform(SOME), texts.transform(SOME))
    again = pickle.loads(packed)
    again.backbone_["sha256"] = "0" * 64
    with raises("the model must read texts by wordllama", BackboneError):
        again.transform(SOME)


def test_progress_is_told(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    Texts(batch_size=3, verbose=1).fit_transform(SOME)
    assert "embeddings of texts: 50 %" in capsys.readouterr().err
    Texts(batch_size=3).fit_transform(SOME)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 0}, "`batch_size` must be a whole number of at least 1; got 0"),
        ({"backbone": "wordlama"}, "got 'wordlama' (did you mean 'wordllama'?)"),
        ({"backbone": "sentence-transformers:"}, "`backbone` must be wordllama or sentence-transformers:NAME"),
        ({"device": "moon"}, "moon"),
    ],
)
def test_wrong_options_are_told(options, words):
    with raises(words):
        Texts(**options).fit(SOME)


# ---- the package of the embeddings ----------------------------------------------------------------------------

PINNED = "wordllama==0.4.0.post1"  # whose checksums are known


def test_wordllama_has_one_cache_for_all_devices(tmp_path, monkeypatch):
    for device in ("cpu", "cuda"):
        monkeypatch.setattr(module, "pick_device", lambda _, device=device: torch.device(device))
        Texts(cache=tmp_path).fit().transform(["A fine film."])
    assert len(list(tmp_path.glob("*.sqlite"))) == 1


@pytest.mark.usefixtures("_not_installed")
def test_without_the_extra_it_is_told():
    assert not available()
    with raises("embeddings of texts need wordllama and tokenizers; pip install 'naysayer[texts]'"):
        Texts().fit()


@pytest.mark.parametrize(
    ("weights", "tokenizer", "words"),
    [
        (None, None, "wordllama must have the file {weights}; No such file or directory; install it again"),
        (b"x", None, "wordllama's file {weights} must have the checksum 64b47a2dc493…; got 2d711642b726…; install"),
        (WEIGHTS, b"x", "wordllama's file {tokenizer} must have the checksum 93248f2a9ec3…; got 2d711642b726…"),
    ],
    ids=["gone", "weights", "tokenizer"],
)
def test_other_files_are_refused(weights, tokenizer, words, tmp_path, monkeypatch):
    package = tmp_path / "wordllama"
    paths = {"weights": package / module._WEIGHTS[0], "tokenizer": package / module._TOKENIZER[0]}
    for path, content in zip(paths.values(), (weights, tokenizer)):
        path.parent.mkdir(parents=True)
        if isinstance(content, Path):
            path.symlink_to(content)
        elif content is not None:
            path.write_bytes(content)
    (package / "__init__.py").write_text("raise RuntimeError('nobody needs to import this')")
    monkeypatch.syspath_prepend(tmp_path)
    with raises(words.format(**paths), BackboneError) as caught:
        Texts().fit()
    assert str(caught.value).endswith(f"; install it again: pip install --force-reinstall {PINNED}")
    project = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf8")
    assert f'"{PINNED}"' in project


# ---- other backbones ------------------------------------------------------------------------------------------

SENTENCES = """
import numpy as np, torch
__version__ = "9.9"
computed = []  # what was encoded, and the size of the batches
memory = 1000  # texts that fit on the device at once

class SentenceTransformer(torch.nn.Module):
    def __init__(self, name, device=None):
        super().__init__()
        if name == "gone":
            raise OSError("no such model\\n  on the hub")
        self.name = name
        self.weight = torch.nn.Parameter(torch.full((2,), float(len(name))))

    def get_sentence_embedding_dimension(self):
        return 2

    def encode(self, sentences, batch_size=32, show_progress_bar=None, convert_to_numpy=True, device=None):
        computed.append((list(sentences), batch_size, device))
        if self.name == "broken":
            raise RuntimeError("a kernel failed")
        if batch_size > memory:
            raise RuntimeError("out of memory")
        return np.array([[len(s), len(self.name)] for s in sentences], dtype=np.float64)
"""


@pytest.fixture
def sentences(tmp_path, monkeypatch):
    """A package that has the face of sentence-transformers."""
    (tmp_path / "sentence_transformers.py").write_text(SENTENCES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "sentence_transformers", raising=False)
    import sentence_transformers

    yield sentence_transformers
    sys.modules.pop("sentence_transformers", None)


def test_a_package_that_is_missing_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with raises(
        "sentence-transformers:some needs sentence-transformers, which is not installed; pip install sentence-tr"
    ):
        Texts("sentence-transformers:some").fit()


def test_a_model_that_cannot_be_loaded_is_told_in_one_line(sentences):
    with raises("sentence-transformers must give 'gone'; it does not: no such model on the hub", BackboneError):
        Texts("sentence-transformers:gone").fit()


def test_embeddings_of_another_backbone_are_computed_once(sentences, tmp_path):
    def transform(X, name="some"):
        sentences.computed.clear()
        rows = Texts(f"sentence-transformers:{name}", batch_size=2, cache=tmp_path, device="cpu").fit_transform(X)
        return rows.tolist(), [texts for texts, _, _ in sentences.computed]

    assert transform(["a", "bb", "a\n", "ccc"]) == ([[1, 4], [2, 4], [1, 4], [3, 4]], [["a", "bb"], ["ccc"]])
    module.load_backbone.cache_clear()
    assert transform(["ccc", "d", "a"]) == ([[3, 4], [1, 4], [1, 4]], [["d"]])
    assert transform(["a"], "other") == ([[1, 5]], [["a"]])
    assert transform([]) == ([], [])


def test_what_was_computed_before_a_failure_is_kept(sentences, tmp_path):
    texts = Texts("sentence-transformers:some", batch_size=2, cache=tmp_path, device="cpu").fit()
    encode, sentences.SentenceTransformer.encode = sentences.SentenceTransformer.encode, failing_at("ccc")
    with raises("the power failed", KeyboardInterrupt):
        texts.transform(["a", "bb", "ccc"])
    sentences.SentenceTransformer.encode = encode
    assert texts.transform(["ccc", "bb", "a"]).tolist() == [[3, 4], [2, 4], [1, 4]]
    assert [given for given, _, _ in sentences.computed] == [["ccc"]]


def failing_at(text):
    """What encodes as the package does, until it meets a text."""

    def encode(model, sentences, **options):
        if text in sentences:
            raise KeyboardInterrupt("the power failed")
        return np.array([[len(s), len(model.name)] for s in sentences])

    return encode


def test_embeddings_are_the_same_from_the_cache(tmp_path):
    X = Texts(cache=False).fit_transform(SOME)
    for _ in range(2):
        assert np.array_equal(Texts(cache=tmp_path).fit_transform(SOME), X)
    assert len(list(tmp_path.glob("wordllama-*.sqlite"))) == 1


def test_another_backbone_is_named_and_asked_for_its_device(sentences):
    texts = Texts("sentence-transformers:some", cache=False, device="cpu").fit()
    assert (texts.backbone_["name"], texts.backbone_["version"]) == ("sentence-transformers:some", "9.9")
    assert texts.backbone_["sha256"] != Texts("sentence-transformers:other").fit().backbone_["sha256"]
    for _ in range(2):  # nothing is kept
        texts.transform(["a", "b"])
    assert sentences.computed == [(["a", "b"], 2, "cpu")] * 2


def test_batches_shrink_where_memory_runs_out(sentences):
    texts = Texts("sentence-transformers:some", cache=False, device="cpu").fit()
    sentences.memory = 2
    assert texts.transform(["a"] * 5).tolist() == [[1, 4]] * 5
    assert [size for _, size, _ in sentences.computed] == [5, 2]
    sentences.memory = 0
    with raises("cpu must have memory for one text; it does not"):
        texts.transform(["a"])
    with raises("a kernel failed", RuntimeError):
        Texts("sentence-transformers:broken", cache=False, device="cpu").fit_transform(["a"])


# ---- the encoder of items -------------------------------------------------------------------------------------


def test_items_become_embeddings_beside_components_of_their_words():
    some = items(*(f"{one} {other}" for one in ("red", "blue", "grey") for other in ("house", "car", "boat", "hat")))
    encoder = fit_encoder(some)
    assert isinstance(encoder, TextEncoder)
    assert encoder.notes == ["texts are read through the embeddings of wordllama, beside their words"]
    X = encoder.transform(some)
    assert X.shape == (12, 256 + 3)  # a component for four texts
    assert X.dtype == np.float32
    assert np.array_equal(X[:, :256], Texts().fit_transform([item.content for item in some]))
    counts = encoder._vectorizer.transform([item.content for item in some]).toarray()
    best = np.linalg.svd(counts)[2][:3]
    np.testing.assert_allclose(np.abs(X[:, 256:][:, :1]), np.abs(counts @ best[:1].T), atol=1e-3)
    assert not encoder.transform(items("🍿"))[0, 256:].any()


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["Быстрая лиса", "Ленивая собака", "a fox"], True),
        (["素早い茶色の狐", "怠け者の犬", "", "12"], True),
        (["Ein schöner Film", "Žluťoučký kůň", "Ελλάδα"], False),
        (["🍿🍿🍿", "1, 2, 3"], False),  # no letters at all
    ],
)
def test_texts_in_other_letters_are_told(texts, told):
    assert (FOR_ENGLISH in fit_encoder(items(*texts)).notes) == told
    column = np.array([f"{texts[i % 2]} {'ок' if told else 'all right'} {i}" for i in range(30)])
    encoder = TableEncoder().fit(DataTable({"says": column}), Columns(text=["says"]))
    assert encoder.warnings == [f"column 'says': {FOR_ENGLISH}"] * told


def test_the_state_of_embedded_items_names_the_backbone():
    some = items(*(f"{word} and {word}" for word in ("this", "that", "some", "more", "less", "none", "all", "few")))
    encoder = fit_encoder(some)
    state = json.loads(json.dumps(encoder.to_dict()))
    assert state["backbone"] == Texts().fit().backbone_
    assert np.array_equal(encoder_from_dict(state).transform(some), encoder.transform(some))


def test_texts_without_words_or_too_few_for_components_are_embedded_alone():
    for some in (items(*SOME[:3]), items("雪", "犬", "🍿", "人", "山", "川", "木", "火")):
        encoder = fit_encoder(some)
        state = json.loads(json.dumps(encoder.to_dict()))
        assert np.array_equal(encoder.transform(some), Texts().fit_transform([item.content for item in some]))
        assert np.array_equal(encoder_from_dict(state).transform(some), encoder.transform(some))


def test_a_state_of_other_embeddings_is_refused():
    state = fit_encoder(items(*SOME)).to_dict()
    state["backbone"] |= {"sha256": "ab" * 32, "version": "7.0"}
    with raises("the model must read texts by wordllama 7.0 with the checksum abababababab…; here", BackboneError):
        encoder_from_dict(state)
    with raises("an encoder's state must be what to_dict gave; it is not: 'words'"):
        encoder_from_dict({"kind": "text"})
    with raises("an encoder's state must be what to_dict gave; it is not: "):
        encoder_from_dict({"kind": "text", "words": ["a", "b"], "idf": [1, 1], "components": "AAAA"})


def test_texts_without_anything_to_read_are_refused():
    with raises("texts must have something to read; all of them are empty"):
        TextEncoder().fit(items(" ", "\n"))


@pytest.mark.usefixtures("_not_installed")
def test_without_the_extra_words_are_counted():
    some = items("a fine film", "a long, long film", "fine and long")
    encoder = fit_encoder(some)
    (note,) = encoder.notes
    assert note.startswith("texts are read as counts of 4 words; embeddings need far fewer labels: pip install")
    again = encoder_from_dict(json.loads(json.dumps(encoder.to_dict())))
    X = again.transform([*some, *items("unheard-of words")])
    assert np.array_equal(X[:3], encoder.transform(some))
    assert X.dtype == np.float32
    np.testing.assert_allclose((X**2).sum(axis=1), [1, 1, 1, 0], atol=1e-5)
    with raises("texts must have words of at least two letters; got none in any of them"):
        TextEncoder().fit(items("a", "b"))


def test_a_model_with_embeddings_needs_the_extra(monkeypatch):
    state = fit_encoder(items(*SOME)).to_dict()
    module.load_backbone.cache_clear()
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with raises("embeddings of texts need wordllama and tokenizers; pip install 'naysayer[texts]'", BackboneError):
        encoder_from_dict(state)


def test_states_of_counted_words_still_load():
    encoder = encoder_from_dict({"kind": "text", "words": ["film", "fine"], "idf": [1.0, 2.0]})
    assert encoder.texts is None
    np.testing.assert_allclose(encoder.transform(items("fine film")), [[0.4472136, 0.8944272]], rtol=1e-6)
