"""The language of laws: products of powers, functions of sums, and constants that are fitted inside them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.features.expression import Expression
from modejump.features.language import Language
from modejump.features.laws import grammar  # noqa: F401  (its compiled functions are part of the language)
from modejump.features.laws.columns import LawPool, new_pool
from modejump.features.laws.edits import EDIT_GAIN, OPERATORS
from modejump.features.laws.enumeration import all_laws
from modejump.features.laws.expression import KINDS, Feature, compose, evaluate
from modejump.features.laws.nodes import CALL, COS, EXP, LOG, ONE, PLAIN, POWER, SIN, LawSpace
from modejump.features.laws.powers import exponents_and_functions
from modejump.features.laws.printing import to_latex, to_sympy, to_text
from modejump.features.laws.text import parse
from modejump.features.laws.units import packed_units
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import Transform
from modejump.features.nonlinear.transforms import transforms as known
from modejump.features.table import COVARIATE, MAX_CHILDREN

# Tree edits by share; each kind stands beside its inverse.
EDIT_WEIGHTS = {
    "insert": 0.2,
    "delete": 0.1,
    "exponent": 0.15,
    "swap_leaf": 0.1,
    "swap_function": 0.05,
    "wrap": 0.1,
    "strip": 0.06,
    "add_term": 0.1,
    "drop_term": 0.06,
    "coefficient": 0.08,
}
NEED_FUNCTION = ("modification", "projection", "swap_function", "strip", "wrap")
# The grammar: what a factor is of, its exponent, the coefficient of a term.
BASES = (0.72, 0.18, 0.1)
COEFFICIENTS = (0.4, 0.2, 0.4)
EXPONENT_WEIGHTS = {1: 8.0, -1: 4.0, 2: 2.0, -2: 1.0, Fraction(1, 2): 1.0, Fraction(-1, 2): 1.0}
OTHER_EXPONENT = 0.3
ONE_SHARE, MORE_FACTORS, MORE_TERMS = 0.3, 0.4, 0.25
# Exponents of a covariate that an edit brings in as a factor or a term; others come by an edit of the exponent.
INSERTED = (1, -1, 2, -2, Fraction(1, 2), Fraction(-1, 2))
ADDED = (1, -1, 2)
_TRAITS = {"exp": EXP, "log": LOG, "sin": SIN, "cos": COS}


class Laws(Language):
    """Laws over some covariates.

    Parameters
    ----------
    names : sequence of str
        The covariates.
    transforms : sequence of Transform
        Functions and powers; powers ("inv", "sqrt", ...) say which exponents there are.
    limits : Space
        Limits of the space, units, and weights of the operators.
    """

    name = "laws"
    operators = OPERATORS

    def __init__(self, names: Sequence[str], transforms: Sequence[Transform], limits: Space) -> None:
        self.names, self.transforms, self.limits = tuple(names), tuple(transforms), limits.by_rules("laws")
        self.exponents, functions = exponents_and_functions(t.name for t in transforms)
        given = {t.name: t for t in transforms}
        self.functions = tuple(given[name] if name in given else known[name] for name in sorted(functions))
        self._columns = {name: j for j, name in enumerate(self.names)}
        self._codes = {t.name: j for j, t in enumerate(self.functions)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """In another process, the transforms that a user added become known with the language."""
        self.__dict__.update(state)
        for transform in self.transforms:
            known.adopt(transform)

    @cached_property
    def _units(self) -> tuple[np.ndarray, int]:
        return packed_units(self.names, self.limits.units, self.limits.target_unit)

    @property
    def _strict(self) -> bool:
        """Whether features without constants must have the unit of the response."""
        return self.limits.strict_units and self.limits.target_unit is not None

    @property
    def fits_constants(self) -> bool:
        """Whether features may hold fitted constants."""
        return self.limits.max_constants > 0

    @property
    def joint_constants(self) -> int:
        """The most constants of one feature."""
        return self.limits.max_constants

    def without_constants(self) -> Laws:
        """The laws of the same space without fitted constants."""
        return Laws(self.names, self.transforms, dataclasses.replace(self.limits, constants=False))

    def space(self) -> LawSpace:
        """The compiled half."""
        limits, exponents = self.limits, self.exponents
        denominator = math.lcm(*(e.denominator for e in exponents))
        order = sorted(self.names)
        return LawSpace(
            **self._operator_weights(),
            edit_gain=EDIT_GAIN,
            max_depth=int(limits.depth),
            max_width=int(limits.width),
            max_complexity=int(limits.complexity),
            max_constants=limits.max_constants,
            n_columns=len(self.names),
            rank=np.array([order.index(name) for name in self.names]),
            functions=len(self.functions),
            trait=np.array([_TRAITS.get(t.name, PLAIN) for t in self.functions], np.int64),
            parity=np.array([t.parity for t in self.functions], np.int64),
            exponents=np.array([int(e * denominator) for e in exponents]),
            denominator=denominator,
            inserted=np.array([j for j, e in enumerate(exponents) if e in INSERTED]),
            added=np.array([j for j, e in enumerate(exponents) if e in ADDED]),
            units=self._units[0],
            target_unit=self._units[1],
            strict=int(self._strict),
            **self._grammar(),
            one=ONE_SHARE,
            more_factors=MORE_FACTORS if limits.width > 1 else 0.0,
            more_terms=MORE_TERMS if limits.width > 1 else 0.0,
        )

    def _grammar(self) -> dict[str, np.ndarray]:
        """Probabilities of what a factor is of, of exponents and of coefficients, and their logs."""
        deep, wide = self.limits.depth > 0, self.limits.width > 1
        weights = {
            "bases": np.array(BASES) * [1, bool(self.functions) and deep, deep and wide],
            "exponent_weight": np.array([EXPONENT_WEIGHTS.get(e, OTHER_EXPONENT) for e in self.exponents]),
            "coefficients": np.array(COEFFICIENTS) * [1, 1, self.fits_constants],
        }
        shares = {name: weight / weight.sum() for name, weight in weights.items()}
        with np.errstate(divide="ignore"):
            return shares | {f"log_{name}": np.log(share) for name, share in shares.items()}

    def _operator_weights(self) -> dict[str, np.ndarray]:
        """Cumulative weights of the operators, and those of the edits among themselves."""
        limits = self.limits
        edits = {k: w for k, w in EDIT_WEIGHTS.items() if self.functions or k not in NEED_FUNCTION}
        # Functions of one law and of a combination share a weight: `projection` of a space is the paper's.
        makers = {"mutation": limits.mutation, "crossover": limits.crossover}
        if self.functions:
            makers |= dict.fromkeys(("modification", "projection"), 0.5 * limits.modification)
        shares = {k: limits.edits * w / sum(edits.values()) for k, w in edits.items()}
        if sum(makers.values()) > 0.0:
            shares |= {k: (1.0 - limits.edits) * w / sum(makers.values()) for k, w in makers.items()}
        weight = np.array([shares.get(k, 0.0) for k in OPERATORS])
        edit_weight = np.array([edits.get(k, 0.0) for k in OPERATORS])
        return {"cumulative": np.cumsum(weight / weight.sum()), "edit_weight": edit_weight / edit_weight.sum()}

    def new_pool(
        self, x: np.ndarray, y: np.ndarray, root_weight: np.ndarray, features: int, slots: int, fitting: Any = None
    ) -> tuple[LawPool, Any]:
        """Columns for compiled code."""
        limits = self.limits
        return new_pool(
            x, y, root_weight, features, slots, functions=self.functions, exponents=self.exponents,
            constants=limits.max_constants, depth=limits.depth, complexity=limits.complexity,
            fitting=fitting,
        )  # fmt: skip

    def parse(self, text: str) -> Feature:
        """The feature that a text stands for; unquoted c0, c1, ... are constants where the space has any."""
        return parse(text, self.names, constants=True if self.fits_constants else None)

    def compose(self, kind: int, code: int, children: Sequence[Expression]) -> Feature:
        """The feature of an entry of a table."""
        labels: dict[int, Any] = {COVARIATE: self.names, CALL: [t.name for t in self.functions], POWER: self.exponents}
        return compose(KINDS[kind], labels[kind][code] if kind in labels else None, children)  # type: ignore[arg-type]

    def decompose(self, feature: Expression) -> tuple[int, int, Sequence[Expression]]:
        """Kind, code and children of a feature."""
        assert isinstance(feature, Feature)
        code = 0
        if feature.name is not None:
            code = self._columns[feature.name]
        elif feature.function is not None:
            code = self._codes[feature.function]
        elif feature.exponent is not None:
            code = self.exponents.index(feature.exponent)
        return KINDS.index(feature.kind), code, feature.children

    def are_nodes(self, kind: np.ndarray, code: np.ndarray, arity: np.ndarray) -> bool:
        """Whether entries with these kinds, codes and numbers of children can be in a table."""
        if not ((kind >= 0) & (kind <= ONE)).all():
            return False
        most_code = np.array([len(self.names), len(self.functions), len(self.exponents), 1, 1, 1, 1, 1])
        least, most = np.array([0, 1, 1, 2, 2, 1, 1, 0]), np.array([0, 1, 1, MAX_CHILDREN, MAX_CHILDREN, 1, 1, 0])
        inside = (code >= 0) & (code < most_code[kind]) & (arity >= least[kind]) & (arity <= most[kind])
        return bool(inside.all())

    def contains(self, feature: Expression) -> bool:
        """Whether a feature is in the space."""
        limits = self.limits
        if (
            not isinstance(feature, Feature)
            or not feature.is_monomial
            or not feature.covariates <= self._columns.keys()
        ):
            return False
        if feature.depth > limits.depth or feature.width > limits.width or feature.complexity > limits.complexity:
            return False
        if feature.constants > limits.max_constants or not all(map(self._knows, feature.subfeatures())):
            return False
        unit = self._unit(feature)
        return unit is not None and (not self._strict or feature.constants > 0 or unit == self._units[1])

    def _knows(self, node: Feature) -> bool:
        return (node.function is None or node.function in self._codes) and (
            node.exponent is None or node.exponent in self.exponents
        )

    def _unit(self, node: Feature) -> Fraction | None:
        """Unit of a node; None where it adds unlike quantities, or takes a function of one with a unit."""
        if node.name is not None:
            return Fraction(int(self._units[0][self._columns[node.name]]))
        units = [self._unit(child) for child in node.children]
        known = [unit for unit in units if unit is not None]
        if len(known) < len(units):
            return None
        if node.kind == "sum":
            fixed = {unit for unit, term in zip(known, node.children, strict=True) if term.kind != "free"}
            return None if len(fixed) > 1 else next(iter(fixed), Fraction(0))
        if node.function is not None:
            return Fraction(0) if node.children[0].kind == "free" or known[0] == 0 else None
        return known[0] * node.exponent if node.exponent is not None else sum(known, Fraction(0))

    def column(
        self, feature: Expression, table: Mapping[str, np.ndarray], constants: Mapping[Expression, np.ndarray]
    ) -> np.ndarray:
        """Column of a feature in plain NumPy, NaN where it has no constants."""
        assert isinstance(feature, Feature)
        nowhere = np.full(len(next(iter(table.values()))), np.nan)
        if feature.constants and feature not in constants:
            return nowhere
        try:
            return evaluate(feature, table, constants[feature] if feature.constants else ())
        except InputError:
            raise
        except Exception:  # a function of the user's may fail in any way: the feature is left out, as in a search
            return nowhere

    def to_dict(self) -> dict[str, Any]:
        """What the space is."""
        limits = dataclasses.asdict(self.limits)
        return {"names": list(self.names), "transforms": [t.name for t in self.transforms], "limits": limits}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Laws:
        """The language of a dictionary; of its transforms those that are known here."""
        some = [known[name] for name in stored["transforms"] if name in known]
        return cls(stored["names"], some, Space(**stored["limits"]))

    def text(self, feature: Expression, constants: Mapping[Expression, np.ndarray], digits: int) -> str:
        """A feature as plain text, with the values of its constants."""
        return to_text(feature, constants.get(feature), digits)  # type: ignore[arg-type]

    def latex(self, feature: Expression, constants: Mapping[Expression, np.ndarray], digits: int) -> str:
        """A feature as LaTeX."""
        return to_latex(feature, constants.get(feature), digits)  # type: ignore[arg-type]

    def sympy(self, feature: Expression, constants: Mapping[Expression, np.ndarray]) -> Any:
        """A feature as an expression of SymPy."""
        return to_sympy(feature, constants.get(feature))  # type: ignore[arg-type]

    def enumerate(self, complexity: int | None = None) -> list[Feature]:
        """All features of the space, or those up to a complexity; by complexity and text.

        Examples
        --------
        >>> from modejump.features.nonlinear.transforms import transforms
        >>> [f.text for f in Laws(["a", "b"], [transforms["exp"]], Space(constants=1)).enumerate(2)]
        ['a', 'b', 'a*b', 'a^2', 'a^3', 'b^2', 'b^3', 'exp(-a)', 'exp(-b)', 'exp(a)', 'exp(b)']
        """
        most = self.limits.complexity if complexity is None else min(complexity, self.limits.complexity)
        found = [f for level in all_laws(self, most) for f in level if self.contains(f)]
        return sorted(found)
