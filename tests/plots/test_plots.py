"""What the plots draw, looked up in their artists."""

import itertools

import numpy as np
import pandas as pd
import pytest

from modejump import BernoulliPrior, BetaBinomialPrior, BGLMClassifier, BGLMRegressor, Budget, InputError, fit_law

pytest.importorskip("matplotlib")
from matplotlib import pyplot
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgb

from modejump import plots
from modejump.plots import style

RNG = np.random.default_rng(7)
X = pd.DataFrame(RNG.normal(size=(120, 5)), columns=["dose", "age", "mass", "height", "noise"])
X["height"] = 0.9 * X["mass"] + 0.3 * X["height"]
Y = 1.5 * X["dose"] + 0.5 * X["mass"] + RNG.normal(size=120)


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def exact():
    return BGLMRegressor().fit(X, Y)


@pytest.fixture(scope="module")
def sampled():
    return BGLMRegressor(algorithm="mjmcmc", chains=3, budget=Budget(steps=20_000), random_state=1).fit(X, Y)


def labels(axis):
    return [text.get_text() for text in axis]


# --- inclusion ----------------------------------------------------------------------------------------------------


def test_features_of_no_probability_are_counted_instead_of_drawn(exact):
    table = exact.inclusion_["probability"]
    least = float(table.iloc[2]) + 1e-9
    ax = plots.plot_inclusion(exact, least=least)
    assert labels(ax.get_yticklabels()) == list(table.index[:2][::-1])
    assert ax.get_xlabel() == f"inclusion probability (3 more of {table.iloc[2]:.2f} or less)"
    assert plots.plot_inclusion(exact, least=0.0).get_xlabel() == "inclusion probability"
    # One row at least, however small it is.
    assert len(plots.plot_inclusion(exact, least=0.9999999).patches) == 1


def test_whiskers_are_95_percent_intervals_and_exact_ones_have_none(exact, sampled):
    ax = plots.plot_inclusion(sampled, least=0.0)
    (lines,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    table = sampled.inclusion_.iloc[::-1]
    ends = np.array([segment[:, 0] for segment in lines.get_segments()])
    expected = table["probability"].to_numpy()[:, None] + 1.96 * table["mcse"].to_numpy()[:, None] * [-1, 1]
    np.testing.assert_allclose(ends, expected.clip(0, 1))
    assert not plots.plot_inclusion(exact).collections


def test_joint_inclusion_is_ordered_by_the_diagonal(exact):
    names = ["dose", "age", "mass"]
    joint = pd.DataFrame([[0.2, 0.1, 0.15], [0.1, 0.9, 0.7], [0.15, 0.7, 0.8]], index=names, columns=names)
    ax = plots.plot_joint_inclusion(joint, most=2)
    assert labels(ax.get_yticklabels()) == ["age", "mass"]
    np.testing.assert_allclose(ax.images[0].get_array(), [[0.9, 0.7], [0.7, 0.8]])
    with pytest.raises(InputError, match="square"):
        plots.plot_joint_inclusion(joint[["dose", "age"]])


# --- models -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prior, expected",
    [
        (BetaBinomialPrior(1, 1), np.full(6, 1 / 6)),
        (
            BernoulliPrior(0.2),
            [0.8**5, 5 * 0.2 * 0.8**4, 10 * 0.04 * 0.8**3, 10 * 0.2**3 * 0.64, 5 * 0.2**4 * 0.8, 0.2**5],
        ),
        (BernoulliPrior([0.5, 0.5, 0.0001, 0.0001, 0.0001]), [0.25, 0.5, 0.25, 0.0, 0.0, 0.0]),
    ],
)
def test_sizes_have_the_prior_of_their_model_prior(prior, expected):
    model = BGLMRegressor(model_prior=prior).fit(X, Y)
    ax = plots.plot_sizes(model)
    sizes, drawn = ax.lines[0].get_data()
    np.testing.assert_allclose(drawn, np.asarray(expected)[np.asarray(sizes, int)], atol=2e-4)
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(heights, model.posterior_.size_distribution.to_numpy()[np.asarray(sizes, int)])


def test_sizes_under_heredity_have_no_prior():
    prior = BetaBinomialPrior(heredity="strong")
    model = BGLMRegressor(model_prior=prior).fit_formula("y ~ dose + age + dose:age", X.assign(y=Y))
    ax = plots.plot_sizes(model)
    assert not ax.lines and ax.get_legend() is None


def test_models_are_as_wide_as_probable_and_filled_where_they_have_the_term(exact):
    ax = plots.plot_models(exact, models=4)
    mesh = ax.collections[0]
    table, terms = exact.models_.head(4), labels(ax.get_yticklabels())
    edges = mesh.get_coordinates()[0, :, 0]
    np.testing.assert_allclose(np.diff(edges), table["probability"])
    filled = ~np.ma.getmaskarray(np.ma.masked_invalid(mesh.get_array()))
    expected = [[name in features for features in table["features"]] for name in terms]
    np.testing.assert_array_equal(filled.reshape(len(terms), 4), expected)
    order = list(exact.inclusion_.index)
    assert terms == sorted(terms, key=order.index)
    assert "other models" in labels(ax.texts)


def test_models_without_terms_are_refused():
    noise = BGLMRegressor(model_prior=BernoulliPrior(1e-9)).fit(X[["noise"]], Y[::-1].to_numpy())
    with pytest.raises(InputError, match="no terms"):
        plots.plot_models(noise, models=1)


# --- chains -------------------------------------------------------------------------------------------------------


def test_running_probabilities_end_at_the_mean_of_each_chain(sampled):
    ax = plots.plot_chains(sampled, "mass")
    means = sampled.posterior_.result.batch_means[:, :, list(sampled.problem_.names).index("mass")]
    assert len(ax.lines) == 3
    np.testing.assert_allclose([line.get_ydata()[-1] for line in ax.lines], means.mean(axis=1))
    steps = sampled.posterior_.result.batch_length * means.shape[1]
    assert {line.get_xdata()[-1] for line in ax.lines} == {steps}
    trace = plots.plot_chains(sampled, "mass", running=False)
    np.testing.assert_allclose(trace.lines[1].get_ydata(), means[1])


def test_chains_shown_by_default_are_those_least_settled(sampled):
    ax = plots.plot_chains(sampled, most=2)
    wanted = sampled.inclusion_["mcse"].sort_values(ascending=False).index[:2]
    assert labels(ax.get_legend().get_texts()) == list(wanted)
    with pytest.raises(InputError, match="no feature 'weight'"):
        plots.plot_chains(sampled, ["mass", "weight"])


def test_agreement_draws_both_estimates_and_names_those_that_disagree(sampled):
    ax = plots.plot_agreement(sampled)
    points = np.vstack([line.get_xydata() for line in ax.lines if line.get_marker() == "o" and len(line.get_xdata())])
    expected = sampled.inclusion_[["renormalised", "probability"]].to_numpy()
    np.testing.assert_allclose(points[np.lexsort(points.T)], expected[np.lexsort(expected.T)])
    assert not ax.texts
    posterior = sampled.posterior_
    frequency = dict(zip(posterior.problem.names, posterior.frequency))
    moved = posterior.inclusion.copy()
    moved.loc["mass", "renormalised"] = 1.0 - frequency["mass"] if abs(frequency["mass"] - 0.5) > 0.1 else 0.0
    broken = type(posterior)(posterior.problem, posterior.result)
    broken.__dict__["inclusion"] = moved
    assert labels(plots.plot_agreement(broken).texts) == ["mass"]


@pytest.mark.parametrize("draw", [plots.plot_chains, plots.plot_agreement])
def test_enumerated_models_have_no_chains_to_draw(exact, draw):
    with pytest.raises(InputError, match="all models were evaluated"):
        draw(exact)
    with pytest.raises(InputError, match="call fit first"):
        draw(BGLMRegressor())


# --- prediction ---------------------------------------------------------------------------------------------------


def test_coverage_is_the_share_of_rows_inside(exact):
    ax = plots.plot_calibration(exact, X, Y)
    levels, shares = ax.lines[-1].get_data()
    predicted = exact.predict(X, interval=0.5)
    at = list(levels).index(0.5)
    assert shares[at] == Y.between(predicted["lower"], predicted["upper"]).mean()
    assert ax.get_ylabel() == "share of 120 rows inside"


def test_the_band_of_coverage_holds_calibrated_predictions_and_no_others():
    class Fixed:
        def __init__(self, scale):
            self.scale = scale

        def predict(self, X, interval, offset=None):
            from scipy.stats import norm

            reach = self.scale * norm.ppf(0.5 + interval / 2)
            return pd.DataFrame({"mean": 0.0, "lower": -reach, "upper": reach}, index=range(len(X)))

    y = np.random.default_rng(1).normal(size=2000)
    inside = {}
    for scale in (1.0, 0.8):
        ax = plots.plot_calibration(Fixed(scale), y[:, None], y)
        band = ax.collections[0].get_paths()[0]
        inside[scale] = band.contains_points(ax.lines[-1].get_xydata()).mean()
    assert inside[1.0] == 1.0 and inside[0.8] < 0.2


def test_reliability_compares_shares_with_mean_probabilities():
    labelled = np.where(X["dose"] + np.random.default_rng(3).logistic(size=120) > 0, "sick", "well")
    model = BGLMClassifier().fit(X, labelled)
    ax = plots.plot_calibration(model, X, labelled, bins=4)
    mean, share = ax.lines[-1].get_data()
    probability = model.predict_proba(X)[:, 1]
    groups = np.array_split(np.argsort(probability, kind="stable"), 4)
    np.testing.assert_allclose(mean, [probability[g].mean() for g in groups])
    np.testing.assert_allclose(share, [(labelled[g] == "well").mean() for g in groups])
    assert ax.get_xlabel() == "predicted probability of well"
    with pytest.raises(InputError, match="'dead', which the fit has not seen"):
        plots.plot_calibration(model, X, np.where(labelled == "well", "well", "dead"))


def test_many_rows_are_counted_in_hexagons(exact):
    rng = np.random.default_rng(5)
    many = pd.DataFrame(rng.normal(size=(3000, 5)), columns=X.columns)
    y = 1.5 * many["dose"] + 0.5 * many["mass"] + rng.normal(size=3000)
    ax = plots.plot_prediction(exact, many, y)
    (hexagons,) = [c for c in ax.collections if isinstance(c, PolyCollection)]
    assert hexagons.get_array().sum() == 3000
    some = np.linspace(0, 2999, 1000, dtype=int)
    predicted = exact.predict(many.iloc[some], interval=0.9)
    share = y.iloc[some].between(predicted["lower"], predicted["upper"]).mean()
    assert ax.get_title() == f"{share:.1%} of 1000 rows are inside their 90% intervals"


# --- effects and laws ---------------------------------------------------------------------------------------------


def test_effects_of_levels_are_points():
    table = pd.DataFrame({"value": ["low", "high"], "mean": [1.0, 2.0], "lower": [0.5, 1.5], "upper": [1.5, 2.5]})
    ax = plots.plot_effect(table, name="dose")
    assert labels(ax.get_xticklabels()) == ["low", "high"]
    np.testing.assert_allclose([s[:, 1] for s in ax.collections[0].get_segments()], [[0.5, 1.5], [1.5, 2.5]])
    with pytest.raises(InputError, match="value, mean, lower and upper"):
        plots.plot_effect(table.drop(columns="upper"))


def test_a_coefficient_has_its_density_and_its_mass_at_zero():
    grid = np.linspace(-1, 3, 50)
    density = 0.3 * np.exp(-((grid - 1) ** 2))
    ax = plots.plot_coefficient(grid, density, 0.4, name="dose")
    np.testing.assert_allclose(ax.lines[0].get_data(), (grid, density))
    (spike,) = [other for other in ax.figure.axes if other is not ax]
    assert spike.lines[0].get_xydata().tolist() == [[0.0, 0.4]]
    for bad in ((grid[::-1], density, 0.4), (grid, -density, 0.4), (grid, density, 1.4)):
        with pytest.raises(InputError):
            plots.plot_coefficient(*bad)


def test_a_law_is_drawn_with_the_other_covariates_at_their_medians(exact):
    ax = plots.plot_law(exact, X, Y, "dose", at={"age": 2.0})
    points, curve = ax.lines
    np.testing.assert_allclose(points.get_xydata(), np.column_stack([X["dose"], Y]))
    rows = pd.DataFrame({name: X[name].median() for name in X}, index=[0, 1]).assign(age=2.0)
    rows["dose"] = [X["dose"].min(), X["dose"].max()]
    np.testing.assert_allclose(curve.get_ydata()[[0, -1]], exact.predict(rows))
    assert "age = 2" in ax.get_title()
    law = fit_law("dose + mass", X, Y)
    fitted = plots.plot_law(law, X, Y, "dose").lines[1]
    medians = X.median().to_frame().T
    assert np.interp(X["dose"].median(), *fitted.get_data()) == pytest.approx(law.predict(medians)[0])
    with pytest.raises(InputError, match="'weight'"):
        plots.plot_law(exact, X, Y, "weight")
    with pytest.raises(InputError, match="no column"):
        plots.plot_law(exact, X, Y, "dose", at={"weight": 1.0})


def test_levels_of_factors_stay_levels_in_the_rows_of_a_law():
    some = X.assign(site=pd.Categorical(np.where(X["age"] > 0, "b", "a")), fed=X["mass"] > 0)
    model = BGLMRegressor().fit(some, Y + (some["site"] == "b"))
    curve = plots.plot_law(model, some, Y, "dose", at={"site": "b"}).lines[1]
    other = plots.plot_law(model, some, Y, "dose", at={"site": "a"}).lines[1]
    assert (curve.get_ydata() > other.get_ydata()).all()


# --- style --------------------------------------------------------------------------------------------------------

# Machado, Oliveira and Fernandes (2009), full severity, in linear RGB.
_SEEN = {
    "all colours": np.eye(3),
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
}


def _lab(colour, seen):
    """CIE L*a*b* of a colour as somebody sees it."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = (np.asarray(seen) @ linear).clip(0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = np.cbrt(np.maximum(to_xyz @ linear / np.array([0.9505, 1.0, 1.089]), 0.008856))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("who", _SEEN)
def test_colours_are_told_apart_without_red_or_green(who):
    for one, other in itertools.combinations(style.CYCLE, 2):
        assert np.linalg.norm(_lab(one, _SEEN[who]) - _lab(other, _SEEN[who])) > 20


def test_colours_are_told_apart_in_grey():
    for one, other in (*itertools.combinations(style.CYCLE, 2), (style.STRONG, style.WEAK), (style.ACCENT, style.WEAK)):
        assert abs(_lab(one, np.eye(3))[0] - _lab(other, np.eye(3))[0]) > 14


def test_every_plot_draws_on_the_axes_given(exact, sampled):
    square = pd.DataFrame(np.eye(2), index=["a", "b"], columns=["a", "b"])
    curve = pd.DataFrame({"value": [0, 1], "mean": [0, 1], "lower": [0, 1], "upper": [0, 1]})
    laws = pd.DataFrame(
        {"complexity": [1, 3], "law": ["a", "a*b"], "log_posterior": [1.0, 5.0], "error": [2.0, 1.0],
         "as_good": [False, True]}
    )  # fmt: skip
    calls = {
        "plot_agreement": (sampled,),
        "plot_calibration": (exact, X, Y),
        "plot_chains": (sampled,),
        "plot_coefficient": ([0.0, 1.0], [1.0, 1.0]),
        "plot_effect": (curve,),
        "plot_genome": (exact,),
        "plot_inclusion": (exact,),
        "plot_joint_inclusion": (square,),
        "plot_law": (exact, X, Y, "dose"),
        "plot_law_table": (laws,),
        "plot_models": (exact,),
        "plot_prediction": (exact, X, Y),
        "plot_sizes": (exact,),
    }
    assert sorted(calls) == sorted(plots.__all__)
    for name, arguments in calls.items():
        ax = pyplot.figure().add_subplot()
        assert getattr(plots, name)(*arguments, ax=ax) is ax
        assert ax.has_data(), name
