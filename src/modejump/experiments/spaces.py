"""Columns of features in plain NumPy, and which of them are one law."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial import cKDTree

from modejump.core.errors import InputError
from modejump.features.expression import Expression
from modejump.problem.design import BASE_TOLERANCE
from modejump.problem.feature_problem import FeatureProblem
from modejump.samplers.chains.workspace import all_constants
from modejump.samplers.laws import SAME_LAW

# Directions along which columns are compared before they are compared in full.
_DIRECTIONS = 8


@dataclass(frozen=True, eq=False)
class FeatureColumns:
    """Columns of features that a model can have."""

    features: tuple[Expression, ...]  # those whose column is finite and outside the base
    raw: np.ndarray  # (features, n): their columns
    z: np.ndarray  # (features, n): the same weighted, without the base, of unit length
    constants: Mapping[Expression, np.ndarray] = field(default_factory=dict)  # constants inside features


def feature_columns(
    problem: FeatureProblem, features: Iterable[Expression], constants: Mapping[Expression, np.ndarray] | None = None
) -> FeatureColumns:
    """Columns of features, those that are constant or not finite left out; constants that are not given are found."""
    language, table = problem.language, problem.table
    wanted = list(dict.fromkeys(features))
    for f in wanted:
        if not language.contains(f):
            raise InputError(f"the feature {f.text!r} is not in the space of the problem; leave it out or widen it.")
    found = all_constants(problem, wanted, constants or {})
    raw = np.array([language.column(f, table, found) for f in wanted]).reshape(len(wanted), len(problem.y))
    z, alive = _standardised(problem, raw)
    return FeatureColumns(tuple(itertools.compress(wanted, alive)), raw[alive], z[alive], found)


def _standardised(problem: FeatureProblem, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns weighted, without the base, of unit length; and which of them can be in a model."""
    basis = problem.basis
    with np.errstate(all="ignore"):
        z = raw * problem.root_weight
        total = np.einsum("ij,ij->i", z, z)
        sound = np.isfinite(total) & (total > 0.0)
        z[~sound] = 0.0
        # A second pass removes what rounding left of a large mean.
        for _ in range(2):
            z -= (z @ basis.T) @ basis
        length = np.einsum("ij,ij->i", z, z)
        alive = sound & (length > BASE_TOLERANCE**2 * total)
        z /= np.sqrt(length)[:, None]
    return z, alive


def law_of_each(features: Sequence[Expression], raw: np.ndarray, intercept: bool) -> list[int]:
    """For each feature the place of the simplest one with the same column up to sign, scale and level.

    What :func:`modejump.samplers.laws.same_laws` finds by comparing all pairs, for many features: columns that are
    equal are close in every direction, so those close in a few directions are compared.
    """
    if not features:
        return []
    z = raw - raw.mean(axis=1, keepdims=True) if intercept else raw.copy()
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    n = z.shape[1]
    # Any directions would do; these are the same on every call and owe nothing to the data.
    normal = np.random.default_rng(20211105).standard_normal((n, min(_DIRECTIONS, n)))
    near = z @ np.linalg.qr(normal)[0]
    tree = cKDTree(near)
    # 1 - r^2 < t makes the distance of unit vectors, one of them turned if need be, at most sqrt(2 t).
    radius = np.sqrt(2.0 * SAME_LAW)
    law = np.full(len(features), -1)
    for i in sorted(range(len(features)), key=lambda i: features[i]):
        if law[i] < 0:
            close = np.array(tree.query_ball_point(near[i], radius) + tree.query_ball_point(-near[i], radius))
            close = close[law[close] < 0]
            law[close[1.0 - (z[close] @ z[i]) ** 2 < SAME_LAW]] = i
            law[i] = i
    return law.tolist()
