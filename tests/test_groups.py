"""Several rows about one example: what has seen one of them judges none of them."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import raises
from naysayer import BoostedClassifier, ComplementaryClassifier, complement, transition
from naysayer.measure.sample import take

K, N, TIMES = 3, 60, 6
LEARN_BY_HEART = ["forward", "forest", "neighbours", "discriminant"]
pytestmark = [pytest.mark.usefixtures("few_trees"), pytest.mark.filterwarnings("ignore:nothing was learned")]


def noise(seed=0):
    """Examples that say nothing of their classes, each with six answers: whoever has seen one knows its class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, N).repeat(TIMES)
    X = rng.normal(size=(N, 4)).repeat(TIMES, axis=0)
    return X, complement(y, K, random_state=seed), np.arange(N).repeat(TIMES)


def fit(method, groups, **options):
    X, y_bar, _ = noise()
    options = {"lr": 0.03, "max_epochs": 60, "n_seeds": 6, "device": "cpu", "random_state": 0} | options
    return ComplementaryClassifier(method, **options).fit(X, y_bar, groups=groups)


@pytest.mark.parametrize("method", LEARN_BY_HEART)
def test_what_has_seen_an_example_seems_to_know_it(method):
    """So that the next comparison can fail."""
    assert fit(method, None).estimated_accuracy_.estimate > 0.6


@pytest.mark.parametrize("method", [*LEARN_BY_HEART, "linear", "boosting"])
def test_an_estimate_is_about_examples_that_nobody_has_seen(method):
    model = fit(method, noise()[2])
    estimate, low, high = model.estimated_accuracy_
    assert low < 1 / K < high
    assert estimate < 0.5
    assert not model.learned_


def test_halves_that_choose_an_epoch_and_judge_it_share_no_example():
    model = fit("forward", noise()[2], patience=5)
    assert model.estimated_accuracy_.low < 1 / K


def test_names_of_groups_may_be_anything_and_may_be_missing():
    groups, quick = noise()[2], {"max_epochs": 2, "n_seeds": 2}
    numbered, named, alone = (
        fit("linear", given, **quick).estimated_accuracy_ for given in (groups, [f"photo {g}" for g in groups], None)
    )
    assert numbered == named != alone
    for each in (np.arange(N * TIMES), [None] * N * TIMES):
        assert fit("linear", each, **quick).estimated_accuracy_ == alone


@pytest.mark.parametrize("right", [1.0, 0.8])
def test_rows_that_are_right_together_count_as_one(right):
    """Also where all are right, so that nothing shows that they go together."""
    rng = np.random.default_rng(0)
    y, groups = rng.integers(0, K, N), np.arange(N).repeat(TIMES)
    labels = ~np.eye(K, dtype=bool)[y]  # what each is: ordinary labels
    predicted = np.where(np.arange(N) < right * N, y, (y + 1) % K)
    once, _ = take(labels, K)
    often, _ = take(labels.repeat(TIMES, axis=0), K, sample_weight=np.full(N * TIMES, 2.0))
    _, low, high = once.accuracy_bounds(predicted, 0.025)
    found = often.accuracy_bounds(predicted.repeat(TIMES), 0.025, groups=groups)
    assert found.low <= low + 1e-6 < high - 1e-6 <= found.high
    assert found.high - found.low < 1.1 * (high - low)
    assert often.together(predicted.repeat(TIMES), groups)[0] == pytest.approx(N)


def test_groups_widen_the_interval_of_an_estimated_matrix():
    y = np.arange(K).repeat(200)
    q = transition.estimate(complement(y, K, random_state=1), y, K)
    X, y_bar, groups = noise()
    sample, _ = take(y_bar, K, q)
    alone, together = (sample.accuracy_bounds(np.zeros(len(X), dtype=int), 0.025, groups=of) for of in (None, groups))
    assert together.low < alone.low < alone.estimate == together.estimate < alone.high < together.high


@pytest.mark.parametrize(
    ("model", "n_judges"),
    [
        (ComplementaryClassifier("linear", max_epochs=20, n_seeds=5, device="cpu", random_state=0), 20),
        (BoostedClassifier(20, validation_fraction=0.5, random_state=0), 5),
    ],
    ids=["networks", "boosting"],
)
def test_an_accuracy_of_few_examples_is_no_surer_than_these_allow(model, n_judges):
    """Twenty examples that are all right are no 600."""
    rng = np.random.default_rng(0)
    y = np.arange(20) % 4
    X = (rng.normal(size=(20, 4)) / 10 + 5 * np.eye(4)[y]).repeat(30, axis=0)
    model.fit(X, ~np.eye(4, dtype=bool)[y.repeat(30)], groups=np.arange(20).repeat(30))
    estimate, low, _ = model.estimated_accuracy_
    assert estimate >= 0.8
    assert low <= 0.025 ** (1 / n_judges) + 1e-6


@pytest.mark.parametrize("method", ["forest", "linear"])
def test_a_model_of_groups_comes_back_from_a_file(method, tmp_path):
    model = fit(method, noise()[2])
    model.save(tmp_path)
    X = noise(1)[0]
    np.testing.assert_array_equal(ComplementaryClassifier.load(tmp_path).predict_proba(X), model.predict_proba(X))


def test_groups_that_leave_nothing_to_learn_from_are_refused():
    groups = np.repeat([0, 1], N * TIMES // 2)
    with raises("`groups` must leave rows to learn from when some groups are held out; got too few, or too large ones"):
        fit("linear", np.arange(N * TIMES) % 2, validation_fraction=0.6)
    assert fit("linear", groups, n_seeds=2, validation_fraction=0.5).estimated_accuracy_.low < 1 / K


def test_boosting_is_left_out_where_all_rows_but_those_held_out_are_alike():
    groups = np.arange(3).repeat(20)  # where some of two are held out, the third is left
    auto = ComplementaryClassifier(n_seeds=5, max_epochs=1, device="cpu", random_state=0)
    auto.fit(np.eye(3)[groups], complement(groups, K, random_state=0), groups=groups)
    assert "boosting" not in {trial["method"] for trial in auto.trials_}


def test_boosted_trees_hold_out_examples_too():
    X, y_bar, groups = noise()
    told = {name: [] for name in ("alone", "together")}
    for seed in range(5):
        for name, given in (("alone", None), ("together", groups)):
            model = BoostedClassifier(100, num_leaves=61, patience=100, random_state=seed).fit(X, y_bar, groups=given)
            told[name].append(model.estimated_accuracy_.estimate)
    assert np.mean(told["alone"]) > 0.6
    assert np.mean(told["together"]) < 0.5
    with raises("`groups` must leave rows to learn from when some are held out; leave it out"):
        BoostedClassifier(validation_fraction=0.6).fit(X, y_bar, groups=np.arange(N * TIMES) % 2)


# ---- the command ----------------------------------------------------------------------------------------------------


def write_answers(folder, column):
    X, y_bar, groups = noise()
    lines = [",".join([*map(str, x), f"item {g}", f"!{'abc'[k]}"]) for x, k, g in zip(X, y_bar, groups)]
    (folder / "answers.csv").write_text("\n".join([f"x0,x1,x2,x3,{column},answer", *lines]), encoding="utf8")
    return folder / "answers.csv"


def test_the_command_holds_out_what_is_about_one_example(naysayer, tmp_path):
    table = write_answers(tmp_path, "photo")
    asked = ["train", table, "--label", "answer", "--method", "forest", "--device", "cpu", "--json", "--out"]
    alone = naysayer(*asked, tmp_path / "alone", "--drop", "photo").json
    assert alone["accuracy"]["low"] > 1 / K
    done = naysayer(*asked, tmp_path / "model", "--group", "photo")
    assert done.json["accuracy"]["low"] < 1 / K
    assert "360 rows are about 60 of 'photo'; those of one are held out together" in done.json["notes"]
    assert "photo" not in done.json["columns"]


def test_rows_with_the_same_text_are_about_one_example(naysayer, tmp_path):
    texts = [f"the {word} was {what}" for word in ("plot", "cast", "sound", "end") for what in ("fine", "dull", "long")]
    for some, told in ((texts, True), (texts[:2], False)):  # with two texts nothing would be left to learn from
        lines = [f"{text},!{'abc'[i % 3]}" for i, text in enumerate(some * (36 // len(some)))]
        (tmp_path / "said.csv").write_text("\n".join(["review,answer", *lines]), encoding="utf8")
        asked = ["train", tmp_path / "said.csv", "--label", "answer", "--method", "linear", "--epochs", 2, "--json"]
        done = naysayer(*asked, "--text", "review", "--device", "cpu", "--force", "--out", tmp_path / "model")
        said = f"36 rows are about {len(some)} of 'review'; those of one are held out together"
        assert (said in done.json["notes"]) == told


def test_a_group_that_cannot_be_is_told_in_one_line(naysayer, tmp_path):
    table = write_answers(tmp_path, "photo")
    asked = ["train", table, "--label", "answer", "--out", tmp_path / "model"]
    for more, words in (
        (["--group", "foto"], "the table must have a column 'foto' (did you mean 'photo'?)"),
        (["--group", "photo", "--memory", "16"], "--group needs all rows in memory; leave it out"),
        (["--group", "answer"], "a column must have one use; 'answer' is the label"),
    ):
        done = naysayer(*asked, *more)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert words in done.err
