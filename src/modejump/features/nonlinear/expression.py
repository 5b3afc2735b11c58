"""Nonlinear features: expressions over the covariates, one object for each canonical form."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from modejump.core.errors import InputError
from modejump.features.expression import Expression
from modejump.features.nonlinear.transforms import transforms
from modejump.features.tokens import quoted

Kind = Literal["covariate", "modification", "product", "projection"]

# Far above what a sampler can reach. They bound the size of a feature's text and the recursion of the parser.
MAX_DEPTH: Final = 100
MAX_COMPLEXITY: Final = 1000


@final
class Feature(Expression):
    """An expression over the covariates, in canonical form.

    A feature is a covariate ``x``; a modification ``g(F)``; a product ``F1*F2*...`` of two or more factors, none a
    product, in any order and association; or a projection ``g(1 + F1 + ... + Fw)``, which stands for
    g(a0 + a1 F1 + ... + aw Fw) and is identified by g and the set of its parents, since the alphas are a function
    of the data. Equal features are one and the same object. They are ordered by complexity, then text.

    ``Feature(text)`` is the same as ``Feature.parse(text)``.

    Attributes
    ----------
    kind : {"covariate", "modification", "product", "projection"}
        What the feature is at its root.
    name : str or None
        Name of a covariate.
    transform : str or None
        Name of the function g of a modification or a projection.
    children : tuple of Feature
        Argument, factors (with repetition) or parents, in order of complexity and text.
    covariates : frozenset of str
        Names of all covariates in the expression.
    complexity : int
        1 for a covariate; 1 + that of F for g(F); the sum over the factors of a product; for a projection of w
        parents 1 + the sum over the parents + w, the number of plus signs in a0 + a1 F1 + ... + aw Fw. It is the
        number of operations plus one.
    depth : int
        0 for a covariate; one more than the deepest argument for a modification or a projection; for a product
        that of its shallowest spelling by binary multiplications, the least D with sum 2^depth_i <= 2^D over the
        factors.
    width : int
        The largest number of factors or parents of any product or projection in the expression, at least 1.
    spellings : int
        Number of distinct ordered binary expression trees that spell the feature: the orders of a product's
        factors, times the ways to put the brackets, times the factors' own spellings.

    Examples
    --------
    >>> feature = Feature.parse("troot(Mass * Period^2)")
    >>> feature
    Feature('troot(Mass*Period*Period)')
    >>> feature is Feature.parse("troot(Period*(Mass*Period))")
    True
    >>> feature.complexity, feature.depth, feature.width, feature.spellings
    (4, 3, 3, 6)
    """

    __slots__ = ("children", "kind", "name", "transform")

    kind: Kind
    name: str | None
    transform: str | None
    children: tuple[Feature, ...]

    def __new__(cls, text: str, names: Collection[str] | None = None) -> Feature:
        """Return the feature that a text stands for, see `parse`."""
        return cls.parse(text, names)

    @staticmethod
    def parse(text: str, names: Collection[str] | None = None) -> Feature:
        """Return the feature that a text stands for.

        Names are of letters, digits, ``_`` and ``.`` and do not start with a digit; any other name stands in
        backticks, with a backtick in it doubled. ``*`` multiplies, and ``x**3`` or ``x^3`` is ``x*x*x``. A
        transform is followed by its argument in parentheses; a sum there makes it a projection, whose intercept
        ``1`` may be left out if there are two parents or more.

        Examples
        --------
        >>> Feature.parse("sin(b + a) * `host star mass` ** 2")
        Feature('`host star mass`*`host star mass`*sin(1 + a + b)')
        """
        from modejump.features.nonlinear.text import parse

        return parse(text, names)

    @staticmethod
    def covariate(name: str) -> Feature:
        """Return the covariate of this name."""
        return compose("covariate", name, ())

    @staticmethod
    def modification(transform: str, argument: Feature) -> Feature:
        """Return the transform of a feature, g(F)."""
        return compose("modification", transform, [argument])

    @staticmethod
    def product(*factors: Feature) -> Feature:
        """Return the product of one or more features; that of one is the feature itself."""
        return compose("product", "", factors)

    @staticmethod
    def projection(transform: str, *parents: Feature) -> Feature:
        """Return the transform of a fitted linear combination of one or more features."""
        return compose("projection", transform, parents)

    def subfeatures(self) -> tuple[Feature, ...]:
        """Return the distinct features in this one, each after its children, itself last.

        Examples
        --------
        >>> Feature("sin(x*y)*x").subfeatures()
        (Feature('x'), Feature('y'), Feature('x*y'), Feature('sin(x*y)'), Feature('x*sin(x*y)'))
        """
        done: dict[Feature, None] = {}
        stack = [self]
        while stack:
            waiting = [child for child in stack[-1].children if child not in done]
            if waiting:
                stack.extend(reversed(waiting))
            else:
                done[stack.pop()] = None
        return tuple(done)

    def __mul__(self, other: object) -> Feature:
        return Feature.product(self, other) if isinstance(other, Feature) else NotImplemented

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.text,)


def compose(kind: Kind, label: str, children: Iterable[Feature]) -> Feature:
    """The feature of this kind in canonical form, without asking whether its transform exists; the label is the name
    of the covariate or the transform.
    """
    inside = _factors(children) if kind == "product" else set(children) if kind == "projection" else children
    parts = tuple(sorted(inside))
    if kind == "product" and len(parts) == 1:
        return parts[0]
    complexity = _complexity(kind, parts)
    depth = _depth(kind, parts)
    for value, limit, what in ((complexity, MAX_COMPLEXITY, "complexity"), (depth, MAX_DEPTH, "depth")):
        if value > limit:
            raise InputError(f"A feature of {what} {value} is too large: the {what} may be at most {limit}.")
    text = _text(kind, label, parts)
    return Feature.known(text) or Feature.interned(
        text,
        kind=kind,
        name=label if kind == "covariate" else None,
        transform=label if kind in ("modification", "projection") else None,
        children=parts,
        covariates=frozenset([label] if kind == "covariate" else ()).union(*(c.covariates for c in parts)),
        complexity=complexity,
        depth=depth,
        width=max(1, len(parts), *(child.width for child in parts)),
        spellings=_spellings(parts, kind == "product"),
    )


def evaluate(
    feature: Feature, table: Mapping[str, ArrayLike], alphas: Mapping[Feature, ArrayLike] | None = None
) -> NDArray[np.float64]:
    """Return the column of a feature, in plain NumPy.

    ``alphas`` has for each projection its intercept and the coefficients of its parents. Outside the domain of a
    transform there is NaN.

    Examples
    --------
    >>> x = Feature("x")
    >>> evaluate(Feature("square(1 + x)*x"), {"x": [1.0, 2.0]}, {Feature("square(1 + x)"): [1.0, 10.0]})
    array([121., 882.])
    """
    return evaluate_all([feature], table, alphas)[0]


def evaluate_all(
    features: Sequence[Feature], table: Mapping[str, ArrayLike], alphas: Mapping[Feature, ArrayLike] | None = None
) -> list[NDArray[np.float64]]:
    """Return the columns of some features; what they share is computed once."""
    columns: dict[Feature, NDArray[np.float64]] = {}
    with np.errstate(all="ignore"):
        for node in (node for feature in features for node in feature.subfeatures() if node not in columns):
            parts = [columns[child] for child in node.children]
            if node.name is not None:
                columns[node] = np.asarray(table[node.name], dtype=np.float64)
            elif node.kind == "product":
                columns[node] = math.prod(parts[1:], start=parts[0])
            elif node.transform is not None:
                inner = parts[0]
                if node.kind == "projection":
                    intercept, *slopes = coefficients(node, alphas).tolist()
                    inner = sum((a * part for a, part in zip(slopes, parts)), np.full(parts[0].shape, intercept))
                columns[node] = transforms[node.transform](inner)
    return [columns[feature] for feature in features]


def coefficients(projection: Feature, alphas: Mapping[Feature, ArrayLike] | None) -> NDArray[np.float64]:
    """Return intercept and coefficients of a projection, refused if they are missing or not one for each parent."""
    if alphas is None or projection not in alphas:
        raise InputError(f"alphas lacks the projection {str(projection)!r}: give its intercept and coefficients.")
    values = np.asarray(alphas[projection], dtype=np.float64)
    expected = len(projection.children) + 1
    if values.shape != (expected,):
        raise InputError(
            f"alphas of the projection {str(projection)!r} must be {expected} numbers, got shape {values.shape}."
        )
    return values


def _restored(text: str) -> Feature:
    # A process without the user's transforms can still hold and print features with them.
    from modejump.features.nonlinear.text import parse

    return parse(text, known_transforms=False)


def _factors(features: Iterable[Feature]) -> list[Feature]:
    """The factors of a product of features, none a product itself."""
    return [part for item in features for part in (item.children if item.kind == "product" else (item,))]


def _complexity(kind: Kind, children: tuple[Feature, ...]) -> int:
    inside = sum(child.complexity for child in children)
    if kind == "product":
        return inside
    return 1 + inside + (len(children) if kind == "projection" else 0)


def _depth(kind: Kind, children: tuple[Feature, ...]) -> int:
    if kind == "product":
        # Kraft: subtrees of these depths fit into a binary tree of depth D exactly if sum 2^(depth_i - D) <= 1.
        return (sum(1 << child.depth for child in children) - 1).bit_length()
    return 1 + max(child.depth for child in children) if children else 0


def _text(kind: Kind, label: str, children: tuple[Feature, ...]) -> str:
    if kind == "covariate":
        return quoted(label)
    if kind == "product":
        return "*".join(child.text for child in children)
    terms = [child.text for child in children]
    return f"{label}({' + '.join(['1', *terms] if kind == 'projection' else terms)})"


def _spellings(children: tuple[Feature, ...], product: bool) -> int:
    own = math.prod(child.spellings for child in children)
    if not product:
        return own
    k = len(children)
    orders = math.factorial(k) // math.prod(math.factorial(count) for count in Counter(children).values())
    brackets = math.comb(2 * k - 2, k - 1) // k  # the Catalan number of k - 1
    return own * orders * brackets
