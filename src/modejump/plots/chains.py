"""Pictures of Markov chains: how their estimates settle, and whether two estimates of one number agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.plots.style import ACCENT, CYCLE, GREY, STRONG, axes_or_new, posterior_of, read_count, shorten, tidy
from modejump.posterior.posterior import Posterior

# Half the width of a 95 % interval, in standard errors.
_REACH = 1.96
# Frequencies and renormalised estimates disagree by the rule of the verdict: by more than this, and this many errors.
_APART, _ERRORS = 0.05, 4.0


def _sampled(model: Any, caller: str) -> Posterior:
    posterior = posterior_of(model, caller)
    if posterior.diagnostics is None:
        why = "all models were evaluated" if posterior.exact else "nothing was sampled"
        raise InputError(f"{caller} draws Markov chains, and there are none: {why}.")
    return posterior


def plot_chains(
    model: Any, features: str | Sequence[str] | None = None, *, most: int = 4, running: bool = True, ax: Any = None
) -> Any:
    """Draw the probability of features as each chain has estimated it so far: one line for each chain.

    Lines of one feature should run into each other. Where they stay apart, the chains have not mixed.

    Parameters
    ----------
    model : estimator or Posterior
        A fitted one whose models were sampled.
    features : str or sequence of str, optional
        Names of the features; by default those with the largest Monte Carlo error.
    most : int
        How many features to choose at most, where none are named.
    running : bool
        Whether to draw the mean of all batches so far; otherwise the share of each batch by itself, which is the trace.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor, Budget
    >>> from modejump.plots import plot_chains
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BGLMRegressor(algorithm="mjmcmc", chains=3, budget=Budget(steps=100_000), random_state=1).fit(X, y)
    >>> len(plot_chains(model, ["s1", "s3"]).lines)
    6
    """
    posterior = _sampled(model, "plot_chains")
    names = list(posterior.problem.names)
    if features is None:
        leading = posterior.inclusion["mcse"].sort_values(ascending=False, kind="stable")
        features = list(leading.index[: min(read_count(most, "most"), len(CYCLE))])
    chosen = [features] if isinstance(features, str) else list(features)
    unknown = [name for name in chosen if name not in names]
    if unknown or not chosen:
        raise InputError(
            f"there is no feature {unknown[0]!r}; names are in inclusion_." if unknown else "name a feature."
        )
    means = posterior.result.batch_means
    assert means is not None
    steps = posterior.result.batch_length * np.arange(1, means.shape[1] + 1)
    ax = axes_or_new(ax, (7.5, 3.6))
    for number, name in enumerate(chosen):
        values = means[:, :, names.index(name)]
        if running:
            values = np.cumsum(values, axis=1) / np.arange(1, means.shape[1] + 1)
        for chain, line in enumerate(values):
            ax.plot(steps, line, color=CYCLE[number % len(CYCLE)], linewidth=1.1, alpha=0.75,
                    label=shorten(name) if chain == 0 else None)  # fmt: skip
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel("steps of each chain")
    ax.set_ylabel("probability so far" if running else "share of each batch")
    ax.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    tidy(ax)
    return ax


def plot_agreement(model: Any, *, ax: Any = None) -> Any:
    """Draw frequencies of features against renormalised estimates, two estimates of one number.

    Whiskers are 95 % intervals of the frequencies. On a run that has converged, all points lie on the diagonal; those
    that differ by more than 0.05 and by more than four Monte Carlo errors stand out and are named.

    Parameters
    ----------
    model : estimator or Posterior
        A fitted one whose models were sampled.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor, Budget
    >>> from modejump.plots import plot_agreement
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BGLMRegressor(algorithm="mjmcmc", budget=Budget(steps=100_000), random_state=1).fit(X, y)
    >>> plot_agreement(model).texts
    <Axes.ArtistList of 0 texts>
    """
    table = _sampled(model, "plot_agreement").inclusion
    x, y, error = (table[name].to_numpy() for name in ("renormalised", "probability", "mcse"))
    apart = (np.abs(x - y) > _APART) & (np.abs(x - y) > _ERRORS * np.nan_to_num(error))
    ax = axes_or_new(ax, (4.4, 4.2))
    ax.axline((0.0, 0.0), (1.0, 1.0), color=GREY, linewidth=0.8, zorder=0)
    for which, colour in ((~apart, STRONG), (apart, ACCENT)):
        ax.errorbar(x[which], y[which], yerr=_REACH * np.nan_to_num(error[which]), fmt="o", markersize=4.5,
                    color=colour, elinewidth=1.1, alpha=0.85, markeredgewidth=0)  # fmt: skip
    for i in np.flatnonzero(apart):
        ax.annotate(shorten(table.index[i], 24), (x[i], y[i]), xytext=(5, 3), textcoords="offset points", fontsize=8)
    ax.set_xlim(-0.03, 1.03)
    ax.set_ylim(-0.03, 1.03)
    ax.set_aspect("equal")
    ax.set_xlabel("renormalised over the models met")
    ax.set_ylabel("frequency in the chains")
    tidy(ax)
    return ax
