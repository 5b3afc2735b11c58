"""Pictures of the models: how large they are, and which terms the leading ones have."""

from __future__ import annotations

from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.plots.style import (
    ACCENT,
    GREY,
    STRONG,
    axes_or_new,
    colour_map,
    import_pyplot,
    posterior_of,
    read_count,
    shorten,
    tidy,
)
from modejump.posterior.posterior import Posterior
from modejump.priors.counting import log_symmetric
from modejump.priors.heredity import NONE

# Sizes of less probability at both ends, and models of less, are not drawn.
_LEAST = 0.001
# Log posteriors further below the best than this have one colour: such models have no weight.
_DEPTH = 10.0


def plot_sizes(model: Any, *, ax: Any = None) -> Any:
    """Draw the posterior of the number of terms in the model, beside its prior.

    The prior is that of selection among given terms. It is not drawn after a search among features, nor under heredity,
    where it has no closed form.

    Parameters
    ----------
    model : estimator or Posterior
        A fitted one.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor
    >>> from modejump.plots import plot_sizes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> ax = plot_sizes(BGLMRegressor().fit(X, y))
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['posterior', 'prior']
    """
    posterior = posterior_of(model, "plot_sizes")
    share = posterior.size_distribution.to_numpy()
    seen = np.flatnonzero(share >= _LEAST)
    first, last = max(0, int(seen[0]) - 1), min(len(share) - 1, int(seen[-1]) + 1)
    sizes = np.arange(first, last + 1)
    ax = axes_or_new(ax, (6.0, 3.2))
    ax.bar(sizes, share[sizes], width=0.7, color=STRONG, label="posterior")
    prior = _prior_of_sizes(posterior)
    if prior is not None:
        ax.plot(sizes, prior[sizes], "o--", color=ACCENT, markersize=5, linewidth=1.0, label="prior")
        ax.legend(*zip(*reversed(list(zip(*ax.get_legend_handles_labels())))), frameon=False, fontsize=9)
    ax.set_xticks(sizes if len(sizes) <= 15 else sizes[:: -(-len(sizes) // 15)])
    ax.set_xlabel("number of terms in the model")
    ax.set_ylabel("probability")
    tidy(ax)
    return ax


def _prior_of_sizes(posterior: Posterior) -> np.ndarray | None:
    """Prior of the number of terms; None where it has no closed form."""
    prior = posterior.problem.data.prior
    if posterior.laws is not None or prior.heredity != NONE:
        return None
    log_share = prior.log_size + log_symmetric(prior.log_weight, len(prior.log_weight))
    share = np.exp(log_share - log_share.max())
    return np.asarray(share / share.sum())


def plot_models(model: Any, *, models: int = 30, most: int = 20, ax: Any = None) -> Any:
    """Draw the leading models as columns and their terms as rows: a field is filled where the model has the term.

    A column is as wide as its model is probable, and the darker the higher its log posterior. A row that is filled from
    end to end is a term in every model; rows that take turns are terms that replace each other.

    Parameters
    ----------
    model : estimator or Posterior
        A fitted one.
    models : int
        How many models to show at most.
    most : int
        How many terms to show at most, those of the largest probability first.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor
    >>> from modejump.plots import plot_models
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> ax = plot_models(BGLMRegressor().fit(X, y), models=5)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['bmi', 's5', 'bp', 'sex', 's1', 's3', 's2', 's4']
    """
    posterior = posterior_of(model, "plot_models")
    table = posterior.models(read_count(models, "models"))
    # Models too narrow to see are left out, unless all of them are.
    table = table[(table["probability"] > 0.0) & (table["probability"] >= min(_LEAST, table["probability"].max()))]
    if not len(table):
        raise InputError("no chain visited any of the leading models, so there is nothing to draw; run longer.")
    met = {name for features in table["features"] for name in features}
    terms = [name for name in posterior.inclusion.index if name in met][: read_count(most, "most")]
    if not terms:
        raise InputError("the leading models have no terms, so there is nothing to draw.")
    ax = axes_or_new(ax, (8.0, 1.1 + 0.32 * len(terms)))
    edges = np.append(0.0, np.cumsum(table["probability"].to_numpy()))
    depth = (table["log_posterior"] - table["log_posterior"].max()).to_numpy()
    held = np.array([[name in features for features in table["features"]] for name in terms])
    image = ax.pcolormesh(
        edges, np.arange(len(terms) + 1) - 0.5, np.where(held, depth, np.nan), cmap=colour_map(),
        vmin=min(-1.0, max(float(depth.min()), -_DEPTH)) * 1.3, vmax=0.0, edgecolor="white", linewidth=0.6,
    )  # fmt: skip
    import_pyplot().colorbar(image, ax=ax, pad=0.02, label="log posterior below the best", shrink=0.9)
    ax.set_yticks(range(len(terms)), [shorten(name) for name in terms])
    ax.set_ylim(len(terms) - 0.5, -0.5)
    ax.set_xlim(0.0, 1.0)
    if edges[-1] < 0.98:
        ax.axvspan(edges[-1], 1.0, color=GREY, alpha=0.08, linewidth=0)
        ax.text(0.5 * (edges[-1] + 1.0), 0.5 * (len(terms) - 1), "other models", color=GREY, rotation=90, ha="center",
                va="center", fontsize=8)  # fmt: skip
    ax.set_xlabel(f"probability of the {len(table)} leading models, added up")
    tidy(ax)
    ax.tick_params(axis="y", length=0)
    return ax
