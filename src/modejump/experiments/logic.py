"""The experiment on logic expressions: binary covariates, of which eight conjunctions raise the response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from modejump.core.numbers import whole_number
from modejump.experiments.ceiling import selection_ceiling
from modejump.experiments.detection import Detection
from modejump.experiments.effort import Effort
from modejump.experiments.reproduce import Design
from modejump.features.expression import Expression
from modejump.features.language import Language
from modejump.features.logic.language import Logic
from modejump.features.logic.space import LogicSpace
from modejump.features.nonlinear.language import Nonlinear
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.priors.coefficients import BIC
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.features import FeaturePrior
from modejump.priors.logic_prior import LogicPrior
from modejump.problem.feature_problem import FeatureProblem, problem_over

ROWS, COVARIATES = 1000, 50
INTERCEPT, NOISE = 1.0, 1.0
# Label, coefficient and covariates of each true term.
TERMS: tuple[tuple[str, float, tuple[int, ...]], ...] = (
    ("L1", 1.5, (7,)),
    ("L2", 1.5, (8,)),
    ("L3", 3.5, (2, 9)),
    ("L4", 6.6, (18, 21)),
    ("L5", 7.0, (1, 3, 27)),
    ("L6", 9.0, (12, 20, 37)),
    ("L7", 7.0, (4, 10, 17, 30)),
    ("L8", 7.0, (11, 13, 19, 50)),
)
# Q, leaves of a feature at most, and features of a population.
SIZE, LEAVES, POPULATION = 40, 4, 40
FUNCTIONS = ("cos", "sigmoid", "tanh", "atan", "sin", "erf")
THREADS = (1, 32)
PROTOCOL = "text"
# A term is detected where its posterior probability exceeds this.
ETA = 0.5


def simulate_logic(n: int = ROWS, seed: int | np.random.SeedSequence = 1) -> pd.DataFrame:
    """Simulate binary covariates and a response that conjunctions of them raise.

    Fifty independent covariates are 0 or 1 with probability one half. The response is normal with standard deviation 1
    and mean :math:`1 + 1.5 X_7 + 1.5 X_8 + 3.5 X_2 X_9 + 6.6 X_{18} X_{21} + 7 X_1 X_3 X_{27} + 9 X_{12} X_{20} X_{37}
    + 7 X_4 X_{10} X_{17} X_{30} + 7 X_{11} X_{13} X_{19} X_{50}`.

    Parameters
    ----------
    n : int
        Number of rows.
    seed : int or SeedSequence
        Seed of the random numbers.

    Returns
    -------
    DataFrame
        Columns ``X1`` to ``X50``, and the response ``Y``.

    Examples
    --------
    >>> simulate_logic(100).shape
    (100, 51)
    """
    n = whole_number(n, "n", least=1)
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (n, COVARIATES)).astype(np.float64)
    y = INTERCEPT + NOISE * rng.standard_normal(n)
    for _, coefficient, members in TERMS:
        y += coefficient * x[:, [j - 1 for j in members]].prod(axis=1)
    return pd.DataFrame(x, columns=[f"X{j + 1}" for j in range(COVARIATES)]).assign(Y=y)


class Kind(NamedTuple):
    """A kind of features: their language and prior, and how they write a conjunction."""

    language: Callable[[Sequence[str], int], Language]
    prior: FeaturePrior
    conjunction: str


def _bgnlm(names: Sequence[str], population: int) -> Language:
    """Products and transforms; a feature of so many leaves has at least that complexity."""
    space = Space(width=LEAVES, complexity=LEAVES, size=SIZE, population=population)
    return Nonlinear(names, [transforms[name] for name in FUNCTIONS], space)


def _logic(names: Sequence[str], population: int) -> Language:
    """And, or, not."""
    return Logic(names, LogicSpace(leaves=LEAVES, size=SIZE, population=population))


KINDS = {
    "bgnlm": Kind(_bgnlm, ComplexityPrior("1/n", free=1), "*"),
    "logic": Kind(_logic, LogicPrior(), " & "),
}


def logic_design(kinds: Sequence[str] = tuple(KINDS), rows: int = ROWS) -> Design:
    """The experiment on simulated logic expressions, for a trial to repeat."""
    laws = {
        name: {label: KINDS[name].conjunction.join(f"X{j}" for j in members) for label, _, members in TERMS}
        for name in kinds
    }

    def problem(features: str, seed: np.random.SeedSequence, population: int = POPULATION) -> FeatureProblem:
        kind, table = KINDS[features], simulate_logic(rows, seed)
        x = table.drop(columns="Y")
        language = kind.language(list(x.columns), population)
        return problem_over(x.to_numpy(), table["Y"].to_numpy(), language, coef_prior=BIC(), model_prior=kind.prior)

    def ceiling(problem: FeatureProblem, truth: Sequence[Expression]) -> Detection:
        return selection_ceiling(problem, truth, ETA)

    return Design(
        name="logic",
        protocol=PROTOCOL,
        priors="BIC, fresh data for each run",
        perfect="selection among true terms and covariates",
        laws=laws,
        eta=ETA,
        # 15 000 iterations with a new population every 250.
        paper=Effort(population=POPULATION, populations=60, distinct=20_000),
        settings={"rows": rows},
        problem=problem,
        ceiling=ceiling,
        each=True,
        fresh=True,
    )
