"""Digests of settings: alike where nothing changed, different where anything did."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from torch import nn

from naysayer.common.fingerprint import fingerprint


def scale(x, by=2):
    return x * by


def closure(by):
    return lambda x: x * by


class Thing:
    def __init__(self, value):
        self.value = value

    def method(self, x):
        return x * self.value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Inner(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = value


def layer(value, dropout=0.1):
    module = nn.Sequential(nn.Linear(2, 2), nn.Dropout(dropout))
    nn.init.constant_(module[0].weight, value)
    nn.init.constant_(module[0].bias, value)
    return module


MAKERS = [
    lambda: None,
    lambda: 1,
    lambda: 2,
    lambda: 1.5,
    lambda: "1",
    lambda: [1, 2],
    lambda: [2, 1],
    lambda: {"a": 1, "b": 2},
    lambda: {"a": 1, "b": 3},
    lambda: {1, 2},
    lambda: b"ab",
    lambda: np.arange(4),
    lambda: np.arange(4.0),
    lambda: np.arange(4).reshape(2, 2),
    lambda: torch.tensor([0.5]),
    lambda: scale,
    lambda: functools.partial(scale, by=3),
    lambda: functools.partial(scale, by=4),
    lambda: closure(2),
    lambda: closure(3),
    lambda: lambda x: x + 1,
    lambda: lambda x: x + 2,
    lambda: Thing(1),
    lambda: Thing(2),
    lambda: Thing(1).method,
    lambda: Thing(2).method,
    lambda: layer(0.1),
    lambda: layer(0.2),
    lambda: layer(0.1, dropout=0.2),
    lambda: Slotted(1),
    lambda: Slotted(2),
    lambda: nn.Sequential(Inner(1)),
    lambda: nn.Sequential(Inner(2)),
    lambda: torch.tensor(0.5),
    lambda: torch.tensor([0.5, 1.0], dtype=torch.bfloat16),
    lambda: Thing,
    lambda: len,
    lambda: np.random.default_rng,
]


def test_the_same_made_twice_is_the_same_and_all_else_is_not():
    first, second = ([fingerprint(make()) for make in MAKERS] for _ in range(2))
    assert first == second
    assert len(set(first)) == len(MAKERS)


def test_the_order_of_a_dictionary_and_the_mode_of_a_module_do_not_matter():
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint(layer(0.1).eval()) == fingerprint(layer(0.1).train())


def test_a_circle_ends():
    thing = Thing(None)
    thing.value = thing
    assert fingerprint(thing) != fingerprint(Thing(None))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0])
def test_odd_numbers_have_digests(value):
    assert fingerprint(value) == fingerprint(float(value))
    assert fingerprint(value) != fingerprint(0.0)
