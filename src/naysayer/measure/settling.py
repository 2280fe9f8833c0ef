r"""What each item is, and how sure that is: people's answers, with what a model expects of the item without them.

Answers about an item are independent given its class, and each is wrong with its annotator's probability e. With the
probabilities :math:`p_{ik}` that a model gives to item i *without having learned from the answers about it*,

.. math:: P(y_i = k \mid \text{answers}) \propto p_{ik} \prod_{\text{answers } a \text{ about } (i, k)}
    \Big(\frac{1 - e_a}{e_a}\Big)^{\pm 1},

plus for yes, minus for no. It holds for random and guided questions alike: what is asked next depends on the answers
before and not on the class. A model that had learned from the answers about i would make them count twice.

Without a model p are the shares of the classes, those under which all answers are likeliest. A model's probabilities
are made to fit first (:func:`calibrated`): they need not have been right about how sure they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from naysayer.measure.answer_errors import error_rates
from naysayer.measure.answers import FINAL_VOTES, Answers
from naysayer.measure.design import check_rate

Floats = NDArray[np.float64]

SETTLED = 0.95  # the probability from which on an item counts as known
LEAST_ERROR = 0.01  # nobody is perfect, and an answer that counted as certain could never be outweighed
_TEMPERATURES = np.geomspace(0.25, 8.0, 26)
_UNKNOWN = np.geomspace(0.01, 1.0, 17)  # shares of what a model cannot know; none knows all
_BELIEF = 20.0  # how firmly a model is held to be right about how sure it is, in log likelihood per log temperature²


def annotator_rates(answers: Answers, error_rate: float | None = None) -> Floats:
    """Give the probability with which each annotator's answers are wrong: what is expected of it, and never 0."""
    if error_rate is not None:
        return np.full(len(answers.annotators), max(check_rate(error_rate), LEAST_ERROR))
    found = error_rates(answers)
    rates = [each.estimate for each in found.by_annotator] if found.n_disagreements else [found.expected]
    return np.maximum(np.broadcast_to(np.array(rates), len(answers.annotators)), LEAST_ERROR)


def log_likelihoods(answers: Answers, error_rate: float | None = None) -> Floats:
    """Give how likely the answers about each item make each class, (N, K): logarithms, up to a constant per item.

    Parameters
    ----------
    answers : the answers.
    error_rate : e, if it is known; None estimates each annotator's from the repeated questions.

    Examples
    --------
    >>> said = Answers.of(["a", "a", "b"], [0, 1, 2], ["no", "yes", "yes"], classes=("cat", "dog", "emu"))
    >>> np.exp(log_likelihoods(said, error_rate=0.1)).round(2)
    array([[0.11, 9.  , 1.  ],
           [1.  , 1.  , 9.  ]])
    """
    rates = annotator_rates(answers, error_rate)
    lift = np.log((1.0 - rates) / rates)[answers.annotator] * np.array([-1.0, 1.0, 0.0])[answers.value]
    out = np.zeros((len(answers.items), answers.n_classes))
    np.add.at(out, (answers.item, answers.asked), lift)
    if answers.final is not None:  # the owner's last word
        told = np.flatnonzero(answers.final >= 0)
        out[told] = 0.0
        out[told, answers.final[told]] = 2 * FINAL_VOTES * np.log((1.0 - LEAST_ERROR) / LEAST_ERROR)
    return out


def class_shares(log_likelihood: Floats, n_steps: int = 200) -> Floats:
    """Find the shares of the classes, (K,), under which the answers (N, K) are likeliest, and 3 items more of each.

    Examples
    --------
    >>> class_shares(np.log([[99.0, 1.0]] * 15 + [[1.0, 99.0]] * 4)).round(2)
    array([0.72, 0.28])
    """
    n_classes = log_likelihood.shape[1]
    shares = np.full(n_classes, 1.0 / n_classes)
    for _ in range(n_steps if len(log_likelihood) else 0):
        total = posterior(shares, log_likelihood).sum(axis=0) + 3.0
        shares = total / total.sum()
    return shares


def posterior(p: Floats, log_likelihood: Floats) -> Floats:
    """Give the probabilities of the classes by what was expected, (K,) or (N, K), and by the answers, (N, K).

    Examples
    --------
    >>> posterior(np.array([0.8, 0.1, 0.1]), np.log([[1.0, 19.0, 1.0]])).round(2)  # a yes to the second, e = 5%
    array([[0.29, 0.68, 0.04]])
    """
    log = np.log(np.maximum(p, 1e-30)) + log_likelihood
    return np.asarray(np.exp(log - logsumexp(log, axis=1, keepdims=True)))


def settled(answers: Answers) -> NDArray[np.bool_]:
    """Tell which items people's answers alone settle, (N,): some class has a probability of 95% or more.

    Examples
    --------
    A yes is not enough where many classes are left, and most questions are about a wrong one:

    >>> said = Answers.of(["a", "b", "b"], [0, 2, 2], ["yes"] * 3, classes=[str(k) for k in range(10)])
    >>> settled(said)
    array([False,  True])
    """
    log_likelihood = log_likelihoods(answers)
    return np.asarray(posterior(class_shares(log_likelihood), log_likelihood).max(axis=1) >= SETTLED)


class Calibration:
    r"""How far a model's probabilities are to be believed: those under which people's answers are likeliest.

    .. math:: q_i = (1 - w)\, \mathrm{softmax}\big(t \log (p_i - \min_k p_{ik})\big) + w\, \pi

    What a model gives to every class alike is what it does not know, and w says anew how much that is. Both t and w
    are found from the answers of all items together: they know that answers may be wrong, which what trained the model
    may not have known. It is then less sure than it could be.

    Parameters
    ----------
    p : (N, K) a model's probabilities of items whose answers it did not learn from.
    log_likelihood : (N, K) of the answers about these items.
    shares : (K,) pi, the shares of the classes.

    Attributes
    ----------
    temperature, unknown : t and w.

    Examples
    --------
    A model that is 99 % sure of each item, where people say no to every fifth:

    >>> p = np.tile([0.99, 0.005, 0.005], (500, 1))
    >>> said = np.where(np.arange(500) % 5 == 0, -4.0, 4.0)[:, None] * [1, 0, 0]
    >>> Calibration(p, said, np.full(3, 1 / 3))(p[:1]).round(1)
    array([[0.8, 0.1, 0.1]])
    """

    def __init__(self, p: Floats, log_likelihood: Floats, shares: Floats) -> None:
        self.temperature, self.unknown, self._shares = 1.0, float(_UNKNOWN[0]), shares
        likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
        nothing, best = likelihood @ shares, -np.inf
        for t in _TEMPERATURES:
            told = (_known(p, t) * likelihood).sum(axis=1)
            mixed = told + _UNKNOWN[:, None] * (nothing - told)
            score = np.log(np.maximum(mixed, 1e-300)).sum(axis=1) - _BELIEF / 2 * np.log(t) ** 2
            if score.max() > best:
                best, self.temperature, self.unknown = score.max(), float(t), float(_UNKNOWN[score.argmax()])

    def __call__(self, p: Floats) -> Floats:
        """Give the probabilities that are to be believed, (N, K)."""
        return (1.0 - self.unknown) * _known(p, self.temperature) + self.unknown * self._shares


def _known(p: Floats, t: float) -> Floats:
    """Give what is left of p without what every class gets alike, to the power t, summing to 1; (N, K)."""
    left = p - p.min(axis=1, keepdims=True) + 1e-12  # where all are alike, they stay so
    powers = (left / left.max(axis=1, keepdims=True)) ** t
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
