"""Guidelines: read from a file, every mistake in it told, and served to those who answer alone."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from helpers import raises
from naysayer.collect.app import make_app
from naysayer.collect.guidelines import Guidelines, read_guidelines
from naysayer.collect.records import Project
from naysayer.collect.security import Site
from naysayer.collect.store import Store
from test_collect_app import Client

CLASSES = ("cat", "dog")
GOOD = """
text = "Judge what is in the middle."

[classes.cat]
text = "A house cat."
examples = ["tabby.png", "pictures/siamese.png"]
"""


@pytest.fixture
def write(tmp_path):
    (tmp_path / "pictures").mkdir()
    for i, name in enumerate(("tabby.png", "pictures/siamese.png")):
        Image.new("RGB", (900, 600), (50 * i, 90, 90)).save(tmp_path / name)

    def written(text):
        path = tmp_path / "guide.toml"
        path.write_text(text, encoding="utf8")
        return path

    return written


def test_guidelines_are_read(write):
    found = read_guidelines(write(GOOD), CLASSES)
    assert found.text == "Judge what is in the middle."
    assert list(found.classes) == ["cat"]
    assert found.classes["cat"].text == "A house cat."
    assert [item.name for item in found.classes["cat"].examples] == ["tabby.png", "pictures/siamese.png"]
    assert read_guidelines(write(""), CLASSES) == Guidelines()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[classes.cow]", "the project has no class 'cow'; it may have cat, dog"),
        ("about = 1", "the file has no key 'about'; it may have text, classes"),
        ("text = 1", "text must be a text; got 1"),
        ("classes = 1", "classes must be tables such as [classes.cat]"),
        ("classes.cat = 1", "classes must be tables such as [classes.cat]"),
        ("[classes.cat]\nexample = []", "[classes.cat] has no key 'example'; it may have text, examples"),
        ("[classes.cat]\nexamples = 'tabby.png'", "the examples of 'cat' must be a list of paths of pictures"),
        ("[classes.cat]\nexamples = ['none.png']", "No such file"),
        ("[classes.cat]\nexamples = ['guide.toml']", "an image's name must end in"),
        ("[classes", "guide.toml must be a TOML file: "),
    ],
)
def test_mistakes_are_told_with_the_file(write, text, words):
    path = write(text)
    with raises(words) as error:
        read_guidelines(path, CLASSES)
    assert str(error.value).startswith(str(path))


def test_a_file_that_is_not_there_or_no_file(tmp_path):
    with raises("no guide file at ", FileNotFoundError):
        read_guidelines(tmp_path / "none.toml", CLASSES)
    with raises(f"a guide must be a TOML file; {tmp_path} is a folder"):
        read_guidelines(tmp_path, CLASSES)
    (tmp_path / "latin.toml").write_bytes(b"text = '\xe9'")
    with raises("latin.toml must be a TOML file in UTF-8; byte 8 is no text"):
        read_guidelines(tmp_path / "latin.toml", CLASSES)


def test_they_are_served_and_their_pictures_too(write, tmp_path):
    with Store.open(tmp_path / "a.db", project=Project(CLASSES)) as store:
        web = Client(make_app(store, Site(open=True), guidelines=read_guidelines(write(GOOD), CLASSES)))
        told = web.get("/api/guidelines").json()
        (cat,) = told["classes"]
        assert (told["text"], cat["class"], cat["text"]) == ("Judge what is in the middle.", "cat", "A house cat.")
        for src in cat["examples"]:
            assert Image.open(io.BytesIO(web.get(src).content)).size == (640, 427)
            assert Image.open(io.BytesIO(web.get(src + "?size=full").content)).size == (900, 600)
        assert web.get("/guide/" + "0" * 32).json() == {"error": "no example has this id"}
        assert 'id="to-guide"' in web.get("/").text
        without = Client(make_app(store, Site(open=True)))
        assert without.get("/api/guidelines").json() == {"text": "", "classes": []}
        assert 'id="to-guide"' not in without.get("/").text
        closed = Client(make_app(store, Site("0.0.0.0", 8000), guidelines=read_guidelines(write(GOOD), CLASSES)))
        assert [closed.get(path).status_code for path in ("/api/guidelines", cat["examples"][0])] == [401, 401]


def test_the_command_refuses_what_is_wrong_in_one_line(naysayer, write, tmp_path):
    (tmp_path / "texts.csv").write_text("text\na\nb\n")
    options = ("ask", str(tmp_path / "texts.csv"), "--classes", "cat,dog", "--store", str(tmp_path / "a.db"))
    done = naysayer(*options, "--guidelines", str(write("[classes.cow]")))
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "the project has no class 'cow'" in done.err
    done = naysayer(*options, "--language", "xx")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "the language must be one of de, en, ja; got 'xx'" in done.err
    assert not (tmp_path / "a.db").exists()
