"""Tables of each format, whole and damaged; their encoding; their labels."""

from __future__ import annotations

import io
import json
import sys
import tracemalloc
import warnings
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from naysayer.data.items import read_items
from naysayer.data.labels import hardly_named, read_labels
from naysayer.data.tables import DataTable, read_table
from naysayer.features.tables import Columns, TableEncoder

ROWS = {"age": [20, None, 41], "pet": ["cat", "dog", None], "tame": [True, False, None], "label": ["!a", "!b", "c"]}


def table(**columns: list) -> DataTable:
    """Make a table of text columns, as a CSV file gives them."""
    return DataTable({name: np.array(values, dtype=object) for name, values in columns.items()})


def write_csv(path: Path) -> Path:
    path.write_text("age,pet,tame,label\n20,cat,True,!a\n,dog,False,!b\n41,,,c\n")
    return path


def write_parquet(path: Path) -> Path:
    pq.write_table(pa.table(ROWS), path)
    return path


def write_npz(path: Path, **arrays: np.ndarray) -> Path:
    columns = {
        "age": np.array([20, np.nan, 41]),
        "pet": np.array(["cat", "dog", ""]),
        "tame": np.array(["True", "False", ""]),
        "label": np.array([b"!a", b"!b", b"c"]),
    }
    np.savez_compressed(path, **(arrays or columns))
    return path


WRITERS = {".csv": write_csv, ".parquet": write_parquet, ".npz": write_npz}


# Reading


def test_each_format_gives_the_same_features_and_labels(tmp_path):
    found = [read_table(write(tmp_path / f"t{ending}")) for ending, write in WRITERS.items()]
    encoder = TableEncoder().fit(found[0], Columns(drop=["label"]))
    for one in found:
        assert one.n_rows == 3
        assert list(one.columns) == list(ROWS)
        np.testing.assert_array_equal(encoder.transform(one), encoder.transform(found[0]))
        assert TableEncoder().fit(one, Columns(drop=["label"])).to_dict() == encoder.to_dict()
        assert read_labels(one, "label")[0].tolist() == [
            [True, False, False],
            [False, True, False],
            [True, True, False],
        ]


def test_a_tsv_with_a_byte_order_mark_and_crlf_is_read(tmp_path):
    path = tmp_path / "t.TSV"
    path.write_bytes('\ufeffa\t b \r\n1\t"x, ""y"""\r\n\r\n2\té\r\n'.encode())
    found = read_table(path)
    assert {name: column.tolist() for name, column in found.columns.items()} == {"a": ["1", "2"], "b": ['x, "y"', "é"]}


@pytest.mark.parametrize(("delimiter", "given"), [(";", ";"), ("\t", "tab"), ("\t", "\\t"), ("|", "|")])
def test_another_delimiter_is_named(tmp_path, delimiter, given):
    path = tmp_path / "t.csv"
    path.write_text(f'a{delimiter}b\n1,000{delimiter}"x{delimiter}y"\n')
    found = read_table(path, given)
    assert {name: column.tolist() for name, column in found.columns.items()} == {
        "a": ["1,000"],
        "b": [f"x{delimiter}y"],
    }
    with pytest.raises(ValueError, match=r"must be separated by ','; its header has .*; name it, as --delimiter does"):
        read_table(path)


@pytest.mark.parametrize("delimiter", ["", ";;", "a", '"', "\n", " "])
def test_what_is_no_delimiter_is_refused(tmp_path, delimiter):
    with pytest.raises(ValueError, match="a delimiter must be one character, such as ';', or the word tab; got "):
        read_table(write_csv(tmp_path / "t.csv"), delimiter)
    with pytest.raises(ValueError, match=r"a delimiter is for CSV and TSV files; got ';' for .*t.npz; leave it out"):
        read_table(write_npz(tmp_path / "t.npz"), ";")


def test_an_index_of_pandas_is_left_out(tmp_path):
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", None]}, index=[7, 3])
    frame.to_csv(tmp_path / "t.csv")
    frame.to_parquet(tmp_path / "t.parquet")
    for ending in ("csv", "parquet"):
        assert list(read_table(tmp_path / f"t.{ending}").columns) == ["a", "b"]


def test_the_kinds_of_parquet_columns(tmp_path):
    columns = {
        "category": pa.array(["u", "v", None]).dictionary_encode(),
        "decimal": pa.array([Decimal("1.5"), None, Decimal("2")]),
        "date": pa.array([0, 1, None], pa.date32()),
        "bytes": pa.array([b"x", b"y", None]),
        "nothing": pa.nulls(3),
        "small": pa.array([1, 2, 3], pa.int8()),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    found = {name: column.tolist() for name, column in read_table(tmp_path / "t.parquet").columns.items()}
    assert found["category"] == ["u", "v", None]
    assert np.array_equal(found["decimal"], [1.5, np.nan, 2.0], equal_nan=True)
    assert found["date"] == ["1970-01-01", "1970-01-02", None]
    assert found["bytes"] == ["x", "y", None]
    assert found["nothing"] == [None] * 3
    assert found["small"] == [1, 2, 3]


def test_a_matrix_in_npz_is_a_block_of_columns(tmp_path):
    X = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    found = read_table(write_npz(tmp_path / "t.npz", X=X, y=np.array([3, 1])))
    assert list(found.columns) == ["X[0]", "X[1]", "X[2]", "y"]
    np.testing.assert_array_equal(np.stack([found.columns[f"X[{j}]"] for j in range(3)], axis=1), X)


def npz_bytes(**members: bytes) -> bytes:
    """Write an archive of raw members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def npy_bytes(array: np.ndarray, **changed: object) -> bytes:
    """Write an array with a header that may lie."""
    buffer = io.BytesIO()
    header = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape} | changed
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + array.tobytes()


def parquet_bytes(**columns: object) -> bytes:
    """Write a Parquet file in memory."""
    buffer = io.BytesIO()
    pq.write_table(pa.table(list(columns.values()), names=[name.rstrip("_") for name in columns]), buffer)
    return buffer.getvalue()


def pickled() -> bytes:
    """Write an array of Python objects, which only unpickling could read."""
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}, {}]), allow_pickle=True)
    return buffer.getvalue()


TWO = np.arange(2.0)
DAMAGED = {
    "empty": ("t.csv", b"", "must hold a table; it is empty"),
    "blank": ("t.csv", b"\n\n", "must have at least one column; got none"),
    "header only": ("t.csv", b"a,b\n", "must have at least one row; got only the names of 2 columns"),
    "NUL": ("t.csv", b"a,b\n1,\0\n", "must be text in UTF-8; got a NUL byte at line 2"),
    "Latin-1": ("t.csv", "a,b\n1,é\n".encode("latin-1"), "must be text in UTF-8; got byte 0xe9 at line 2"),
    "ragged": ("t.csv", b"a,b\n1,2\n3\n", "must have 2 values on each line, as its header has; got 1 at line 3"),
    "too wide": ("t.csv", b"a,b\n1,2,3\n", "got 3 at line 2"),
    "open quote": ("t.csv", b'a,b\n1,"x\n2,y\n', "must be a whole CSV file; line 3: unexpected end of data"),
    "repeated": ("t.csv", b"a,b, a\n1,2,3\n", "must name each column once; got 'a' more than once"),
    "unnamed": ("t.csv", b"a,b,\n1,2,\n", "must name each column in its first line; column 3 has no name"),
    "unnamed after an index": (
        "t.csv",
        b",a,\n0,1,2\n",
        "must name each column in its first line; column 3 has no name",
    ),
    "semicolons": ("t.csv", b"a;b\n1;2\n", "must be separated by ','; its header has ';'"),
    "commas": ("t.tsv", b"a,b\n1,2\n", r"must be separated by '\\t'; its header has ','"),
    "cut Parquet": ("t.parquet", parquet_bytes(a=[1, 2])[:-20], "must be a whole Parquet file; reading it failed:"),
    "not Parquet": ("t.parquet", b"a,b\n1,2\n", "must be a whole Parquet file; reading it failed:"),
    "no rows": ("t.parquet", parquet_bytes(a=pa.array([], pa.int64())), "must have at least one row"),
    "nested": ("t.parquet", parquet_bytes(a=[[1], [2]]), "column 'a' is list<.*>; flatten it or drop it"),
    "bytes": ("t.parquet", parquet_bytes(a=[b"\xff"]), "column 'a' is binary, and not all of it is text in UTF-8"),
    "repeated in Parquet": ("t.parquet", parquet_bytes(a=[1], a_=[2]), "got 'a' more than once"),
    "cut npz": ("t.npz", npz_bytes(a=npy_bytes(TWO))[:-20], "must be a whole npz file; reading it failed: File is not"),
    "not npz": ("t.npz", b"a,b\n1,2\n", "must be a whole npz file; reading it failed: File is not a zip file"),
    "no arrays": ("t.npz", npz_bytes(), "must have at least one column; got none"),
    "not an array": ("t.npz", npz_bytes(a=b"hello, world"), "must be a whole npz file; reading it failed: the magic"),
    "objects": ("t.npz", npz_bytes(a=pickled()), "it holds Python objects, which are not unpickled"),
    "complex": ("t.npz", npz_bytes(a=npy_bytes(TWO + 0j)), "it holds complex128, neither numbers nor text"),
    "widthless text": ("t.npz", npz_bytes(a=npy_bytes(np.array([], "u1"), descr="<U0", shape=(10**15,))), "holds <U0"),
    "version": ("t.npz", npz_bytes(a=b"\x93NUMPY\x09\x00" + bytes(90)), r"its version \(9, 0\) is not"),
    "a header that lies": (
        "t.npz",
        npz_bytes(a=npy_bytes(TWO, shape=(10**12,))),
        "states 8000000000000 bytes and 16 f",
    ),
    "a number": ("t.npz", npz_bytes(a=npy_bytes(np.array(1.0))), r"array 'a' is float64 of shape \(\); reshape it to"),
    "images": ("t.npz", npz_bytes(a=npy_bytes(np.ones((2, 3, 3)))), r"of shape \(2, 3, 3\); reshape it to \(N, D\)"),
    "no width": ("t.npz", npz_bytes(a=npy_bytes(np.ones((10**12, 0)))), r"of shape \(1000000000000, 0\)"),
    "text matrix": ("t.npz", npz_bytes(a=npy_bytes(np.array([["x"]]))), r"array 'a' is <U1 of shape \(1, 1\)"),
    "lengths": ("t.npz", npz_bytes(a=npy_bytes(TWO), b=npy_bytes(TWO[:1])), "got 2 rows of 'a' and 1 of 'b'"),
    "ending": ("t.xlsx", b"PK", r"name must end in .csv, .tsv, .parquet, .npz; got .*t.xlsx"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_file_that_is_no_table_is_refused_in_one_line(tmp_path, case):
    name, content, words = DAMAGED[case]
    path = tmp_path / name
    path.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(ValueError, match=words) as caught:
        read_table(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert peak < 8 << 20


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([[1], [2], [3]], "column 'odd' is list<.*>; flatten it or drop it"),
        ([{"u": 1}] * 3, "column 'odd' is struct<.*>; flatten it or drop it"),
        (pa.array([b"ab", None, b"\xff\xff"], pa.binary(2)), r"'odd' is fixed_size_binary\[2\], and not all of it"),
        ([b"x", None, b"\xff"], "'odd' is binary, and not all of it is text in UTF-8; write it as text or drop it"),
    ],
)
def test_a_column_that_cannot_be_read_may_be_dropped(tmp_path, values, words):
    path = tmp_path / "t.parquet"
    path.write_bytes(parquet_bytes(odd=values, a=[1, 2, 4], y=["u", "v", "u"]))
    encoder = TableEncoder().fit(read_table(path), Columns(drop=["odd", "y"]))
    assert encoder.feature_names_ == ["a"]
    assert encoder.transform(read_table(path)).shape == (3, 1)  # nor does it matter to those who predict
    assert read_labels(read_table(path), "y")[1] == ["u", "v"]
    for columns in (Columns(drop=["y"]), Columns(numeric=["odd"]), Columns(categorical=["odd"]), Columns(text=["odd"])):
        with pytest.raises(ValueError, match=words):
            TableEncoder().fit(read_table(path), columns)
    with pytest.raises(ValueError, match=words):
        read_labels(read_table(path), "odd")
    with pytest.raises(ValueError, match=words):
        list(read_items(path))


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"no file at {tmp_path}/t.csv"):
        read_table(tmp_path / "t.csv")
    (tmp_path / "t.parquet").mkdir()
    with pytest.raises(IsADirectoryError, match=r"a table must be a file; .*t.parquet is a folder"):
        read_table(tmp_path / "t.parquet")


def test_parquet_without_its_library_says_what_to_install(tmp_path, monkeypatch):
    path = write_parquet(tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        ImportError, match=r"reading Parquet needs .*: pip install 'naysayer\[tables\]'; got .*t.parquet"
    ):
        read_table(path)


def test_a_large_table_takes_little_more_than_its_texts(tmp_path):
    path = tmp_path / "t.csv"
    n = 50_000
    path.write_text("a,says\n" + "".join(f"{i / 7:.5f},!class {i % 5}\n" for i in range(n)))
    tracemalloc.start()
    found = read_table(path)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    numbers = sum(map(sys.getsizeof, found.column("a").tolist()))
    assert len({id(text) for text in found.column("says").tolist()}) == 5  # each kept once
    pointers = 2 * n * 8
    assert kept < numbers + pointers + (1 << 20)
    assert peak < kept + (8 << 20)  # not all rows once more, as lists; nor the whole text


@pytest.mark.filterwarnings("ignore:Reading `.npy` or `.npz` file required additional header parsing")
@pytest.mark.parametrize("ending", WRITERS)
def test_any_mutation_is_a_table_or_a_named_error(tmp_path, ending):
    path = WRITERS[ending](tmp_path / f"t{ending}")
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    outcomes = set()
    for _ in range(400):
        path.write_bytes(mutate(content, rng))
        before = pa.default_memory_pool().max_memory()
        tracemalloc.start()
        try:
            found = read_table(path)
        except ValueError as error:
            found = str(error)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 << 20
        assert pa.default_memory_pool().max_memory() - before < 8 << 20
        outcomes.add(type(found))
        if isinstance(found, str):
            assert str(path) in found
            assert "\n" not in found
        else:
            assert {len(column) for column in found.columns.values()} == {found.n_rows}
    assert outcomes == {DataTable, str}


def mutate(content: bytes, rng: np.random.Generator) -> bytes:
    """Change, cut, insert or delete a few bytes."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 3)):
        at = int(rng.integers(len(data))) if data else 0
        match rng.integers(8):
            case 0:
                del data[at:]
            case 1:
                data[at:at] = rng.bytes(int(rng.integers(1, 9)))
            case 2:
                del data[at : at + int(rng.integers(1, 9))]
            case _:
                data[at : at + 1] = rng.bytes(1)
    return bytes(data)


# Encoding


def test_numbers_are_standardised_with_the_median_for_the_missing():
    train = table(a=["1", " 2 ", "NA", "6"], b=["1", "2", "3", "5"])
    encoder = TableEncoder().fit(train)
    assert encoder.feature_names_ == ["a", "a is missing", "b"]
    filled = np.array([1, 2, 2, 6])
    X = encoder.transform(train)
    assert X.dtype == np.float32
    np.testing.assert_allclose(X[:, 0], (filled - filled.mean()) / filled.std(), rtol=1e-6)
    np.testing.assert_array_equal(X[:, 1], [0, 0, 1, 0])
    new = encoder.transform(table(b=["", "2"], other=["x", "y"], a=["2", "None"]))
    np.testing.assert_allclose(new[:, 0], (2 - filled.mean()) / filled.std(), rtol=1e-6)
    np.testing.assert_array_equal(new[:, 1], [0, 1])
    assert new[0, 2] == np.float32((2.5 - 2.75) / np.std([1, 2, 3, 5]))


def test_every_way_to_write_nothing_is_missing():
    words = ["", " ", "NA", "NaN", "nan", "null", "NULL", "N/A", "n/a", "#N/A", "<NA>", "None", None, float("nan")]
    encoder = TableEncoder().fit(table(a=[*words, 1, 2.5], b=[*words, "x", "y"]))
    X = encoder.transform(table(a=words, b=words))
    assert encoder.feature_names_ == ["a", "a is missing", "b is missing", "b=x", "b=y"]
    np.testing.assert_array_equal(X[:, 1:], np.tile([1, 1, 0, 0], (len(words), 1)))


def test_a_category_stays_one_that_was_saved_before_its_word_was_missing():
    saved = {"kind": "table", "notes": [], "columns": [{"name": "a", "categories": ["x", "NULL", None]}]}
    X = TableEncoder.from_dict(saved).transform(table(a=["NULL", "", "x"]))
    np.testing.assert_array_equal(X, [[0, 1, 0], [0, 0, 1], [1, 0, 0]])


def test_categories_are_one_hot_and_the_unseen_all_zeros():
    encoder = TableEncoder().fit(table(pet=["dog", "cat", "dog", ""], size=["S", "XL"] * 2))
    assert encoder.feature_names_ == ["pet=dog", "pet is missing", "pet=cat", "size=S", "size=XL"]
    X = encoder.transform(table(pet=["cat", "cow", None], size=["XL", "x", ""]))
    np.testing.assert_array_equal(X, [[0, 0, 1, 0, 1], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0]])


def test_a_number_in_a_column_of_categories_is_found_whatever_its_type():
    encoder = TableEncoder().fit(table(size=["1", "2", "big"]))
    for values in ([1.0, 2.0], [1, 2], ["1", "2"]):
        X = encoder.transform(DataTable({"size": np.array(values)}))
        np.testing.assert_array_equal(X, [[1, 0, 0], [0, 1, 0]])


def test_whole_numbers_are_the_same_categories_with_and_without_a_point():
    """As pandas writes them where a value is missing, or where none is."""
    plain, pointed = ["1", "2", "-3", "x"], ["1.0", "2.0", "-3.0", "x"]
    named = Columns(categorical=["code"])
    for learned, given in ((plain, pointed), (pointed, plain)):
        encoder = TableEncoder.from_dict(TableEncoder().fit(table(code=learned), named).to_dict())
        expected = encoder.transform(table(code=learned))
        np.testing.assert_array_equal(expected.sum(axis=1), 1)
        np.testing.assert_array_equal(encoder.transform(table(code=given)), expected)
    both = TableEncoder().fit(table(code=["1", "1.0", "2.5", "2"]), named)
    np.testing.assert_array_equal(both.transform(table(code=["1", "1.0", "2.50"])).sum(axis=0), [1, 1, 0, 0])


def test_a_column_of_categories_none_of_which_is_known_is_warned_of():
    encoder = TableEncoder().fit(table(pet=["dog", "cat", "dog"] * 8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.transform(table(pet=["cow"] * 3))  # so few may be new
        encoder.transform(table(pet=["cow"] * 30 + ["cat"]))
        encoder.transform(table(pet=[None] * 30))
    words = "must hold values that were learned from, such as 'dog', 'cat'; none of its 20 is one; got 'Dog' at first"
    with pytest.warns(UserWarning, match=words):
        encoder.transform(table(pet=["Dog", None] * 20))


def test_truth_values_are_categories():
    encoder = TableEncoder().fit(DataTable({"tame": np.array([True, False, True])}))
    assert encoder.feature_names_ == ["tame=True", "tame=False"]
    np.testing.assert_array_equal(encoder.transform(table(tame=["False", True])), [[0, 1], [1, 0]])


def test_only_the_hundred_most_frequent_categories_are_kept():
    values = [f"v{i}" for i in range(150)] * 2 + [f"v{i}" for i in range(40, 140)]
    encoder = TableEncoder().fit(table(a=values))
    assert set(encoder.feature_names_) == {f"a=v{i}" for i in range(40, 140)}
    assert encoder.transform(table(a=["v0", "v50"])).sum(axis=1).tolist() == [0, 1]
    assert encoder.notes == []


def test_what_cannot_help_is_left_out_and_noted():
    n = 120
    rows = table(
        number=[str(i * i) for i in range(n)],
        text=[f"comment {i}" for i in range(n)],
        same=["x"] * n,
        one=[0.1] * n,
        none=[None] * n,
        sparse=["7"] * (n - 1) + [""],
    )
    encoder = TableEncoder().fit(rows)
    assert encoder.feature_names_ == ["number", "sparse is missing"]
    assert encoder.notes == [
        "column 'text' is left out: 120 different texts in 120 rows",
        "column 'same' is left out: it is the same in every row",
        "column 'one' is left out: it is the same in every row",
        "column 'none' is left out: it is the same in every row",
    ]
    X = encoder.transform(table(number=["5"], sparse=["8"]))
    assert X.shape == (1, 2)
    assert encoder.readings == {
        "number": "number",
        "text": "left out: 120 different texts in 120 rows",
        "same": "left out: it is the same in every row",
        "one": "left out: it is the same in every row",
        "none": "left out: it is the same in every row",
        "sparse": "number, 1 missing",
    }


@pytest.mark.parametrize(
    ("texts", "numbers", "said"),
    [
        (["1,000.50", "-12,345,678", "7", ""], [1000.5, -12345678, 7, np.nan], "number, 1 missing"),
        (["5%", "12.5 %", "+.5%", "-100%"], [0.05, 0.125, 0.005, -1], "number, from percents"),
        (["1e3", "5", " 2. ", "0"], [1000, 5, 2, 0], "number"),
    ],
)
def test_written_numbers_are_numbers(texts, numbers, said):
    written, plain = (TableEncoder().fit(table(a=values)) for values in (texts, numbers))
    assert written.to_dict() == plain.to_dict()
    assert written.readings == {"a": said}
    np.testing.assert_array_equal(written.transform(table(a=texts)), plain.transform(table(a=numbers)))


def test_what_only_looks_like_a_number_is_a_category():
    thousands = ["0,125", "-0,125", "1,00", "1,0000", "1,000,00", ",5"]
    for text in (*thousands, "1_000", "%", "$5"):
        texts = [text, "2"]
        assert TableEncoder().fit(table(a=texts)).readings == {"a": "category, 2 values"}
    encoder = TableEncoder().fit(table(a=["0,125", "1,250", "0,500"] * 2))
    assert encoder.warnings == ["column 'a' looks as if it held numbers with a decimal comma; write them as 3.14"]


def test_dates_become_days_and_the_parts_that_vary():
    when = ["2020-01-31", "2020-02-01", "", "2020-02-08"]
    encoder = TableEncoder().fit(table(when=when))
    assert encoder.readings == {"when": "date, as days, month, weekday, 1 missing"}
    names = ["when: days", "when: days is missing", "when: month", "when: weekday"]
    assert encoder.feature_names_ == names
    days, missing, month, weekday = encoder.transform(table(when=when)).T
    assert days[3] - days[1] == pytest.approx(7 * (days[1] - days[0]), rel=1e-5)
    np.testing.assert_array_equal(missing, [0, 0, 1, 0])
    assert month[0] < month[1] == month[2] == month[3]
    assert weekday[0] < weekday[1] == weekday[3]  # Friday, and two Saturdays
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict(), allow_nan=False)))
    np.testing.assert_array_equal(again.transform(table(when=when)), encoder.transform(table(when=when)))
    with pytest.raises(ValueError, match="column 'when' must hold dates such as 2020-12-31; got 'soon' at row 1"):
        encoder.transform(table(when=["", "soon"]))


def test_times_are_read_in_utc():
    when = ["2020-01-01 12:00", "2020-01-01T12:30:00Z", "2020-01-01 14:00:00.5+02:00", "2020-01-01T06:00:00-0630"]
    encoder = TableEncoder().fit(table(when=when))
    assert encoder.readings == {"when": "date, as days, hour"}
    hour = encoder.transform(table(when=when))[:, 1]
    assert hour[1] == pytest.approx(hour[3])
    assert hour[2] - hour[0] == pytest.approx((hour[1] - hour[0]) / 3600, rel=1e-2)


@pytest.mark.parametrize("text", ["2020-13-01", "2020-01-32", "2020-01-01 25:00", "20200101x", "2020-1-1", "12:30"])
def test_what_is_no_date_is_a_category(text):
    assert TableEncoder().fit(table(when=[text, "2020-01-01"])).readings == {"when": "category, 2 values"}


def test_ids_are_left_out_and_remembered():
    n = 30
    rng = np.random.default_rng(0)
    rows = table(
        Id=rng.permutation(1000)[:n].tolist(),
        userId=[f"u{i}" for i in range(n)],
        row=[str(i + 1) for i in range(n)],
        shuffled=rng.permutation(n).tolist(),
        shop_id=[i % 7 for i in range(n)],
        paid=rng.permutation(1000)[:n].tolist(),
    )
    encoder = TableEncoder().fit(rows)
    assert encoder.feature_names_ == ["shuffled", "shop_id", "paid"]
    assert encoder.ids == ["Id", "userId", "row"]
    assert [encoder.readings[name] for name in encoder.ids] == [
        *["left out: an id, different in every row"] * 2,
        "left out: it counts the rows",
    ]
    assert encoder.warnings == [
        "column 'shuffled' may be an id: 30 different whole numbers without a gap; drop it if so",
        "column 'shop_id' is read as a number, but its name says id; drop it, or make it categorical",
    ]
    told = TableEncoder().fit(
        rows, Columns(drop=["shuffled"], categorical=["shop_id", "userId"], numeric=["Id", "row"])
    )
    assert told.ids == told.warnings == []
    assert told.feature_names_[:2] == ["Id", "userId=u0"]
    assert told.readings["shop_id"] == "category, 7 values"
    assert "shuffled" not in told.readings


def test_numbers_that_may_be_names_are_said():
    n = 120
    rng = np.random.default_rng(0)
    rows = table(
        customer_no=rng.permutation(10**6)[:n].tolist(),
        postcode=(10_000 + 37 * rng.integers(0, 60, n)).tolist(),
        Phone=[f"{number}" for number in rng.integers(10**8, 10**9, n)],
        serial=(100_000 + rng.permutation(900_000)[:n]).tolist(),
        number_of_rooms=rng.integers(1, 9, n).tolist(),
        visit_no=rng.integers(1, 6, n).tolist(),
        income=rng.permutation(90_000)[:n].tolist(),
        weight_no=rng.normal(size=n).tolist(),
    )
    encoder = TableEncoder().fit(rows)
    what_to_do = "drop it (--drop), or make it categorical (--categorical)"
    assert encoder.warnings == [
        *(
            f"column {name!r} is read as a number, but its name says that it is none; {what_to_do}"
            for name in ("customer_no", "postcode", "Phone")
        ),
        f"column 'serial' may be an id: 120 different whole numbers of 6 digits; if so, {what_to_do}",
    ]
    assert encoder.columns == list(rows.columns)  # nothing is guessed
    told = Columns(drop=["customer_no"], categorical=["postcode"], numeric=["Phone", "serial"])
    assert TableEncoder().fit(rows, told).warnings == []


def test_what_looks_wrong_in_a_column_is_said():
    rows = table(
        colour=["Red", "red", "blue", "red", "blue"],
        share=["5%", "7", "8%", "9%", "1%"],
        when=["1/2/2020", "12/31/2020", "1/5/2021", "1/2/2020", "1/2/2020"],
        size=["1,5", "0,25", "1,75", "2,5", "0,25"],
    )
    assert TableEncoder().fit(rows).warnings == [
        "column 'colour' holds 'Red' and 'red', which differ only in case or spaces",
        "column 'share' holds 4 percents among 5 numbers; 5% is read as 0.05",
        "column 'when' looks as if it held dates; write them as 2020-12-31",
        "column 'size' looks as if it held numbers with a decimal comma; write them as 3.14",
    ]
    rows = table(age=[*"0123456" * 5, "?", "?", ""], door=[*"0123456" * 4, *10 * ["7b"]])
    assert TableEncoder().fit(rows).warnings == [
        "column 'age' is not read as a number, as 2 of its 37 values are none, such as '?'; leave these empty, or make "
        "it categorical (--categorical)"
    ]
    assert TableEncoder().fit(rows, Columns(categorical=["age"])).warnings == []


def test_an_encoder_of_an_earlier_version_still_reads_as_it_did():
    state = {
        "columns": [
            {"name": "age", "median": 30.0, "mean": 30.0, "scale": 10.0, "missing": True},
            {"name": "when", "categories": ["2020-01-01", None]},
            {"name": "rate", "categories": ["5%", "6%"]},
        ],
        "notes": ["column 'id' is left out: 9 different texts in 9 rows"],
    }
    X = TableEncoder.from_dict(state).transform(table(age=["40", ""], when=["2020-01-01", ""], rate=["6%", "5%"]))
    np.testing.assert_array_equal(X, [[1, 0, 1, 0, 0, 1], [0, 1, 0, 1, 1, 0]])


def test_extreme_numbers_stay_finite():
    values = np.array([1e308, -1e308, 0.0, 5e-324])
    encoder = TableEncoder().fit(DataTable({"a": values, "b": values[::-1] * 1e-300, "c": np.array([0, 5e-324, 0, 0])}))
    new = DataTable({name: np.array([1.7e308, -1.7e308, 0, np.nan]) for name in "abc"})
    X = encoder.transform(new)
    assert np.isfinite(X).all()
    assert np.abs(X).max() == 1e6


def test_the_state_survives_json():
    rng = np.random.default_rng(0)
    numbers = np.where(rng.random(50) < 0.2, np.nan, rng.lognormal(size=50))
    train = DataTable({"a": numbers, "b": rng.choice(["x", "é", "", "NA"], 50), "c": np.full(50, "k"), "d": numbers**3})
    encoder = TableEncoder().fit(train)
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict(), allow_nan=False)))
    np.testing.assert_array_equal(again.transform(train), encoder.transform(train))
    assert again.feature_names_ == encoder.feature_names_
    assert again.notes == encoder.notes
    assert again.to_dict() == encoder.to_dict()


@pytest.mark.parametrize("state", [{}, [], {"columns": [{"name": "a"}], "notes": []}, {"columns": [3], "notes": []}])
def test_another_state_is_refused(state):
    with pytest.raises(ValueError, match="an encoder's state must be what to_dict gave; it is not:"):
        TableEncoder.from_dict(state)


def test_fitting_again_forgets():
    encoder = TableEncoder().fit(table(a=["1", "2"], same=["x", "x"]))
    encoder.fit(table(b=["1", "2"]))
    assert (encoder.feature_names_, encoder.notes) == (["b"], [])


def test_what_the_encoder_refuses():
    train = table(age=["1", "2"], color=["r", "g"], label=["!a", "!b"])
    encoder = TableEncoder()
    with pytest.raises(ValueError, match="the encoder must be fitted before it transforms; call fit first"):
        encoder.transform(train)
    with pytest.raises(ValueError, match=r"must have a column 'labl' \(did you mean 'label'\?\); it has age, color, l"):
        encoder.fit(train, Columns(drop=["labl"]))
    with pytest.raises(ValueError, match="must have a column to learn from; got none: there is no other column than"):
        encoder.fit(train, Columns(drop=["age", "color", "label"]))
    with pytest.raises(ValueError, match="got none: column 'a' is left out: it is the same in every row"):
        encoder.fit(table(a=["x", "x"]))
    with pytest.raises(ValueError, match="column 'a' must hold finite numbers; got inf at row 1; leave it empty"):
        encoder.fit(table(a=["1", "inf", "2"]))
    with pytest.raises(ValueError, match="a column must have one use; 'age' is both in drop and in numeric"):
        encoder.fit(train, Columns(drop=["age"], numeric=["age"]))
    with pytest.raises(ValueError, match="one use; 'age' is the label, and in image; take it out of image"):
        Columns(image=["age"]).without("age")
    with pytest.raises(ValueError, match="column 'color' must hold numbers; got 'r' at row 0"):
        encoder.fit(train, Columns(numeric=["color"]))
    with pytest.raises(ValueError, match=r"must have a column 'colour' \(did you mean 'color'\?\)"):
        encoder.fit(train, Columns(categorical=["colour"]))
    assert encoder.read(table(a=["x", "x"])).readings == {"a": "left out: it is the same in every row"}
    encoder.fit(train, Columns(drop=["label"]))
    with pytest.raises(ValueError, match=r"it lacks 1: 'color' \(did you mean 'colour'\?\)$"):
        encoder.transform(table(age=["1"], colour=["r"]))
    with pytest.raises(ValueError, match="column 'age' must hold numbers; got 'old' at row 2"):
        encoder.transform(table(age=["1", "", "old"], color=["r"] * 3))
    with pytest.raises(ValueError, match="column 'age' must hold finite numbers; got -inf at row 0"):
        encoder.transform(table(age=["-inf"], color=["r"]))
    wide = TableEncoder().fit(DataTable({f"X[{j}]": np.arange(3) for j in range(20)}))
    with pytest.raises(ValueError, match=r"it lacks 20: 'X\[0\]', 'X\[1\]', 'X\[2\]', \.\.\.$"):
        wide.transform(table(color=["r"]))


# Labels


def test_labels_with_marks_are_a_mixture():
    y_bar, classes, said = read_labels(table(y=["!cat", "dog", "!cat !bird", "", "cat|dog", "!hot dog"]), "y")
    assert classes == ["bird", "cat", "dog", "hot dog"]
    assert y_bar.astype(int).tolist() == [
        [0, 1, 0, 0],
        [1, 1, 0, 1],
        [1, 1, 0, 0],
        [0, 0, 0, 0],
        [1, 0, 0, 1],
        [0, 0, 0, 1],
    ]
    assert said == (
        "labels: 2 'not this class', 1 'is this class', 1 'not these classes', 1 'one of these classes', "
        "1 that say nothing"
    )


def test_names_that_hold_spaces_are_found():
    cities = ["Los Angeles", "New York", "Rome"]
    for labels in (
        ["!New York !Los Angeles", "!New York", "Los Angeles", "Rome"],
        ['!"New York" !"Los Angeles"', "Rome"],
        ['!New York !"Los Angeles"', "!New York !Los Angeles", "!New York", "!Rome"],
    ):
        y_bar, classes, said = read_labels(table(y=labels), "y")
        assert classes == cities
        assert y_bar[0].tolist() == [True, True, False]
        assert "'not these classes'" in said
    assert read_labels(table(y=["!New York !Los Angeles"]), "y", cities)[0].tolist() == [[True, True, False]]


def test_names_may_hold_what_else_would_be_a_slip():
    assert read_labels(table(y=['!"a,"', "!Yahoo!", '!"b!c"', "!a, !Yahoo!"]), "y")[1] == ["Yahoo!", "a,", "b!c"]


def test_a_class_that_one_label_of_many_names_is_told():
    many = [f"!{name}" for name in "abc"] * 14
    for labels, n in (([*many, "!aa"], 43), ([*many, "aa", None], 43), ([*many, "aa", "!a !b"], 44)):
        y_bar, names, _ = read_labels(table(y=labels), "y")
        (told,) = hardly_named(y_bar, names)
        assert told.startswith(f"class 'aa' is named by 1 of {n} labels; since it is hardly")
    for labels in (many, [*many, "!aa", "aa"], [*many[:30], "!aa"], ["!a"] * 40 + ["b"]):
        y_bar, names, _ = read_labels(table(y=labels), "y")
        assert hardly_named(y_bar, names) == []
    (told,) = hardly_named(*read_labels(table(y=many), "y", ["a", "b", "c", "d"])[:2])
    assert told.startswith("class 'd' is named by 0 of 42 labels; ")


def test_marked_labels_of_one_class_each_are_indices():
    y_bar, classes, said = read_labels(table(y=["!c", "!a", "!b", "!a"]), "y")
    assert (classes, said) == (["a", "b", "c"], "labels: 4 'not this class'")
    assert y_bar.dtype == np.int64
    assert y_bar.tolist() == [2, 0, 1, 0]
    assert read_labels(table(y=["!b", "b", "a"]), "y")[0].tolist() == [1, 0, 1]  # with two classes, "b" is "not a"


def test_labels_without_marks_say_not_this_class():
    y_bar, classes, said = read_labels(table(y=["10", "2", "9", "2"]), "y")
    assert classes == ["2", "9", "10"]
    assert y_bar.tolist() == [2, 0, 1, 0]
    assert y_bar.dtype == np.int64
    assert said == "labels: 4 'not this class' (no '!' found; pass --ordinary if they say what each row is)"


def test_missing_labels_say_nothing():
    y_bar, classes, said = read_labels(table(y=["a", "", "b", None, "NA", "NULL", "N/A"]), "y")
    assert classes == ["a", "b"]
    assert y_bar.astype(int).tolist() == [[1, 0], [0, 0], [0, 1], [0, 0], [0, 0], [0, 0], [0, 0]]
    assert said.startswith("labels: 2 'not this class', 5 that say nothing (no '!' found")


def test_ordinary_labels_rule_out_the_others():
    y_bar, classes, said = read_labels(table(y=["a", "c", "", "a|b"]), "y", ordinary=True)
    assert classes == ["a", "b", "c"]
    assert y_bar.astype(int).tolist() == [[0, 1, 1], [1, 1, 0], [0, 0, 0], [0, 0, 1]]
    assert said == "labels: 2 'is this class', 1 'one of these classes', 1 that say nothing"


def test_classes_may_be_given_in_any_order():
    y_bar, classes, _ = read_labels(table(y=["b", "a"]), "y", classes=["c", "b", "a"])
    assert (y_bar.tolist(), classes) == ([1, 2], ["c", "b", "a"])
    assert read_labels(table(y=["!b", "a"]), "y", classes=["c", "b", "a"])[0].tolist() == [
        [False, True, False],
        [True, True, False],
    ]


def test_a_class_may_be_called_none_when_it_is_given():
    for name in ("None", "NULL", "n/a"):
        y_bar, _, said = read_labels(table(y=[name, "some"]), "y", classes=[name, "some"])
        assert y_bar.tolist() == [0, 1]
        assert "nothing" not in said


@pytest.mark.parametrize(
    "values", [[3, 10, 3], [3.0, 10.0, 3.0], ["3.0", "10.0", "3.0"], np.array([3, 10, 3], np.uint8)]
)
@pytest.mark.parametrize("classes", [None, [3, 10], [3.0, 10.0], ["3", "10"]])
def test_whole_numbers_are_named_alike_whatever_their_type(values, classes):
    y_bar, names, _ = read_labels(DataTable({"y": np.array(values)}), "y", classes)
    assert names == ["3", "10"]
    assert y_bar.tolist() == [0, 1, 0]


def test_names_are_left_alone_that_are_not_all_whole_numbers():
    assert read_labels(table(y=["2.0", "2.1", "v", "NAN", "01"]), "y")[1] == ["01", "2.0", "2.1", "NAN", "v"]
    assert read_labels(DataTable({"y": np.array([0.5, 2.0, np.nan], np.float32)}), "y")[1] == ["0.5", "2"]


@pytest.mark.parametrize(
    ("labels", "arguments", "words"),
    [
        (["a", "b"], {"column": "why"}, r"must have a column 'why'( \(did you mean 'y'\?\))?; it has y$"),
        (["", None], {}, "column 'y' must hold labels; all 2 rows are empty"),
        (["a", "a"], {}, "column 'y' must have at least 2 classes, each named once; got a$"),
        (["!"], {}, "at least 2 classes, each named once; got none$"),
        (["a", "b"], {"classes": ["a", "b", "a"]}, "each named once; got a, b, a$"),
        (["a", "d"], {"classes": list("abc")}, r"column 'y' must hold known classes \(a, b, c\); got 'd' at row 1$"),
        (
            ["a", "a|b"],
            {},
            r"known classes \(a, b\); got 'a\|b' at row 1; pass --ordinary if it lists what the row may",
        ),
        (["!a", "d"], {"classes": list("abc")}, r"column 'y': `labels` must name known classes .*; got 'd' at row 1"),
        (
            ["!a b !c", "!b"],
            {},
            "column 'y': `labels` must be clear; '!a b !c' at row 0 names 'a b', or a mark is missing in it; write "
            '!"a b" if it is one class, or name all classes$',
        ),
        (
            ["!a, !b", "!b", "!c"],
            {},
            "`labels` must be clear; '!a, !b' at row 0 names 'a,', or a mark is missing in it",
        ),
        (["!a!b", "!b", "!c"], {}, "`labels` must be clear; '!a!b' at row 0 names 'a!b', or a mark is missing in it"),
        (["!a !b", "a"], {}, "column 'y': `labels` must leave at least one class possible; '!a !b' at row 0"),
    ],
)
def test_what_labels_are_refused(labels, arguments, words):
    with pytest.raises(ValueError, match=words):
        read_labels(table(y=labels), **({"column": "y"} | arguments))


def test_a_long_list_of_columns_is_cut():
    many = DataTable({f"c{i}": np.arange(2) for i in range(30)})
    with pytest.raises(ValueError, match=r"it has c0, c1, .*, c7, \.\.\. \(30 in all\)$"):
        read_labels(many, "label")
