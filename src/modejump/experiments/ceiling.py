"""What a perfect sampler would get: detections of the exact posterior."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from modejump.experiments.detection import Detection, detect
from modejump.experiments.oracle import ExactPosterior, exact_posterior, exact_singles_and_pairs
from modejump.features.expression import Expression
from modejump.priors.models import WeightedPrior
from modejump.problem.feature_problem import FeatureProblem
from modejump.samplers.budget import Budget
from modejump.samplers.plan import Plan
from modejump.samplers.sample import sample

# All single features up to this complexity, and the pairs of so many leading ones.
COMPLEXITY, TOP = 4, 60
# Where pairs hold more than this, larger models and pairs that were not tried may hold as much.
MOST_IN_PAIRS = 0.1
# Steps of each chain that selects among true laws and covariates.
SELECTION_STEPS = 50_000


def exact_laws(problem: FeatureProblem, everything: bool = False) -> tuple[list[Expression], np.ndarray]:
    """Laws and their exact probabilities, most probable first: of every model, or of single features and leading
    pairs.
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


def exact_ceiling(problem: FeatureProblem, truth: Sequence[Expression], eta: float) -> Detection | None:
    """What the exact posterior detects with probabilities above eta; None where it is not known."""
    exact = exact_singles_and_pairs(problem, complexity=COMPLEXITY, top=TOP)
    pairs = np.array([len(model) > 1 for model in exact.models])
    if exact.probability[pairs].sum() > MOST_IN_PAIRS:
        return None
    laws, probability = _laws(exact)
    return detect(problem, truth, laws, probability, eta)


def selection_ceiling(problem: FeatureProblem, truth: Sequence[Expression], eta: float) -> Detection:
    """What the posterior detects where the only features are the true laws and the covariates.

    Where the true laws are beyond doubt and the prior asks least of covariates, these are what a perfect sampler would
    detect besides the truth: the share of the false discoveries that is the prior's.
    """
    features = list(dict.fromkeys([*truth, *problem.covariates()]))
    columns = np.column_stack(problem.language.columns(features, problem.table, {}))
    prior = WeightedPrior(tuple(problem.log_weights(features).tolist()), problem.size)
    selection = problem.selection(features, columns, prior)
    found = sample(selection, Plan("mjmcmc", 4, Budget(steps=SELECTION_STEPS)))
    return detect(problem, truth, features, found.renormalised, eta)
