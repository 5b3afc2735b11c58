"""A language of the tests' own, made through the public seam alone: interactions a:b:c of distinct covariates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from modejump.core.compilation import implements, kernel
from modejump.core.errors import InputError
from modejump.core.handles import scalars_of
from modejump.core.random import below, uniform
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
from modejump.features.table import COVARIATE, covariate, intern, sort_children

INTERACTION = 1
JOIN, ADD, DROP, SWAP = range(4)
# Probability of one more covariate in a feature drawn at random.
MORE = 0.5


class Limits(NamedTuple):
    """What a user chooses."""

    complexity: int
    size: int
    population: int


class InteractionSpace(NamedTuple):
    """The space as compiled code reads it."""

    cumulative: np.ndarray
    edit_weight: np.ndarray
    edit_gain: np.ndarray
    max_depth: int
    max_width: int
    max_complexity: int
    n_columns: int


class InteractionPool(NamedTuple):
    """Columns."""

    x: np.ndarray
    scratch: np.ndarray
    values: np.ndarray
    owner: np.ndarray
    slot: np.ndarray
    scalars: np.ndarray


@implements(measure, InteractionSpace)
def _measure(space, table, f):
    members = max(table.arity[f], 1)
    table.depth[f], table.width[f], table.complexity[f], table.nodes[f] = members - 1, members, members, 1
    table.log_spellings[f] = 0.0


@kernel
def _of_buffer(space, table, m):
    """The feature of the covariates in the buffer."""
    m = sort_children(table, m, True)
    if m == 1:
        return table.buffer[0]
    return intern(space, table, np.int64(INTERACTION), np.int64(0), m)


@implements(assemble, InteractionSpace)
def _assemble(space, table, kind, code, m):
    if kind == COVARIATE:
        return intern(space, table, kind, code, m)
    return _of_buffer(space, table, m)


@kernel
def _member(table, f, i):
    return table.child[table.start[f] + i] if table.kind[f] == INTERACTION else f


@implements(write_column, InteractionSpace)
def _write_column(space, table, pool, f):
    for r in range(pool.x.shape[1]):
        pool.scratch[0, r] = 1.0
    for i in range(max(table.arity[f], 1)):
        column = table.code[_member(table, f, i)]
        for r in range(pool.x.shape[1]):
            pool.scratch[0, r] *= pool.x[column, r]
    return True


@kernel
def _push(table, f, m):
    for i in range(max(table.arity[f], 1)):
        table.buffer[m + i] = _member(table, f, i)
    return m + max(table.arity[f], 1)


@implements(make_feature, InteractionSpace)
def _make_feature(space, table, operator, count, rng):
    if count == 0:
        return covariate(space, table, below(rng, space.n_columns))
    f = table.parents[0]
    if operator == JOIN:
        return _of_buffer(space, table, _push(table, table.parents[1], _push(table, f, np.int64(0))))
    choices = edit_choices(space, table, f, np.int64(0), operator)
    return edited(space, table, f, np.int64(0), operator, below(rng, choices)) if choices > 0 else np.int64(-1)


@implements(edit_choices, InteractionSpace)
def _edit_choices(space, table, f, node, operator):
    if operator == ADD:
        return np.int64(space.n_columns)
    if operator == DROP:
        return table.arity[f]
    return np.int64(max(table.arity[f], 1) * space.n_columns) if operator == SWAP else np.int64(0)


@implements(edited, InteractionSpace)
def _edited(space, table, f, node, operator, choice):
    members, m = max(table.arity[f], 1), np.int64(0)
    out = choice if operator == DROP else choice // space.n_columns if operator == SWAP else members
    for i in range(members):
        if i != out:
            table.buffer[m] = _member(table, f, i)
            m += 1
    if operator != DROP:
        table.buffer[m] = covariate(space, table, choice % space.n_columns)
        m += 1
    made = _of_buffer(space, table, m)
    gain = 1 if operator == ADD else -1 if operator == DROP else 0
    if made == f or table.complexity[made] > space.max_complexity:
        return np.int64(-1)
    return made if table.complexity[made] - table.complexity[f] == gain else np.int64(-1)


@implements(draw_feature, InteractionSpace)
def _draw_feature(space, table, rng):
    m = np.int64(0)
    while m == 0 or uniform(rng) < MORE:
        if m == min(space.max_complexity, space.n_columns):
            return np.int64(-1)
        f = covariate(space, table, below(rng, space.n_columns))
        again = False
        for i in range(m):
            again = again or table.buffer[i] == f
        if again:
            return np.int64(-1)
        # The covariates stay in the table, and its buffer is not used by them.
        table.buffer[m] = f
        m += 1
    return _of_buffer(space, table, m)


@implements(log_probability, InteractionSpace)
def _log_probability(space, table, f):
    m = table.complexity[f]
    orders = math.lgamma(m + 1.0) - m * math.log(space.n_columns)
    return orders + (m - 1) * math.log(MORE) + math.log(1.0 - MORE)


class Interaction(Expression):
    """A product of distinct covariates."""

    __slots__ = ()


class Interactions(Language):
    """All interactions of some covariates up to a complexity, the number of their covariates."""

    name = "interactions"
    operators = ("join", "add", "drop", "swap")

    def __init__(self, names: Sequence[str], limits: Limits) -> None:
        self.names, self.limits = tuple(names), limits

    def space(self) -> InteractionSpace:
        return InteractionSpace(
            cumulative=np.cumsum([0.4, 0.2, 0.2, 0.2]),
            edit_weight=np.array([0.0, 0.4, 0.3, 0.3]),
            edit_gain=np.array([[0, 0], [1, 1], [-1, -1], [0, 0]]),
            max_depth=self.limits.complexity,
            max_width=self.limits.complexity,
            max_complexity=self.limits.complexity,
            n_columns=len(self.names),
        )

    def new_pool(
        self, x: np.ndarray, y: np.ndarray, root_weight: np.ndarray, features: int, slots: int, fitting: Any = None
    ) -> tuple[InteractionPool, Any]:
        n = x.shape[1]
        owner = np.full(slots, -1, np.int64)
        slot = np.zeros(features, np.int32)
        return InteractionPool(x, np.zeros((1, n)), np.zeros((slots, n)), owner, slot, scalars_of(next=0)), None

    def of(self, names: Sequence[str]) -> Interaction:
        """The interaction of these covariates."""
        text = ":".join(sorted(names))
        m = len(names)
        return Interaction.known(text) or Interaction.interned(
            text, covariates=frozenset(names), complexity=m, depth=m - 1, width=m, spellings=1
        )

    def parse(self, text: str) -> Interaction:
        names = set(text.split(":"))
        if not names <= set(self.names):
            raise InputError(f"{text!r} is not an interaction of {', '.join(self.names)}.")
        return self.of(sorted(names))

    def compose(self, kind: int, code: int, children: Sequence[Expression]) -> Interaction:
        return self.of([self.names[code]] if kind == COVARIATE else [child.text for child in children])

    def decompose(self, feature: Expression) -> tuple[int, int, Sequence[Expression]]:
        if feature.complexity == 1:
            return COVARIATE, self.names.index(feature.text), ()
        return INTERACTION, 0, [self.of([name]) for name in sorted(feature.covariates)]

    def are_nodes(self, kind: np.ndarray, code: np.ndarray, arity: np.ndarray) -> bool:
        leaf = (kind == COVARIATE) & (code >= 0) & (code < len(self.names)) & (arity == 0)
        return bool((leaf | ((kind == INTERACTION) & (code == 0) & (arity >= 2) & (arity <= len(self.names)))).all())

    def contains(self, feature: Expression) -> bool:
        return feature.covariates <= set(self.names) and feature.complexity <= self.limits.complexity

    def column(
        self, feature: Expression, table: Mapping[str, np.ndarray], constants: Mapping[Expression, np.ndarray]
    ) -> np.ndarray:
        return np.asarray(math.prod((table[name] for name in sorted(feature.covariates)), start=np.float64(1.0)))

    def enumerate(self, complexity: int | None = None) -> Iterator[Interaction]:
        for m in range(1, min(complexity or self.limits.complexity, len(self.names)) + 1):
            yield from (self.of(names) for names in itertools.combinations(self.names, m))

    def to_dict(self) -> dict[str, Any]:
        return {"names": list(self.names), "limits": list(self.limits)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Interactions:
        return cls(stored["names"], Limits(*stored["limits"]))
