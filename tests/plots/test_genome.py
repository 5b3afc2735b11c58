"""The plot of markers along the genome: what is drawn where, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from brute import brute_force, small_problem
from matplotlib import pyplot

from modejump.core.errors import InputError
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.language import Nonlinear
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.plots import plot_genome
from modejump.posterior import Posterior
from modejump.posterior.credible_sets import covariate_inclusion
from modejump.samplers.laws import Laws

NAMES = [f"rs{j}" for j in range(8)]
VALUES = pd.Series([0.1, 0.9, 0.2, 0.6, 0.0, 0.3, 1.0, 0.05], index=NAMES)
CHROMOSOME = pd.Series(["10", "2", "2", "X", "1", "2", "1", "X"], index=NAMES)
POSITION = pd.Series([50, 900, 100, 70, 10, 500, 400, 20], index=NAMES)


@pytest.fixture(autouse=True)
def no_figures_left() -> Iterator[None]:
    yield
    pyplot.close("all")


def drawn(ax: Any) -> dict[float, float]:
    """Place and probability of all points, those that stand out drawn last."""
    return {float(x): float(y) for points in ax.collections if hasattr(points, "get_sizes") and len(points.get_sizes())
            for x, y in points.get_offsets()}  # fmt: skip


def test_chromosomes_follow_each_other_and_markers_stand_by_position() -> None:
    ax = plot_genome(VALUES, CHROMOSOME, POSITION)
    points = drawn(ax)
    order = ["rs4", "rs6", "rs2", "rs5", "rs1", "rs0", "rs7", "rs3"]
    assert [points[x] for x in sorted(points)] == VALUES[order].tolist()
    places = sorted(points)
    # Distances inside a chromosome are those of the positions.
    np.testing.assert_allclose(np.diff(places)[[0, 2, 3, 6]], [390, 400, 400, 50])
    assert {label.get_text() for label in ax.get_xticklabels()} <= {"1", "2", "10", "X"}
    assert ax.get_xlabel() == "chromosome" and ax.get_ylabel() == "inclusion probability"
    same = drawn(plot_genome(VALUES.to_frame("probability"), CHROMOSOME.tolist(), POSITION.to_numpy()))
    assert same == points


def test_markers_above_the_threshold_are_named() -> None:
    assert {t.get_text() for t in plot_genome(VALUES).texts} == {"rs1", "rs3", "rs6"}
    assert {t.get_text() for t in plot_genome(VALUES, threshold=0.95).texts} == {"rs6"}
    # Names that would cover each other are left out, the leading one kept.
    crowd = pd.Series(np.linspace(0.97, 0.99, 200), index=[f"marker{j}" for j in range(200)])
    names = [t.get_text() for t in plot_genome(crowd).texts]
    assert "marker199" in names and len(names) <= 12


def test_without_positions_markers_stand_in_order() -> None:
    ax = plot_genome(VALUES)
    assert drawn(ax) == dict(enumerate(VALUES.tolist())) and ax.get_xlabel() == "marker, in order"
    by_chromosome = drawn(plot_genome(VALUES, CHROMOSOME))
    order = ["rs4", "rs6", "rs1", "rs2", "rs5", "rs0", "rs3", "rs7"]
    assert [by_chromosome[x] for x in sorted(by_chromosome)] == VALUES[order].tolist()
    assert sorted(drawn(plot_genome(VALUES, position=POSITION))) == sorted(POSITION)


def test_axes_that_are_given_are_used() -> None:
    figure, ax = pyplot.subplots(figsize=(4, 2))
    assert plot_genome(VALUES, ax=ax) is ax and len(figure.axes) == 1
    plot_genome(VALUES[:1], CHROMOSOME[:1], POSITION[:1])  # a single marker has a place, too


def test_a_fitted_model_shows_every_column() -> None:
    problem = small_problem(np.random.default_rng(91))
    posterior = Posterior(problem, brute_force(problem))
    assert drawn(plot_genome(posterior)) == pytest.approx(dict(enumerate(posterior.probability)))
    texts = ["rs0_d", "rs2_r", "rs0_r", "rs0_d*rs2_r", "sin(rs3_d)"]
    laws = Laws(tuple(map(Feature, texts)), {}, {}, problem, Nonlinear(("rs0_d",), [transforms["sin"]], Space()))
    searched = Posterior(problem, replace(posterior.result, laws=laws))
    model = SimpleNamespace(posterior_=searched, feature_names_in_=np.array(["rs3", "rs2", "rs1", "rs0"], object))
    found = covariate_inclusion(searched)
    # Columns in the order of the fit; one that no model has is zero, and markers of one column stand together.
    expected = [found["rs3_d"], found["rs2_r"], 0.0, found["rs0_d"], found["rs0_r"]]
    points = drawn(plot_genome(model))
    assert [points[x] for x in range(5)] == pytest.approx(expected)
    where = drawn(plot_genome(model, position=pd.Series({"rs0": 30, "rs1": 20, "rs2": 10, "rs3": 0})))
    assert [where[x] for x in (0.0, 10.0, 20.0)] == pytest.approx(expected[:3])


@pytest.mark.parametrize(("options", "said"), [
    ({"threshold": 1.5}, "threshold must be a number from 0 to 1"),
    ({"position": [1, 2]}, r"position must have one value for each of the 8 markers.*\(2,\)"),
    ({"chromosome": CHROMOSOME.drop("rs5")}, "chromosome has no entry for the marker 'rs5'"),
    ({"position": POSITION.astype(object).replace(70, "here")}, "position must hold numbers"),
    ({"position": POSITION.astype(float).replace(70, np.nan)}, "position must hold numbers"),
])  # fmt: skip
def test_places_that_cannot_be_used_are_refused(options: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        plot_genome(VALUES, **options)


def test_what_is_no_model_is_refused() -> None:
    for model, said in (
        (VALUES.to_frame("p"), 'no column "probability"'), ("model", "takes a fitted model"), (VALUES[:0], "no marker"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            plot_genome(model)
