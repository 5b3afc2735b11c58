"""What a language of features is: the rules of one kind of expressions.

A language says which features there are, what they cost, which column each has, how one is made of others, and with
which probability a feature is drawn at random. Samplers, populations, storage and exact posteriors work with any
language. Its compiled half is a named tuple, the *space*, with an implementation of each of the generic functions
below; its plain half is a subclass of :class:`Language`.

The space has the fields ``max_depth``, ``max_width``, ``max_complexity`` (limits), ``n_columns`` (covariates),
``cumulative`` (cumulative weights of the operators that make a new feature), ``edit_weight`` (weights of the edits) and
``edit_gain`` (the least and the largest change of complexity that each edit can make).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from modejump.core.compilation import generic, implements
from modejump.core.errors import InputError
from modejump.features.expression import Expression
from modejump.features.pool import dot_rows


@generic
def measure(space, table, f):
    """Depth, width, complexity, nodes and spellings of a new feature from its children."""


@generic
def assemble(space, table, kind, code, m):
    """The feature of a kind with the m children in ``table.buffer``, in any order; -1 where the table is full."""


@generic
def is_feature(space, table, f):
    """Whether an entry of the table within the limits is a feature of the space, and no mere part; True by default."""


@generic
def functions_of(space, table, f):
    """The functions that a feature is made of, one bit for each; none by default."""


@generic
def write_column(space, table, pool, f):
    """Write the column of a feature into the first scratch row of the pool; False where it has none."""


@generic
def settle_constants(space, table, pool, f, out):
    """Fit the constants inside a feature; where they are fitted jointly, they are written to ``out``.

    By default the column is written, and the table keeps the constants of the feature's parts.
    """


@generic
def make_feature(space, table, operator, count, rng):
    """A feature that an operator makes of the ``count`` features in ``table.parents``, -1 where it does not apply."""


@generic
def draw_feature(space, table, rng):
    """A feature drawn at random from the whole space, -1 where the draw is void."""


@generic
def log_probability(space, table, f):
    """Log of the probability that `draw_feature` gives a feature."""


@generic
def edit_choices(space, table, f, node, operator):
    """How many results an edit of a node of f can have, all of the same probability; 0 where it does not apply."""


@generic
def edited(space, table, f, node, operator, choice):
    """Result of an edit of a node of f, -1 where it is void."""


@generic
def keep_column(space, pool, population, place):
    """Keep at a place of a population what `product` needs of the column in the first scratch row; nothing by default.

    The population has ``z``, the standardised columns by place, and what they were standardised by: ``basis`` and
    ``root_weight``. It has room for ``bits`` and ``shared``, see `Language.bit_words`.
    """


@generic
def product(space, population, i, j):
    """Inner product of the standardised columns at two places; that of the rows of ``z`` by default."""


@implements(is_feature, None)
def _is_feature(space, table, f):
    return True


@implements(functions_of, None)
def _no_functions(space, table, f):
    return np.int64(0)


@implements(settle_constants, None)
def _settle_constants(space, table, pool, f, out):
    write_column(space, table, pool, f)


@implements(keep_column, None)
def _keep_nothing(space, pool, population, place):
    return


@implements(product, None)
def _product(space, population, i, j):
    return dot_rows(population.z, i, population.z, j)


_LANGUAGES: dict[str, type[Language]] = {}
# Constants of a feature by name; what is in backticks is the name of a column, and what is in brackets a level.
_CONSTANT = re.compile(r"`[^`]*`|\[[^\]]*\]|\bc(\d+)\b")


def stored_language(language: Language) -> dict[str, Any]:
    """A language as JSON holds it."""
    return {"name": language.name, **language.to_dict()}


def language_from_dict(stored: Mapping[str, Any]) -> Language:
    """The language that `stored_language` wrote down."""
    if stored["name"] not in _LANGUAGES:
        raise InputError(f"unknown language of features {stored['name']!r}; import the package that defines it.")
    return _LANGUAGES[stored["name"]].from_dict(stored)


class Language(ABC):
    """One kind of expressions over covariates."""

    name: ClassVar[str]  # what saved runs call it; a subclass that has one is known from then on
    names: tuple[str, ...]  # the covariates
    operators: tuple[str, ...]  # names of the operators and edits, in the order of their weights in the space
    # What the user chose; with ``complexity`` (C), ``size`` (Q, features of a model) and ``population`` (places of a
    # population) among its attributes.
    limits: Any
    # Whether features with the same column up to sign and scale are reported as one law.
    merges_equal_columns: ClassVar[bool] = True
    # Share of fresh features that are edits of library features, where nothing else is asked.
    edit_share: ClassVar[float] = 0.7

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            _LANGUAGES[cls.name] = cls

    @property
    def fits_constants(self) -> bool:
        """Whether features may hold constants that are fitted to the data."""
        return False

    @property
    def joint_constants(self) -> int:
        """The most constants of one feature, where they are fitted jointly; 0 where its parts have their own."""
        return 0

    def bit_words(self, rows: int) -> int:
        """Words of 64 rows that a population keeps of each column of zeros and ones; 0 where columns are numbers."""
        return 0

    @abstractmethod
    def space(self) -> Any:
        """The compiled half: limits and weights as a named tuple."""

    @abstractmethod
    def new_pool(
        self, x: np.ndarray, y: np.ndarray, root_weight: np.ndarray, features: int, slots: int, fitting: Any = None
    ) -> tuple[Any, Any]:
        """Columns for compiled code (the covariates, scratch rows, a cache), and what must outlive every use of them.

        Parameters
        ----------
        x : ndarray of shape (covariates, n)
            The covariates.
        y, root_weight : ndarray of shape (n,)
            Response, and square roots of the case weights.
        features, slots : int
            Features that the table has room for, and columns that the cache has room for.
        fitting : Fitting, optional
            What constants are fitted to, where features hold constants that are fitted jointly; see
            `modejump.features.laws.fitting.constants`.
        """

    @abstractmethod
    def parse(self, text: str) -> Expression:
        """The feature that a text stands for; InputError where there is none in the space."""

    @abstractmethod
    def compose(self, kind: int, code: int, children: Sequence[Expression]) -> Expression:
        """The feature of an entry of a table."""

    @abstractmethod
    def decompose(self, feature: Expression) -> tuple[int, int, Sequence[Expression]]:
        """Kind, code and children of a feature, as a table has them."""

    @abstractmethod
    def are_nodes(self, kind: np.ndarray, code: np.ndarray, arity: np.ndarray) -> bool:
        """Whether entries with these kinds, codes and numbers of children can be in a table."""

    @abstractmethod
    def contains(self, feature: Expression) -> bool:
        """Whether a feature is in the space."""

    @abstractmethod
    def column(
        self, feature: Expression, table: Mapping[str, np.ndarray], constants: Mapping[Expression, np.ndarray]
    ) -> np.ndarray:
        """Column of a feature in plain NumPy, NaN where it is not defined."""

    def columns(
        self,
        features: Sequence[Expression],
        table: Mapping[str, np.ndarray],
        constants: Mapping[Expression, np.ndarray],
    ) -> list[np.ndarray]:
        """Columns of some features in plain NumPy."""
        return [self.column(f, table, constants) for f in features]

    def constants(
        self,
        features: Iterable[Expression],
        table: Mapping[str, np.ndarray],
        y: np.ndarray,
        weights: np.ndarray,
        known: Mapping[Expression, np.ndarray],
    ) -> dict[Expression, np.ndarray]:
        """Constants inside features in plain NumPy: those known, and those that can be fitted to the data."""
        return dict(known)

    @abstractmethod
    def enumerate(self, complexity: int | None = None) -> Iterable[Expression]:
        """All features of the space, or those up to a complexity."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """What the space is, as JSON holds it: two languages with the same dictionary have the same features."""

    @classmethod
    @abstractmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Language:
        """The language of a dictionary."""

    def law(self, features: Sequence[Expression]) -> str:
        """Features joined by plus signs, the constants inside them numbered through; "1" without any."""
        texts, first = [], 0
        for feature in features:
            texts.append(_renumbered(feature.text, first) if feature.constants else feature.text)
            first += feature.constants
        return " + ".join(texts) or "1"

    def text(self, feature: Expression, constants: Mapping[Expression, np.ndarray], digits: int) -> str:
        """A feature as plain text, its constants as numbers with so many significant digits."""
        return feature.text

    def latex(self, feature: Expression, constants: Mapping[Expression, np.ndarray], digits: int) -> str:
        """A feature as LaTeX, its constants with so many significant digits."""
        raise InputError(f"features of the language {self.name!r} have no LaTeX form; ask for text.")

    def sympy(self, feature: Expression, constants: Mapping[Expression, np.ndarray]) -> Any:
        """A feature as an expression of SymPy."""
        raise InputError(f"features of the language {self.name!r} have no SymPy form; ask for text.")

    def covariate(self, name: str) -> Expression:
        """The feature of a column."""
        return self.compose(0, self.names.index(name), ())


def _renumbered(text: str, first: int) -> str:
    """The text of a feature whose first constant has another place."""
    return _CONSTANT.sub(lambda m: f"c{int(m[1]) + first}" if m[1] else m[0], text)
