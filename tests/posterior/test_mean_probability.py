"""Probabilities of classes: inverse links averaged over normals, against exact integrals and their plain twin."""

from __future__ import annotations

import numpy as np
import pytest
from plain import mean_probabilities_plain
from scipy import special, stats

from modejump.likelihoods import Binomial, Link
from modejump.likelihoods.glm.binomial import LOGIT, PROBIT
from modejump.posterior.prediction.mean_probability import mean_probabilities, table_of

LINKS = {link.name: link for link in Binomial.links if link.close is not None}
NODES, SHARES = np.polynomial.legendre.leggauss(40)


def compiled(loc: np.ndarray, scale: np.ndarray, weight: np.ndarray, link: Link) -> np.ndarray:
    out = np.empty(len(loc))
    mean_probabilities(loc, scale, weight, table_of(link), out)
    return out


def exact(link: Link, loc: float, scale: float) -> float:
    """Gauss and Legendre's rule on panels narrower than the normal and the link; in closed form where the link is 1."""
    low, high = max(loc - 14.0 * scale, -70.0), min(loc + 14.0 * scale, 60.0)
    above = stats.norm.sf(60.0, loc, scale)
    if low >= high:
        return float(above)
    edges = np.linspace(low, high, int(60 + (high - low) / min(scale, 0.5)))
    half = np.diff(edges)[:, None] / 2.0
    t = edges[:-1, None] + half * (1.0 + NODES)
    return float(above + (half * SHARES * link.mean(t) * stats.norm.pdf(t, loc, scale)).sum())


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_probabilities_are_exact_at_any_width(link: Link) -> None:
    rng = np.random.default_rng(901)
    loc = rng.uniform(-1.0, 1.0, 600) * 10.0 ** rng.uniform(-1.0, 1.6, 600)
    scale = 10.0 ** rng.uniform(-2.5, 3.0, 600)
    found = compiled(loc[:, None], scale[:, None], np.ones((600, 1)), link)
    truth = np.array([exact(link, m, s) for m, s in zip(loc, scale)])
    np.testing.assert_allclose(found, np.minimum(truth, 1.0), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_compiled_probabilities_agree_with_their_plain_twin(link: Link) -> None:
    rng = np.random.default_rng(902)
    loc, scale = rng.normal(0.0, 6.0, (8, 30)), np.exp(rng.uniform(-4.0, 4.0, (8, 30)))
    weight = rng.dirichlet(np.ones(30), 8)
    weight[:, :5] = 0.0
    weight /= weight.sum(axis=1, keepdims=True)
    found = compiled(loc, scale, weight, link)
    np.testing.assert_allclose(found, mean_probabilities_plain(loc, scale, weight, link), rtol=0, atol=1e-8)
    # Components without weight count for nothing, whatever they are.
    loc[:, :5], scale[:, :5] = np.nan, np.nan
    np.testing.assert_array_equal(compiled(loc, scale, weight, link), found)


def test_one_wide_component_does_not_blur_the_others() -> None:
    # A nearly separated model, far from its rows, beside ordinary ones.
    rng = np.random.default_rng(521)
    loc, scale = rng.normal(1.0, 0.5, (6, 12)), np.exp(rng.uniform(-2.5, 0.5, (6, 12)))
    loc[:, :4], scale[:, :4] = [5e3, -2e4, 30.0, 9e2], [4e3, 1e4, 20.0, 0.2]
    weight = rng.dirichlet(np.ones(12), 6)
    truth = [[exact(LOGIT, *part) for part in zip(*row)] for row in zip(loc, scale)]
    np.testing.assert_allclose(compiled(loc, scale, weight, LOGIT), (weight * truth).sum(axis=1), rtol=0, atol=1e-10)


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_rare_events_keep_a_probability_and_certain_ones_do_not_pass_one(link: Link) -> None:
    loc = np.array([-5.0, -20.0, -39.0, -41.0, -80.0, -500.0, 500.0])
    for scale in (1e-9, 0.05, 0.3, 1.0, 2.0):
        found = compiled(loc[:, None], np.full((7, 1), scale), np.ones((7, 1)), link)
        assert (np.diff(found[:-1]) <= 0.0).all() and found[-1] == 1.0
        if link != PROBIT:
            # Far below, both inverse links are the exponential function.
            np.testing.assert_allclose(found[2:6], np.exp(loc[2:6] + 0.5 * scale**2), rtol=1e-9)
        else:
            np.testing.assert_allclose(found, special.ndtr(loc / np.hypot(1.0, scale)), rtol=1e-12)
