"""Columns of pictures and of texts in a table, from the file to predictions."""

from __future__ import annotations

import csv
import json
import re
import warnings

import numpy as np
import pytest
from PIL import Image

from helpers import raises
from naysayer.collect.store import Answer, Project, Store
from naysayer.data.items import read_items
from naysayer.data.tables import DataTable, read_table
from naysayer.features import photos, texts
from naysayer.features.efficientnet import EfficientNetLite0
from naysayer.features.encoder import encoder_from_dict
from naysayer.features.tables import Columns, TableEncoder
from naysayer.models.encoded import EncodedModel

COLOURS = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (50, 60, 230)}
KINDS = {
    "red": "the tomato soup with basil was {} today",
    "green": "our train to the city was {} again",
    "blue": "she played the piano and it was {}",
}
WORDS = ("good", "bad", "late", "fine", "slow", "nice", "odd", "new", "loud", "warm")
N = 30
TEXTS = 256 + 7  # features of N texts, or of one less: the embedding and components of the words
FAST = ["--method", "linear", "--seeds", "1", "--epochs", "30"]


@pytest.fixture
def folder(tmp_path):
    """A table of N rows with pictures, texts and a number, and its pictures beside it."""
    rng = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    rows = []
    for i in range(N):
        name = list(COLOURS)[i % 3]
        pixels = np.clip(rng.normal(COLOURS[name], 20, (12, 16, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{i:02}.png")
        other = list(COLOURS)[(i + 1 + i // 3 % 2) % 3]
        said = f"{KINDS[name].format(WORDS[i // 3])}"
        rows.append({"path": f"photos/{i:02}.png", "says": said, "size": f"{rng.normal():.3f}", "answer": f"!{other}"})
    write(tmp_path / "t.csv", rows)
    return tmp_path


def write(path, rows):
    with path.open("w", encoding="utf8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def change(file, row, **values):
    """Change values of one row of a table's file."""
    rows = list(csv.DictReader(file.read_text(encoding="utf8").splitlines()))
    rows[row] |= values
    return write(file, rows)


def only(table, *names):
    return DataTable({name: table.columns[name] for name in names}, table.folder)


def again(encoder):
    return TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict(), allow_nan=False)))


@pytest.fixture
def without(monkeypatch):
    """Act as if an extra were not installed."""

    def uninstall(*modules):
        for module in modules:
            monkeypatch.setattr(module, "available", lambda: False)

    return uninstall


# ---- both ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "width"), [("path", 1280), ("says", TEXTS)])
def test_each_feature_is_standardised_and_a_missing_value_is_the_average(folder, name, width):
    change(folder / "t.csv", 4, **{name: ""})
    table = only(read_table(folder / "t.csv"), name, "size")
    encoder = TableEncoder()
    X = encoder.fit_transform(table)
    assert X.shape == (N, width + 2)
    assert encoder.feature_names_ == [*(f"{name}[{j}]" for j in range(width)), f"{name} is missing", "size"]
    known = np.arange(N) != 4
    X[:, :width] *= np.sqrt(width)  # which has the variance of the number beside it
    np.testing.assert_array_equal(X[:, width], ~known)
    np.testing.assert_array_equal(X[4, :width], 0)
    np.testing.assert_allclose(X[known, :width].mean(axis=0), 0, atol=1e-4)
    spread = X[known, :width].std(axis=0)
    assert ((np.abs(spread - 1) < 1e-3) | (spread < 1e-6)).all()
    assert (spread > 0.5).mean() > 0.5
    X[:, :width] /= np.sqrt(width)
    for one in (encoder, again(encoder)):
        np.testing.assert_allclose(one.transform(table), X, atol=1e-6)


def test_no_block_drowns_the_other_columns(folder):
    table = read_table(folder / "t.csv")
    X = TableEncoder().fit_transform(table, Columns(drop=["answer"])).astype(np.float64)
    parts = np.split(X.var(axis=0), [1280, 1280 + TEXTS])
    np.testing.assert_allclose([part.sum() for part in parts], 1, rtol=0.5)  # some features never vary here
    both = TableEncoder().fit_transform(only(table, "path", "says")).var(axis=0)
    np.testing.assert_allclose(both[:1280].sum(), both[1280:].sum(), rtol=0.5)
    encoder = TableEncoder()
    alone = encoder.fit_transform(only(table, "path"))
    assert np.median(alone.std(axis=0)) == pytest.approx(1, rel=1e-3)
    assert not encoder.balanced
    many = {f"x{j}": np.random.default_rng(j).normal(size=N) for j in range(300)}
    X = TableEncoder().fit_transform(DataTable({"says": table.columns["says"]} | many))
    assert np.median(X[:, :TEXTS].std(axis=0)) == pytest.approx(1, rel=1e-3)  # more than 1 would drown the numbers


def test_what_was_complete_in_training_may_be_missing_later(folder):
    encoder = TableEncoder().fit(read_table(folder / "t.csv"), Columns(drop=["answer"]))
    assert len(encoder.feature_names_) == 1280 + TEXTS + 1
    change(folder / "t.csv", 0, path="NA", says=" ", size="")
    X = encoder.transform(read_table(folder / "t.csv"))
    np.testing.assert_array_equal(X[0, :-1], 0)
    nothing = DataTable({name: np.array([None, ""], dtype=object) for name in ("path", "says", "size")})
    assert not encoder.transform(nothing)[:, :-1].any()


def test_columns_are_found_and_what_they_became_is_said(folder):
    change(folder / "t.csv", 3, path="", says="")
    change(folder / "t.csv", 5, path="photos/gone.png")
    encoder = TableEncoder()
    assert encoder.read(read_table(folder / "t.csv"), Columns(drop=["answer"])).readings == {
        "path": "pictures, 1 missing, 1 not there",
        "says": "texts, 1 missing",
        "size": "number",
    }
    with pytest.warns(
        UserWarning, match=r"column 'path' must hold pictures; 1 of 29 cannot be read, the first at row 5: no f"
    ):
        encoder.fit(read_table(folder / "t.csv"), Columns(drop=["answer"]))
    assert encoder.readings == {
        "path": "pictures, 1 missing, 1 not there, as 1,280 features of efficientnet-lite0",
        "says": f"texts, 1 missing, as {TEXTS} features of wordllama and of their words",
        "size": "number",
    }
    assert encoder.pictures == ["path"]
    assert encoder.notes == encoder.ids == []


def test_few_values_are_read_so_where_that_is_said(folder):
    table = DataTable({"a": np.array(["photos/00.png", "photos/00.png"]), "b": np.array(["one", "two"])}, folder)
    encoder = TableEncoder().fit(table, Columns(image=["a"], text=["b"]))
    assert list(encoder.readings) == ["a", "b"]
    assert len(encoder.feature_names_) == 1280 + 256
    empty = DataTable({"a": np.array(["", ""]), "b": np.array(["1", "2"])})
    for columns, what in ((Columns(image=["a"]), "pictures"), (Columns(text=["a"]), "texts")):
        with raises(f"column 'a' must hold {what}; all 2 rows are empty"):
            TableEncoder().fit(empty, columns)
    with raises("a column must have one use; 'a' is both in image and in text"):
        TableEncoder().fit(table, Columns(image=["a"], text=["a"]))


def test_without_the_packages_they_are_left_out_and_that_is_said(folder, without):
    without(photos, texts)
    encoder = TableEncoder().fit(read_table(folder / "t.csv"), Columns(drop=["answer"]))
    assert encoder.feature_names_ == ["size"]
    assert encoder.notes == [
        "column 'path' is left out: pictures; to learn from them, pip install 'naysayer[photos]'",
        "column 'says' is left out: 30 different texts in 30 rows; to learn from them, pip install 'naysayer[texts]'",
    ]
    with raises("column 'path' can be read as pictures once their network is there; pip install", ImportError):
        TableEncoder().read(read_table(folder / "t.csv"), Columns(image=["path"]))


@pytest.mark.parametrize("name", ["path", "says"])
def test_a_model_refuses_another_backbone(folder, name):
    encoder = TableEncoder().fit(only(read_table(folder / "t.csv"), name))
    state = json.loads(json.dumps(encoder.to_dict()).replace('"sha256": "', '"sha256": "0'))
    with pytest.raises(ValueError, match=r"^the model [^\n]* checksum [^\n]*; install [^\n]*$"):
        encoder_from_dict(state)


# ---- pictures ------------------------------------------------------------------------------------------------------


def test_paths_begin_at_the_folder_of_the_table(folder, tmp_path_factory, monkeypatch):
    encoder = TableEncoder()
    X = encoder.fit_transform(read_table(folder / "t.csv"), Columns(drop=["answer"]))
    there = tmp_path_factory.mktemp("there")
    (folder / "photos").rename(there / "photos")
    (folder / "t.csv").rename(there / "t.csv")
    np.testing.assert_array_equal(encoder.transform(read_table(there / "t.csv")), X)
    monkeypatch.chdir(there)
    np.testing.assert_array_equal(encoder.transform(read_table("t.csv")), X)
    rows = list(csv.DictReader((there / "t.csv").read_text().splitlines()))
    absolute = write(folder / "t.csv", [row | {"path": str(there / row["path"])} for row in rows])
    np.testing.assert_array_equal(encoder.transform(read_table(absolute)), X)


@pytest.mark.parametrize("cached", [True, False])
def test_a_broken_picture_counts_as_missing_with_one_warning(cached, folder, monkeypatch):
    if not cached:
        (folder / "file").write_text("where the folder of the cache would be")
        monkeypatch.setenv("NAYSAYER_CACHE", str(folder / "file"))
    forward, seen = EfficientNetLite0.forward, []
    monkeypatch.setattr(EfficientNetLite0, "forward", lambda self, x: seen.append(len(x)) or forward(self, x))
    warnings.filterwarnings("ignore", "the cache .* cannot be used")
    good = TableEncoder().fit_transform(only(read_table(folder / "t.csv"), "path"))
    (folder / "photos" / "07.png").write_bytes(b"not a picture")
    content = (folder / "photos" / "11.png").read_bytes()
    (folder / "photos" / "11.png").write_bytes(content[: len(content) // 2])
    (folder / "photos" / "09.png").unlink()
    seen.clear()
    with pytest.warns(UserWarning, match="cannot be read") as caught:
        X = TableEncoder().fit_transform(only(read_table(folder / "t.csv"), "path"))
    assert sum(seen) == (0 if cached else 2 * (N - 3))
    (message,) = [said for one in caught if "the cache" not in (said := str(one.message))]
    assert message.startswith("column 'path' must hold pictures; 3 of 30 cannot be read, the first at row 7: picture ")
    assert "07.png" in message
    assert message.endswith("; they count as missing")
    assert "\n" not in message
    missing = np.isin(np.arange(N), [7, 9, 11])
    np.testing.assert_array_equal(X[:, -1], missing)
    assert not X[missing, :-1].any()
    assert np.corrcoef(X[~missing, :-1].ravel(), good[~missing].ravel())[0, 1] > 0.9


def test_a_column_most_of_which_is_no_picture_is_refused(folder):
    table = read_table(folder / "t.csv")
    for i in range(16):
        (folder / "photos" / f"{i:02}.png").write_bytes(b"not a picture")
    with raises("column 'path' must hold pictures; 16 of 30 cannot be read, the first at row 0: picture ") as caught:
        TableEncoder().fit(table)
    assert str(caught.value).endswith("; replace the files, or leave the column out")
    with raises("column 'says' must hold pictures; 30 of 30 cannot be read, the first at row 0: no file at ") as caught:
        TableEncoder().fit(only(table, "says"), Columns(image=["says"]))
    assert str(caught.value).endswith("; paths must be absolute or begin at the table's folder")


@pytest.mark.parametrize("damage", [b"not a picture", None])
def test_what_was_trained_predicts_where_no_picture_can_be_read(folder, damage):
    table = only(read_table(folder / "t.csv"), "path", "size")
    encoder = TableEncoder().fit(table)
    for path in (folder / "photos").iterdir():
        path.unlink() if damage is None else path.write_bytes(damage)
    with pytest.warns(UserWarning, match="30 of 30 cannot be read, .*; they count as missing"):
        X = encoder.transform(table)
    assert not X[:, :-1].any()


def test_an_error_that_is_no_pictures_is_not_hidden(folder, monkeypatch):
    def fail(*_):
        raise ValueError("cuda must have memory for one picture")

    (folder / "photos" / "07.png").write_bytes(b"not a picture")
    monkeypatch.setattr(photos.Photos, "_compute", fail)
    with raises("must have memory"):
        TableEncoder().fit(only(read_table(folder / "t.csv"), "path"))


def test_paths_that_lead_nowhere_are_no_pictures(folder):
    table = DataTable({"path": np.array([f"{i}.jpg" for i in range(30)])}, folder)
    encoder = TableEncoder().read(table)
    assert encoder.readings == {"path": "left out: 30 different texts in 30 rows"}
    assert encoder.warnings == [
        f"column 'path' looks as if it held paths of pictures, but the first are not in {folder}"
    ]


# ---- texts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a few words {}", "left out: 30 different texts in 30 rows"),
        ("a few more words {}", "texts"),
        ("電車は今日も遅れた{}", "texts"),
        ("AB-{}-1-2-3-4-5", "left out: 30 different texts in 30 rows"),
    ],
)
def test_texts_have_several_words(text, said):
    table = DataTable({"a": np.array([text.format(i) for i in range(30)])})
    assert TableEncoder().read(table).readings == {"a": said}


def test_without_embeddings_words_are_counted_where_texts_are_asked_for(folder, without):
    without(texts)
    table = only(read_table(folder / "t.csv"), "says")
    encoder = TableEncoder()
    X = encoder.fit_transform(table, Columns(text=["says"]))
    said = r"texts, as counts of (\d+) words; for features of a language model, pip install 'naysayer\[texts\]'"
    n_words = int(re.fullmatch(said, encoder.readings["says"])[1])
    assert X.shape == (N, n_words)
    np.testing.assert_array_equal(again(encoder).transform(table), X)


# ---- the command ---------------------------------------------------------------------------------------------------


@pytest.fixture
def works(naysayer):
    """Run the command and expect it to go well."""

    def run(*arguments):
        done = naysayer(*arguments)
        assert done.code == 0, done.err
        return done

    return run


@pytest.fixture
def seen(works, folder):
    """A model of pictures and a number."""
    works("train", folder / "t.csv", "--label", "answer", "--drop", "says", "--out", folder / "seen", *FAST)
    return folder / "seen"


def test_train_predict_evaluate_with_pictures_and_texts(works, naysayer, folder):
    options = ["--label", "answer", "--image", "path", "--text", "says"]
    assert "column 'path': pictures\ncolumn 'says': texts\ncolumn 'size': number\n" in (
        works("doctor", folder / "t.csv", *options).out
    )
    done = works("train", folder / "t.csv", *options, "--out", folder / "model", *FAST)
    assert "column 'path': pictures, as 1,280 features of efficientnet-lite0\n" in done.out
    assert f"column 'says': texts, as {TEXTS} features of wordllama and of their words\n" in done.out
    done = works("predict", folder / "model", folder / "t.csv")
    rows = list(csv.DictReader(done.out.splitlines()))
    assert [row["path"] for row in rows] == [f"photos/{i:02}.png" for i in range(N)]  # as an id would be
    right = [row["prediction"] == list(COLOURS)[i % 3] for i, row in enumerate(rows)]
    assert np.mean(right) > 0.8
    assert "estimated accuracy" in naysayer("evaluate", folder / "model", folder / "t.csv").out


def test_pictures_alone_are_enough(works, folder):
    rows = list(csv.DictReader((folder / "t.csv").read_text(encoding="utf8").splitlines()))
    write(folder / "t.csv", [{"path": row["path"], "answer": row["answer"]} for row in rows])
    works("train", folder / "t.csv", "--label", "answer", "--out", folder / "model", "--views", 1, *FAST)
    assert len(works("predict", folder / "model", folder / "t.csv", "--json").json) == N
    (column,) = EncodedModel.load(folder / "model").encoder._columns
    assert column.encoder.to_dict()["views"] == 1


def test_views_are_refused_where_there_are_no_photos(naysayer, folder):
    line = ["train", folder / "t.csv", "--label", "answer", "--out", folder / "model", *FAST]
    for more, words in (
        (
            ["--drop", "path,says"],
            "2 views are for photos; no column holds them; use 1 view, or name one: --image COLU",
        ),
        (["--drop", "path,says", "--memory", 100], "2 views are for photos; no column holds them; use 1 view"),
    ):
        done = naysayer(*line, *more, "--views", 2)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert words in done.err


def test_predict_and_evaluate_tell_of_broken_pictures_in_one_line(works, naysayer, folder, seen):
    (folder / "photos" / "07.png").write_bytes(b"not a picture")
    for command in ("predict", "evaluate"):
        done = works(command, seen, folder / "t.csv")
        assert done.err.startswith(
            "warning: column 'path' must hold pictures; 1 of 30 cannot be read, the first at row 7: "
        )
        told_too = command == "evaluate"  # that these rows were trained on
        assert done.err.count("\n") == 1 + told_too
    trained = ["train", folder / "t.csv", "--label", "answer", "--out", folder / "new", *FAST, "--json"]
    assert any("1 of 30 cannot be read" in note for note in works(*trained).json["notes"])
    for path in (folder / "photos").iterdir():
        path.unlink()
    before = sorted(path.name for path in folder.iterdir())
    done = naysayer("train", folder / "t.csv", "--label", "answer", "--image", "path", "--out", folder / "other", *FAST)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "30 of 30 cannot be read, the first at row 0: no file at" in done.err
    assert sorted(path.name for path in folder.iterdir()) == before


def test_without_the_packages_the_command_says_what_to_install(naysayer, works, folder, seen, without):
    without(photos)
    line = ["train", folder / "t.csv", "--label", "answer", "--drop", "says", "--out", folder / "new", *FAST]
    assert "column 'path': left out: pictures; to learn from them, pip install 'naysayer[photos]'" in works(*line).out
    for refused in (
        naysayer(*line, "--image", "path", "--force"),
        naysayer("doctor", folder / "t.csv", "--label", "answer", "--image", "path"),
    ):
        assert refused[:2] == (2, "")
        assert refused.err.endswith("pip install 'naysayer[photos]'\n")
        assert refused.err.count("\n") == 1


def test_an_interrupted_predict_computes_nothing_twice(naysayer, works, folder, seen, monkeypatch, tmp_path):
    monkeypatch.setenv("NAYSAYER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(
        photos.Photos.__init__, "__kwdefaults__", photos.Photos.__init__.__kwdefaults__ | {"batch_size": 8}
    )
    forward, seen_by = EfficientNetLite0.forward, []

    def interrupted(self, pictures):
        if sum(seen_by) >= 32:  # of each picture two views
            raise KeyboardInterrupt
        seen_by.append(len(pictures))
        return forward(self, pictures)

    monkeypatch.setattr(EfficientNetLite0, "forward", interrupted)
    done = naysayer("predict", seen, folder / "t.csv")
    assert done == (130, "", "interrupted; what was saved on the way is kept, and the same command resumes from it\n")
    kept = sum(seen_by)
    monkeypatch.setattr(EfficientNetLite0, "forward", lambda self, x: seen_by.append(len(x)) or forward(self, x))
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    done = works("predict", seen, folder / "t.csv", "--json")
    assert len(done.json) == N
    assert "features of photos" in done.err
    assert 0 < kept < 2 * N <= sum(seen_by) <= 2 * N + 16  # the batch that was under way is computed again
    seen_by.clear()
    works("predict", seen, folder / "t.csv")
    assert seen_by == []


# ---- stores --------------------------------------------------------------------------------------------------------


def test_a_store_says_what_its_photos_are_seen_by_and_predict_takes_a_mixed_folder(works, naysayer, folder, tmp_path):
    place = tmp_path / "answers.db"
    with Store.open(str(place), project=Project(tuple(COLOURS)), random_state=0) as store:
        store.register(read_items(folder / "photos"))
        ann = store.named_annotator("Ann").id
        for i in range(3 * N):
            for question in store.ask(ann):
                right = int(question.item.name[:2]) % 3 == question.class_index
                store.answer(Answer(f"answer-{i}", question.id, ann, "yes" if right else "no"))
    done = works("train", place, "--out", folder / "model", "--epochs", 3, "--views", 1)
    assert "\nphotos are seen by efficientnet-lite0 in one view, pretrained on ImageNet\n" in done.out
    done = naysayer("train", place, "--out", folder / "other", "--views", 3)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "`views` must be 1, or 2 with the mirror image; got 3" in done.err
    (folder / "photos" / "notes.txt").write_text("not a picture")
    (folder / "photos" / "07.png").write_bytes(b"not a picture")
    done = works("predict", folder / "model", folder / "photos")
    assert len(done.out.splitlines()) == N  # with the heading
    broken, other = done.err.splitlines()
    assert broken == f"left out: {folder}/photos/07.png must open as a PNG image; it does not"
    assert other == f"left out: {folder}/photos/notes.txt is no image"
    assert len(works("predict", folder / "model", folder / "photos" / "1*.png", "--json").json) == 10
