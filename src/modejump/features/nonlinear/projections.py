"""Coefficients inside projections that the search has not met, in plain NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from modejump.core.errors import InputError
from modejump.features.nonlinear.expression import Feature, evaluate


def with_projections(
    features: Sequence[Feature],
    table: Mapping[str, np.ndarray],
    y: np.ndarray,
    weights: np.ndarray,
    *,
    known: Mapping[Feature, np.ndarray],
    kind: str,
) -> dict[Feature, np.ndarray]:
    """Coefficients of all projections inside some features, those known and those to be found.

    Parameters
    ----------
    features : sequence of Feature
        The features.
    table : mapping of str to ndarray
        The covariates.
    y, weights : ndarray of shape (n,)
        Response and case weights.
    known : mapping of Feature to ndarray
        What the search found.
    kind : {"ml", "ones", "random", "optimised"}
        How alphas are found, as in :class:`modejump.Space`.
    """
    alphas = dict(known)
    for feature in features:
        for node in feature.subfeatures():
            if node.kind == "projection" and node not in alphas:
                alphas[node] = _fit(node, table, y, weights, alphas, kind)
    return alphas


def _fit(
    node: Feature,
    table: Mapping[str, np.ndarray],
    y: np.ndarray,
    weights: np.ndarray,
    alphas: Mapping[Feature, np.ndarray],
    kind: str,
) -> np.ndarray:
    if kind in ("random", "optimised"):
        raise InputError(
            f"the projection {node.text!r} was not met by the search, which finds {kind} coefficients; ask for one "
            "that was."
        )
    if kind == "ones":
        return np.array([0.0, *np.ones(len(node.children))])
    parents = np.column_stack([evaluate(child, table, alphas) for child in node.children])
    if not np.isfinite(parents).all():
        raise InputError(f"the projection {node.text!r} has a parent that is not finite on the training data.")
    mean, centre = np.average(parents, axis=0, weights=weights), np.average(y, weights=weights)
    root = np.sqrt(weights)
    scale = np.linalg.norm(root[:, None] * (parents - mean), axis=0)
    if not (scale > 0.0).all():
        raise InputError(f"the projection {node.text!r} has a parent that is constant on the training data.")
    slopes = np.linalg.lstsq(root[:, None] * (parents - mean) / scale, root * (y - centre), rcond=None)[0] / scale
    return np.array([centre - slopes @ mean, *slopes])
