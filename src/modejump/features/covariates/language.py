"""Covariates as features: which there are, how one is drawn at random, and which are exchanged for each other.

The distribution q over all columns is a mixture: a share of the draws comes from a list of columns that warm-up found
worth trying, by weights that are frozen with it, the others from all columns alike. So every column has a positive
probability that is known, and populations filled from q are part of an exact sampler. An edit exchanges a column for
one that is correlated with it, from lists that are frozen likewise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from modejump.core.compilation import implements
from modejump.core.errors import InputError
from modejump.core.handles import scalars_of
from modejump.core.random import alias_table, below, draw_alias, uniform
from modejump.data.names import Names, names_of, stored_names
from modejump.features.expression import Expression
from modejump.features.language import (
    Language,
    assemble,
    draw_feature,
    edit_choices,
    edited,
    log_probability,
    make_feature,
    measure,
    write_column,
)
from modejump.features.table import COVARIATE, covariate, intern

DRAW, EXCHANGE = range(2)
# Share of draws from the list of columns worth trying, where there is one.
LISTED_SHARE = 0.5


class Limits(NamedTuple):
    """Largest number of columns in a model, and places of a population of GMJMCMC."""

    size: int
    population: int = 40
    complexity: int = 1


class CovariateSpace(NamedTuple):
    """The space as compiled code reads it; made by `covariate_space`."""

    cumulative: np.ndarray
    edit_weight: np.ndarray
    edit_gain: np.ndarray
    max_depth: int
    max_width: int
    max_complexity: int
    n_columns: int
    share: float  # share of draws from the list
    listed: np.ndarray  # int64 (T,): columns worth trying
    threshold: np.ndarray  # float64 (T,), with alias (T,)
    alias: np.ndarray
    probability: np.ndarray  # float64 (columns,): of each column, in a draw
    start: np.ndarray  # int64 (columns + 1,): correlated columns of column j are neighbour[start[j] : start[j + 1]]
    neighbour: np.ndarray  # int64


class Screened(NamedTuple):
    """What warm-up froze: columns worth trying with their weights, and pairs of correlated columns (m, 2)."""

    listed: np.ndarray
    weight: np.ndarray
    pairs: np.ndarray


def covariate_space(columns: int, screened: Screened | None = None) -> CovariateSpace:
    """The space of so many columns, with the distribution that warm-up froze; all columns alike without one."""
    listed, weight, share = np.zeros(1, np.int64), np.ones(1), 0.0
    pairs = np.zeros((0, 2), np.int64)
    if screened is not None:
        pairs = screened.pairs
        if len(screened.listed):
            listed, weight, share = screened.listed, screened.weight / screened.weight.sum(), LISTED_SHARE
    threshold, alias = alias_table(weight)
    probability = np.full(columns, (1.0 - share) / columns)
    np.add.at(probability, listed, share * weight)
    # Both ways, each once: a way there without a way back would always be turned down.
    both = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)
    return CovariateSpace(
        cumulative=np.array([0.5, 1.0]),
        edit_weight=np.array([0.0, 1.0]),
        edit_gain=np.zeros((2, 2), np.int64),
        max_depth=0,
        max_width=1,
        max_complexity=1,
        n_columns=columns,
        share=share,
        listed=listed,
        threshold=threshold,
        alias=alias,
        probability=probability,
        start=np.searchsorted(both[:, 0], np.arange(columns + 1)).astype(np.int64),
        neighbour=np.ascontiguousarray(both[:, 1]),
    )


class CovariatePool(NamedTuple):
    """Columns as they lie in memory, of one of three kinds of numbers; the other two are empty."""

    double: np.ndarray  # float64 (columns, n)
    single: np.ndarray  # float32 (columns, n)
    small: np.ndarray  # int8 (columns, n)
    scratch: np.ndarray
    values: np.ndarray
    owner: np.ndarray
    slot: np.ndarray
    scalars: np.ndarray


@implements(measure, CovariateSpace)
def _measure(space, table, f):
    table.depth[f], table.width[f], table.complexity[f], table.nodes[f] = 0, 1, 1, 1
    table.log_spellings[f] = 0.0


@implements(assemble, CovariateSpace)
def _assemble(space, table, kind, code, m):
    return intern(space, table, kind, code, m)


@implements(write_column, CovariateSpace)
def _write_column(space, table, pool, f):
    j, scratch = table.code[f], pool.scratch
    if len(pool.double) > 0:
        for r in range(scratch.shape[1]):
            scratch[0, r] = pool.double[j, r]
    elif len(pool.single) > 0:
        for r in range(scratch.shape[1]):
            scratch[0, r] = pool.single[j, r]
    else:
        for r in range(scratch.shape[1]):
            scratch[0, r] = pool.small[j, r]
    return True


@implements(draw_feature, CovariateSpace)
def _draw_feature(space, table, rng):
    if uniform(rng) < space.share:
        return covariate(space, table, space.listed[draw_alias(rng, space.threshold, space.alias)])
    return covariate(space, table, below(rng, space.n_columns))


@implements(log_probability, CovariateSpace)
def _log_probability(space, table, f):
    return math.log(space.probability[table.code[f]])


@implements(make_feature, CovariateSpace)
def _make_feature(space, table, operator, count, rng):
    if count == 0 or operator == DRAW:
        return draw_feature(space, table, rng)
    f = table.parents[0]
    choices = edit_choices(space, table, f, np.int64(0), operator)
    return edited(space, table, f, np.int64(0), operator, below(rng, choices)) if choices > 0 else np.int64(-1)


@implements(edit_choices, CovariateSpace)
def _edit_choices(space, table, f, node, operator):
    j = table.code[f]
    return space.start[j + 1] - space.start[j] if operator == EXCHANGE else np.int64(0)


@implements(edited, CovariateSpace)
def _edited(space, table, f, node, operator, choice):
    return covariate(space, table, space.neighbour[space.start[table.code[f]] + choice])


class Covariate(Expression):
    """One column."""

    __slots__ = ()


class Covariates(Language):
    """The columns of a table of very many, each a feature."""

    name = "covariates"
    operators = ("draw", "exchange")
    # Two columns that are equal are two terms, as everywhere in selection among given terms.
    merges_equal_columns = False
    # Most neighbours of a column that explains something explain nothing.
    edit_share = 0.1
    names: Names  # type: ignore[assignment]

    def __init__(self, names: Sequence[str] | int | Names, limits: Limits) -> None:
        self.names, self.limits = names_of(names), limits

    def space(self) -> CovariateSpace:
        """All columns alike, before warm-up has said more."""
        return covariate_space(len(self.names))

    def new_pool(
        self, x: np.ndarray, y: np.ndarray, root_weight: np.ndarray, features: int, slots: int, fitting: Any = None
    ) -> tuple[CovariatePool, Any]:
        """The columns as they lie in memory."""
        n = x.shape[1]
        double, single, small = (
            x if x.dtype == kind else np.zeros((0, n), kind) for kind in (np.float64, np.float32, np.int8)
        )
        # Columns lie in memory already, so that none is kept a second time.
        owner, slot = np.full(1, -1, np.int64), np.zeros(features, np.int32)
        scratch, values = np.zeros((1, n)), np.zeros((1, n))
        return CovariatePool(double, single, small, scratch, values, owner, slot, scalars_of(next=0)), None

    def at(self, column: int) -> Covariate:
        """The feature of a column, by its place."""
        text = self.names[column]
        return Covariate.known(text) or Covariate.interned(
            text, covariates=frozenset([text]), complexity=1, depth=0, width=1, spellings=1
        )

    def place(self, feature: Expression) -> int:
        """The place of a feature's column."""
        return self.names.index(feature.text)

    def covariate(self, name: str) -> Covariate:
        """The feature of a column."""
        return self.at(self.names.index(name))

    def parse(self, text: str) -> Covariate:
        """The feature of a column's name; InputError where there is none."""
        if text not in self.names:
            raise InputError(f"{text!r} is not a column; the columns are {', '.join(self.names[:5])}, ...")
        return self.covariate(text)

    def compose(self, kind: int, code: int, children: Sequence[Expression]) -> Covariate:
        """The feature of an entry of a table."""
        return self.at(code)

    def decompose(self, feature: Expression) -> tuple[int, int, Sequence[Expression]]:
        """Kind, code and children of a feature, as a table has them."""
        return COVARIATE, self.place(feature), ()

    def are_nodes(self, kind: np.ndarray, code: np.ndarray, arity: np.ndarray) -> bool:
        """Whether entries with these kinds, codes and numbers of children can be in a table."""
        return bool(((kind == COVARIATE) & (code >= 0) & (code < len(self.names)) & (arity == 0)).all())

    def contains(self, feature: Expression) -> bool:
        """Whether a feature is one of the columns."""
        return feature.text in self.names

    def column(
        self, feature: Expression, table: Mapping[str, np.ndarray], constants: Mapping[Expression, np.ndarray]
    ) -> np.ndarray:
        """Column of a feature, as float64."""
        return np.asarray(table[feature.text], dtype=np.float64)

    def enumerate(self, complexity: int | None = None) -> Iterator[Covariate]:
        """All columns."""
        return (self.at(j) for j in range(len(self.names)))

    def to_dict(self) -> dict[str, Any]:
        """The columns and the limits."""
        return {"names": stored_names(self.names), "limits": list(self.limits)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Covariates:
        """The language of a dictionary."""
        return cls(stored["names"], Limits(*stored["limits"]))
