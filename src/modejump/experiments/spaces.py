"""All features of a small space, and their columns: in plain NumPy, each expression computed once."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from modejump.core.errors import InputError
from modejump.features.nonlinear.columns import ALPHA_TOLERANCE, CONSTANT_PARENT
from modejump.features.nonlinear.expression import Feature, compose
from modejump.features.nonlinear.projections import with_projections
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import Transform
from modejump.features.nonlinear.transforms import transforms as registry
from modejump.problem.design import BASE_TOLERANCE
from modejump.problem.feature_problem import FeatureProblem
from modejump.samplers.laws import SAME_LAW

# Beyond this a space is no longer small.
MOST_FEATURES = 1_000_000
# Directions along which columns are compared before they are compared in full.
_DIRECTIONS = 8


def enumerate_features(
    names: Sequence[str],
    transforms: Sequence[str | Transform],
    space: Space,
    *,
    complexity: int | None = None,
) -> list[Feature]:
    """Every canonical feature within the limits of a space.

    Parameters
    ----------
    names : sequence of str
        The covariates.
    transforms : sequence of str or Transform
        G.
    space : Space
        Limits of depth, width and complexity. Projections are in the space where their operator has weight.
    complexity : int, optional
        A tighter limit of complexity.

    Returns
    -------
    list of Feature
        By complexity, then text.

    Examples
    --------
    >>> [f.text for f in enumerate_features(["a", "b"], ["sin"], Space(), complexity=2)]
    ['a', 'b', 'a*a', 'a*b', 'b*b', 'sin(a)', 'sin(b)']
    """
    if complexity is not None and (
        isinstance(complexity, bool) or not isinstance(complexity, int | np.integer) or complexity < 1
    ):
        raise InputError(f"complexity is {complexity!r}; give a whole number of at least 1.")
    if not names or len(set(names)) < len(names):
        raise InputError(f"the covariates are {list(names)!r}; give one or more, each with a name of its own.")
    most = space.complexity if complexity is None else min(complexity, space.complexity)
    # Names are looked up once here, not once for each feature.
    g = sorted({registry[t].name if isinstance(t, str) else t.name for t in transforms})
    levels: list[list[Feature]] = [[], sorted(Feature.covariate(name) for name in names)]
    count = len(levels[1])
    for c in range(2, most + 1):
        level = []
        for feature in _of_complexity(c, levels, g, space):
            if feature.depth > space.depth or feature.width > space.width:
                continue
            level.append(feature)
            count += 1
            if count > MOST_FEATURES:
                raise InputError(
                    f"the space has more than {MOST_FEATURES} features of complexity up to {c}; give a smaller "
                    "complexity, depth or width."
                )
        levels.append(sorted(level))
    return [feature for level in levels for feature in level]


def _of_complexity(c: int, levels: Sequence[Sequence[Feature]], g: Sequence[str], space: Space) -> Iterator[Feature]:
    """Every feature of one complexity from those below, each once."""
    for name in g:
        yield from (compose("modification", name, [inside]) for inside in levels[c - 1])
    single = [[f for f in level if f.kind != "product"] for level in levels]
    # A binary tree of depth D has at most 2^D leaves, and a factor is one at least.
    factors = min(space.width, 2**space.depth)
    for parts in _partitions(c, c - 1, factors):
        if len(parts) > 1:
            yield from (compose("product", "", chosen) for chosen in _choices(parts, single, repeated=True))
    if space.projection > 0.0:
        # A parent of complexity c adds c + 1: itself and one addition.
        for parts in _partitions(c - 1, c - 1, space.width):
            if 1 not in parts:
                for chosen in _choices([part - 1 for part in parts], levels, repeated=False):
                    yield from (compose("projection", name, chosen) for name in g)


def _partitions(total: int, largest: int, most: int) -> Iterator[list[int]]:
    """The ways to write a number as a sum of at most so many parts, largest first."""
    if total == 0:
        yield []
    elif most > 0:
        for part in range(min(total, largest), 0, -1):
            yield from ([part, *rest] for rest in _partitions(total - part, part, most - 1))


def _choices(
    parts: Sequence[int], levels: Sequence[Sequence[Feature]], *, repeated: bool
) -> Iterator[tuple[Feature, ...]]:
    """Multisets, or sets, of features with these complexities."""
    combine = itertools.combinations_with_replacement if repeated else itertools.combinations
    groups = [list(combine(levels[part], parts.count(part))) for part in dict.fromkeys(parts)]
    for chosen in itertools.product(*groups):
        yield tuple(itertools.chain.from_iterable(chosen))


@dataclass(frozen=True, eq=False)
class FeatureColumns:
    """Columns of features that a model can have.

    Attributes
    ----------
    features : tuple of Feature
        Those whose column is finite and outside the base.
    raw : ndarray of shape (features, n)
        Their columns.
    z : ndarray of shape (features, n)
        The same weighted, without the base, of unit length.
    alphas : mapping of Feature to ndarray
        Coefficients inside projections.
    """

    features: tuple[Feature, ...]
    raw: np.ndarray
    z: np.ndarray
    alphas: Mapping[Feature, np.ndarray]


def feature_columns(
    problem: FeatureProblem, features: Iterable[Feature], alphas: Mapping[Feature, np.ndarray] | None = None
) -> FeatureColumns:
    """Columns of features, those that are constant or not finite left out.

    Parameters
    ----------
    problem : FeatureProblem
        The data.
    features : iterable of Feature
        The features, in the order wanted; repeated ones count once.
    alphas : mapping of Feature to ndarray, optional
        Coefficients inside projections that are known; others are found as the space says.
    """
    wanted = list(dict.fromkeys(features))
    _check_inside(problem, wanted)
    found = dict(alphas or {})
    columns: dict[Feature, np.ndarray] = {}
    nodes = {part for feature in wanted for part in feature.subfeatures()}
    # What a feature is made of is less complex than the feature.
    for _, level in itertools.groupby(sorted(nodes), key=lambda f: f.complexity):
        group = list(level)
        projections = [f for f in group if f.kind == "projection"]
        if projections:
            found = _fitted(problem, projections, columns, found)
        for f in group:
            columns[f] = _column(problem, f, columns, found)
    raw = np.array([columns[f] for f in wanted]).reshape(len(wanted), len(problem.y))
    del columns
    z, alive = _standardised(problem, raw)
    kept = tuple(itertools.compress(wanted, alive))
    used = {part for f in kept for part in f.subfeatures() if part.kind == "projection"}
    return FeatureColumns(kept, raw[alive], z[alive], {f: found[f] for f in sorted(used)})


def _check_inside(problem: FeatureProblem, features: Collection[Feature]) -> None:
    """Refuse features that the problem's space does not have."""
    space, names, g = problem.space, set(problem.names), {t.name for t in problem.transforms}
    for f in features:
        unknown = sorted(f.covariates - names)
        if unknown:
            raise InputError(f"the feature {f.text!r} has the covariate {unknown[0]!r}, which the problem lacks.")
        if f.depth > space.depth or f.width > space.width or f.complexity > space.complexity:
            raise InputError(f"the feature {f.text!r} is outside the limits of the space; leave it out or widen them.")
        if f.kind == "covariate":
            continue
        parts = f.subfeatures()
        other = sorted({part.transform for part in parts if part.transform is not None} - g)
        if other:
            raise InputError(f"the feature {f.text!r} has the function {other[0]!r}, which the problem lacks.")
        if space.projection == 0.0 and any(part.kind == "projection" for part in parts):
            raise InputError(f"the feature {f.text!r} has a projection, which has no weight in the space.")


def _column(
    problem: FeatureProblem,
    feature: Feature,
    columns: Mapping[Feature, np.ndarray],
    alphas: Mapping[Feature, np.ndarray],
) -> np.ndarray:
    """Column of a feature from those of its parts; NaN where it has none."""
    if feature.name is not None:
        return problem.x[problem.names.index(feature.name)]
    with np.errstate(all="ignore"):
        value = columns[feature.children[0]]
        if feature.transform is None:
            for factor in feature.children[1:]:
                value = value * columns[factor]
            return value
        if feature.kind == "projection":
            if feature not in alphas:
                return np.full(len(value), np.nan)
            value = alphas[feature][0] + sum(a * columns[f] for a, f in zip(alphas[feature][1:], feature.children))
        try:
            return next(t for t in problem.transforms if t.name == feature.transform)(value)
        except Exception:  # a function of the user's that fails leaves the feature out, as it does in a search
            return np.full(len(value), np.nan)


def _fitted(
    problem: FeatureProblem,
    projections: Sequence[Feature],
    columns: Mapping[Feature, np.ndarray],
    known: Mapping[Feature, np.ndarray],
) -> dict[Feature, np.ndarray]:
    """Known coefficients and those of these projections, where their parents determine them."""
    sound = [f for f in projections if f in known or _determined(problem, [columns[c] for c in f.children])]
    table = dict(zip(problem.names, problem.x, strict=True))
    weights = problem.root_weight**2
    return with_projections(sound, table, problem.y, weights, known=known, kind=problem.space.alphas)


def _determined(problem: FeatureProblem, parents: Sequence[np.ndarray]) -> bool:
    """Whether the coefficients of parents can be found; if fitted, that needs them finite, varying and independent."""
    if problem.space.alphas == "ones":
        return True
    p = np.array(parents)
    with np.errstate(all="ignore"):
        whole = np.sum((problem.root_weight * p) ** 2, axis=1)
        if not np.isfinite(whole).all():
            return False
        centred = problem.root_weight * (p - np.average(p, axis=1, weights=problem.root_weight**2)[:, None])
        squares = np.sum(centred**2, axis=1)
    if not (squares > CONSTANT_PARENT**2 * whole).all():
        return False
    r = np.linalg.qr((centred / np.sqrt(squares)[:, None]).T, mode="r")
    return len(r) == len(p) and bool((np.diag(r) ** 2 >= ALPHA_TOLERANCE).all())


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


def law_of_each(features: Sequence[Feature], raw: np.ndarray, intercept: bool) -> list[int]:
    """For each feature the place of the simplest one with the same column up to sign, scale and level.

    What :func:`modejump.samplers.laws.same_laws` finds by comparing all pairs, for many features: columns that are
    equal are close in every direction, so those close in a few directions are compared.

    Parameters
    ----------
    features : sequence of Feature
        The features.
    raw : ndarray of shape (features, n)
        Their columns.
    intercept : bool
        Whether the level is of no account.
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
