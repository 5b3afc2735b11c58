"""Snapshots of what chains over features have besides: features by text, tables of features, archives, populations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.space import Space
from modejump.features.table import (
    COVARIATE,
    MAX_CHILDREN,
    MODIFICATION,
    PRODUCT,
    PROJECTION,
    Arena,
)
from modejump.kernels.populations.archive import Archive
from modejump.kernels.populations.population import Population
from modejump.problem.problem import ProblemData
from modejump.runtime.snapshots import Reader, Snapshot, scalar_arrays, under

# No table of features holds deeper ones.
DEEPEST = 512
_ARENA_COLUMNS = (
    "kind", "code", "start", "arity", "key", "depth", "width", "complexity", "nodes", "log_spellings", "alpha0",
)  # fmt: skip


_key = attrgetter("key")


class FeatureNumbers:
    """Numbers for the features that a snapshot names, in the order in which they are first named."""

    def __init__(self) -> None:
        self._number: dict[Feature, int] = {}

    def of(self, features: Iterable[Feature]) -> list[int]:
        """Numbers of these features."""
        number = self._number
        return [number.setdefault(f, len(number)) for f in features]

    def array(self) -> np.ndarray:
        """The texts of all features, as the bytes of a JSON list."""
        return text_array([f.text for f in self._number])


def text_array(value: Any) -> np.ndarray:
    """Something made of what JSON holds, as bytes."""
    return np.frombuffer(json.dumps(value, ensure_ascii=False, allow_nan=False).encode(), np.uint8).copy()


def read_json(reader: Reader, name: str) -> Any:
    """What ``text_array`` made an array of."""
    try:
        return json.loads(reader.array(name, np.uint8, (None,)).tobytes())
    except (ValueError, RecursionError):
        raise reader.refuse(name) from None


def read_features(reader: Reader, name: str, columns: Sequence[str], space: Space) -> list[Feature]:
    """Features over these columns inside the limits of a space, by their texts."""
    texts = read_json(reader, name)
    reader.need(isinstance(texts, list) and all(isinstance(text, str) for text in texts), name)
    try:
        features = [Feature.parse(text, columns) for text in texts]
    except RecursionError:
        raise reader.refuse(name) from None
    for f in features:
        inside = f.depth <= space.depth and f.width <= space.width and f.complexity <= space.complexity
        reader.need(inside or f.kind == "covariate", name)
    return features


def model_arrays(models: Iterable[Iterable[Feature]], numbers: FeatureNumbers) -> Snapshot:
    """Sets of features: their numbers one after another, and where each set ends."""
    listed: list[int] = []
    ends: list[int] = []
    for model in models:
        # The order of a set depends on how it was made.
        listed += numbers.of(sorted(model, key=_key) if isinstance(model, frozenset) else model)
        ends.append(len(listed))
    return {"members": np.array(listed, np.int64), "ends": np.array(ends, np.int64)}


def read_lists(reader: Reader, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of features one after another, and where each list of them ends."""
    members = reader.array("members", np.int64, (None,), (0, features))
    ends = reader.array("ends", np.int64, (None,), (0, len(members) + 1))
    reader.need((np.diff(ends, prepend=0) >= 0).all() and (ends[-1] if len(ends) else 0) == len(members), "ends")
    return members, ends


def read_models(reader: Reader, features: Sequence[Feature]) -> list[frozenset[Feature]]:
    """Sets of features."""
    members, ends = read_lists(reader, len(features))
    chosen = [features[i] for i in members.tolist()]
    begins = [0, *ends.tolist()]
    return [frozenset(chosen[a:b]) for a, b in zip(begins, begins[1:], strict=False)]


def collected_arrays(collected: Mapping[frozenset[Feature], float]) -> Snapshot:
    """Models with a number each."""
    numbers = FeatureNumbers()
    models = model_arrays(collected, numbers)
    return {**models, "values": np.array(list(collected.values()), np.float64), "features": numbers.array()}


def read_collected(reader: Reader, columns: Sequence[str], space: Space) -> dict[frozenset[Feature], float]:
    """Models with a number each."""
    models = read_models(reader, read_features(reader, "features", columns, space))
    values = reader.array("values", np.float64, (len(models),))
    return dict(zip(models, values.tolist(), strict=True))


def alpha_arrays(alphas: Mapping[Feature, np.ndarray]) -> Snapshot:
    """Coefficients inside projections."""
    values = [np.asarray(a, np.float64) for a in alphas.values()]
    return {
        "features": text_array([f.text for f in alphas]),
        "ends": np.cumsum([len(a) for a in values], dtype=np.int64),
        "values": np.concatenate([np.zeros(0), *values]),
    }


def read_alphas(reader: Reader, columns: Sequence[str], space: Space) -> dict[Feature, np.ndarray]:
    """Coefficients inside projections."""
    features = read_features(reader, "features", columns, space)
    values = reader.array("values", np.float64, (None,))
    ends = reader.array("ends", np.int64, (len(features),), (0, len(values) + 1))
    return dict(zip(features, np.split(values, ends[:-1]), strict=True)) if features else {}


def sparse(table: np.ndarray, chosen: np.ndarray | None = None) -> Snapshot:
    """The entries of a table that are not zero, or those chosen, with their positions."""
    at = np.flatnonzero(table if chosen is None else chosen)
    return {"at": at, "value": table[at]}


def fill_sparse(reader: Reader, table: np.ndarray, within: tuple[float, float] | None = None) -> None:
    """Put the entries back into a table."""
    at = reader.array("at", np.int64, (None,), (0, len(table)))
    table[at] = reader.array("value", table.dtype, at.shape, within)
    # A search ends at a free slot: there has to be one.
    reader.need(np.count_nonzero(table) < len(table), "at")


def arena_arrays(arena: Arena, first: int = 0, first_child: int = 0) -> Snapshot:
    """The features of a table from a number on."""
    count, children = int(arena.scalars["count"]), int(arena.scalars["children"])
    flat = {name: getattr(arena, name)[first:count].copy() for name in _ARENA_COLUMNS}
    flat |= {name: getattr(arena, name)[first_child:children].copy() for name in ("child", "alpha")}
    return flat | scalar_arrays(arena.scalars) | under("slots", sparse(arena.slots, arena.slots > first))


def fill_arena(
    reader: Reader, arena: Arena, columns: int, codes: Sequence[int], first: int = 0, first_child: int = 0
) -> None:
    """Put features into a table that holds those before ``first`` already."""
    scalars = reader.scalars(arena.scalars)
    count, children = int(scalars["count"]), int(scalars["children"])
    reader.need(first <= count <= len(arena.kind) and first_child <= children <= len(arena.child), "count")
    for name in _ARENA_COLUMNS:
        target = getattr(arena, name)
        target[first:count] = reader.array(name, target.dtype, (count - first,))
    arena.child[first_child:children] = reader.array("child", np.int64, (children - first_child,), (0, count))
    arena.alpha[first_child:children] = reader.array("alpha", np.float64, (children - first_child,))
    fill_sparse(reader.under("slots"), arena.slots, (first + 1, count + 1))
    arena.scalars[...] = scalars
    _check_arena(reader, arena, columns, codes, first)


def _check_arena(reader: Reader, ar: Arena, columns: int, codes: Sequence[int], first: int) -> None:
    """Every feature is made of features before it, and as deep as it says at least."""
    new = slice(first, int(ar.scalars["count"]))
    kind, code, start, arity = ar.kind[new], ar.code[new], ar.start[new], ar.arity[new]
    reader.need(((arity >= 0) & (start >= 0) & (start + arity <= int(ar.scalars["children"]))).all(), "start")
    known = np.where(kind == COVARIATE, (code >= 0) & (code < columns), np.isin(code, [*codes, 0]))
    transformed = (kind == MODIFICATION) | (kind == PROJECTION)
    known &= ~transformed | np.isin(code, list(codes))
    many = np.where(kind == COVARIATE, arity == 0, np.where(kind == MODIFICATION, arity == 1, arity >= 1))
    reader.need((kind <= PROJECTION).all() and known.all() and many.all(), "kind")
    above = np.repeat(np.arange(new.start, new.stop), arity)
    offsets = np.arange(len(above)) - np.repeat(np.cumsum(arity) - arity, arity)
    child = ar.child[np.repeat(start, arity) + offsets]
    reader.need((child < above).all(), "child")
    # A product of one factor does not exist, so every kind of feature is deeper than what it is made of.
    reader.need((ar.depth[child] < ar.depth[above]).all(), "depth")
    reader.need(((ar.depth[new] >= 0) & (ar.depth[new] < DEEPEST)).all(), "depth")
    reader.need((arity[kind == PRODUCT] >= 2).all(), "arity")
    below = np.bincount(above - new.start, ar.nodes[child], len(kind))
    reader.need((ar.nodes[new] == 1 + below).all(), "nodes")
    below = np.bincount(above - new.start, ar.complexity[child], len(kind))
    own = np.where(kind == COVARIATE, 1, np.where(kind == PRODUCT, 0, 1 + np.where(kind == PROJECTION, arity, 0)))
    reader.need((ar.complexity[new] == own + below).all(), "complexity")
    reader.need((ar.width[new] >= np.maximum(arity, 1)).all() and (ar.width[new] <= MAX_CHILDREN).all(), "width")


def population_arrays(data: ProblemData, population: Population, first: int = 0) -> Snapshot:
    """The features in the places of a population from one on, with their columns."""
    feature = population.feature[first:]
    present = first + np.flatnonzero(feature >= 0)
    return {
        "feature": feature.copy(),
        "z": population.z[present],
        "gram": data.gram[present],
        "corr": data.corr[first:].copy(),
        "log_weight": data.prior.log_weight[first:].copy(),
        "zobrist": data.zobrist[first:].copy(),
    }


def fill_population(
    reader: Reader, data: ProblemData, population: Population, arena: Arena, depth: int, first: int = 0
) -> None:
    """Put features into the places of a population from one on, all of which are empty."""
    reader.into("feature", population.feature[first:], (-1, int(arena.scalars["count"])))
    present = first + np.flatnonzero(population.feature[first:] >= 0)
    reader.need((arena.depth[population.feature[present]] <= depth).all(), "feature")
    population.z[present] = reader.array("z", np.float64, (len(present), population.z.shape[1]))
    rows = reader.array("gram", np.float64, (len(present), len(data.gram)))
    data.gram[present], data.gram[:, present] = rows, rows.T
    for name, target in (("corr", data.corr), ("log_weight", data.prior.log_weight), ("zobrist", data.zobrist)):
        reader.into(name, target[first:])


def archive_arrays(archive: Archive) -> Snapshot:
    """The models of an archive."""
    kept = int(archive.scalars["kept"])
    flat = {name: getattr(archive, name)[:kept].copy() for name in ("key", "log_posterior", "visits", "size")}
    # Behind a model's features stands what earlier ones left.
    used = np.arange(archive.features.shape[1]) < archive.size[:kept, None]
    flat |= {"features": archive.features[:kept] * used} | scalar_arrays(archive.scalars)
    return flat | under("slots", sparse(archive.slots)) | under("seen", sparse(archive.seen))


def fill_archive(reader: Reader, archive: Archive, features: int) -> None:
    """Put models of features below a number into an empty archive."""
    scalars = reader.scalars(archive.scalars)
    kept, widest = int(scalars["kept"]), archive.features.shape[1]
    # A full archive is thinned at once.
    reader.need(0 <= kept < len(archive.key), "kept")
    for name, within in (("key", None), ("log_posterior", None), ("visits", None), ("size", (0, widest + 1))):
        target = getattr(archive, name)
        target[:kept] = reader.array(name, target.dtype, (kept,), within)
    archive.features[:kept] = reader.array("features", np.int32, (kept, widest), (0, features))
    fill_sparse(reader.under("slots"), archive.slots, (1, kept + 1))
    fill_sparse(reader.under("seen"), archive.seen)
    archive.scalars[...] = scalars


def stay_arrays(stays: Sequence[Mapping[Feature, float]], numbers: FeatureNumbers) -> Snapshot:
    """For each batch, features with the steps that they stayed."""
    steps = [value for batch in stays for value in batch.values()]
    return {**model_arrays(stays, numbers), "steps": np.array(steps, np.float64)}


def read_stays(reader: Reader, features: Sequence[Feature]) -> list[dict[Feature, float]]:
    """For each batch, features with the steps that they stayed."""
    members, ends = read_lists(reader, len(features))
    steps = reader.array("steps", np.float64, members.shape).tolist()
    named = [features[i] for i in members.tolist()]
    begins = [0, *ends.tolist()]
    return [dict(zip(named[a:b], steps[a:b], strict=True)) for a, b in zip(begins, begins[1:], strict=False)]


def counted_arrays(models: Mapping[frozenset[Feature], tuple[float, int]], numbers: FeatureNumbers) -> Snapshot:
    """Models with their log posterior and visits."""
    flat = model_arrays(models, numbers)
    flat["value"] = np.array([value for value, _ in models.values()], np.float64)
    flat["visits"] = np.array([visits for _, visits in models.values()], np.int64)
    return flat


def read_counted(reader: Reader, features: Sequence[Feature]) -> dict[frozenset[Feature], tuple[float, int]]:
    """Models with their log posterior and visits."""
    models = read_models(reader, features)
    values = reader.array("value", np.float64, (len(models),)).tolist()
    visits = reader.array("visits", np.int64, (len(models),)).tolist()
    return dict(zip(models, zip(values, visits, strict=True), strict=True))


def places_outside(library: int, first: int) -> np.ndarray:
    """Bits of the places that a library of so many features leaves empty before the first place for guests."""
    words = np.zeros(first // 64, np.uint64)
    for place in range(library, first):
        words[place >> 6] |= np.uint64(1) << np.uint64(place & 63)
    return words
