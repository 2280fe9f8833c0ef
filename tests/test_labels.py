"""Labels are drawn as their probabilities say, and texts are read as their words say."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas
import pytest
import torch

from helpers import assert_frequencies, assert_shares, raises, random_transition
from naysayer import complement, ruled_out, transition
from naysayer.labels import drawing
from naysayer.labels.drawing import generator
from naysayer.labels.kinds import is_ordinary
from naysayer.labels.reading import is_missing, named_classes
from naysayer.labels.weights import log_likelihoods


def test_the_frequency_helpers_can_fail():
    assert_frequencies([500, 500, 0], [0.5, 0.5, 0])
    with pytest.raises(AssertionError, match="chi-square"):
        assert_frequencies([600, 400], [0.5, 0.5])
    with pytest.raises(AssertionError, match="probability 0"):
        assert_frequencies([500, 500, 1], [0.5, 0.5, 0])
    assert_shares([500, 1000], 1000, [0.5, 1.0])
    with pytest.raises(AssertionError):
        assert_shares([600, 1000], 1000, [0.5, 1.0])
    with pytest.raises(AssertionError):
        assert_shares([500, 999], 1000, [0.5, 1.0])


# ---- kinds ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known_transition", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_a_label_is_ordinary_that_rules_out_all_classes_but_one(n_classes, known_transition):
    sizes = list(range(n_classes))
    # Of two classes "not a" is "is b", but where a matrix says how "not a" came about, it has to pass through that.
    ordinary = [s == n_classes - 1 and not (n_classes == 2 and known_transition) for s in sizes]
    assert [is_ordinary(s, n_classes, known_transition) for s in sizes] == ordinary
    for array in (
        np.array(sizes),
        np.array(sizes, dtype="float32"),
        torch.tensor(sizes),
        torch.tensor([sizes]).float(),
    ):
        found = is_ordinary(array, n_classes, known_transition)
        assert type(found) is type(array)
        assert found.shape == array.shape
        assert np.ravel(found).tolist() == ordinary
    traced = torch.func.vmap(lambda size: is_ordinary(size, n_classes, known_transition))(torch.tensor(sizes))
    assert traced.tolist() == ordinary


# ---- one label ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_uniform_labels_are_uniform_among_the_others(n_classes):
    y = np.arange(60_000) % n_classes
    drawn = complement(y, n_classes, random_state=1)
    assert drawn.shape == y.shape
    assert drawn.dtype == np.int64
    assert (drawn != y).all()
    for k in range(n_classes):
        assert_frequencies(np.bincount(drawn[y == k], minlength=n_classes), transition.uniform(n_classes)[k])


def test_a_million_labels_of_a_thousand_classes():
    y = np.random.default_rng(0).integers(0, 1000, 1_000_000)
    drawn = complement(y, 1000, random_state=0)
    assert (drawn != y).all()
    assert drawn.min() == 0
    assert drawn.max() == 999
    assert_frequencies(np.bincount((drawn - y) % 1000, minlength=1000), np.r_[0, np.full(999, 1 / 999)])
    named = complement(y, 1000, transition=transition.uniform(1000), random_state=0)
    assert (named != y).all()
    assert_frequencies(np.bincount((named - y) % 1000, minlength=1000), np.r_[0, np.full(999, 1 / 999)])


@pytest.mark.parametrize("diagonal", [0.0, 0.2])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_labels_follow_the_transition_matrix(n_classes, diagonal):
    q = random_transition(n_classes, 1, diagonal)
    y = np.arange(100_000) % n_classes
    drawn = complement(y, n_classes, transition=q, random_state=2)
    for k in range(n_classes):
        assert_frequencies(np.bincount(drawn[y == k], minlength=n_classes), q[k])


def test_what_has_probability_zero_is_never_drawn():
    q = np.array([[0, 0, 1, 0], [0, 0, 0.5, 0.5], [1, 0, 0, 0], [0, 1 / 3, 2 / 3, 0]])
    y = np.arange(40_000) % 4
    drawn = complement(y, 4, transition=q, random_state=3)
    assert (q[y, drawn] > 0).all()
    assert_frequencies(np.bincount(drawn[y == 3], minlength=4), q[3])


class Extreme(np.random.Generator):
    """A generator whose uniform numbers are the least and the greatest there are."""

    def __init__(self, value):
        super().__init__(np.random.PCG64(0))
        self.value = value

    def random(self, size=None):
        return np.full(size, self.value)


@pytest.mark.parametrize("value", [0.0, 1 - 2**-53])
def test_the_ends_of_the_unit_interval_draw_possible_labels(value):
    # y + u is rounded when y is large; a label of the next row, or of the truth, must not come of it.
    n_classes = 1000
    y = np.arange(n_classes)
    drawn = complement(y, n_classes, transition=transition.uniform(n_classes), random_state=Extreme(value))
    assert (drawn >= 0).all()
    assert (drawn < n_classes).all()
    assert (drawn != y).all()


# ---- several labels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_classes", "n_labels"), [(3, 2), (5, 2), (5, 3), (5, 4)])
def test_every_set_that_misses_the_truth_is_equally_likely(n_classes, n_labels):
    y = np.arange(30_000) % n_classes
    ruled = complement(y, n_classes, n_labels=n_labels, random_state=4)
    assert ruled.shape == (len(y), n_classes)
    assert ruled.dtype == bool
    assert (ruled.sum(axis=1) == n_labels).all()
    assert not ruled[np.arange(len(y)), y].any()
    code = ruled @ (1 << np.arange(n_classes))
    for k in range(n_classes):
        others = [c for c in range(n_classes) if c != k]
        sets = [sum(1 << c for c in members) for members in itertools.combinations(others, n_labels)]
        counts = [(code[y == k] == one).sum() for one in sets]
        assert sum(counts) == (y == k).sum()
        assert_frequencies(counts, np.full(len(sets), 1 / math.comb(n_classes - 1, n_labels)))


@pytest.mark.parametrize("diagonal", [0.0, 0.1])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_a_set_holds_class_c_with_probability_s_times_q(n_labels, diagonal):
    n_classes = 6
    q = transition.noisy(
        n_classes, diagonal, 0.5 * random_transition(n_classes, 2) + 0.5 * transition.uniform(n_classes)
    )
    assert n_labels * q.max() < 1
    y = np.arange(120_000) % n_classes
    ruled = complement(y, n_classes, n_labels=n_labels, transition=q, random_state=5)
    assert (ruled.sum(axis=1) == n_labels).all()
    if diagonal == 0:
        assert not ruled[np.arange(len(y)), y].any()
    for k in range(n_classes):
        assert_shares(ruled[y == k].sum(axis=0), (y == k).sum(), n_labels * q[k])


def test_a_class_with_inclusion_probability_one_is_in_every_set():
    q = np.array([[0, 0.5, 0.25, 0.25], [0.5, 0, 0.25, 0.25], [0.5, 0.25, 0, 0.25], [0.5, 0.25, 0.25, 0]])
    y = np.arange(8_000) % 4
    ruled = complement(y, 4, n_labels=2, transition=q, random_state=6)
    assert (ruled.sum(axis=1) == 2).all()
    assert ruled[y == 0, 1].all()
    assert ruled[y > 0, 0].all()
    assert_shares(ruled[y == 0].sum(axis=0), 2_000, 2 * q[0])


@pytest.mark.parametrize("told", [False, True])
def test_sets_do_not_depend_on_where_chunks_end(monkeypatch, told):
    monkeypatch.setattr(drawing, "_CHUNK", 70)  # 10 rows of 7 classes
    y = np.arange(10_003) % 7
    ruled = complement(y, 7, n_labels=3, transition=transition.uniform(7) if told else None, random_state=7)
    assert (ruled.sum(axis=1) == 3).all()
    assert not ruled[np.arange(len(y)), y].any()
    assert_shares(ruled[y != 2][:, 2].sum(), (y != 2).sum(), 0.5)


def test_sets_of_many_classes():
    y = np.arange(3_000) % 1000
    ruled = complement(y, 1000, n_labels=5, random_state=0)
    assert (ruled.sum(axis=1) == 5).all()
    assert not ruled[np.arange(len(y)), y].any()


# ---- seeds ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_labels", [1, 2])
@pytest.mark.parametrize("q", [None, transition.uniform(5)])
def test_same_seed_same_labels_and_the_global_state_is_left_alone(q, n_labels):
    y = np.arange(500) % 5
    options = {"transition": q, "n_labels": n_labels}
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = complement(y, 5, random_state=3, **options)
    np.testing.assert_array_equal(first, complement(y, 5, random_state=3, **options))
    assert (first != complement(y, 5, random_state=4, **options)).any()
    assert (complement(y, 5, **options) != complement(y, 5, **options)).any()
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_truth_drawn_from_the_same_seed_does_not_decide_the_labels():
    y = np.random.default_rng(0).integers(10, size=20_000)
    y_bar = complement(y, 10, random_state=0)
    table = np.bincount(10 * y + y_bar, minlength=100).reshape(10, 10)
    np.testing.assert_allclose(table[~np.eye(10, dtype=bool)], 20_000 / 90, rtol=0.4)


def test_a_generator_goes_on_and_a_legacy_one_serves_too():
    y = np.arange(500) % 5
    rng = np.random.default_rng(0)
    assert (complement(y, 5, random_state=rng) != complement(y, 5, random_state=rng)).any()
    first, again = (complement(y, 5, random_state=np.random.RandomState(8)) for _ in range(2))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("seed", [-1, "x", 1.5])
def test_seeds_refused(seed):
    with raises(f"`random_state` must be None, a whole number from 0 up, or a numpy generator; got {seed!r}"):
        generator(seed)


def test_labels_are_not_drawn_in_place():
    y = np.array([0, 1, 2])
    complement(y, 3, random_state=0)
    np.testing.assert_array_equal(y, [0, 1, 2])


@pytest.mark.parametrize("n_labels", [0, 3, -1, 1.0, "1", True])
def test_number_of_labels_refused(n_labels):
    with raises(f"`n_labels` must be a whole number from 1 to n_classes - 1 = 2; got {n_labels!r}"):
        complement([0, 1], 3, n_labels=n_labels)


def test_too_many_labels_for_the_transition_matrix_refused():
    q = transition.biased([5, 1, 1, 1])
    with raises("`n_labels` times the largest entry of `transition` must be at most 1, since a class is drawn once; "):
        complement([0, 1], 4, n_labels=2, transition=q)
    with raises("got 2 x 0.714; draw fewer labels"):
        complement([0, 1], 4, n_labels=2, transition=q)


def test_complement_checks_what_it_is_given():
    with raises("`y` must hold classes 0 to 2; got 3 at row 1; pass n_classes=4?"):
        complement([0, 3], 3)
    with raises("`y` must hold whole numbers (class indices); got values such as 'cat'"):
        complement(["cat", "dog"], 3)
    with raises("`n_classes` must be a whole number of at least 2; got 1"):
        complement([0], 1)
    for n_labels in (1, 2):
        with raises("`transition` must be (4, 4), one row per class; got (2, 2)"):
            complement([0], 4, n_labels=n_labels, transition=[[0, 1], [1, 0]])
    with raises("`n_labels` must be less than n_classes - 1 = 2 with a `transition`"):
        complement([0], 3, n_labels=2, transition=transition.noisy(3, 0.1))


# ---- labels written as text -----------------------------------------------------------------------------------

ANIMALS = ["bird", "cat", "dog"]


@pytest.mark.parametrize(
    ("label", "out"),
    [
        ("!cat", [0, 1, 0]),
        ("  !cat ", [0, 1, 0]),
        ("! cat", [0, 1, 0]),
        ("!cat !bird", [1, 1, 0]),
        ("!cat  !cat", [0, 1, 0]),
        ("dog", [1, 1, 0]),
        ("cat|dog", [1, 0, 0]),
        ("cat | dog", [1, 0, 0]),
        ("cat|dog|bird", [0, 0, 0]),
        (["cat", "dog"], [1, 0, 0]),
        (("dog",), [1, 1, 0]),
        ({"cat", "bird"}, [0, 0, 1]),
        (frozenset(["cat"]), [1, 0, 1]),
        ("", [0, 0, 0]),
        ("  ", [0, 0, 0]),
        (None, [0, 0, 0]),
        (float("nan"), [0, 0, 0]),
    ],
)
def test_texts_are_read(label, out):
    row = ruled_out([label], ANIMALS)
    assert row.dtype == bool
    np.testing.assert_array_equal(row, [np.array(out, dtype=bool)])


def test_a_missing_value_of_pandas_says_nothing():
    column = pandas.Series(["!cat", None, "dog"], dtype="string")
    np.testing.assert_array_equal(ruled_out(column, ANIMALS), np.array([[0, 1, 0], [0, 0, 0], [1, 1, 0]], dtype=bool))
    assert is_missing(pandas.NA)
    assert is_missing(np.float32("nan"))
    assert not is_missing(0)
    assert not is_missing("0")


@pytest.mark.parametrize("dtype", [float, np.float32, "Int64", object])
def test_whole_numbers_may_have_gaps(dtype):
    column = pandas.Series([1, None, 2], dtype=dtype)
    np.testing.assert_array_equal(ruled_out(column, [0, 1, 2]), [[1, 0, 1], [0, 0, 0], [1, 1, 0]])
    np.testing.assert_array_equal(ruled_out([{1.0, 2.0}, 0.0], ["0.0", "1", "2"]), [[1, 0, 0], [0, 1, 1]])
    with raises("`labels` must name known classes (0, 1, 2); got '1.5' at row 1"):
        ruled_out([1.0, 1.5], [0, 1, 2])


def test_classes_need_not_be_texts():
    np.testing.assert_array_equal(ruled_out([3, "!1", [1, 2]], [1, 2, 3]), [[1, 1, 0], [1, 0, 0], [0, 0, 1]])


def test_names_that_hold_a_space_or_a_bar():
    classes = ["hot dog", "a|b", "cat"]
    rows = ruled_out(["hot dog", "!hot dog", "a|b", "!a|b", "cat|hot dog"], classes)
    np.testing.assert_array_equal(rows, [[0, 1, 1], [1, 0, 0], [1, 0, 1], [0, 1, 0], [0, 1, 0]])


CITIES = ["Los Angeles", "New York", "York", 'the "Eternal" City', "now!", "A|B"]


@pytest.mark.parametrize(
    ("label", "out"),
    [
        ("!New York !Los Angeles", [1, 1, 0, 0, 0, 0]),
        ("! New York  !York", [0, 1, 1, 0, 0, 0]),
        ('!"New York" !"Los Angeles"', [1, 1, 0, 0, 0, 0]),
        ('!New York !"Los Angeles"', [1, 1, 0, 0, 0, 0]),
        ('!the "Eternal" City !York', [0, 0, 1, 1, 0, 0]),
        ('!"the ""Eternal"" City" !York', [0, 0, 1, 1, 0, 0]),
        ("!now! !York", [0, 0, 1, 0, 1, 0]),
        ("New York|York", [1, 0, 0, 1, 1, 1]),
        ('"New York" | "A|B"', [1, 0, 1, 1, 1, 0]),
        ("!A|B !York", [0, 0, 1, 0, 0, 1]),
    ],
)
def test_names_of_several_words(label, out):
    np.testing.assert_array_equal(ruled_out([label], CITIES), [np.array(out, dtype=bool)])


@pytest.mark.parametrize(
    ("label", "classes", "whole", "each"),
    [
        ("!a !b", ["a", "b", "a !b", "c"], '!"a !b"', '!"a" !"b"'),
        ("a|b", ["a", "b", "a|b"], '"a|b"', '"a"|"b"'),
        ("!a", ["a", "!a", "b"], '"!a"', '!"a"'),
        ('"a"', ["a", '"a"', "b"], '"""a"""', "a"),
    ],
)
def test_a_text_with_two_readings_is_refused(label, classes, whole, each):
    with raises(
        f"`labels` must be clear; {label!r} at row 1 can be read in two ways, as the classes are named; "
        f"write {whole} if that is the class, or else put each name in quotes"
    ):
        ruled_out([None, label], classes)
    one, other = ruled_out([whole, each], classes)
    assert one.any()
    assert other.any()
    assert (one != other).any()


def test_names_are_found_in_labels():
    assert named_classes(["!cat", None, "dog|emu", ("owl", 3), 7, "! hot dog", '!"a b" !c']) == {
        *("cat", "dog", "emu", "owl", "3", "7", "hot dog", "a b", "c")
    }
    for labels in (["!New York !Los Angeles"], ["!York", "!New York", "!New"]):
        with raises(
            f"`labels` must be clear; {labels[-1 if len(labels) == 1 else 1]!r} at row {len(labels) // 2} "
            "names 'New York', or a mark is missing in it; write !\"New York\" if it is one class, or name all classes"
        ):
            named_classes(labels)


def test_equal_labels_of_different_types_are_not_confused():
    rows = ruled_out(["1", ["1"], "['1']", 1], ["1", "['1']", "2"])
    np.testing.assert_array_equal(rows, [[0, 1, 1], [0, 1, 1], [1, 0, 1], [0, 1, 1]])


def test_rows_do_not_share_memory():
    rows = ruled_out(["!cat", "!cat"], ANIMALS)
    rows[0] = False
    np.testing.assert_array_equal(rows[1], [False, True, False])


def test_no_labels_make_an_empty_matrix():
    assert ruled_out([], ANIMALS).shape == (0, 3)


def test_reading_undoes_writing():
    ruled = complement(np.arange(300) % 6, 6, n_labels=3, random_state=0)
    names = ["a", "b", "c", "d", "e", "f"]
    excluded = [" ".join("!" + names[k] for k in np.flatnonzero(row)) for row in ruled]
    candidates = ["|".join(names[k] for k in np.flatnonzero(~row)) for row in ruled]
    np.testing.assert_array_equal(ruled_out(excluded, names), ruled)
    np.testing.assert_array_equal(ruled_out(candidates, names), ruled)


@pytest.mark.parametrize(
    ("given", "classes", "words"),
    [
        (["!cat"], ["cat", "dog", "cat"], "`classes` must be distinct; got 'cat' more than once"),
        (["!1"], [1, "1"], "`classes` must be distinct; got '1' more than once"),
        (["!cat"], ["cat"], "`classes` must hold at least 2 classes; got 1"),
        (["!cat"], None, "`classes` must be a list of class values; got None"),
        (["!c"], "cd", "`classes` must be a list of class values; got 'cd'"),
        (["!c"], {"c"}, "`classes` must be a list of class values; got {'c'}"),
        ("!cat", ANIMALS, "`labels` must be a sequence of labels; got one text; write [text]"),
        (None, ANIMALS, "`labels` must be a sequence of labels; got None"),
        (pandas.DataFrame({"cat": ["!cat"]}), ANIMALS, "`labels` must be a sequence of labels; got shape (1, 1)"),
        (["dog", "!cow"], ANIMALS, "`labels` must name known classes (bird, cat, dog); got 'cow' at row 1"),
        (["cow"], ANIMALS, "`labels` must name known classes (bird, cat, dog); got 'cow' at row 0"),
        (["cat|cow"], ANIMALS, "`labels` must name known classes (bird, cat, dog); got 'cow' at row 0"),
        ([["cat", "cow"]], ANIMALS, "`labels` must name known classes (bird, cat, dog); got 'cow' at row 0"),
        (["x"], list("abcdefghij"), "`labels` must name known classes (a, b, c, d, e, f, g, h, ...); got 'x' at row 0"),
        (
            ["dog", "!cat dog"],
            ANIMALS,
            "`labels` must not mix 'is' and 'is not' in one text; got '!cat dog' at row 1; "
            "write !class for each class that is ruled out",
        ),
        (
            ["!cat !dog !bird"],
            ANIMALS,
            "`labels` must leave at least one class possible; '!cat !dog !bird' at row 0 rules out all",
        ),
        ([[]], ANIMALS, "`labels` must leave at least one class possible; [] at row 0 rules out all"),
    ],
)
def test_texts_refused(given, classes, words):
    with raises(words):
        ruled_out(given, classes)


# ---- how likely each class makes a label ------------------------------------------------------------------------


def test_a_uniform_label_rules_out_its_class_and_says_nothing_of_others():
    none, never = 0.0, -torch.inf
    singles = log_likelihoods(torch.tensor([2, 0]), 3)
    assert singles.tolist() == [[none, none, never], [never, none, none]]
    sets = torch.tensor([[True, False, True], [False, False, False]])
    assert log_likelihoods(sets, 3).tolist() == [[never, none, never], [none, none, none]]
    assert torch.equal(log_likelihoods(torch.eye(3, dtype=torch.bool)[[2, 0]], 3), singles)


def test_by_a_known_matrix_labels_count_as_drawn_one_by_one():
    q = torch.tensor(
        [[0.0, 0.5, 0.5, 0.0], [0.2, 0.0, 0.3, 0.5], [0.4, 0.3, 0.0, 0.3], [0.1, 0.1, 0.8, 0.0]], dtype=torch.float32
    )
    log_q = q.log().T.contiguous()
    torch.testing.assert_close(log_likelihoods(torch.tensor([3, 1]), 4, log_q).exp(), q[:, [3, 1]].T)
    rows = torch.tensor(
        [
            [False, False, False, True],
            [True, True, False, False],
            [True, False, False, True],
            [False, True, True, True],  # an ordinary label, which does not pass through Q
            [False, False, False, False],
        ]
    )
    expected = [q[:, 3], q[:, 0] * q[:, 1], q[:, 0] * q[:, 3], torch.tensor([1.0, 0, 0, 0]), torch.ones(4)]
    torch.testing.assert_close(log_likelihoods(rows, 4, log_q).exp(), torch.stack(expected))
    one_each = torch.eye(4).roll(1, dims=1)  # no class ever names two, so two contradict each other and say nothing
    both = torch.tensor([[True, True, False, False]])
    assert torch.equal(log_likelihoods(both, 4, one_each.log().T), torch.zeros(1, 4))
    assert log_likelihoods(rows.expand(2, 5, 4), 4, log_q).shape == (2, 5, 4)
