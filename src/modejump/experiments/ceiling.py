"""What a perfect sampler would get: detections of the exact posterior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from modejump.experiments.detection import detect
from modejump.experiments.oracle import ExactPosterior, exact_posterior, exact_singles_and_pairs
from modejump.features.expression import Expression
from modejump.problem.feature_problem import FeatureProblem

# All single features up to this complexity, and the pairs of so many leading ones.
COMPLEXITY, TOP = 4, 60
# Where pairs hold more than this, larger models and pairs that were not tried may hold as much.
MOST_IN_PAIRS = 0.1


def exact_laws(problem: FeatureProblem, everything: bool = False) -> tuple[list[Expression], np.ndarray]:
    """Laws and their exact probabilities, most probable first.

    Parameters
    ----------
    problem : FeatureProblem
        A problem.
    everything : bool
        Whether its space is small enough to evaluate every model; otherwise single features and leading pairs stand
        for it.
    """
    if everything:
        features = problem.language.enumerate()
        exact = exact_posterior(problem, features, size=problem.size)
    else:
        exact = exact_singles_and_pairs(problem, complexity=COMPLEXITY, top=TOP)
    return _laws(exact)


def _laws(exact: ExactPosterior) -> tuple[list[Expression], np.ndarray]:
    inclusion = exact.inclusion(laws=True)
    return list(inclusion), np.array(list(inclusion.values()))


def exact_ceiling(problem: FeatureProblem, truth: Sequence[Expression], eta: float) -> dict[str, Any] | None:
    """Power, false detections and false discovery rate of the exact posterior; None where it is not known.

    Parameters
    ----------
    problem : FeatureProblem
        An experiment's problem.
    truth : sequence of features
        The true laws.
    eta : float
        A law is detected where its probability exceeds this.
    """
    exact = exact_singles_and_pairs(problem, complexity=COMPLEXITY, top=TOP)
    pairs = np.array([len(model) > 1 for model in exact.models])
    if exact.probability[pairs].sum() > MOST_IN_PAIRS:
        return None
    laws, probability = _laws(exact)
    seen = detect(problem, truth, laws, probability, eta)
    return {
        "power": float(bool(seen.true)),
        "fp": float(len(seen.false)),
        "fdr": seen.fdr,
        "posterior": {text: round(p, 6) for text, p in seen.posterior.items()},
    }
