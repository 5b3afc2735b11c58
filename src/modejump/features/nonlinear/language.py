"""The language of nonlinear features: products, transforms and projections of covariates."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.features.expression import Expression
from modejump.features.language import Language
from modejump.features.nonlinear import grammar  # noqa: F401  (its compiled functions are part of the language)
from modejump.features.nonlinear.calls import addresses
from modejump.features.nonlinear.columns import NonlinearPool, NoProjections, new_pool
from modejump.features.nonlinear.expression import Feature, Kind, compose, evaluate
from modejump.features.nonlinear.operators import (
    EDIT_GAIN,
    MODIFICATION,
    OPERATORS,
    PRODUCT,
    PROJECTION,
    NonlinearSpace,
)
from modejump.features.nonlinear.printing import to_latex, to_sympy, to_text
from modejump.features.nonlinear.projections import Alphas, find_alphas
from modejump.features.nonlinear.space import ALPHAS, EDIT_WEIGHTS, NEED_TRANSFORM, Space
from modejump.features.nonlinear.text import parse
from modejump.features.nonlinear.transforms import Transform, transforms
from modejump.features.table import COVARIATE, MAX_CHILDREN

# Probabilities of the kinds of features in the grammar, and of one more factor or parent.
KIND_WEIGHTS = {COVARIATE: 0.45, MODIFICATION: 0.25, PRODUCT: 0.3, PROJECTION: 0.15}
MORE = 0.35
# Features of a space that is enumerated, at most.
MOST_FEATURES = 1_000_000
_KINDS: tuple[Kind, ...] = ("covariate", "modification", "product", "projection")


class Nonlinear(Language):
    """Nonlinear features of some covariates by some transforms."""

    name = "nonlinear"
    operators = OPERATORS

    def __init__(self, names: Sequence[str], transforms: Sequence[Transform], limits: Space) -> None:
        self.names, self.transforms, self.limits = tuple(names), tuple(transforms), limits.by_rules("paper")
        self._columns = {name: j for j, name in enumerate(self.names)}
        self._codes = {t.name: j for j, t in enumerate(self.transforms)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """In another process, the transforms that a user added become known with the language."""
        self.__dict__.update(state)
        for transform in self.transforms:
            transforms.adopt(transform)

    @property
    def fits_constants(self) -> bool:
        """Whether there are projections, whose coefficients are fitted."""
        return self.limits.projection > 0.0

    def space(self) -> NonlinearSpace:
        """The compiled half."""
        limits, weights = self.limits, self.limits.operator_weights(bool(self.transforms))
        edits = {name: w for name, w in EDIT_WEIGHTS.items() if self.transforms or name not in NEED_TRANSFORM}
        kinds = np.zeros(4)
        kinds[COVARIATE] = KIND_WEIGHTS[COVARIATE]
        kinds[PRODUCT] = KIND_WEIGHTS[PRODUCT] if limits.width > 1 else 0.0
        if self.transforms:
            kinds[MODIFICATION] = KIND_WEIGHTS[MODIFICATION]
            kinds[PROJECTION] = KIND_WEIGHTS[PROJECTION] if self.fits_constants else 0.0
        return NonlinearSpace(
            transforms=len(self.transforms),
            cumulative=np.cumsum([weights[name] for name in OPERATORS]),
            edit_weight=np.array([edits.get(name, 0.0) for name in OPERATORS]) / sum(edits.values()),
            edit_gain=EDIT_GAIN,
            max_depth=int(limits.depth),
            max_width=int(limits.width),
            max_complexity=int(limits.complexity),
            n_columns=len(self.names),
            kinds=kinds / kinds.sum(),
            more=MORE,
            alphas=Alphas(ALPHAS.index(limits.alphas)) if self.fits_constants else NoProjections(),
        )

    def new_pool(
        self, x: np.ndarray, y: np.ndarray, root_weight: np.ndarray, features: int, slots: int, fitting: Any = None
    ) -> tuple[NonlinearPool, list[Any]]:
        """Columns for compiled code."""
        calls, alive = addresses(self.transforms)
        return new_pool(x, y, root_weight, features, slots, self.limits.depth + 4, calls), alive

    def parse(self, text: str) -> Feature:
        """The feature that a text stands for."""
        return parse(text, self.names)

    def compose(self, kind: int, code: int, children: Sequence[Expression]) -> Feature:
        """The feature of an entry of a table."""
        label = self.names[code] if kind == COVARIATE else "" if kind == PRODUCT else self.transforms[code].name
        return compose(_KINDS[kind], label, children)  # type: ignore[arg-type]

    def decompose(self, feature: Expression) -> tuple[int, int, Sequence[Expression]]:
        """Kind, code and children of a feature."""
        assert isinstance(feature, Feature)
        kind = _KINDS.index(feature.kind)
        if feature.name is not None:
            return kind, self._columns[feature.name], ()
        return kind, 0 if feature.transform is None else self._codes[feature.transform], feature.children

    def are_nodes(self, kind: np.ndarray, code: np.ndarray, arity: np.ndarray) -> bool:
        """Whether entries with these kinds, codes and numbers of children can be in a table."""
        most_code = np.array([len(self.names), len(self.transforms), 1, len(self.transforms)])
        least_arity, most_arity = np.array([0, 1, 2, 1]), np.array([0, 1, MAX_CHILDREN, MAX_CHILDREN])
        if not ((kind >= 0) & (kind <= PROJECTION)).all():
            return False
        inside = (code >= 0) & (code < most_code[kind]) & (arity >= least_arity[kind]) & (arity <= most_arity[kind])
        return bool(inside.all())

    def contains(self, feature: Expression) -> bool:
        """Whether a feature is in the space."""
        limits = self.limits
        if not isinstance(feature, Feature) or not feature.covariates <= self._columns.keys():
            return False
        if feature.depth > limits.depth or feature.width > limits.width or feature.complexity > limits.complexity:
            return False
        parts = feature.subfeatures()
        return all(part.transform is None or part.transform in self._codes for part in parts) and (
            self.fits_constants or all(part.kind != "projection" for part in parts)
        )

    def column(
        self, feature: Expression, table: Mapping[str, np.ndarray], constants: Mapping[Expression, np.ndarray]
    ) -> np.ndarray:
        """Column of a feature in plain NumPy, NaN where a projection in it has no coefficients."""
        assert isinstance(feature, Feature)
        nowhere = np.full(len(next(iter(table.values()))), np.nan)
        if any(part.kind == "projection" and part not in constants for part in feature.subfeatures()):
            return nowhere
        try:
            return evaluate(feature, table, constants)  # type: ignore[arg-type]
        except InputError:
            raise
        except Exception:  # a function of the user's may fail in any way: the feature is left out, as in a search
            return nowhere

    def constants(
        self,
        features: Iterable[Expression],
        table: Mapping[str, np.ndarray],
        y: np.ndarray,
        weights: np.ndarray,
        known: Mapping[Expression, np.ndarray],
    ) -> dict[Expression, np.ndarray]:
        """Coefficients of all projections inside features: those known, and those that can be found."""
        if not self.fits_constants:
            return dict(known)
        return find_alphas(features, table, y, weights, known=known, kind=self.limits.alphas)  # type: ignore

    def to_dict(self) -> dict[str, Any]:
        """What the space is."""
        limits = dataclasses.asdict(self.limits)
        return {"names": list(self.names), "transforms": [t.name for t in self.transforms], "limits": limits}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Nonlinear:
        """The language of a dictionary; of its transforms those that are known here."""
        known = [transforms[name] for name in stored["transforms"] if name in transforms]
        return cls(stored["names"], known, Space(**stored["limits"]))

    def text(self, feature: Expression, constants: Mapping[Expression, np.ndarray], digits: int) -> str:
        """A feature as plain text, with numbers in its projections."""
        assert isinstance(feature, Feature)
        return to_text(feature, constants, digits) if self.fits_constants else feature.text  # type: ignore[arg-type]

    def latex(self, feature: Expression, constants: Mapping[Expression, np.ndarray], digits: int) -> str:
        """A feature as LaTeX."""
        return to_latex(feature, constants, digits)  # type: ignore[arg-type]

    def sympy(self, feature: Expression, constants: Mapping[Expression, np.ndarray]) -> Any:
        """A feature as an expression of SymPy."""
        return to_sympy(feature, constants)  # type: ignore[arg-type]

    def enumerate(self, complexity: int | None = None) -> list[Feature]:
        """All features of the space, or those up to a complexity; by complexity and text.

        Examples
        --------
        >>> from modejump.features.nonlinear.transforms import transforms
        >>> [f.text for f in Nonlinear(["a", "b"], [transforms["sin"]], Space()).enumerate(2)]
        ['a', 'b', 'a*a', 'a*b', 'b*b', 'sin(a)', 'sin(b)']
        """
        levels: list[list[Feature]] = [[], sorted(Feature.covariate(name) for name in self.names)]
        most = self.limits.complexity if complexity is None else min(complexity, self.limits.complexity)
        for c in range(2, most + 1):
            limits = self.limits
            made = self._of_complexity(c, levels)
            inside = (f for f in made if f.depth <= limits.depth and f.width <= limits.width)
            room = MOST_FEATURES - sum(map(len, levels))
            level = list(itertools.islice(inside, room + 1))
            if len(level) > room:
                raise InputError(
                    f"the space has more than {MOST_FEATURES} features of complexity up to {c}; give a smaller "
                    "complexity, depth or width."
                )
            levels.append(sorted(level))
        return [feature for level in levels for feature in level]

    def _of_complexity(self, c: int, levels: Sequence[Sequence[Feature]]) -> Iterator[Feature]:
        """Every feature of one complexity from those below, each once."""
        functions = sorted(self._codes)
        for name in functions:
            yield from (compose("modification", name, [inside]) for inside in levels[c - 1])
        single = [[f for f in level if f.kind != "product"] for level in levels]
        # A binary tree of depth D has at most 2^D leaves, and a factor is one at least.
        for parts in _partitions(c, c - 1, min(self.limits.width, 2**self.limits.depth)):
            if len(parts) > 1:
                yield from (compose("product", "", chosen) for chosen in _choices(parts, single, repeated=True))
        if self.fits_constants:
            # A parent of complexity c adds c + 1: itself and one addition.
            for parts in _partitions(c - 1, c - 1, self.limits.width):
                if 1 not in parts:
                    for chosen in _choices([part - 1 for part in parts], levels, repeated=False):
                        yield from (compose("projection", name, chosen) for name in functions)


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
    groups: Iterable[list[tuple[Feature, ...]]] = [
        list(combine(levels[part], parts.count(part))) for part in dict.fromkeys(parts)
    ]
    for chosen in itertools.product(*groups):
        yield tuple(itertools.chain.from_iterable(chosen))
