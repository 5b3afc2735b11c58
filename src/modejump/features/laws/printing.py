"""Features of laws as people write them: plain text, LaTeX and SymPy."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from modejump.features.nonlinear.transforms import ARGUMENT, default_latex, transforms
from modejump.features.symbols import escape_latex, import_sympy, latex_number
from modejump.features.tokens import quoted

if TYPE_CHECKING:
    from modejump.features.laws.expression import Feature

# How a constant is written: from its place in the feature to a name or a number.
Naming = Callable[[int], str]
# A term or a base, and the place of its first constant in the feature; of a power, that of the exponent before it.
Placed = tuple["Feature", int]

CONSTANT = re.compile(r"c[0-9]*")
# Roots by the denominator of the exponent, in plain text and in LaTeX.
_ROOTS = {2: ("sqrt", r"\sqrt{"), 3: ("cbrt", r"\sqrt[3]{")}


def constant_name(k: int) -> str:
    """Name of the constant at a place."""
    return f"c{k}"


def column_text(name: str) -> str:
    """A column as it stands in a law: in backticks where it could be taken for something else."""
    return f"`{name}`" if CONSTANT.fullmatch(name) else quoted(name)


def to_text(feature: Feature, values: Sequence[float] | np.ndarray | None = None, digits: int = 4) -> str:
    """Return the text of a feature, with the values of its constants where they are given.

    Parameters
    ----------
    feature : Feature
        The feature.
    values : sequence of float, optional
        Its constants in their order; without them they are written as c0, c1, ...
    digits : int
        Significant digits of the values.

    Returns
    -------
    str

    Examples
    --------
    >>> from modejump.features.laws.expression import Feature
    >>> to_text(Feature("exp(c0*t)/(x + c1)"), [-0.31, -2.0])
    'exp(-0.31*t)/(x - 2)'
    >>> to_text(Feature("exp(c0*log(x/y))"), [-0.25])
    '(x/y)^(-0.25)'
    """
    if values is None:
        return feature.text
    return _node(feature, 0, lambda k: f"{values[k]:.{digits}g}")


def plain_text(kind: str, label: Any, children: Sequence[Feature], first: int = 0, naming: Naming | None = None) -> str:
    """Text of the node of this kind, whose first constant has this place."""
    naming = constant_name if naming is None else naming
    if kind == "covariate":
        return column_text(label)
    if kind == "call":
        powers, rest = fitted_powers(label, children[0], first)
        texts = [f"{label}({_sum(rest, naming)})"] if rest else []
        for base, place in powers:
            written, exponent = _node(base, place + 1, naming), naming(place)
            written = written if base.kind in ("covariate", "call") else f"({written})"
            texts.append(f"{written}^{f'({exponent})' if exponent.startswith('-') else exponent}")
        return "*".join(texts)
    if kind == "power":
        return _product([(children[0], label)], first, naming)
    if kind == "product":
        return _product([base_and_exponent(child) for child in children], first, naming)
    if kind == "sum":
        return _sum(placed(children, first), naming)
    if kind == "free":
        return _times(naming(first), children[0], first + 1, naming)
    return f"-{_node(children[0], first, naming)}" if kind == "minus" else "1"


def placed(terms: Sequence[Feature], first: int) -> list[Placed]:
    """Terms, each with the place of its first constant."""
    places = itertools.accumulate((term.constants for term in terms), initial=first)
    return list(zip(terms, places, strict=False))


def fitted_powers(function: str | None, argument: Feature, first: int) -> tuple[list[Placed], list[Placed]]:
    """Powers whose exponent is fitted, x^c for exp(c*log(x)), by their bases; and what else is inside of a function."""
    powers, rest = [], []
    for term, place in placed(argument.children if argument.kind == "sum" else [argument], first):
        inside = term.children[0] if function == "exp" and term.kind == "free" else term
        if inside is not term and inside.function == "log":
            powers.append((inside.children[0], place))
        else:
            rest.append((term, place))
    return powers, rest


def base_and_exponent(factor: Feature) -> tuple[Feature, Fraction]:
    """A factor of a product as a power."""
    return (factor.children[0], factor.exponent) if factor.exponent is not None else (factor, Fraction(1))


def _node(node: Feature, first: int, naming: Naming) -> str:
    if node.constants == 0:
        return node.text
    return plain_text(node.kind, node.label, node.children, first, naming)


def _times(constant: str, monomial: Feature, first: int, naming: Naming) -> str:
    if monomial.kind == "one":
        return constant
    text = _node(monomial, first, naming)
    return constant + text[1:] if text.startswith("1/") else f"{constant}*{text}"


def _sum(terms: Sequence[Placed], naming: Naming) -> str:
    text = ""
    for term, place in terms:
        written = _node(term, place, naming)
        negative = written.startswith("-")
        text += ((" - " if negative else " + ") + written.removeprefix("-")) if text else written
    return text


def _product(factors: Sequence[tuple[Feature, Fraction]], first: int, naming: Naming) -> str:
    # Each side of the fraction bar holds texts, and whether each is a sum that needs brackets beside others.
    sides: tuple[list[tuple[str, bool]], list[tuple[str, bool]]] = ([], [])
    under_root = roots_of(factors)
    inside: dict[int, tuple[list[tuple[str, bool]], list[tuple[str, bool]]]] = {root: ([], []) for root in under_root}
    for base, exponent in factors:
        written, is_sum = _node(base, first, naming), base.kind == "sum"
        if starts_with_one(base, exponent):
            written = "1" + "".join(_turned(term.text) for term in base.children[:-1])
        first += base.constants
        root = exponent.denominator if exponent.denominator in under_root else 1
        size = abs(exponent) * root
        if size != 1:
            power = str(size) if size.denominator == 1 else f"({size})"
            written, is_sum = (f"({written})^{power}" if is_sum else f"{written}^{power}"), False
        (sides if root == 1 else inside[root])[exponent < 0].append((written, is_sum))
    for root, (over, under) in inside.items():
        text = f"{_ROOTS[root][0]}({_quotient(over, under) if over else _joined(under)})"
        sides[not over].append((text, False))
    return _quotient(*sides)


def starts_with_one(base: Feature, exponent: Fraction) -> bool:
    """Whether a base is written as 1 - x, and not as x - 1: where its sign does not matter."""
    signless = exponent.denominator > 1 or exponent.numerator % 2 == 0
    last = base.children[-1] if base.kind == "sum" else base
    return signless and base.constants == 0 and last.kind == "minus" and last.children[0].kind == "one"


def _turned(term: str) -> str:
    return f" + {term[1:]}" if term.startswith("-") else f" - {term}"


def roots_of(factors: Sequence[tuple[Feature, Fraction]]) -> list[int]:
    """The roots that are written as such: those of which a factor is a plain square or cube root."""
    return [root for root in _ROOTS if any(abs(exponent) == Fraction(1, root) for _, exponent in factors)]


def _joined(items: Sequence[tuple[str, bool]]) -> str:
    if len(items) == 1:
        return items[0][0]
    return "*".join(f"({text})" if is_sum else text for text, is_sum in items)


def _quotient(over: Sequence[tuple[str, bool]], under: Sequence[tuple[str, bool]]) -> str:
    if not under:
        return _joined(over)
    top = f"({over[0][0]})" if len(over) == 1 and over[0][1] else _joined(over)
    bottom = _joined(under)
    return f"{top or 1}/{f'({bottom})' if len(under) > 1 or under[0][1] else bottom}"


def to_latex(feature: Feature, values: Sequence[float] | np.ndarray | None = None, digits: int = 4) -> str:
    r"""Return LaTeX of a feature, for math mode.

    Fractional powers act on absolute values, as everywhere; the bars are left out.

    Parameters
    ----------
    feature : Feature
        The feature.
    values : sequence of float, optional
        Its constants in their order; without them they are symbols.
    digits : int
        Significant digits of the values.

    Returns
    -------
    str

    Examples
    --------
    >>> from modejump.features.laws.expression import Feature
    >>> print(to_latex(Feature("V*S/(S + c0)"), [1.98]))
    \frac{\mathrm{S}\,\mathrm{V}}{\mathrm{S} + 1.98}
    >>> print(to_latex(Feature("sqrt(L/g)*cos(c0*t)")))
    \cos\left(c_{0}\,\mathrm{t}\right)\,\sqrt{\frac{\mathrm{L}}{\mathrm{g}}}
    """

    def constant(k: int) -> str:
        return rf"c_{{{k}}}" if values is None else latex_number(float(values[k]), digits)

    return _latex(feature, 0, constant)


def _latex(node: Feature, first: int, constant: Naming) -> str:
    kind, children = node.kind, node.children
    if kind == "covariate":
        return rf"\mathrm{{{escape_latex(node.name or '')}}}"
    if kind == "one":
        return "1"
    if kind == "call":
        transform = transforms.get(node.function or "")
        template = default_latex(node.function or "") if transform is None else transform.latex
        powers, rest = fitted_powers(node.function, children[0], first)
        texts = [template.replace(ARGUMENT, _latex_sum(rest, constant))] if rest else []
        for base, place in powers:
            written = _latex(base, place + 1, constant)
            written = written if base.kind == "covariate" else rf"\left({written}\right)"
            texts.append(f"{written}^{{{constant(place)}}}")
        return r"\,".join(texts)
    if kind in ("power", "product"):
        return _latex_product(node, first, constant)
    if kind == "minus":
        return f"-{_latex(children[0], first, constant)}"
    if kind == "free":
        inside = "" if children[0].kind == "one" else rf"\,{_latex(children[0], first + 1, constant)}"
        return constant(first) + inside
    return _latex_sum(placed(children, first), constant)


def _latex_sum(terms: Sequence[Placed], constant: Naming) -> str:
    text = ""
    for term, place in terms:
        written = _latex(term, place, constant)
        text += ((" - " if written.startswith("-") else " + ") + written.removeprefix("-")) if text else written
    return text


def _latex_product(node: Feature, first: int, constant: Naming) -> str:
    factors = [base_and_exponent(factor) for factor in (node.children if node.kind == "product" else (node,))]
    under_root = roots_of(factors)
    sides: tuple[list[str], list[str]] = ([], [])
    inside: dict[int, tuple[list[str], list[str]]] = {root: ([], []) for root in under_root}
    for base, exponent in factors:
        written = _latex(base, first, constant)
        if starts_with_one(base, exponent):
            written = "1" + "".join(_turned(_latex(term, first, constant)) for term in base.children[:-1])
        first += base.constants
        root = exponent.denominator if exponent.denominator in under_root else 1
        size = abs(exponent) * root
        if base.kind == "sum" or (base.kind == "call" and size != 1):
            written = rf"\left({written}\right)"
        if size != 1:
            written += f"^{{{size}}}"
        (sides if root == 1 else inside[root])[exponent < 0].append(written)
    for root, (over, under) in inside.items():
        text = _fraction(over, under) if over else _fraction(under, [])
        alone = len(over) + len(under) == 1
        sides[not over].append(_ROOTS[root][1] + (_bare(text, [text]) if alone else text) + "}")
    return _fraction(*sides)


def _fraction(over: Sequence[str], under: Sequence[str]) -> str:
    top, bottom = r"\,".join(over) or "1", r"\,".join(under)
    # A sum that fills one side of the bar needs no brackets.
    top, bottom = (_bare(top, over) if under else top), _bare(bottom, under)
    return rf"\frac{{{top}}}{{{bottom}}}" if under else top


def _bare(text: str, parts: Sequence[str]) -> str:
    if len(parts) == 1 and text.startswith(r"\left(") and text.endswith(r"\right)"):
        return text.removeprefix(r"\left(").removesuffix(r"\right)")
    return text


def to_sympy(feature: Feature, values: Sequence[float] | np.ndarray | None = None) -> Any:
    """Return a feature as a SymPy expression, with one symbol for each covariate.

    Parameters
    ----------
    feature : Feature
        The feature.
    values : sequence of float, optional
        Its constants in their order; without them they are symbols c0, c1, ...

    Returns
    -------
    sympy.Expr

    Examples
    --------
    >>> from modejump.features.laws.expression import Feature
    >>> to_sympy(Feature("q1*q2/r^2"))
    q1*q2/r**2
    >>> to_sympy(Feature("exp(c0*t)"), [-0.5])
    exp(-0.5*t)
    """
    sympy = import_sympy()

    def build(node: Feature, first: int) -> Any:
        parts, at = [], first + (node.kind == "free")
        for child in node.children:
            parts.append(build(child, at))
            at += child.constants
        if node.kind == "covariate":
            return sympy.Symbol(node.name)
        if node.kind == "call":
            transform = transforms.get(node.function or "")
            made = None if transform is None else transform.sympy
            return (made or sympy.Function(node.function))(parts[0])
        if node.exponent is not None:
            e = node.exponent
            base = parts[0] if e.denominator == 1 else sympy.Abs(parts[0])
            return base ** sympy.Rational(e.numerator, e.denominator)
        if node.kind == "product":
            return sympy.Mul(*parts)
        if node.kind == "sum":
            return sympy.Add(*parts)
        if node.kind == "free":
            constant = sympy.Symbol(constant_name(first)) if values is None else sympy.Float(float(values[first]))
            return constant * parts[0]
        return -parts[0] if node.kind == "minus" else sympy.Integer(1)

    return build(feature, 0)
