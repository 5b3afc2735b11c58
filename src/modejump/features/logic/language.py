"""The language of logic features: and, or, not over binary covariates."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from modejump.core.random import alias_table
from modejump.features.expression import Expression
from modejump.features.language import Language
from modejump.features.logic import grammar as _grammar  # noqa: F401  (implementations of the generic functions)
from modejump.features.logic.columns import LogicPool, new_pool
from modejump.features.logic.expression import LogicFeature, in_brackets, to_latex, to_sympy
from modejump.features.logic.functions import functions_of
from modejump.features.logic.operators import EDIT_GAIN, LOGIC, OPERATORS, LogicRules
from modejump.features.logic.space import EDIT_WEIGHTS, LogicSpace
from modejump.features.logic.text import parse
from modejump.features.symbols import escape_latex, import_sympy
from modejump.features.table import COVARIATE

# Probability of one more leaf in a feature at random, and of each leaf that a function needs beyond its variables.
MORE, REPEATED = 0.6, 0.25
# Share of the leaves that are drawn alike, whatever their weights.
UNIFORM_SHARE = 0.3
# Columns that edits bring in: all where there are few, otherwise those of the largest weights.
MOST_CANDIDATES = 100


class Logic(Language):
    """All boolean functions of some binary covariates that a number of leaves can spell.

    ``weights`` say how promising each covariate looks: how often a draw takes it. All are alike by default.
    """

    name = "logic"
    operators = OPERATORS

    def __init__(self, names: Sequence[str], limits: LogicSpace, weights: np.ndarray | None = None) -> None:
        self.names, self.limits = tuple(names), limits.among(len(names))
        m = len(self.names)
        given = np.ones(m) if weights is None else np.asarray(weights, np.float64)
        self.weights = UNIFORM_SHARE / m + (1.0 - UNIFORM_SHARE) * given / given.sum()

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.names)}

    def bit_words(self, rows: int) -> int:
        """Words of a column."""
        return -(-rows // 64)

    def space(self) -> LogicRules:
        """The compiled half."""
        known, limits, operators = functions_of(self.limits.complexity), self.limits, self.limits.operator_weights()
        width = MORE ** np.arange(limits.complexity)
        width /= width.sum()
        chosen, cumulative = np.zeros(len(known.truth)), np.zeros(len(known.truth))
        for k in range(1, limits.complexity + 1):
            own = slice(known.first[k], known.first[k + 1])
            weight = REPEATED ** (known.leaves[own] - k)
            chosen[own] = weight / weight.sum()
            cumulative[own] = np.cumsum(chosen[own])
        threshold, alias = alias_table(self.weights)
        best = np.argsort(-self.weights, kind="stable")[:MOST_CANDIDATES]
        return LogicRules(
            cumulative=np.cumsum([operators[name] for name in OPERATORS]),
            edit_weight=np.array([EDIT_WEIGHTS.get(name, 0.0) for name in OPERATORS]),
            edit_gain=EDIT_GAIN,
            max_depth=int(limits.complexity),
            max_width=int(limits.complexity),
            max_complexity=int(limits.complexity),
            n_columns=len(self.names),
            first=known.first,
            truth=known.truth,
            leaves=known.leaves,
            extension_first=known.extension_first,
            extension=known.extension,
            candidates=np.sort(best).astype(np.int64),
            width_cumulative=np.cumsum(width),
            log_width=np.concatenate([[-np.inf], np.log(width)]),
            function_cumulative=cumulative,
            log_function=np.log(chosen),
            threshold=threshold,
            alias=alias,
            log_column=np.log(self.weights),
        )

    def new_pool(
        self, x: np.ndarray, y: np.ndarray, root_weight: np.ndarray, features: int, slots: int, fitting: Any = None
    ) -> tuple[LogicPool, None]:
        """Columns for compiled code."""
        return new_pool(x, root_weight, features), None

    def parse(self, text: str) -> LogicFeature:
        """The feature that a text stands for."""
        return parse(text, self._columns)

    def compose(self, kind: int, code: int, children: Sequence[Expression]) -> LogicFeature:
        """The feature of an entry of a table."""
        if kind == COVARIATE:
            return LogicFeature.of([self.names[code]], 0b10)
        return LogicFeature.of([child.leaves[0] for child in children], code)  # type: ignore[attr-defined]

    def decompose(self, feature: Expression) -> tuple[int, int, Sequence[Expression]]:
        """Kind, code and children of a feature."""
        assert isinstance(feature, LogicFeature)
        if len(feature.leaves) == 1:
            return COVARIATE, self._columns[feature.leaves[0]], ()
        return LOGIC, feature.truth, [LogicFeature.of([name], 0b10) for name in feature.leaves]

    def are_nodes(self, kind: np.ndarray, code: np.ndarray, arity: np.ndarray) -> bool:
        """Whether entries with these kinds, codes and numbers of children can be in a table."""
        known = functions_of(self.limits.complexity)
        good = (kind == COVARIATE) & (code >= 0) & (code < len(self.names)) & (arity == 0)
        for k in range(2, self.limits.complexity + 1):
            good |= (kind == LOGIC) & (arity == k) & np.isin(code, known.truth[known.first[k] : known.first[k + 1]])
        return bool(good.all())

    def contains(self, feature: Expression) -> bool:
        """Whether a feature is in the space."""
        inside = isinstance(feature, LogicFeature) and feature.covariates <= self._columns.keys()
        return inside and feature.complexity <= self.limits.complexity

    def column(
        self, feature: Expression, table: Mapping[str, np.ndarray], constants: Mapping[Expression, np.ndarray]
    ) -> np.ndarray:
        """Column of a feature in plain NumPy."""
        assert isinstance(feature, LogicFeature)
        at = np.zeros(len(next(iter(table.values()))), np.int64)
        for i, name in enumerate(feature.leaves):
            at |= (np.asarray(table[name]) != 0.0).astype(np.int64) << i
        return ((feature.truth >> at) & 1).astype(np.float64)

    def enumerate(self, complexity: int | None = None) -> Iterator[LogicFeature]:
        """All features of the space, or those of up to so many leaves.

        Examples
        --------
        >>> [f.text for f in Logic(["a", "b"], LogicSpace(leaves=2)).enumerate()]
        ['a', 'b', '!a & b', 'a & !b', 'a & b', 'a | b']
        """
        most = self.limits.complexity if complexity is None else min(complexity, self.limits.complexity)
        known = functions_of(most)
        found = [
            LogicFeature.of(names, int(truth))
            for k in range(1, min(most, len(self.names)) + 1)
            for names in itertools.combinations(self.names, k)
            for truth in known.truth[known.first[k] : known.first[k + 1]]
        ]
        yield from sorted(found)

    def to_dict(self) -> dict[str, Any]:
        """What the space is."""
        return {"names": list(self.names), "limits": dataclasses.asdict(self.limits), "weights": self.weights.tolist()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Logic:
        """The language of a dictionary."""
        made = cls(stored["names"], LogicSpace(**stored["limits"]))
        made.weights = np.array(stored["weights"])
        return made

    def law(self, features: Sequence[Expression]) -> str:
        """Features joined by plus signs."""
        return " + ".join(in_brackets(feature.text) for feature in features) or "1"

    def latex(self, feature: Expression, constants: Mapping[Expression, np.ndarray], digits: int) -> str:
        """A feature as LaTeX."""
        return to_latex(feature, escape_latex)  # type: ignore[arg-type]

    def sympy(self, feature: Expression, constants: Mapping[Expression, np.ndarray]) -> Any:
        """A feature as a polynomial of SymPy, in symbols that are 0 or 1."""
        return to_sympy(feature, import_sympy())  # type: ignore[arg-type]
