"""Snapshots of what chains over features have besides: features by text, tables of features, archives, populations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.features.expression import Expression
from modejump.features.language import Language
from modejump.features.table import MAX_CHILDREN, FeatureTable, enter_nodes, forget_from
from modejump.kernels.populations.archive import Archive
from modejump.kernels.populations.recall_move import index_models
from modejump.runtime.snapshots import Reader, Snapshot, scalar_arrays, under

# No table of features holds deeper ones.
DEEPEST = 512

Model = frozenset[Expression]


class FeatureNumbers:
    """Numbers for the features that a snapshot names, in the order in which they are first named."""

    def __init__(self) -> None:
        self._number: dict[Expression, int] = {}

    def of(self, features: Iterable[Expression]) -> list[int]:
        """Numbers of these features."""
        number = self._number
        return [number.setdefault(f, len(number)) for f in features]

    def array(self) -> np.ndarray:
        """The texts of all features, as the bytes of a JSON list."""
        return text_array([f.text for f in self._number])


def text_array(value: Any) -> np.ndarray:
    """Something made of what JSON holds, as bytes."""
    return np.frombuffer(json.dumps(value, ensure_ascii=False, allow_nan=False).encode(), np.uint8).copy()


def read_features(reader: Reader, name: str, language: Language) -> list[Expression]:
    """Features of a language by their texts."""
    try:
        texts = json.loads(reader.array(name, np.uint8, (None,)).tobytes())
        reader.need(isinstance(texts, list) and all(isinstance(text, str) for text in texts), name)
        features = [language.parse(text) for text in texts]
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise reader.refuse(name) from None
    reader.need(all(language.contains(f) for f in features), name)
    return features


def model_arrays(models: Iterable[Iterable[Expression]], numbers: FeatureNumbers) -> Snapshot:
    """Sets of features: their numbers one after another, and where each set ends."""
    listed: list[int] = []
    ends: list[int] = []
    for model in models:
        # The order of a set depends on how it was made.
        listed += numbers.of(sorted(model) if isinstance(model, frozenset) else model)
        ends.append(len(listed))
    return {"members": np.array(listed, np.int64), "ends": np.array(ends, np.int64)}


def _read_lists(reader: Reader, features: Sequence[Expression]) -> list[list[Expression]]:
    """Lists of features."""
    members = reader.array("members", np.int64, (None,), (0, len(features)))
    ends = reader.array("ends", np.int64, (None,), (0, len(members) + 1))
    reader.need((np.diff(ends, prepend=0) >= 0).all() and (ends[-1] if len(ends) else 0) == len(members), "ends")
    named = [features[i] for i in members.tolist()]
    begins = [0, *ends.tolist()]
    return [named[a:b] for a, b in zip(begins, begins[1:], strict=False)]


def read_models(reader: Reader, features: Sequence[Expression]) -> list[Model]:
    """Sets of features."""
    return [frozenset(model) for model in _read_lists(reader, features)]


def collected_arrays(collected: Mapping[Model, float]) -> Snapshot:
    """Models with a number each."""
    numbers = FeatureNumbers()
    models = model_arrays(collected, numbers)
    return {**models, "values": np.array(list(collected.values()), np.float64), "features": numbers.array()}


def read_collected(reader: Reader, language: Language) -> dict[Model, float]:
    """Models with a number each."""
    models = read_models(reader, read_features(reader, "features", language))
    values = reader.array("values", np.float64, (len(models),))
    return dict(zip(models, values.tolist(), strict=True))


def constant_arrays(constants: Mapping[Expression, np.ndarray]) -> Snapshot:
    """Constants inside features."""
    values = [np.asarray(a, np.float64) for a in constants.values()]
    return {
        "features": text_array([f.text for f in constants]),
        "ends": np.cumsum([len(a) for a in values], dtype=np.int64),
        "values": np.concatenate([np.zeros(0), *values]),
    }


def read_constants(reader: Reader, language: Language) -> dict[Expression, np.ndarray]:
    """Constants inside features."""
    features = read_features(reader, "features", language)
    values = reader.array("values", np.float64, (None,))
    ends = reader.array("ends", np.int64, (len(features),), (0, len(values) + 1))
    return dict(zip(features, np.split(values, ends[:-1]), strict=True)) if features else {}


def stay_arrays(stays: Sequence[Mapping[Expression, float]], numbers: FeatureNumbers) -> Snapshot:
    """For each batch, features with the steps that they stayed."""
    steps = [value for batch in stays for value in batch.values()]
    return {**model_arrays(stays, numbers), "steps": np.array(steps, np.float64)}


def read_stays(reader: Reader, features: Sequence[Expression]) -> list[dict[Expression, float]]:
    """For each batch, features with the steps that they stayed."""
    lists = _read_lists(reader, features)
    steps = iter(reader.array("steps", np.float64, (sum(map(len, lists)),)).tolist())
    return [{f: next(steps) for f in batch} for batch in lists]


def counted_arrays(models: Mapping[Model, tuple[float, int]], numbers: FeatureNumbers) -> Snapshot:
    """Models with their log posterior and visits."""
    flat = model_arrays(models, numbers)
    flat["value"] = np.array([value for value, _ in models.values()], np.float64)
    flat["visits"] = np.array([visits for _, visits in models.values()], np.int64)
    return flat


def read_counted(reader: Reader, features: Sequence[Expression]) -> dict[Model, tuple[float, int]]:
    """Models with their log posterior and visits."""
    models = read_models(reader, features)
    values = reader.array("value", np.float64, (len(models),)).tolist()
    visits = reader.array("visits", np.int64, (len(models),)).tolist()
    return dict(zip(models, zip(values, visits, strict=True), strict=True))


def table_arrays(table: FeatureTable, first: int = 0) -> Snapshot:
    """The features of a table from a number on: what they are made of, and their constants."""
    count, children = int(table.scalars["count"]), int(table.scalars["children"])
    start = children if first == count else int(table.start[first])
    flat = {name: getattr(table, name)[first:count].copy() for name in ("kind", "code", "arity", "constant")}
    flat |= {name: getattr(table, name)[start:children].copy() for name in ("child", "slope")}
    return flat | scalar_arrays(table.scalars)


def fill_table(reader: Reader, language: Language, space: Any, table: FeatureTable, first: int, children: int) -> None:
    """Put features into a table, which is cut to those before ``first`` with so many children: the same numbers again.

    Everything that compiled code goes by is made anew from what the features are made of.
    """
    forget_from(table, first, children)
    scalars = reader.scalars(table.scalars)
    new = int(scalars["count"]) - first
    last, most = int(scalars["children"]), len(table.child)
    reader.need(0 <= new <= len(table.kind) - first and children <= last <= most, "count")
    kind, code = reader.array("kind", np.uint8, (new,)).astype(np.int64), reader.array("code", np.int64, (new,))
    arity = reader.array("arity", np.int64, (new,), (0, MAX_CHILDREN + 1))
    reader.need(arity.sum() == last - children and language.are_nodes(kind, code, arity), "kind")
    child = reader.array("child", np.int64, (last - children,))
    reader.need(((child >= 0) & (child < np.repeat(np.arange(first, first + new), arity))).all(), "child")
    # Features that are there already stand before the others, so that children are found by their numbers.
    there, numbers = np.zeros(first, np.int64), np.arange(first + new)
    numbers[first:] = -1
    enter_nodes(
        space, table, np.concatenate([there - 1, kind]), np.concatenate([there, code]), np.concatenate([there, arity]),
        child, numbers,
    )  # fmt: skip
    reader.need((numbers == np.arange(first + new)).all() and int(table.scalars["children"]) == last, "child")
    reader.need(not new or table.depth[first : first + new].max() < DEEPEST, "child")
    table.constant[first : first + new] = reader.array("constant", np.float64, (new,))
    table.slope[children:last] = reader.array("slope", np.float64, (last - children,))
    table.scalars["full"] = scalars["full"]


def archive_arrays(archive: Archive) -> Snapshot:
    """The models of an archive."""
    kept = int(archive.scalars["kept"])
    flat = {name: getattr(archive, name)[:kept].copy() for name in ("key", "log_posterior", "visits", "size")}
    # Behind a model's features stands what earlier ones left.
    used = np.arange(archive.features.shape[1]) < archive.size[:kept, None]
    seen = np.flatnonzero(archive.seen)
    flat |= {"features": archive.features[:kept] * used} | scalar_arrays(archive.scalars)
    return flat | under("seen", {"at": seen, "value": archive.seen[seen]})


def fill_archive(reader: Reader, archive: Archive, features: int) -> None:
    """Put models of features below a number into an archive, in the place of those that it has."""
    scalars = reader.scalars(archive.scalars)
    kept, widest = int(scalars["kept"]), archive.features.shape[1]
    # A full archive is thinned at once.
    reader.need(0 <= kept < len(archive.key), "kept")
    for name, within in (("key", None), ("log_posterior", None), ("visits", None), ("size", (0, widest + 1))):
        target = getattr(archive, name)
        target[:kept] = reader.array(name, target.dtype, (kept,), within)
    archive.features[:kept] = reader.array("features", np.int32, (kept, widest), (0, max(features, 1)))
    archive.slots[:] = archive.seen[:] = 0
    index_models(archive.key[:kept], archive.slots)
    seen = reader.under("seen")
    at = seen.array("at", np.int64, (None,), (0, len(archive.seen)))
    # A search ends at a free slot: there has to be one.
    seen.need(len(np.unique(at)) == len(at) < len(archive.seen), "at")
    archive.seen[at] = seen.array("value", np.uint64, at.shape)
    archive.scalars[...] = scalars
