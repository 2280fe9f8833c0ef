"""The demo: every method with every number of answers, numbers that agree with each other, and a picture."""

from __future__ import annotations

import struct
import warnings

import numpy as np
import pytest

from helpers import raises
from naysayer import metrics
from naysayer.data import datasets
from naysayer.engine import population as training
from naysayer.experiments import demo
from naysayer.objectives import OBJECTIVES

EPOCHS = 2


@pytest.fixture(scope="module")
def trials():
    return demo.run(epochs=EPOCHS, show=False, device="cpu")


def test_every_method_is_tried_with_every_number_of_answers(trials):
    assert set(demo.METHODS) == set(demo.COLOURS) <= set(OBJECTIVES)
    pairs = [(trial.method, trial.n_answers) for trial in trials]
    assert sorted(pairs) == sorted((method, n) for method in demo.METHODS for n in demo.ANSWERS)


def test_every_number_is_finite_and_agrees_with_the_curve(trials):
    for trial in trials:
        assert trial.curve.shape == (EPOCHS, demo.SEEDS)
        assert ((trial.curve >= 0) & (trial.curve <= 1)).all()
        assert trial.true_accuracy in trial.curve.mean(axis=1)  # that of the chosen epoch
        assert trial.true_of_estimated in trial.curve[:, 0]
        estimate, low, high = trial.estimated
        assert np.isfinite([estimate, low, high]).all()
        assert low <= estimate <= high


def test_more_answers_are_learned_better_and_the_estimates_hold_the_truth(trials):
    by = {(trial.method, trial.n_answers): trial for trial in trials}
    for method in demo.METHODS:
        assert by[method, 9].true_accuracy > by[method, 1].true_accuracy
        assert by[method, 9].true_accuracy > 0.6
    covered = [low <= trial.true_of_estimated <= high for trial in trials for _, low, high in [trial.estimated]]
    assert np.mean(covered) > 0.7  # 95% intervals, but all from one draw of labels


def test_the_same_seed_gives_the_same_demo_and_another_another(monkeypatch):
    monkeypatch.setattr(demo, "ANSWERS", (3,))
    monkeypatch.setattr(demo, "METHODS", {"forward": "Forward"})
    (one,), (same,), (other,) = (demo.run(epochs=1, seed=seed, show=False) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.curve, same.curve)
    assert (one.true_accuracy, one.estimated) == (same.true_accuracy, same.estimated)
    assert not np.array_equal(one.curve, other.curve)


def test_the_estimate_never_sees_a_true_label(monkeypatch):
    """Every accuracy is estimated from labels that are wrong about each image, as complementary ones must be."""
    y_test = datasets.load("digits").y_test
    seen = []
    interval = metrics.accuracy_interval

    def spy(y_bar, predicted, n_classes):
        seen.append(np.asarray(y_bar))
        return interval(y_bar, predicted, n_classes)

    monkeypatch.setattr(demo.metrics, "accuracy_interval", spy)
    monkeypatch.setattr(demo, "ANSWERS", (1,))
    demo.run(epochs=1, show=False)
    assert len(seen) == len(demo.METHODS)
    for ruled_out in seen:
        assert (ruled_out.sum(axis=1) == demo.TEST_ANSWERS).all()
        assert not ruled_out[np.arange(len(y_test)), y_test].any()


def test_an_interruption_ends_it(monkeypatch):
    def press(self, *arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(training.Stack, "epoch", press)
    with pytest.raises(KeyboardInterrupt):
        demo.run(epochs=1, show=False)


@pytest.mark.parametrize("epochs", [1, EPOCHS])
def test_the_plot_is_a_picture(trials, tmp_path, epochs):
    path = tmp_path / "deep" / "demo.png"
    path.parent.mkdir()
    path.write_text("an older one")
    short = [trial._replace(curve=trial.curve[:epochs]) for trial in trials]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        demo.plot(short, path)
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert width > 2 * height > 1000
    assert len(data) > 20_000
    assert b"IEND" in data[-12:]
    assert [file.name for file in path.parent.iterdir()] == ["demo.png"]


def test_a_plot_that_cannot_be_written_is_told(trials, tmp_path):
    (tmp_path / "file").write_text("")
    with raises("cannot write", OSError):
        demo.plot(trials, tmp_path / "file" / "demo.png")


def test_the_picture_shows_what_it_should(trials, tmp_path, monkeypatch):
    """Draw, and look at what was drawn before it is gone."""
    from matplotlib import pyplot as plt

    kept = []
    monkeypatch.setattr(plt, "close", kept.append)
    demo.plot(trials, tmp_path / "demo.png")
    monkeypatch.undo()
    left, middle, right = kept[0].axes
    titles = set(demo.METHODS.values())
    assert titles <= {text.get_text() for text in left.texts}
    assert titles == {label.get_text() for label in middle.get_yticklabels()}
    lines = [line for line in right.lines if len(line.get_xdata()) == len(demo.ANSWERS)]
    assert len(lines) == len(demo.METHODS)
    for line, method in zip(lines, demo.METHODS, strict=True):
        mine = [trial for trial in trials if trial.method == method]
        np.testing.assert_allclose(line.get_ydata(), [trial.true_accuracy for trial in mine])
        np.testing.assert_allclose(line.get_xdata(), [trial.n_answers for trial in mine])
        assert line.get_color() == demo.COLOURS[method]
    plt.close(kept[0])
