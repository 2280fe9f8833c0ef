"""The recipe that keeps PRODEN's targets from epoch to epoch: its paper's algorithm by hand, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import naysayer
from helpers import assert_same_runs, raises
from naysayer import Population, complement, networks, objectives
from naysayer.common.reduce import SumOver
from naysayer.engine.recipe import Remembered
from naysayer.engine.source import Source

K = 4


def table(n=60, n_labels=1, apart=2):
    rng = np.random.default_rng(0)
    y = np.arange(n) % K
    labels = complement(y, K, n_labels=n_labels, random_state=0)
    if n_labels > 1:
        labels[::7] = ~np.eye(K, dtype=bool)[y[::7]]  # ordinary ones
        labels[3::7] = False
    return (rng.normal(size=(n, 5)) + apart * np.eye(K, 5)[y]).astype("float32"), labels


def linear():
    return networks.mlp(5, K, hidden=())


def population(objective=None, **options):
    how = {"lr": 0.5, "optimizer": "sgd", "momentum": 0.0, "batch_size": 60, "device": "cpu", "recipe": "progressive"}
    return Population(linear, objective or objectives.Progressive(K), **(how | options))


@pytest.mark.parametrize("n_labels", [1, 2])
def test_it_is_the_papers_algorithm(n_labels):
    """Algorithm 1 of Lv et al.: even targets first, then those of the outputs before the step, one epoch late."""
    X, y_bar = table(n_labels=n_labels)
    runs = population().fit(X, y_bar, max_epochs=4)
    start = population()
    weight, bias = (start.state(0)[name].clone().requires_grad_() for name in sorted(start.state(0), reverse=True))
    left = torch.from_numpy(~y_bar if n_labels > 1 else ~np.eye(K, dtype=bool)[y_bar]).double()
    said = (left < 1).any(dim=1)
    targets, losses = left / left.sum(dim=1, keepdim=True), []
    for _ in range(4):
        logits = (torch.from_numpy(X) @ weight.T + bias).double()
        loss = -(targets * torch.log_softmax(logits, dim=1)).sum(dim=1)[said].mean()
        losses.append(loss.item())
        p = torch.softmax(logits.detach(), dim=1) * left
        targets = p / p.sum(dim=1, keepdim=True)
        for parameter, gradient in zip((weight, bias), torch.autograd.grad(loss, (weight, bias)), strict=True):
            parameter.data -= 0.5 * gradient
    np.testing.assert_allclose(runs.history["loss"][:, 0], losses, rtol=1e-5)
    torch.testing.assert_close(
        runs.logits(X, 0), (torch.from_numpy(X) @ weight.T + bias).detach(), rtol=1e-4, atol=1e-5
    )


def test_without_memory_it_takes_other_steps():
    X, y_bar = table()
    kept, current = (population(recipe=recipe).fit(X, y_bar, max_epochs=4) for recipe in ("progressive", "plain"))
    assert (kept.logits(X) - current.logits(X)).abs().max() > 1e-2


def test_runs_resume_and_do_not_depend_on_how_they_are_grouped(tmp_path):
    X, y_bar = table()
    how = {"seeds": [0, 1], "batch_size": 16, "lr": 0.1}
    whole = population(**how).fit(X, y_bar, max_epochs=4)
    population(**how).fit(X, y_bar, max_epochs=2, checkpoint=tmp_path / "runs")
    assert_same_runs(population(**how).fit(X, y_bar, max_epochs=4, checkpoint=tmp_path / "runs"), whole)
    alone = population(**(how | {"seeds": [1]})).fit(X, y_bar, max_epochs=4)
    assert_same_runs(whole, alone, 1e-5, runs=[1])


def test_a_classifier_trains_and_saves_it(tmp_path):
    X, y_bar = table(200, apart=4)
    how = {"lr": 0.02, "max_epochs": 30, "n_seeds": 3, "random_state": 0}
    model = naysayer.ComplementaryClassifier("proden", recipe="progressive", **how).fit(X, y_bar)
    assert (model.predict(X) == np.arange(200) % K).mean() > 0.8
    model.save(tmp_path)
    again = naysayer.ComplementaryClassifier.load(tmp_path)
    assert again.recipe == "progressive"
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_it_is_for_proden_alone():
    X, y_bar = table()
    with raises('recipe "progressive" is for the method "proden", whose targets it keeps; got Forward; use another'):
        population(objectives.Forward(K)).fit(X, y_bar, max_epochs=1)


def test_all_rows_must_be_here():
    class Dealt(Source):
        n_classes = K

    X, y_bar = table()
    words = "`recipe` must be another where rows are not all here; Remembered keeps something of each, and needs arrays"
    with raises(words):
        population().fit(Dealt(), max_epochs=1)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        with raises(words):
            population(recipe=Remembered(), reduce=SumOver()).fit(X, y_bar, max_epochs=1)
    finally:
        torch.distributed.destroy_process_group()
    with raises("`recipe` must be 'plain' for a stream or `partial_fit`; the others need all rows at once"):
        naysayer.ComplementaryClassifier("proden", recipe="progressive").partial_fit(X, y_bar, classes=range(K))
