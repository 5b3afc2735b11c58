"""Numbers at the edge of what doubles can hold: probabilities sum to one, and what was lost is said."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from modejump import BGLMClassifier, BGLMRegressor, InputError, ModejumpWarning


def tied(rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 4))
    return np.c_[x, x[:, 0]], x[:, 0] + rng.normal(size=rows)


@pytest.mark.parametrize("weight", [1.0, 1e6, 1e9])
def test_probabilities_sum_to_one_whatever_the_weights(weight: float) -> None:
    x, y = tied()
    model = BGLMRegressor().fit(x, y, sample_weight=np.full(60, weight))
    assert model.models_["probability"].sum() == pytest.approx(1.0, abs=1e-12)
    assert model.verdict_.level == "exact"
    first, second = model.models_["probability"][:2]
    assert first == pytest.approx(second, rel=1e-4)


@pytest.mark.parametrize("weight", [1e12, 1e15])
def test_lost_digits_are_told(weight: float) -> None:
    x, y = tied()
    with pytest.warns(ModejumpWarning, match="lost to rounding; give smaller weights"):
        model = BGLMRegressor().fit(x, y, sample_weight=np.full(60, weight))
    assert model.models_["probability"].sum() == pytest.approx(1.0, abs=1e-12)
    assert model.verdict_.level == "doubtful" and "exact" not in model.verdict_


@pytest.mark.parametrize(
    ("scale", "shift", "reason"),
    [(1e-300, 0.0, "power of ten"), (1e300, 0.0, "power of ten"), (1.0, 1e13, "subtract a constant")],
)
def test_the_reason_is_the_true_one(scale: float, shift: float, reason: str) -> None:
    x, y = tied()
    with pytest.raises(InputError, match=reason):
        BGLMRegressor().fit(x[:, :4], scale * y + shift)


@pytest.mark.parametrize(("scale", "shift"), [(1e-100, 0.0), (1e100, 0.0), (1.0, 1e7)])
def test_units_do_not_matter(scale: float, shift: float) -> None:
    x, y = tied()
    plain = BGLMRegressor().fit(x[:, :4], y).inclusion_["probability"]
    other = BGLMRegressor().fit(x[:, :4], scale * y + shift).inclusion_["probability"]
    np.testing.assert_allclose(other[plain.index], plain, rtol=0, atol=1e-7)


@pytest.mark.parametrize("prior", ["jeffreys", "g"])
def test_gamma_means_stay_in_sight_of_the_response(prior: str) -> None:
    helped = 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(6, 3)), rng.gamma(2, 1, size=6)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            mean = BGLMRegressor(family="gamma", coef_prior=prior).fit(x, y).predict(x)
        medians = [warning for warning in told if "the median is given" in str(warning.message)]
        assert len(medians) <= 1 and all(warning.category is ModejumpWarning for warning in medians)
        assert (mean > 0).all() and mean.max() < 50 * y.max()
        helped += len(medians)
    # Where the mean is of use, nobody is told otherwise.
    assert 0 < helped < 15


def test_what_is_approximate_is_said() -> None:
    x, y = tied()
    assert "exact" in BGLMRegressor().fit(x, y).verdict_
    verdict = BGLMClassifier().fit(x[:, :4], y > 0).verdict_
    assert "Laplace" in verdict and "exact" not in verdict


def test_coefficients_and_inclusion_give_one_answer() -> None:
    x, y = load_diabetes(return_X_y=True, as_frame=True)
    model = BGLMRegressor().fit(x, y)
    table = model.coefficients()
    for name, probability in model.inclusion_["probability"].items():
        assert table.loc[name, "probability"] == pytest.approx(probability, abs=1e-9)
