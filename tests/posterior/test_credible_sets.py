"""Credible sets: probabilities from the joint posterior, and which covariates stand in for each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from brute import brute_force, lazy_chains

from modejump.core.errors import InputError
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.language import Nonlinear
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.posterior import Posterior
from modejump.posterior.credible_sets import covariate_inclusion, credible_sets
from modejump.priors.models import BernoulliPrior
from modejump.problem.problem import Problem
from modejump.samplers.laws import Laws

SIGMAS = 3.9


def words_of(models: Sequence[Sequence[int]], terms: int) -> np.ndarray:
    words = np.zeros((len(models), -(-terms // 64)), np.uint64)
    for row, members in zip(words, models):
        for j in members:
            row[j // 64] |= np.uint64(1) << np.uint64(j % 64)
    return words


def sets_of(models: Mapping[tuple[int, ...], float], r: np.ndarray, **options: Any) -> pd.DataFrame:
    """Credible sets of covariates named by their numbers, from a table of models."""
    words = words_of(list(models), len(r))
    absolute = np.abs(r)
    names = [str(j) for j in range(len(r))]
    return credible_sets(words, np.array(list(models.values())), lambda j, o: absolute[j, o], names, **options)


def block_correlation(blocks: Sequence[int], r: float) -> np.ndarray:
    block = np.repeat(np.arange(len(blocks)), blocks)
    return np.where(block[:, None] == block, r, 0.0) + (1.0 - r) * np.eye(len(block))


def product(*choices: Mapping[tuple[int, ...], float]) -> dict[tuple[int, ...], float]:
    """Models of independent parts."""
    models = {(): 1.0}
    for choice in choices:
        models = {a + b: p * q for a, p in models.items() for b, q in choice.items()}
    return models


def test_substitutes_are_one_set_with_their_joint_probability() -> None:
    models = product({(0,): 0.5, (1,): 0.4, (): 0.1}, {(2,): 0.3, (): 0.7}, {(3,): 0.99, (): 0.01})
    table = sets_of(models, block_correlation([2, 1, 1], 0.9))
    assert table["covariates"].tolist() == [("3",), ("0", "1"), ("2",)]
    assert table["leading"].tolist() == ["3", "0", "2"] and table["size"].tolist() == [1, 2, 1]
    np.testing.assert_allclose(table["probability"], [0.99, 0.9, 0.3])
    np.testing.assert_allclose(table["min_abs_correlation"], [1.0, 0.9, 1.0])


def test_a_diluted_effect_is_found_among_many_covariates_that_share_it() -> None:
    many = {(j,): 1.0 / 150 for j in range(150)}
    table = sets_of(product(many, {(150,): 0.05, (): 0.95}), block_correlation([150, 1], 0.95), level=1.0)
    assert table["size"].tolist() == [150] and table["probability"][0] == pytest.approx(1.0)
    assert set(table["covariates"][0]) == {str(j) for j in range(150)}


def test_two_effects_side_by_side_are_two_sets_however_correlated() -> None:
    models = product({(0,): 0.9, (): 0.1}, {(1,): 0.55, (2,): 0.45})
    table = sets_of(models, block_correlation([3], 0.9))
    assert table["covariates"].tolist() == [("1", "2"), ("0",)]
    np.testing.assert_allclose(table["probability"], [1.0, 0.9])


def test_a_set_is_cut_at_its_level_of_the_whole_group() -> None:
    models = {(0,): 0.40, (1,): 0.20, (2,): 0.10, (3,): 0.06, (4,): 0.04, (): 0.20}
    r = block_correlation([5], 0.8)
    for level, size, probability in ((0.5, 1, 0.4), (0.75, 2, 0.6), (0.95, 4, 0.76), (1.0, 5, 0.8)):
        table = sets_of(models, r, level=level)
        assert table["size"][0] == size and table["probability"][0] == pytest.approx(probability)


def test_every_pair_of_a_set_is_as_correlated_as_asked() -> None:
    # 1 leads, and is close to 0 and to 2, which are not close to each other.
    r = np.array([[1.0, 0.8, 0.3], [0.8, 1.0, -0.7], [0.3, -0.7, 1.0]])
    models = {(1,): 0.4, (0,): 0.35, (2,): 0.25}
    table = sets_of(models, r)
    assert table["covariates"].tolist() == [("1", "0"), ("2",)]
    np.testing.assert_allclose(table["min_abs_correlation"], [0.8, 1.0])
    assert sets_of(models, r, purity=0.85)["size"].tolist() == [1, 1, 1]
    wide = sets_of(models, r, purity=0.3)
    assert wide["covariates"].tolist() == [("1", "0", "2")] and wide["min_abs_correlation"][0] == pytest.approx(0.3)


def test_sets_of_low_probability_are_left_out() -> None:
    models = product({(0,): 0.3, (): 0.7}, {(1,): 0.06, (2,): 0.06, (): 0.88}, {(3,): 0.04, (): 0.96})
    r = block_correlation([1, 2, 1], 0.9)
    assert sets_of(models, r)["covariates"].tolist() == [("0",), ("1", "2")]
    assert sets_of(models, r, min_probability=0.2)["covariates"].tolist() == [("0",)]
    assert sets_of(models, r, min_probability=0.01)["covariates"].tolist() == [("0",), ("1", "2"), ("3",)]
    empty = sets_of({(): 1.0}, r)
    assert len(empty) == 0 and empty.columns.tolist() == [
        "covariates", "probability", "leading", "size", "min_abs_correlation"
    ]  # fmt: skip


def pairs_problem(rows: int = 60) -> tuple[Problem, np.ndarray]:
    """Two pairs that are nearly copies (0.95), and four independent columns.

    The first pair matters by its mean, so that neither of the two is the true one; so does one column alone.
    """
    rng = np.random.default_rng(81)
    base = rng.normal(size=(rows, 8))
    x = base.copy()
    x[:, 1] = 0.95 * base[:, 0] + np.sqrt(1 - 0.95**2) * base[:, 1]
    x[:, 3] = -0.95 * base[:, 2] + np.sqrt(1 - 0.95**2) * base[:, 3]
    y = 0.3 * (x[:, 0] + x[:, 1]) + 0.45 * x[:, 5] + rng.normal(size=rows)
    return Problem.build(x, y, coef_prior="g", model_prior=BernoulliPrior(0.2)), x


def test_probabilities_are_those_of_all_models() -> None:
    problem, x = pairs_problem()
    exact = brute_force(problem)
    table = Posterior(problem, exact).credible_sets(min_probability=0.01)
    weight = np.exp(exact.models.log_posterior - exact.log_evidence)
    r = np.abs(np.corrcoef(x.T))
    used: set[str] = set()
    for _, row in table.iterrows():
        members = problem.index_of(row["covariates"])
        has_one = np.array([bool(set(members) & set(exact.models.members(i))) for i in range(len(weight))])
        assert row["probability"] == pytest.approx(weight[has_one].sum(), rel=1e-12)
        pairs = [r[i, j] for i in members for j in members if i < j]
        assert row["min_abs_correlation"] == pytest.approx(min(pairs, default=1.0)) and min(pairs, default=1.0) >= 0.5
        assert row["leading"] == max(row["covariates"], key=lambda name: exact.renormalised[problem.names.index(name)])
        assert not used & set(row["covariates"])
        used |= set(row["covariates"])
    first = table.iloc[0]
    # The pair reaches the level, and neither of the two does alone.
    assert set(first["covariates"]) == {"x0", "x1"}
    assert exact.renormalised[:2].max() < 0.95 < first["probability"]
    # Nobody gets it from the marginals.
    alone = 1.0 - np.prod(1.0 - exact.renormalised[:2])
    assert abs(first["probability"] - alone) > 0.05
    assert ("x5",) in table["covariates"].tolist()
    assert all(len(covariates) == 1 for covariates in table["covariates"] if not {"x0", "x2", "x3"} & set(covariates))


def test_chains_agree_with_enumeration() -> None:
    problem, _ = pairs_problem()
    exact = brute_force(problem)
    sampled = Posterior(problem, lazy_chains(problem, exact, np.random.default_rng(82), stay=0.9))
    expected, found = Posterior(problem, exact).credible_sets(), sampled.credible_sets()
    assert found["covariates"].tolist() == expected["covariates"].tolist()
    p = expected["probability"].to_numpy()
    error = np.sqrt(p * (1 - p) * 1.9 / 0.1 / sampled.result.steps)
    assert (np.abs(found["probability"] - p) <= SIGMAS * error + 1e-12).all()


def test_draws_count_where_there_are_any() -> None:
    problem, _ = pairs_problem()
    exact = brute_force(problem)
    draws = np.zeros(len(exact.models), np.int64)
    draws[[exact.models.words[:, 0].tolist().index(code) for code in (1, 2, 16)]] = 5, 4, 1
    posterior = Posterior(problem, replace(exact, models=replace(exact.models, draws=draws)))
    table = posterior.credible_sets()
    assert table["covariates"].tolist() == [("x0", "x1"), ("x4",)]
    np.testing.assert_allclose(table["probability"], [0.9, 0.1])


def test_terms_of_several_columns_have_their_largest_correlation() -> None:
    rng = np.random.default_rng(83)
    x = rng.normal(size=(50, 4))
    x[:, 3] = 0.98 * x[:, 1] + 0.2 * x[:, 3]
    y = 0.5 * x[:, 1] + rng.normal(size=50)
    problem = Problem.build(x, y, terms={"a": [0, 1], "b": [2], "c": [3]}, model_prior=BernoulliPrior(0.2))
    table = Posterior(problem, brute_force(problem)).credible_sets(min_probability=0.01)
    assert set(table["covariates"][0]) == {"a", "c"}
    r = np.corrcoef(x.T)
    assert table["min_abs_correlation"][0] == pytest.approx(np.abs(r[[0, 1], 3]).max())


def test_correlations_that_a_saved_run_lacks_are_named() -> None:
    problem, _ = pairs_problem()
    gram = problem.data.gram.copy()
    gram[5], gram[:, 5] = 0.0, 0.0
    gram[5, 5] = np.nan
    cut = replace(problem, data=problem.data._replace(gram=gram))
    with pytest.raises(InputError, match=r"does not hold the correlation of '.*' and 'x5'|of 'x5' and '"):
        Posterior(cut, brute_force(problem)).credible_sets()


@pytest.mark.parametrize("option", ["level", "purity", "min_probability"])
@pytest.mark.parametrize("value", [0.0, 1.5, float("nan"), "high", True])
def test_options_out_of_range_are_refused(option: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"^{option} must be a number above 0 and at most 1"):
        sets_of({(0,): 1.0}, np.eye(1), **{option: value})


def test_a_covariate_is_in_where_some_feature_has_it() -> None:
    problem, _ = pairs_problem()
    exact = brute_force(problem)
    texts = ["a", "b", "a*b", "sin(a)", "c", "sin(c)", "d", "b*c"]
    features = tuple(map(Feature, texts))
    laws = Laws(features, {}, {}, problem, Nonlinear(tuple("abcd"), [transforms["sin"]], Space()))
    found = covariate_inclusion(Posterior(problem, replace(exact, laws=laws)))
    weight = np.exp(exact.models.log_posterior - exact.log_evidence)
    inside = exact.models.membership(8)
    for name in "abcd":
        having = [j for j, text in enumerate(texts) if name in Feature(text).covariates]
        assert found[name] == pytest.approx(weight[inside[:, having].any(axis=1)].sum(), rel=1e-12)
    plain = covariate_inclusion(Posterior(problem, exact))
    np.testing.assert_allclose(plain[list(problem.names)], exact.renormalised)
