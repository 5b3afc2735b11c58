"""Tree edits against symbolic replacement, and the limits of the declared space."""

from __future__ import annotations

from collections import Counter
from typing import Any

import feature_twin as twin
import numpy as np
import pytest

from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.language import Nonlinear
from modejump.features.nonlinear.operators import OPERATORS
from modejump.features.nonlinear.space import EDIT_WEIGHTS, Space
from modejump.problem.feature_problem import FeatureProblem, feature_problem
from modejump.samplers.chains.genetic_chain import GeneticChain

NAMES = ("x", "y", "z")
FUNCTIONS = ("sin", "troot")


def language_of(functions: tuple[str, ...] = FUNCTIONS, **space: Any) -> Nonlinear:
    return Nonlinear(NAMES, twin.listed(functions), Space(**space))


@pytest.mark.parametrize("functions", [FUNCTIONS, ()], ids=["functions", "none"])
def test_edits_are_the_features_rebuilt_symbolically(functions: tuple[str, ...]) -> None:
    """Every operator at every node with every choice, in a space that few of the results leave."""
    grammar = language_of(mutation=0.1, projection=0.2)
    language = language_of(functions, mutation=0.1, projection=0.2, depth=6, width=6, complexity=17)
    table, ids = twin.table_of(twin.random_recipe(np.random.default_rng(2), grammar, 150), 100_000)
    made = twin.translation(grammar, table)
    operators, results = np.zeros(5000, np.int64), np.zeros(5000, np.int64)
    tried: Counter[int] = Counter()
    for f in sorted(set(ids.tolist())):
        count = twin.edits_of(language.space(), table, f, operators, results)
        after = twin.translation(grammar, table)
        found = Counter((int(o), after[g]) for o, g in zip(operators[:count], results[:count]) if g >= 0)
        assert found == Counter((o, new) for o, _, new in twin.sound_edits(made[f], language)), made[f].text
        tried.update(operators[:count].tolist())
    assert min(tried.values()) > 50 and len(tried) == (6 if functions else 3)


# --- the declared space -------------------------------------------------------------------------------------------


def random_problem(space: Space, seed: int = 0, rows: int = 60) -> FeatureProblem:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.5, 2.0, size=(rows, 3))
    y = x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + 0.1 * rng.normal(size=rows)
    return feature_problem(x, y, NAMES, transforms=twin.listed(FUNCTIONS), space=space)


def test_compiled_limits_equal_the_plain_ones() -> None:
    grammar = language_of(mutation=0.1, projection=0.2)
    table, ids = twin.table_of(twin.random_recipe(np.random.default_rng(7), grammar, 2_000), 50_000)
    made = twin.translation(grammar, table)
    for limits in ({"depth": 2}, {"width": 2}, {"complexity": 5}, {"depth": 3, "width": 3, "complexity": 7}):
        language = language_of(**limits)
        outcomes = [bool(twin.allowed(language.space(), table, f)) for f in ids]
        assert outcomes == [twin.inside(made[f], language) for f in ids]
        assert 0 < sum(outcomes) < len(outcomes)


LIMITS = {
    "depth": Space(depth=1, projection=0.2, mutation=0.1),
    "no depth": Space(depth=0),
    "width": Space(width=2, projection=0.2, mutation=0.1),
    "complexity": Space(complexity=3, size=2, projection=0.2, mutation=0.1),
    "size": Space(size=1),
    "all": Space(depth=2, width=3, complexity=6, size=3, population=8, projection=0.2, mutation=0.1),
}


@pytest.mark.parametrize("space", LIMITS.values(), ids=LIMITS)
def test_no_feature_or_model_outside_the_space_is_met(space: Space) -> None:
    chain = GeneticChain(random_problem(space), np.random.SeedSequence(8), steps=50, patience=10)
    language = chain.language
    met: set[Feature] = set()
    for populations in range(1, 40):
        chain.run_to(populations)
        present = [chain.feature(int(f)) for f in chain.arrays.population.feature if f >= 0]
        assert len(set(present)) == len(present)
        met |= set(present)
        assert max(len(model) for model in twin.stored_models(chain)) <= space.size
    archived = twin.kept_models(chain)
    met |= {f for model in archived for f in model}
    assert all(twin.inside(f, language) for f in met)
    assert max(map(len, archived)) <= space.size


def test_every_operator_is_tried_and_admits_features() -> None:
    chain = GeneticChain(
        random_problem(Space(projection=0.2, mutation=0.1)), np.random.SeedSequence(9), steps=50, patience=10
    )
    chain.run_to(150)
    translated = twin.translation(chain.language, chain.table)
    assert all(chain.feature(f) is feature for f, feature in enumerate(translated))
    tried = dict(zip(OPERATORS, chain.arrays.genetic.tried.tolist()))
    assert all(admitted > 0 for _, admitted in tried.values()), tried
    # The operators are drawn with their weights: each count within four standard errors.
    total = sum(proposed for proposed, _ in tried.values())
    for name, weight in chain.language.limits.operator_weights(True).items():
        assert abs(tried[name][0] - weight * total) < 4 * np.sqrt(total * weight * (1 - weight)) + 1e-9


def test_operators_without_a_transform_give_their_weight_away() -> None:
    weights = Space().operator_weights(any_transform=False)
    assert weights["modification"] == weights["wrap"] == weights["swap_function"] == weights["strip"] == 0.0
    assert sum(weights.values()) == pytest.approx(1.0, abs=1e-12)
    assert sum(EDIT_WEIGHTS.values()) == pytest.approx(1.0, abs=1e-12)
    rng = np.random.default_rng(10)
    x = rng.normal(size=(40, 3))
    problem = feature_problem(x, x[:, 0] * x[:, 1], NAMES, transforms=(), space=Space())
    chain = GeneticChain(problem, np.random.SeedSequence(1), steps=50, patience=10)
    chain.run_to(30)
    assert {f.kind for model in twin.kept_models(chain) for f in model} == {"covariate", "product"}
