"""Simulated planets obey the laws they are said to obey, and plots of fits hold what they should."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from modejump import BGLMRegressor, InputError
from modejump.experiments import simulate_planets
from modejump.experiments.planets import AXIS_ERROR, DAYS_PER_YEAR, MASS_ERROR, PERIODS

# Probability of a false alarm in each statistical test below.
LEVEL = 1e-4


def test_one_seed_gives_one_catalogue():
    pd.testing.assert_frame_equal(simulate_planets(30, seed=4), simulate_planets(30, seed=4), check_exact=True)
    assert not simulate_planets(30, seed=4).equals(simulate_planets(30, seed=5))
    assert len(simulate_planets()) == 200 and np.isfinite(simulate_planets().to_numpy()).all()


@pytest.mark.parametrize(
    "column, law, error",
    [
        ("SemiMajorAxis", lambda t: np.cbrt(t["StarMass"] * (t["Period"] / DAYS_PER_YEAR) ** 2), AXIS_ERROR),
        ("Mass", lambda t: t["Radius"] ** 3 * t["Density"], MASS_ERROR),
    ],
)
def test_measurements_scatter_about_the_law_as_documented(column, law, error):
    planets = simulate_planets(2000, seed=6)
    scaled = (planets[column] - law(planets)) / error
    assert stats.kstest(scaled, "norm").pvalue > LEVEL


def test_periods_span_five_decades_evenly():
    period = simulate_planets(2000, seed=7)["Period"]
    low, high = np.log(PERIODS)
    assert np.isclose((high - low) / np.log(10.0), 5.0)
    assert stats.kstest((np.log(period) - low) / (high - low), "uniform").pvalue > LEVEL


def test_stars_lie_about_the_main_sequence():
    planets = simulate_planets(2000, seed=8)
    logs = np.log(planets[["StarMass", "StarRadius", "StarTemp"]])
    for column, power, scatter in (("StarRadius", 0.8, 0.08), ("StarTemp", 0.475, 0.03)):
        fit = stats.linregress(logs["StarMass"], logs[column])
        reach = stats.norm.isf(LEVEL / 2)
        assert abs(fit.slope - power) < reach * fit.stderr
        left = logs[column] - fit.intercept - fit.slope * logs["StarMass"]
        assert abs(left.std() / scatter - 1.0) < reach / np.sqrt(2 * len(planets))


@pytest.mark.parametrize("n", [0, -3, 2.5, True])
def test_a_number_of_planets_is_a_whole_one(n):
    with pytest.raises(InputError, match="whole number"):
        simulate_planets(n)


@pytest.fixture(scope="module")
def fitted() -> tuple[BGLMRegressor, pd.DataFrame, pd.Series]:
    planets = simulate_planets(60)
    X, y = planets[["Radius", "Density", "StarMass"]], planets["Mass"]
    return BGLMRegressor().fit(X, y), X, y


def test_bars_are_the_inclusion_probabilities(fitted):
    pytest.importorskip("matplotlib")
    from modejump.plots import plot_inclusion

    model, _, _ = fitted
    ax = plot_inclusion(model, most=2)
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, model.inclusion_["probability"].head(2)[::-1])
    assert [text.get_text() for text in ax.get_yticklabels()] == list(model.inclusion_.index[:2][::-1])
    with pytest.raises(InputError, match="most"):
        plot_inclusion(model, most=0)


@pytest.mark.parametrize("log", [False, True])
def test_points_are_predictions_and_the_legend_counts_them(fitted, log):
    pytest.importorskip("matplotlib")
    from modejump.plots import plot_prediction

    model, X, y = fitted
    ax = plot_prediction(model, X, y, level=0.5, log=log)
    predicted = model.predict(X, interval=0.5)
    shown = (predicted["mean"] > 0) & (y > 0) if log else np.ones(len(y), bool)
    inside = y.between(predicted["lower"], predicted["upper"])[shown].sum()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == [f"inside its 50% interval ({inside})", f"outside ({shown.sum() - inside})"]
    assert ax.get_xscale() == ("log" if log else "linear")


def test_without_matplotlib_one_sentence_says_how_to_get_it(monkeypatch, fitted):
    import sys

    from modejump.plots import plot_inclusion

    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(InputError, match="pip install"):
        plot_inclusion(fitted[0])
