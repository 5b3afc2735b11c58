"""Features of laws: products of powers, functions of sums, and constants inside them, one object per canonical form."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, Literal, NoReturn, final
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from modejump.core.errors import InputError
from modejump.features.expression import Expression
from modejump.features.laws.measures import complexity_of, depth_of
from modejump.features.laws.powers import POWERS, SAME
from modejump.features.laws.printing import base_and_exponent, plain_text
from modejump.features.nonlinear.expression import MAX_COMPLEXITY, MAX_DEPTH
from modejump.features.nonlinear.transforms import transforms

Kind = Literal["covariate", "call", "power", "product", "sum", "free", "minus", "one"]
# In the order of the codes that compiled tables have.
KINDS: Final[tuple[Kind, ...]] = ("covariate", "call", "power", "product", "sum", "free", "minus", "one")
MONOMIALS: Final = frozenset(("covariate", "call", "power", "product"))


@final
class Feature(Expression):
    """A law's term in canonical form: a product of powers of columns, functions and sums.

    A feature is a *monomial*: a covariate, a function of an argument, a power, or a product of two or more of these.
    The argument of a function is a monomial or a sum of terms; each term is a monomial or the number 1, with the
    coefficient +1, -1 or a constant that is fitted to the data. Sums may also be factors, with any exponent. Sums and
    terms are nodes of features, but no features themselves. Fractional powers act on absolute values.

    All spellings of one feature are one and the same object. ``Feature(text)`` is the same as ``Feature.parse(text)``.

    Attributes
    ----------
    kind : str
        What the node is: "covariate", "call", "power", "product"; inside features also "sum", "free" (a fitted
        constant times a monomial or 1), "minus", "one".
    name : str or None
        Name of a covariate.
    function : str or None
        Name of the function of a call.
    exponent : Fraction or None
        Exponent of a power.
    children : tuple of Feature
        Argument, base, factors or terms, in canonical order.
    constants : int
        Number of fitted constants.
    sort_key : tuple
        Where the node stands among the factors of a product or the terms of a sum.
    complexity : int
        About the number of symbols that a person would write: 1 for a covariate and for the number 1; a power adds 1
        if its exponent is negative, and 1 for the exponents 2, 3, 1/2, 1/3 or 2 for others, whatever their sign; a
        product has the sum over its factors, a function one more than its argument, a sum that of its terms and
        one for each plus sign; a fitted constant adds 1, but c0 alone is 1.
    depth : int
        Functions and sums as factors inside each other.
    width : int
        The largest number of factors or terms.

    Examples
    --------
    >>> Feature("inv(square(r))*q1*q2")
    Feature('q1*q2/r^2')
    >>> Feature("sqrt(L/g)") is Feature("L^0.5 * g^(-1/2)")
    True
    >>> Feature("V*S/(c0 + S)").constants
    1
    """

    __slots__ = ("children", "constants", "exponent", "function", "kind", "name", "sort_key")

    kind: Kind
    name: str | None
    function: str | None
    exponent: Fraction | None
    children: tuple[Feature, ...]
    constants: int
    sort_key: tuple[Any, ...]

    def __new__(cls, text: str, names: Collection[str] | None = None) -> Feature:
        """Return the feature that a text stands for, see `parse`."""
        return cls.parse(text, names)

    @staticmethod
    def parse(text: str, names: Collection[str] | None = None) -> Feature:
        """Return the feature that a text stands for.

        ``+ - * / ^`` (or ``**``) and brackets mean what they do everywhere; exponents are rational numbers. Names are
        of letters, digits, ``_`` and ``.`` and do not start with a digit; any other name stands in backticks. ``c``,
        ``c0``, ``c1``, ... are constants that are fitted to the data, unless `names` has such a column; in backticks
        they are columns.

        Parameters
        ----------
        text : str
            The expression.
        names : collection of str, optional
            The covariates there are; any other name is refused.

        Returns
        -------
        Feature

        Examples
        --------
        >>> Feature.parse("m/sqrt(1 - v^2)")
        Feature('m/sqrt(1 - v^2)')
        >>> Feature.parse("cos(c1*t)*exp(-t)*`host star`")
        Feature('`host star`*exp(-t)*cos(c0*t)')
        """
        from modejump.features.laws.text import parse

        return parse(text, names)

    @staticmethod
    def covariate(name: str) -> Feature:
        """Return the covariate of this name."""
        if not (isinstance(name, str) and name):
            raise InputError(f"The name of a covariate must be text and not empty, got {name!r}.")
        return compose("covariate", name, ())

    @staticmethod
    def one() -> Feature:
        """Return the number 1, a term of sums."""
        return compose("one", None, ())

    @staticmethod
    def call(function: str, argument: Feature) -> Feature:
        """Return a function of a monomial, a term or a sum, up to sign where it is odd; names of powers give powers."""
        if function in POWERS:
            return Feature.power(argument, POWERS[function])
        name = SAME.get(function, function)
        return compose("call", name, [_as_argument(name, argument)])

    @staticmethod
    def power(base: Feature, exponent: Fraction | int) -> Feature:
        """Return a power of a monomial, or of a sum up to sign and scale."""
        return base if exponent == 1 and base.is_monomial else Feature.monomial((base, exponent))

    @staticmethod
    def product(*factors: Feature) -> Feature:
        """Return the product of monomials and sums up to sign and scale; that of one is the factor itself."""
        made = Feature.monomial(*((factor, 1) for factor in factors))
        return factors[0] if len(factors) == 1 else made

    @staticmethod
    def monomial(*powers: tuple[Feature, Fraction | int]) -> Feature:
        """Return the product of powers of monomials and sums up to sign and scale."""
        parts: list[tuple[Feature, Fraction]] = []
        for base, exponent in powers:
            if base.kind not in MONOMIALS and base.kind != "sum":
                _void(f"{base.text!r} is no factor: factors are columns, functions, powers and sums")
            if exponent == 0:
                _void("a power with the exponent 0 is constant")
            own = map(base_and_exponent, base.children if base.kind == "product" else (base,))
            parts += own if exponent == 1 else [(b, e * exponent) for b, e in own]
        if not parts:
            raise InputError("A product needs at least one factor, got none.")
        return _collected(parts)

    @staticmethod
    def sum_(*terms: Feature) -> Feature:
        """Return the sum of terms; that of one is the term itself."""
        found: dict[Feature, Feature] = {}
        for term in (part for item in terms for part in (item.children if item.kind == "sum" else (item,))):
            inside = term.children[0] if term.kind in ("free", "minus") else term
            before = found.get(inside)
            if before is None:
                found[inside] = term
            elif "free" in (before.kind, term.kind):
                found[inside] = before if before.kind == "free" else term
            else:
                _void(f"a sum has the term {inside.text!r} twice: only constants can add up")
        if not found:
            raise InputError("A sum needs at least one term, got none.")
        ordered = sorted(found.values(), key=lambda term: term.sort_key)
        return ordered[0] if len(ordered) == 1 else compose("sum", None, ordered)

    @staticmethod
    def free(monomial: Feature) -> Feature:
        """Return a fitted constant times a monomial or the number 1."""
        if monomial.kind == "sum":
            _void(f"a constant times the sum {monomial.text!r} is no term: give its terms constants of their own")
        if monomial.kind == "free":
            return monomial
        return compose("free", None, monomial.children if monomial.kind == "minus" else [monomial])

    @staticmethod
    def minus(term: Feature) -> Feature:
        """Return minus a term or a sum; a fitted constant has either sign anyway."""
        if term.kind in ("free", "minus"):
            return term if term.kind == "free" else term.children[0]
        return _negative_sum(term) if term.kind == "sum" else compose("minus", None, [term])

    @property
    def label(self) -> Any:
        """Name, function or exponent; None where the kind says all."""
        return self.name or self.function or self.exponent

    @property
    def is_monomial(self) -> bool:
        """Whether this is a feature and not only a node of one."""
        return self.kind in MONOMIALS

    def subfeatures(self) -> tuple[Feature, ...]:
        """Return the distinct nodes in this one, each after its children, itself last."""
        done: dict[Feature, None] = {}
        for child in self.children:
            done |= dict.fromkeys(child.subfeatures())
        return (*done, self)

    def __mul__(self, other: object) -> Feature:
        return Feature.product(self, other) if isinstance(other, Feature) else NotImplemented

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.text,)


# Nodes by what they are made of: quicker than their text.
_MADE: WeakValueDictionary[tuple[Kind, Any, tuple[Feature, ...]], Feature] = WeakValueDictionary()


def compose(kind: Kind, label: Any, children: Iterable[Feature]) -> Feature:
    """Return the node of this kind with these children, which are in canonical form and order.

    Parameters
    ----------
    kind : str
        What the node is.
    label : str, Fraction or None
        Name of the covariate or the function, or the exponent.
    children : iterable of Feature
        Argument, base, factors, terms or monomial.

    Returns
    -------
    Feature
    """
    parts = tuple(children)
    key = (kind, label, parts)
    known = _MADE.get(key)
    if known is not None:
        return known
    complexity, depth = complexity_of(kind, label, parts), depth_of(kind, parts)
    for value, limit, what in ((complexity, MAX_COMPLEXITY, "complexity"), (depth, MAX_DEPTH, "depth")):
        if value > limit:
            raise InputError(f"A feature of {what} {value} is too large: the {what} may be at most {limit}.")
    made = Feature.interned(
        plain_text(kind, label, parts),
        kind=kind,
        name=label if kind == "covariate" else None,
        function=label if kind == "call" else None,
        exponent=label if kind == "power" else None,
        children=parts,
        constants=(kind == "free") + sum(child.constants for child in parts),
        sort_key=_sort_key(kind, label, parts, complexity),
        covariates=frozenset([label] if kind == "covariate" else ()).union(*(c.covariates for c in parts)),
        complexity=complexity,
        depth=depth,
        width=max(1, len(parts), *(child.width for child in parts)),
        spellings=1,
    )
    _MADE[key] = made
    return made


def evaluate(
    feature: Feature, table: Mapping[str, ArrayLike], constants: Sequence[float] | NDArray[np.float64] = ()
) -> NDArray[np.float64]:
    """Return the column of a feature, in plain NumPy.

    Parameters
    ----------
    feature : Feature
        The feature, or a node of one.
    table : mapping from str to array of n floats
        The covariates' columns.
    constants : sequence of float
        Its fitted constants c0, c1, ...

    Returns
    -------
    ndarray
        n floats, not finite where the feature is not defined.

    Examples
    --------
    >>> evaluate(Feature("V*S/(S + c0)"), {"V": [3.0, 3.0], "S": [1.0, 2.0]}, [1.0])
    array([1.5, 2. ])
    """
    if len(constants) != feature.constants:
        raise InputError(
            f"the feature {feature.text!r} has {feature.constants} constants, but {len(constants)} values are given."
        )
    for name in sorted(feature.covariates):
        if name not in table:
            raise InputError(f"The table has no column {name!r}: add it.")
    columns = {name: np.asarray(table[name], np.float64) for name in feature.covariates}
    with np.errstate(all="ignore"):
        return np.array(np.broadcast_to(_value(feature, columns, constants, 0), _shape(columns)))


def _shape(columns: Mapping[str, NDArray[np.float64]]) -> tuple[int, ...]:
    return next(iter(columns.values())).shape if columns else ()


def _value(node: Feature, columns: Mapping[str, Any], constants: Any, first: int) -> Any:
    """Value of a node whose first constant has this place."""
    if node.name is not None:
        return columns[node.name]
    if node.kind == "one":
        return 1.0
    parts, at = [], first + (node.kind == "free")
    for child in node.children:
        parts.append(_value(child, columns, constants, at))
        at += child.constants
    if node.function is not None:
        return transforms[node.function](parts[0])
    if node.exponent is not None:
        return raised(parts[0], node.exponent)
    if node.kind == "product":
        value = parts[0]
        for part in parts[1:]:
            value = value * part
        return value
    if node.kind == "free":
        return constants[first] * parts[0]
    return -parts[0] if node.kind == "minus" else sum(parts[1:], parts[0])


def raised(x: Any, exponent: Fraction) -> Any:
    """Power of a column; a fractional one is of its absolute value."""
    size = abs(exponent)
    if size.denominator > 1:
        x = np.sqrt(np.abs(x)) if size == Fraction(1, 2) else np.abs(x) ** float(size)
    else:
        x = np.asarray(x, np.float64) ** int(size)
    return x if exponent > 0 else 1.0 / x


_ZERO = Fraction(0)


def _collected(parts: Iterable[tuple[Feature, Fraction]]) -> Feature:
    """The product of powers: equal bases have one exponent, and exponentials are one exponential."""
    exponents: dict[Feature, Fraction] = {}
    inside: list[Feature] = []
    for base, exponent in parts:
        if base.function == "exp":
            if abs(exponent) != 1:
                _void(f"{base.text!r} has no power but its reciprocal: write the factor inside of exp")
            argument = base.children[0]
            inside.append(argument if exponent == 1 else Feature.minus(argument))
        else:
            shared: dict[Feature, Fraction] = {}
            if base.kind == "sum":
                base, shared = _without_shared(_scale_free(base))
            for part, e in ((base, exponent), *((part, own * exponent) for part, own in shared.items())):
                exponents[part] = exponents[part] + e if part in exponents else e
    factors = [base if e == 1 else compose("power", e, [base]) for base, e in exponents.items() if e != 0]
    if inside:
        factors.append(Feature.call("exp", Feature.sum_(*inside)))
    if not factors:
        _void("the factors cancel each other")
    factors.sort(key=lambda factor: factor.sort_key)
    return factors[0] if len(factors) == 1 else compose("product", None, factors)


def _without_shared(total: Feature) -> tuple[Feature, dict[Feature, Fraction]]:
    """A sum that is a factor without the factors that all its terms share, and these with their exponents.

    A base that is missing in some term has exponent 0 there: 1/x + c0 shares 1/x, and leaves x + c0.
    """
    parts = [_monomial(term) for term in total.children]
    powers = [_powers(part) for part in parts]
    bases = dict.fromkeys(base for own in powers for base in own if base.function != "exp")
    least = {base: min(own.get(base, _ZERO) for own in powers) for base in bases}
    shared = {base: e for base, e in least.items() if e != 0}
    if not shared:
        return total, {}
    terms = []
    for term, own in zip(total.children, powers, strict=True):
        left = {base: own.get(base, _ZERO) - shared.get(base, _ZERO) for base in own | shared}
        rest = [(base, e) for base, e in left.items() if e != 0]
        inside = _collected(rest) if rest else Feature.one()
        if inside.kind == "sum":
            _void(f"the term {term.text!r} of a sum is a sum itself")
        terms.append(compose(term.kind, None, [inside]) if term.kind in ("free", "minus") else inside)
    return _scale_free(Feature.sum_(*terms)), shared


def _powers(monomial: Feature) -> dict[Feature, Fraction]:
    """Factors of a monomial with their exponents; the number 1 has none."""
    if monomial.kind == "one":
        return {}
    return dict(map(base_and_exponent, monomial.children if monomial.kind == "product" else (monomial,)))


def _scale_free(total: Feature) -> Feature:
    """A sum up to sign and scale: its first fixed term is positive, and if only one is fixed, it is the first term."""
    return _positive(first_fixed(total))


def first_fixed(total: Feature) -> Feature:
    """A sum up to scale: if only one term is fixed, it is the first."""
    fixed = [term for term in total.children if term.kind != "free"]
    if not fixed:
        _void(f"each term of {total.text!r} has a constant: leave one out, as their scale cannot be told")
    if len(fixed) > 1 or fixed[0] is total.children[0]:
        return total
    first, rest = total.children[0], total.children[1:]
    return compose("sum", None, [first.children[0], *map(Feature.free, rest)])


def _positive(total: Feature) -> Feature:
    fixed = next((term for term in total.children if term.kind != "free"), None)
    return _negative_sum(total) if fixed is not None and fixed.kind == "minus" else total


def _negative_sum(total: Feature) -> Feature:
    return compose("sum", None, map(Feature.minus, total.children))


def _as_argument(function: str, argument: Feature) -> Feature:
    """The argument of a function in canonical form."""
    terms = argument.children if argument.kind == "sum" else (argument,)
    number = next((term for term in terms if _monomial(term).kind == "one"), None)
    if number is argument:
        _void(f"{function}({argument.text}) is constant")
    if function == "exp":
        if number is not None:
            _void(f"the number in exp({argument.text}) is a factor that the coefficient has: leave it out")
        if any(term.kind != "free" and _monomial(term).function == "log" for term in terms):
            _void(f"exp({argument.text}) is a power: write it as one")
    if function == "log":
        if argument.function == "exp":
            _void(f"log({argument.text}) is the argument of exp")
        if argument.kind == "free":
            _void(f"the constant in log({argument.text}) adds a number that the intercept has: leave it out")
        return first_fixed(argument) if argument.kind == "sum" else argument
    if function in ("sin", "cos") and number is not None:
        if number.kind != "free":
            _void(f"the number 1 in {function}({argument.text}) is no phase: use a constant")
        if function == "cos":
            _void(f"cos({argument.text}) is a sin with another phase: write sin")
    transform = transforms.get(function)
    if transform is not None and transform.parity:
        if argument.kind == "minus":
            return argument.children[0]
        return _positive(argument) if argument.kind == "sum" else argument
    return argument


def _monomial(term: Feature) -> Feature:
    return term.children[0] if term.kind in ("free", "minus") else term


def _sort_key(kind: Kind, label: Any, children: tuple[Feature, ...], complexity: int) -> tuple[Any, ...]:
    if kind in ("free", "minus"):
        return (children[0].sort_key[0], KINDS.index(kind))
    keys = tuple(child.sort_key for child in children)
    return ((kind == "one", complexity, KINDS.index(kind), label or 0, len(children), keys), 0)


def _restored(text: str) -> Feature:
    # A process without the user's transforms can still hold and print features with them.
    from modejump.features.laws.text import parse_node

    return parse_node(text, known_transforms=False)


def _void(problem: str) -> NoReturn:
    raise InputError(f"This is no feature: {problem}.")
