"""The check-up: sound labels pass, each fault is found, and the report is what JSON can hold."""

from __future__ import annotations

import json

import numpy as np
import pytest

from helpers import raises
from naysayer import complement, metrics, transition
from naysayer.measure.doctor import ClassRow, Finding, examine, odd_names

EYE = np.eye(5, dtype=bool)


def truth(n, seed=0, prior=(0.4, 0.3, 0.15, 0.1, 0.05)):
    return np.random.default_rng([seed, 1]).choice(len(prior), size=n, p=prior)


def mixed(y_ordinary, y_bar):
    """Ordinary labels, then complementary ones, as a ruled-out matrix."""
    return np.concatenate([~EYE[y_ordinary], EYE[y_bar]])


def answers(y, asked):
    """What "is it c?" gets: yes names the class, no rules one out."""
    return np.where((asked == y)[:, None], ~EYE[y], EYE[asked])


def texts(report, level):
    return [finding.text for finding in report.findings if finding.level == level]


def test_uniform_labels_are_plausible():
    report = examine(complement(truth(2000), 5, random_state=0), 5)
    assert {finding.level for finding in report.findings} == {"ok", "note"}
    assert report.kinds == {"complementary": 2000, "several": 0, "ordinary": 0, "silent": 0}
    assert report.advice == [
        "Uniform labels are plausible: the defaults fit (transition=None), if chance chose the classes.",
        'Train with method "auto": networks and trees, weighted by labels that they did not see.',
    ]


def alarms(draw, trials):
    """How often labels get a problem."""
    return np.mean([len(texts(examine(*draw(seed)), "problem")) > 0 for seed in range(trials)])


def rarely(trials):
    """At most 5%, give or take chance."""
    return 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5


def various(y, n_labels, seed):
    """Labels of 7 classes, as a ruled-out matrix."""
    drawn = complement(y, 7, n_labels=n_labels, random_state=seed)
    return np.eye(7, dtype=bool)[drawn] if n_labels == 1 else drawn


def test_sound_labels_rarely_alarm():
    """Also where all examples are of one class, so that the others are ruled out as often as can be."""
    assert alarms(lambda seed: (complement(truth(300, seed), 5, random_state=seed), 5), 100) == 0
    one = np.zeros(300, dtype=int)
    assert alarms(lambda seed: (complement(one, 3, random_state=seed), 3), 200) <= rarely(200)
    assert alarms(lambda seed: (various(one, 2, seed), 7), 100) <= rarely(100)
    assert alarms(lambda seed: (np.concatenate([various(one, s, seed) for s in (1, 4)]), 7), 30) <= rarely(30)


@pytest.mark.parametrize(("n_ordinary", "n_complementary"), [(20, 400), (200, 200)])
def test_sound_mixtures_rarely_alarm(n_ordinary, n_complementary):
    def draw(seed):
        y_bar = complement(truth(n_complementary, seed + 1000), 5, random_state=seed)
        return (mixed(truth(n_ordinary, seed), y_bar),)

    assert alarms(draw, 60) <= rarely(60)


def test_sound_answers_rarely_alarm():
    assert alarms(lambda seed: (answers(truth(300, seed), truth(300, seed + 1000, [0.2] * 5)),), 60) <= rarely(60)


def test_alarms_can_be_many():
    q = transition.biased([4, 1, 1, 1, 1])
    assert alarms(lambda seed: (complement(truth(600, seed), 5, transition=q, random_state=seed), 5), 50) > 0.9


def test_a_class_ruled_out_too_often_is_named():
    y_bar = np.repeat([0, 1, 2, 3], [450, 250, 200, 100])
    report = examine(y_bar, class_names=["cat", "dog", "emu", "fox"])
    assert texts(report, "problem") == [
        "'cat' is ruled out in 45% of the complementary labels; uniform ones allow 33.3% at most (p < 1e-12)."
    ]
    assert "transition.biased" in report.advice[0]
    assert "transition.estimate" in report.advice[0]
    assert not any("plausible" in sentence for sentence in report.advice)


def test_all_classes_ruled_out_too_often_are_named():
    (text,) = texts(examine(np.repeat([3, 0, 1, 2, 4], [420, 380, 100, 80, 20])), "problem")
    assert text.startswith("'3' is ruled out in 42%")
    assert text.endswith(" Too often as well: '0'.")


def test_biased_sets_are_found():
    q = transition.biased([3, 1, 1, 1, 1])
    y_bar = complement(truth(2000, prior=[0.2] * 5), 5, n_labels=2, random_state=0)
    assert not texts(examine(y_bar), "problem")
    rng = np.random.default_rng(0)
    y_bar = np.array([EYE[rng.choice(5, 2, replace=False, p=q[y])].any(axis=0) for y in truth(2000, prior=[0.2] * 5)])
    report = examine(y_bar)
    assert report.kinds["several"] == 2000
    (text,) = texts(report, "problem")
    assert "uniform ones allow 50% at most" in text


def test_a_small_excess_is_chance():
    report = examine(np.repeat([0, 1, 2], [54, 26, 20]), 3)
    assert texts(report, "ok") == [
        "No class is ruled out significantly more often than uniform labels allow: 54% at most ('0'), the limit is 50%."
    ]


def test_confidence_sets_the_level():
    y_bar = np.repeat([0, 1, 2], [60, 25, 15])
    assert texts(examine(y_bar, 3, confidence=0.9), "problem")
    assert not texts(examine(y_bar, 3, confidence=0.99), "problem")


def test_priors_cover_the_truth():
    prior = [0.4, 0.3, 0.15, 0.1, 0.05]
    held = np.zeros(5)
    for seed in range(100):
        report = examine(complement(truth(300, seed), 5, random_state=seed), 5)
        held += [row.low <= p <= row.high for row, p in zip(report.classes, prior)]
    assert (held >= 100 * (0.95 - 3 * (0.95 * 0.05 / 100) ** 0.5)).all()


def test_classes_are_counted_by_kind():
    y_bar = np.array([[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 0, 1], [0, 1, 1, 1], [0, 0, 0, 0]], dtype=bool)
    report = examine(y_bar, class_names=["a", "b", "c", "d"])
    assert (report.n_rows, report.n_classes) == (6, 4)
    assert report.kinds == {"complementary": 2, "several": 1, "ordinary": 2, "silent": 1}
    assert [(row.name, row.ruled_out, row.named) for row in report.classes] == [
        ("a", 2, 1),
        ("b", 1, 0),
        ("c", 1, 1),
        ("d", 0, 0),
    ]
    estimate, low, high = metrics.class_prior_interval(y_bar)
    for k, row in enumerate(report.classes):
        assert (row.prior, row.low, row.high) == pytest.approx((estimate[k], low[k], high[k]))
    assert "1 of 6 rows say nothing; they count in no estimate." in texts(report, "note")


def test_both_encodings_give_one_report():
    y_bar = complement(truth(500), 5, random_state=0)
    one, other = examine(y_bar, 5), examine(EYE[y_bar])
    assert [row.name for row in one.classes] == [row.name for row in other.classes]
    assert (one.kinds, one.findings, one.advice) == (other.kinds, other.findings, other.advice)
    np.testing.assert_allclose([row.prior for row in one.classes], [row.prior for row in other.classes])


def test_renamed_classes_get_the_same_report():
    y_bar, order = np.repeat([0, 1, 2, 3], [450, 250, 200, 100]), np.array([2, 0, 3, 1])
    one = examine(y_bar, class_names=["a", "b", "c", "d"])
    other = examine(order[y_bar], class_names=["b", "d", "a", "c"])
    assert one.findings == other.findings
    assert sorted(one.classes, key=lambda row: row.name) == sorted(other.classes, key=lambda row: row.name)


def test_disagreeing_kinds_are_found():
    ordinary = truth(600, prior=[0.2] * 5)
    y_bar = complement(truth(600, 1, [0.8, 0.05, 0.05, 0.05, 0.05]), 5, random_state=0)
    report = examine(mixed(ordinary, y_bar))
    (text,) = texts(report, "problem")
    assert text.startswith("'0' is ")
    assert text.endswith("the former are not uniform, or the examples are not of one population.")
    assert any("alpha" in sentence for sentence in report.advice)
    assert "transition.estimate" in report.advice[0]


def test_agreeing_kinds_are_noted():
    report = examine(mixed(truth(300), complement(truth(300, 1), 5, random_state=0)))
    assert "Complementary and ordinary labels agree on how common each class may be." in texts(report, "ok")
    assert not texts(report, "problem")


def test_the_share_of_yes_is_noted():
    y = truth(2000)
    even = examine(answers(y, truth(2000, 1, [0.2] * 5)))
    (note,) = (text for text in texts(even, "note") if "ordinary" in text)
    assert 'questions "is it ...?" about uniform classes get 20% yes. The labels may be such answers.' in note
    uneven = examine(answers(y, truth(2000, 1, [0.6, 0.1, 0.1, 0.1, 0.1])))
    (note,) = (text for text in texts(uneven, "note") if "ordinary" in text)
    assert note.endswith(
        "If these labels are such answers, some classes were asked about more often; otherwise ignore this."
    )
    assert texts(uneven, "problem")


def test_sets_are_no_answers_to_one_question():
    y_bar = np.concatenate([complement(truth(100), 5, n_labels=2, random_state=0), ~EYE[truth(20)]])
    assert not any("questions" in finding.text for finding in examine(y_bar).findings)


def test_a_class_never_ruled_out_is_found():
    y_bar = complement(truth(500, prior=[0.25] * 4), 4, random_state=0)
    report = examine(y_bar, class_names=["cat", "dog", "emu", "fox", "gnu"])
    assert texts(report, "warning") == [
        "Never ruled out, as if every example were one: 'gnu' (probability < 1e-12 if all classes are equally common). "
        "Was every class asked about?"
    ]
    assert report.classes[4].prior == 1
    assert "Ask about every class: one that is never ruled out cannot be learned ('gnu')." in report.advice


def test_a_class_never_ruled_out_by_few_labels_may_be_chance():
    report = examine([0, 1, 2, 3] * 3, n_classes=8)
    (note,) = (text for text in texts(report, "note") if "Never" in text)
    assert note == (
        "Never ruled out: '4', '5', '6', '7'; that may be chance (probability = 0.2 if all classes are equally common)."
    )
    assert report.advice == ["Collect more labels before you train."]


def test_many_names_are_cut_short():
    report = examine([0, 1, 2] * 200, n_classes=12)
    assert "'3', '4', '5', '6', '7' and 4 more" in texts(report, "warning")[0]


def test_few_labels_are_too_few():
    assert texts(examine(complement(truth(39), 5, random_state=0), 5), "warning") == [
        "39 labels are too few to learn 5 classes; 40 are a start."
    ]
    assert not texts(examine(complement(truth(40), 5, random_state=0), 5), "warning")


def test_two_classes_are_ordinary():
    one = examine([0, 0, 1] * 20, class_names=["yes", "no"])
    other = examine(np.eye(2, dtype=bool)[[0, 0, 1] * 20], class_names=["yes", "no"])
    assert one == other
    assert one.kinds == {"complementary": 0, "several": 0, "ordinary": 60, "silent": 0}
    assert [(row.ruled_out, row.named) for row in one.classes] == [(0, 20), (0, 40)]
    assert one.findings[0] == Finding("note", "With two classes, not 'yes' is 'no': every label is an ordinary one.")
    assert one.advice == ["All labels are ordinary ones: any classifier will do."]


def test_ordinary_labels_alone_need_no_library():
    report = examine(~EYE[truth(1000)])
    assert [row.named for row in report.classes] == np.bincount(truth(1000), minlength=5).tolist()
    assert report.findings == [
        Finding("note", "A fifth of these labels (200) measures an accuracy of 90% to within 4.4 points.")
    ]
    assert report.advice == ["All labels are ordinary ones: any classifier will do."]


def test_the_margin_is_said():
    single = examine(complement(truth(1000), 5, random_state=0), 5)
    assert single.findings[-1].text == (
        "A fifth of these labels (200) measures an accuracy of 90% to within 9.8 points; 5 points take 685 labels."
    )
    several = examine(complement(truth(1000), 5, n_labels=2, random_state=0), 5)
    assert several.findings[-1].text == (
        "A fifth of these labels (200) measures an accuracy of 90% to within 9.8 points at most; "
        "5 points take 685 labels at most."
    )


def test_assumed_classes_are_said():
    y_bar = complement(truth(200), 5, random_state=0)
    assumed = Finding("note", "5 classes are assumed, as 4 is the largest label; pass n_classes if there are more.")
    assert examine(y_bar).findings[0] == assumed
    for known in (examine(y_bar, 5), examine(y_bar, class_names="abcde"), examine(EYE[y_bar])):
        assert assumed not in known.findings


def test_report_goes_through_json():
    report = examine(mixed(truth(50), complement(truth(300), 5, random_state=0)), class_names=range(1990, 1995))
    state = report.to_dict()
    assert json.loads(json.dumps(state, allow_nan=False)) == state
    assert list(state) == ["n_rows", "n_classes", "kinds", "classes", "findings", "advice"]
    assert ClassRow(**state["classes"][0]) == report.classes[0]
    assert state["classes"][0]["name"] == "1990"
    assert [Finding(**finding) for finding in state["findings"]] == report.findings


def test_bad_arguments_are_named():
    with raises("`class_names` must name each of 3 classes; got 2 names"):
        examine([0, 1, 2], n_classes=3, class_names=["a", "b"])
    with raises("`y_bar` must hold classes 0 to 1; got 2 at row 2; pass n_classes=3?"):
        examine([0, 1, 2], class_names=["a", "b"])
    with raises("each row of `y_bar` must leave a class possible; row 1 rules out all 3; drop that row"):
        examine([[True, False, False], [True, True, True]])
    with raises("`y_bar` must rule out a class in at least one row; got only rows that rule out nothing"):
        examine(np.zeros((4, 3), dtype=bool))
    with raises("`confidence` must lie between 0 and 1, as 0.95 does; got 95"):
        examine([0, 1, 2], confidence=95)


@pytest.mark.parametrize(
    ("names", "n", "words"),
    [
        (["Cat", "cat", "dog"], 300, "Two classes may be one: 'Cat' and 'cat' differ only in case or spaces."),
        (["New York", "newyork", "dog"], 300, "Two classes may be one: 'New York' and 'newyork' differ only"),
        ([str(i) for i in range(30)], 60, "The classes are 30 numbers, from 0 to 29: a quantity, not classes?"),
        ([f"{i / 4}" for i in range(12)], 900, "The classes are 12 numbers, from 0 to 2.75: a quantity, not classes?"),
    ],
)
def test_names_that_look_wrong_are_told(names, n, words):
    report = examine(np.arange(n) % len(names), class_names=names)
    assert report.findings[0].level == "warning"
    assert report.findings[0].text.startswith(words)


@pytest.mark.parametrize(
    ("names", "n"), [(["cat", "dog", "emu"], 300), ([str(i) for i in range(30)], 61), ([str(i) for i in range(10)], 9)]
)
def test_names_that_look_right_are_not(names, n):
    assert list(odd_names(names, n)) == []


BIASED = transition.biased([6, 3, 2, 1])


def test_a_known_transition_is_taken_into_account():
    y_bar = complement(np.arange(4000) % 4, 4, transition=BIASED, random_state=0)
    assert "problem" in {finding.level for finding in examine(y_bar).findings}
    report = examine(y_bar, transition=BIASED)
    assert Finding("ok", "Each class is ruled out about as often as the transition matrix allows.") in report.findings
    assert {finding.level for finding in report.findings} == {"note", "ok"}
    assert report.advice[0] == "Train with this transition matrix."
    bounds = np.transpose(metrics.class_prior_interval(y_bar, 4, transition=BIASED))
    np.testing.assert_allclose([[row.prior, row.low, row.high] for row in report.classes], bounds)
    assert all(abs(row.prior - 0.25) < 0.1 for row in report.classes)


def test_labels_that_contradict_a_transition_are_found():
    uniform = complement(np.arange(4000) % 4, 4, random_state=0)
    report = examine(uniform, class_names=["cat", "dog", "emu", "owl"], transition=BIASED)
    found = next(finding.text for finding in report.findings if finding.level == "problem")
    assert found.startswith("'owl' is ruled out in ")
    assert "% of the complementary labels; the transition matrix allows 0% to 16.7% (p < 1e-12)." in found
    assert report.advice[0] == "The transition matrix does not fit: estimate it anew."
    mixed = np.arange(4) != np.zeros((500, 1), dtype=int)  # "is 0", all of them
    both = np.concatenate(
        [mixed, complement(np.ones(2000, dtype=int), 4, transition=BIASED, random_state=0)[:, None] == np.arange(4)]
    )
    report = examine(both, transition=BIASED)
    assert any("the former are not of that transition matrix" in finding.text for finding in report.findings)


def test_several_labels_and_two_classes_go_with_a_transition():
    noisy = transition.noisy(2, 0.1)
    y_bar = complement(np.arange(400) % 2, 2, transition=noisy, random_state=0)
    report = examine(y_bar, transition=noisy)
    assert report.kinds == {"complementary": 400, "several": 0, "ordinary": 0, "silent": 0}
    assert not any("two classes" in finding.text for finding in report.findings)
    sets = complement(np.arange(300) % 4, 4, n_labels=2, random_state=0)
    sets[:200] = complement(np.arange(200) % 4, 4, transition=BIASED, random_state=1)[:, None] == np.arange(4)
    assert any(
        finding.text.startswith("Each class is ruled out about as often")
        for finding in examine(sets, transition=BIASED).findings
    )
    with raises("`transition` must be (4, 4), one row per class; got (2, 2)"):
        examine(sets, transition=noisy)


def with_estimate(seed, true_q=None, confidence=0.95):
    """Both kinds of label, and a matrix estimated from 200 other examples of BIASED labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(4, size=200)
    q = transition.estimate(complement(y, 4, transition=BIASED, random_state=rng), y, 4, model="both")
    y = rng.integers(4, size=20_000)
    y_bar = complement(y, 4, transition=BIASED if true_q is None else true_q, random_state=rng)
    eye = np.eye(4, dtype=bool)
    return np.concatenate([eye[y_bar], ~eye[rng.integers(4, size=5000)]]), 4, None, confidence, q


def test_an_estimated_transition_may_be_as_far_off_as_its_pairs_allow():
    assert alarms(with_estimate, 10) <= rarely(10)
    assert alarms(lambda seed: (*with_estimate(seed)[:-1], np.asarray(with_estimate(seed)[-1])), 5) > 0.5
    assert not texts(examine(*with_estimate(0, confidence=1 - 1e-12)), "problem")


def test_an_estimated_transition_of_other_labels_is_found():
    report = examine(*with_estimate(0, transition.biased([1, 2, 3, 6])))
    assert any("the transition matrix allows" in text for text in texts(report, "problem"))
    assert report.advice[0] == "The transition matrix does not fit: estimate it anew."
