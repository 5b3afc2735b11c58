"""Columns of features made from chunks of rows, and the coefficients inside projections from sums over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from modejump.data.moments import Moments, MomentsOf, Rows
from modejump.features.nonlinear.columns import ALPHA_TOLERANCE, CONSTANT_PARENT
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.functions import apply_column
from modejump.features.nonlinear.transforms import FIRST_USER_CODE, transforms
from modejump.problem.streamed import Factor
from modejump.samplers.programs import CompiledMoments, Pairs, is_compiled, program_of

# Coefficients of each projection: intercept, then those of its parents; None where it cannot have any.
Alphas = dict[Feature, np.ndarray | None]


@dataclass(frozen=True, eq=False)
class FeatureColumns:
    """From a block of covariates and response to the columns of features and, last, the response.

    Attributes
    ----------
    features : tuple of Feature
        The features.
    names : tuple of str
        The covariates.
    alphas : mapping of Feature to ndarray or None
        Coefficients inside projections; a feature without them is not a number anywhere.
    """

    features: tuple[Feature, ...]
    names: tuple[str, ...]
    alphas: Mapping[Feature, np.ndarray | None]

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Make the columns; what features share is computed once."""
        known = {Feature.covariate(name): values[j] for j, name in enumerate(self.names)}
        out = np.empty((len(self.features) + 1, values.shape[1]))
        with np.errstate(all="ignore"):
            for row, feature in zip(out, self.features):
                row[:] = self._column(feature, known)
        out[-1] = values[-1]
        return out

    def _column(self, node: Feature, known: dict[Feature, np.ndarray]) -> np.ndarray:
        if node in known:
            return known[node]
        parts = [self._column(child, known) for child in node.children]
        made = parts[0].copy()
        if node.kind == "product":
            for part in parts[1:]:
                made *= part
        elif node.kind == "projection":
            alpha = self.alphas[node]
            if alpha is None:
                made[:] = np.nan
            else:
                made[:] = alpha[0]
                for a, part in zip(alpha[1:].tolist(), parts, strict=True):
                    made += a * part
        if node.transform is not None:
            transform = transforms[node.transform]
            if transform.code < FIRST_USER_CODE:
                apply_column(transform.code, made, made)
            else:
                made = np.asarray(transform(made))
        known[node] = made
        return made


def feature_moments(rows: Rows, features: Sequence[Feature], alphas: Alphas, groups: Pairs) -> Moments:
    """One pass over the covariates of features: moments of their columns and, last, the response.

    Parameters
    ----------
    rows : Rows
        Where the rows come from.
    features : sequence of Feature
        What is to be evaluated.
    alphas : dict
        Coefficients inside projections.
    groups : tuple of pairs of ndarray
        Which products to sum; the second of a pair holds the first.
    """
    used = {name for f in features for name in f.covariates}
    names = tuple(name for name in rows.covariates if name in used)
    if is_compiled(features):
        return rows.reduce(CompiledMoments(program_of(features, names, alphas), groups), names)
    columns = FeatureColumns(tuple(features), names, dict(alphas))
    return rows.reduce(MomentsOf(columns, len(features) + 1, groups), names)


def projections_in(features: Iterable[Feature]) -> list[Feature]:
    """All projections inside features, in a fixed order."""
    return sorted({node for f in features for node in f.subfeatures() if node.kind == "projection"})


def fit_alphas(rows: Rows, features: Iterable[Feature], alphas: Alphas) -> None:
    """Find the coefficients of all projections inside features by maximum likelihood; one pass for each level of them.

    Parameters
    ----------
    rows : Rows
        Where the rows come from.
    features : iterable of Feature
        What is to be evaluated.
    alphas : dict
        Coefficients known; receives the others.
    """
    waiting = [node for node in projections_in(features) if node not in alphas]
    while waiting:
        ready = [node for node in waiting if all(inner in alphas for inner in projections_in(node.children))]
        parents = sorted({child for node in ready for child in node.children})
        where = {parent: i for i, parent in enumerate(parents)}
        groups = tuple(_with_response([where[child] for child in node.children], len(parents)) for node in ready)
        moments = feature_moments(rows, parents, alphas, groups)
        for node, (index, _), cross in zip(ready, groups, moments.cross, strict=True):
            alphas[node] = _least_squares(moments, index, cross)
        waiting = [node for node in waiting if node not in alphas]


def _with_response(index: Sequence[int], response: int) -> tuple[np.ndarray, np.ndarray]:
    parents = np.array(index, np.int64)
    return parents, np.append(parents, response)


def _least_squares(moments: Moments, index: np.ndarray, cross: np.ndarray) -> np.ndarray | None:
    """Intercept and slopes of the response on some columns; None where these are constant or dependent."""
    m = len(index)
    squares, mean = moments.squares[index], moments.mean[index]
    with np.errstate(all="ignore"):
        whole = squares + moments.n * mean**2
    # Written so that values that are not numbers fail.
    if not ((whole < np.inf) & (squares > CONSTANT_PARENT**2 * whole)).all():
        return None
    scale = np.sqrt(squares)
    gram = cross[:, :m] / scale[:, None] / scale
    factor = Factor(m, ALPHA_TOLERANCE)
    if not all(factor.extend(i, gram[i, :i]) for i in range(m)):
        return None
    lower = factor.lower
    slopes = solve_triangular(lower.T, solve_triangular(lower, cross[:, m] / scale, lower=True)) / scale
    return np.append(moments.mean[-1] - slopes @ mean, slopes)
