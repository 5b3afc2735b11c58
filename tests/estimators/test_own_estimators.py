"""Likelihoods of the user's own as the family of an estimator: the same tables, pages and files, and no predictions."""

from __future__ import annotations

import itertools
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from paper_rules import paper
from running import gmjmcmc
from sklearn.base import clone

import modejump
from modejump import (
    BatchLikelihood,
    BGLMRegressor,
    BGNLMRegressor,
    Budget,
    InputError,
    ModejumpWarning,
    OwnLikelihood,
    Space,
)
from modejump.estimators import prepare
from modejump.features.nonlinear.expression import Feature, evaluate
from modejump.likelihoods.custom.own import LikelihoodError
from modejump.problem.feature_problem import feature_problem

pytestmark = pytest.mark.filterwarnings("ignore::modejump.ModejumpWarning")
SHORT = Budget(warmup=600, steps=2000)
ROWS = 60


def linear_bic(y, X, weights, params):
    rest = y - X @ np.linalg.solve(X.T @ X, X.T @ y)
    return -0.5 * len(y) * np.log(rest @ rest) - 0.5 * X.shape[1] * np.log(len(y))


# One for all tests: it is compiled once.
LINEAR = OwnLikelihood(linear_bic)


def table(rows: int = ROWS, columns: int = 4) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(8)
    x = pd.DataFrame(rng.uniform(0.5, 3.0, (rows, columns)), columns=list("abcdefghijklmnop"[:columns]))
    return x, 1.0 + x["a"] * x["b"] + 0.5 * rng.normal(size=rows).astype(float)


def scores(x: pd.DataFrame, y: Any) -> Callable[[list[tuple[str, ...]]], list[float]]:
    """BIC of linear models of columns or features, by name."""
    columns = {name: x[name].to_numpy() for name in x}

    def score(models: list[tuple[str, ...]]) -> list[float]:
        values = []
        for model in models:
            design = [np.ones(len(y)), *(evaluate(Feature.parse(name), columns) for name in model)]
            values.append(linear_bic(np.asarray(y), np.column_stack(design), None, None))
        return values

    return score


def both(x: pd.DataFrame, y: Any) -> dict[str, Any]:
    return {"own": LINEAR, "batch": BatchLikelihood(scores(x, y))}


# --- selection --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["own", "batch"])
@pytest.mark.parametrize("algorithm", ["auto", "mjmcmc"])
def test_selection_is_that_of_the_same_likelihood_built_in(kind: str, algorithm: str):
    x, y = table()
    more = {"algorithm": algorithm, "random_state": 1, "budget": SHORT if algorithm == "mjmcmc" else None}
    own = BGLMRegressor(family=both(x, y)[kind], **more).fit(x, y)
    built_in = BGLMRegressor(coef_prior="bic", **more).fit(x, y)
    pd.testing.assert_frame_equal(own.inclusion_, built_in.inclusion_, check_exact=False, atol=1e-9)
    pd.testing.assert_frame_equal(own.models_, built_in.models_, check_exact=False, atol=1e-7)
    assert own.best_model() == built_in.best_model() and own.median_model() == built_in.median_model()
    assert str(own.verdict_) == str(built_in.verdict_)
    for size in range(3):
        for model in itertools.combinations(x.columns, size):
            expected = built_in.log_marginal_likelihood(model)
            assert own.log_marginal_likelihood(model) == pytest.approx(expected, abs=1e-8)


def test_factors_formulas_and_terms_always_in():
    x, y = table()
    x["f"] = pd.Categorical(np.resize(["u", "v", "w"], ROWS))
    found = []
    for family in ({"family": LINEAR}, {"coef_prior": "bic"}):
        by_table = BGLMRegressor(always_in=["c"], **family).fit(x, y)
        by_formula = BGLMRegressor(always_in=["c"], **family).fit_formula("y ~ a + b + c + d + f", x.assign(y=y))
        found += [model.inclusion_["probability"].sort_index().to_numpy() for model in (by_table, by_formula)]
    np.testing.assert_allclose(found, np.tile(found[0], (4, 1)), atol=1e-9)


def same_rows(y, X, weights, params):
    """Minus infinity unless the rows are those of ``params``, in their order, with their weights."""
    n = len(y)
    if len(params) != 2 * n:
        return -np.inf
    for i in range(n):
        if y[i] != params[i] or weights[i] != params[n + i]:
            return -np.inf
    return -1.0 * X.shape[1]


@pytest.mark.parametrize("estimator", [BGLMRegressor, BGNLMRegressor])
def test_rows_come_as_they_are(estimator: Any):
    """Parameters may belong to rows: these are neither sorted nor merged, as they are for the library's families."""
    x, y = table()
    x, y = pd.concat([x, x[:5]], ignore_index=True), np.r_[y, y[:5]]
    weights = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    more = (
        {"chains": 2, "budget": SHORT, "space": Space(rules="paper", size=2, population=5)}
        if estimator is BGNLMRegressor
        else {}
    )
    model = estimator(family=OwnLikelihood(same_rows, np.r_[y, weights]), **more).fit(x, y, sample_weight=weights)
    assert model.log_marginal_likelihood(["a"]) == -1.0


@pytest.mark.parametrize("kind", ["own", "batch"])
def test_pages_name_the_likelihood(kind: str):
    x, y = table()
    model = BGLMRegressor(family=both(x, y)[kind]).fit(x, y)
    facts = dict(model.page().facts)
    assert facts["response"] == "any, under " + repr(model.family)
    assert facts["coefficients"] == "integrated out by the likelihood"
    assert all(len(line) <= 88 for line in model.summary().splitlines())


def test_automatic_enumeration_by_what_a_model_costs():
    own, batch = LINEAR, BatchLikelihood(lambda models: [0.0] * len(models))
    choose = prepare.choose_algorithm
    assert prepare.rows_fitted(own, 100) == 100
    assert choose("auto", 12, None, prepare.rows_fitted(batch, 100)) == "enumerate"
    assert choose("auto", 13, None, prepare.rows_fitted(batch, 100)) == "mjmcmc"


# --- what cannot be had -----------------------------------------------------------------------------------------

MEANINGLESS = {
    "predict": lambda model, x, y: model.predict(x),
    "interval": lambda model, x, y: model.predict(x, interval=0.9),
    "best": lambda model, x, y: model.predict(x, kind="best"),
    "score": lambda model, x, y: model.score(x, y),
    "coefficients": lambda model, x, y: model.coefficients(),
    "latex": lambda model, x, y: model.to_latex(),
    "sympy": lambda model, x, y: model.to_sympy(),
}


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    x, y = table()
    kinds = both(x, y)
    found: dict[str, Any] = {f"selection, {kind}": BGLMRegressor(family=kinds[kind]).fit(x, y) for kind in kinds}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModejumpWarning)
        for kind in kinds:
            found[f"discovery, {kind}"] = searched(kinds[kind]).fit(x, y)
    return found


def searched(family: Any, **more: Any) -> BGNLMRegressor:
    given = {"transforms": ("sin",), "chains": 2, "budget": SHORT, "random_state": 2}
    return BGNLMRegressor(**paper(complexity=4) | given | {"family": family} | more)


@pytest.mark.parametrize("kind", ["selection, own", "selection, batch", "discovery, own", "discovery, batch"])
def test_what_needs_coefficients_is_refused_before_and_after_a_file(kind: str, fitted: Any, tmp_path: Path):
    x, y = table()
    model = fitted[kind]
    calls = dict(MEANINGLESS)
    if kind.startswith("selection"):
        calls |= {"coef_": lambda m, x, y: m.coef_, "intercept_": lambda m, x, y: m.intercept_}
    for one in (model, modejump.load(model.save(tmp_path / "run"))):
        for call in calls.values():
            with pytest.raises(InputError, match="says nothing about coefficients and new responses") as caught:
                call(one, x, y)
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["selection, own", "selection, batch", "discovery, own", "discovery, batch"])
def test_a_file_holds_everything_but_the_function(kind: str, fitted: Any, tmp_path: Path):
    model = fitted[kind]
    loaded = modejump.load(model.save(tmp_path / "run"))
    pd.testing.assert_frame_equal(loaded.inclusion_, model.inclusion_)
    pd.testing.assert_frame_equal(loaded.models_, model.models_)
    assert loaded.summary() == model.summary() and str(loaded.verdict_) == str(model.verdict_)
    assert loaded.best_model() == model.best_model()
    plain = [m for m in model.models_["features"] if not any(len(a) for a in aliases_of(model, m))]
    assert len(plain) > 5
    for features in plain[:20]:
        expected = model.log_marginal_likelihood(features)
        assert loaded.log_marginal_likelihood(features) == pytest.approx(expected, abs=1e-8)
    assert loaded.log_marginal_likelihood([]) == 0.0
    again = modejump.load(loaded.save(tmp_path / "again"))
    assert again.summary() == model.summary()
    x, y = table()
    with pytest.raises(InputError, match="the model was read from a file, which holds no functions; set family to"):
        loaded.fit(x, y)
    loaded.set_params(family=model.family).fit(x, y)
    assert loaded.best_model() == model.best_model()


def aliases_of(model: Any, features: tuple[str, ...]) -> list[tuple[str, ...]]:
    frame = model.inclusion_
    return [frame.loc[name, "aliases"] for name in features] if "aliases" in frame else []


def test_models_that_the_file_does_not_list_are_not_evaluated(tmp_path: Path):
    x, y = table(columns=14)
    budget = Budget(warmup=200, steps=300)
    model = BGLMRegressor(family=LINEAR, algorithm="mjmcmc", chains=2, budget=budget, random_state=1).fit(x, y)
    listed = set(model.posterior_.models(None)["features"])
    other = next(m for m in itertools.combinations(x.columns, 9) if m not in listed)
    assert np.isfinite(model.log_marginal_likelihood(other))
    loaded = modejump.load(model.save(tmp_path / "run"))
    with pytest.raises(InputError, match="the saved run holds no functions, and the model .* is none of the models"):
        loaded.log_marginal_likelihood(other)


def test_laws_with_several_spellings_are_not_evaluated_from_a_file(tmp_path: Path):
    x, y = table()
    x["b"] = 2.0 * x["a"]
    # Spellings of one law are two laws to a function that looks at the scale.
    model = searched(LINEAR).fit(x, y)
    frame = model.inclusion_
    several = next(name for name in frame.index if frame.loc[name, "aliases"])
    assert np.isfinite(model.log_marginal_likelihood([several]))
    loaded = modejump.load(model.save(tmp_path / "run"))
    with pytest.raises(InputError, match="only the sum over the law's spellings; fit again"):
        loaded.log_marginal_likelihood([several])


REFUSED: dict[str, tuple[Callable[[pd.DataFrame, Any], Any], str]] = {
    "link": (lambda x, y: BGLMRegressor(family=LINEAR, link="log").fit(x, y), "leave link out"),
    "coefficient prior": (
        lambda x, y: BGLMRegressor(family=LINEAR, coef_prior="bic").fit(x, y),
        "leave coef_prior at its default",
    ),
    "coefficient prior of features": (
        lambda x, y: searched(LINEAR, coef_prior="bic").fit(x, y),
        "leave coef_prior at its default",
    ),
    "offset": (
        lambda x, y: BGLMRegressor(family=LINEAR).fit(x, y, offset=np.zeros(ROWS)),
        "takes no offset",
    ),
    "weights of names": (
        lambda x, y: BGLMRegressor(family=BatchLikelihood(scores(x, y))).fit(x, y, sample_weight=np.full(ROWS, 2.0)),
        "a batch likelihood is not told the weights",
    ),
    "weights of names of features": (
        lambda x, y: searched(BatchLikelihood(scores(x, y))).fit(x, y, sample_weight=np.full(ROWS, 2.0)),
        "a batch likelihood is not told the weights",
    ),
    "rows of no weight": (
        lambda x, y: searched(LINEAR).fit(x, y, sample_weight=np.arange(ROWS)),
        "weights are zero in some rows",
    ),
    "projections by name": (
        lambda x, y: searched(
            BatchLikelihood(scores(x, y)), space=Space(mutation=0.3, crossover=0.3, modification=0.2, projection=0.2)
        ).fit(x, y),
        "no coefficients inside projections; give a Space without projections",
    ),
    "no function": (lambda x, y: BGLMRegressor(family=linear_bic).fit(x, y), "an OwnLikelihood or a BatchLikelihood"),
    "base of probability zero": (
        lambda x, y: searched(BatchLikelihood(lambda models: [np.nan] * len(models))).fit(x, y),
        "the likelihood of the model of the intercept",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_options_that_cannot_be_honoured_are_refused(case: str):
    call, words = REFUSED[case]
    with pytest.raises(InputError) as caught:
        call(*table())
    text = str(caught.value)
    assert words in text and "\n" not in text


def test_copies_of_estimators():
    x, y = table()
    model = BGLMRegressor(family=LINEAR)
    assert clone(model).family is model.family
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(again.fit(x, y).inclusion_["probability"], model.fit(x, y).inclusion_["probability"])
    with pytest.raises(TypeError, match="build it again there"):
        pickle.dumps(model)


# --- discovery --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["rgmjmcmc", "gmjmcmc"])
@pytest.mark.parametrize("kind", ["own", "batch"])
def test_discovery_is_that_of_the_same_likelihood_built_in(kind: str, algorithm: str):
    x, y = table()
    # A search by names looks at fewer edits, which are all there are in so small a space.
    more = {"algorithm": algorithm, "budget": SHORT if algorithm == "rgmjmcmc" else Budget(steps=2000)}
    more |= {"space": Space(rules="paper", complexity=2, depth=1, size=3, population=8)}
    own = searched(both(x, y)[kind], **more).fit(x, y)
    built_in = searched("gaussian", coef_prior="bic", **more).fit(x, y)
    if algorithm == "gmjmcmc":
        pd.testing.assert_frame_equal(own.inclusion_, built_in.inclusion_, check_exact=False, atol=1e-9)
        pd.testing.assert_frame_equal(own.models_, built_in.models_, check_exact=False, atol=1e-7)
    else:
        # Families of the package are searched by more chains, so that the same seed is another run.
        mine, theirs = own.inclusion_.align(built_in.inclusion_, join="inner")
        error = 4.5 * np.hypot(mine["mcse"], theirs["mcse"]) + 2e-3
        assert len(mine) > 10 and (mine["probability"] - theirs["probability"]).abs().le(error).all()
    assert own.best_model() == ("a*b",)
    assert "best model, with coefficients" not in own.summary() and repr(own.family) in own.summary()
    unmet = ["sin(a*b*d)"]
    assert own.log_marginal_likelihood(unmet) == pytest.approx(built_in.log_marginal_likelihood(unmet), abs=1e-8)


@pytest.mark.parametrize("kind", ["own", "batch"])
def test_the_answer_does_not_depend_on_the_number_of_threads(kind: str):
    x, y = table()
    one, two = (searched(both(x, y)[kind], n_jobs=jobs, chains=3).fit(x, y) for jobs in (1, 2))
    pd.testing.assert_frame_equal(one.inclusion_, two.inclusion_)


@pytest.mark.full
def test_projections_are_columns_like_others():
    x, _ = table()
    y = 3.0 * np.sin(1.0 + 0.7 * x["a"] - 0.9 * x["b"]) + 0.1 * np.random.default_rng(9).normal(size=ROWS)
    space = Space(mutation=0.2, crossover=0.1, modification=0.2, projection=0.5, complexity=6, size=3)
    own = searched(LINEAR, space=space).fit(x, y)
    built_in = searched("gaussian", coef_prior="bic", space=space).fit(x, y)
    assert any(node.kind == "projection" for law in own.laws_.features for node in law.subfeatures())
    pd.testing.assert_frame_equal(own.models_, built_in.models_, check_exact=False, atol=1e-6)


def test_features_are_told_by_their_texts_and_each_model_once():
    x, y = table()
    asked: list[tuple[str, ...]] = []
    score = scores(x, y)

    def counted(models: list[tuple[str, ...]]) -> list[float]:
        asked.extend(models)
        return score(models)

    names = list(x.columns)
    problem = feature_problem(
        x.to_numpy(), y.to_numpy(), names, transforms=[modejump.transforms["sin"]], space=Space(complexity=4),
        family=BatchLikelihood(counted),
    )  # fmt: skip
    gmjmcmc(problem, chains=3, workers=3, budget=Budget(steps=3000))
    # The problem over the laws found scores the model without any again.
    assert asked.count(()) == 2
    asked.remove(())
    assert len(asked) == len(set(asked)) == problem.family.scored
    for model in asked:
        features = [Feature.parse(text, names) for text in model]
        assert features == sorted(set(features)) and tuple(f.text for f in features) == model
    with pytest.raises(InputError, match="without a list of terms"):
        problem.family.score_all()


def test_exceptions_name_the_model():
    x, y = table()

    def narrow(y, X, weights, params):
        if X.shape[1] > 2:
            raise ValueError("too wide")
        return -1.0 * X.shape[1]

    def few(models: list[tuple[str, ...]]) -> list[float]:
        if any(len(model) > 1 for model in models):
            raise ZeroDivisionError("too wide")
        return [0.0] * len(models)

    for family in (OwnLikelihood(narrow), BatchLikelihood(few)):
        for algorithm in ("rgmjmcmc", "gmjmcmc"):
            budget = SHORT if algorithm == "rgmjmcmc" else Budget(steps=1000)
            with pytest.raises(LikelihoodError, match=r"of the model \(.+\) failed with .*too wide") as caught:
                searched(family, algorithm=algorithm, budget=budget, n_jobs=2).fit(x, y)
            assert type(caught.value.__cause__) in (ValueError, ZeroDivisionError)


def test_a_run_directory_refuses_functions(tmp_path):
    with pytest.raises(InputError, match="holds no functions"):
        modejump.Run(tmp_path / "run").fit(BGLMRegressor(family=BatchLikelihood(lambda models: [])), [[1.0]], [1.0])
    assert not (tmp_path / "run").exists()
