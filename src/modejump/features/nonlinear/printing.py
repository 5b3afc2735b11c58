"""Features as text with numbers, as LaTeX and as SymPy expressions.

Their text without numbers is part of `modejump.features.nonlinear.expression`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import ArrayLike

from modejump.features.nonlinear.expression import Feature, coefficients
from modejump.features.nonlinear.transforms import ARGUMENT, Transform, default_latex, transforms
from modejump.features.symbols import escape_latex, import_sympy, latex_number


def to_text(feature: Feature, alphas: Mapping[Feature, ArrayLike], digits: int = 4) -> str:
    """Return the text of a feature with numbers in its projections.

    ``alphas`` has for each projection its intercept and the coefficients of its parents, in order.

    Examples
    --------
    >>> to_text(Feature("a*sin(1 + b)"), {Feature("sin(1 + b)"): [0.5, -2.0]})
    'a*sin(0.5 - 2*b)'
    """
    texts: dict[Feature, str] = {}
    for node in feature.subfeatures():
        parts = [texts[child] for child in node.children]
        if node.kind == "projection":
            first, *rest = coefficients(node, alphas).tolist()
            signed = [f" {'-' if c < 0 else '+'} {abs(c):.{digits}g}*{part}" for c, part in zip(rest, parts)]
            texts[node] = f"{node.transform}({first:.{digits}g}{''.join(signed)})"
        elif node.transform is not None:
            texts[node] = f"{node.transform}({parts[0]})"
        else:
            texts[node] = "*".join(parts) or node.text
    return texts[feature]


def to_latex(feature: Feature, alphas: Mapping[Feature, ArrayLike] | None = None, digits: int = 4) -> str:
    r"""Return LaTeX of a feature, for math mode.

    Repeated factors are collected into powers.

    Coefficients of projections that are not given are written as alphas, numbered through the feature from the inside
    out.

    Examples
    --------
    >>> print(to_latex(Feature("troot(P*P*M_h)")))
    \left|\mathrm{M\_h}\,\mathrm{P}^{2}\right|^{1/3}
    >>> print(to_latex(Feature("sin(1 + a + b*b)")))
    \sin\left(\alpha_{0} + \alpha_{1}\,\mathrm{a} + \alpha_{2}\,\mathrm{b}^{2}\right)
    >>> print(to_latex(Feature("sin(1 + a)"), {Feature("sin(1 + a)"): [0.5, -2.0]}))
    \sin\left(0.5 - 2\,\mathrm{a}\right)
    """
    texts: dict[Feature, str] = {}
    numbers = itertools.count()
    for node in feature.subfeatures():
        if node.name is not None:
            texts[node] = rf"\mathrm{{{escape_latex(node.name)}}}"
        elif node.transform is None:
            texts[node] = r"\,".join(_latex_powers(node, texts))
        else:
            inner = texts[node.children[0]]
            if node.kind == "projection":
                parents = [texts[parent] for parent in node.children]
                if alphas is None:
                    terms = [rf"\alpha_{{{next(numbers)}}}"]
                    terms += [rf"\alpha_{{{next(numbers)}}}\,{parent}" for parent in parents]
                    inner = " + ".join(terms)
                else:
                    inner = _latex_sum(coefficients(node, alphas).tolist(), parents, digits)
            # A feature can outlive the transform that a user removed.
            transform = transforms.get(node.transform)
            template = default_latex(node.transform) if transform is None else transform.latex
            texts[node] = template.replace(ARGUMENT, inner)
    return texts[feature]


def _latex_sum(values: list[float], parents: list[str], digits: int) -> str:
    text = latex_number(values[0], digits)
    for value, parent in zip(values[1:], parents):
        text += rf" {'-' if value < 0 else '+'} {latex_number(abs(value), digits)}\,{parent}"
    return text


def _latex_powers(product: Feature, texts: Mapping[Feature, str]) -> Iterator[str]:
    for factor, power in Counter(product.children).items():
        if power == 1:
            yield texts[factor]
        elif factor.kind == "covariate":
            yield rf"{texts[factor]}^{{{power}}}"
        else:
            yield rf"\left({texts[factor]}\right)^{{{power}}}"


def to_sympy(feature: Feature, alphas: Mapping[Feature, ArrayLike] | None = None) -> Any:
    """Return a feature as a SymPy expression, with one symbol for each covariate.

    Coefficients of projections that are not given are symbols ``alpha_0``, ``alpha_1``, ..., from the inside out.

    Examples
    --------
    >>> to_sympy(Feature("troot(P*P*M)"))
    Abs(M*P**2)**(1/3)
    >>> to_sympy(Feature("tanh(1 + a)"), {Feature("tanh(1 + a)"): [0.5, 2.0]})
    tanh(2.0*a + 0.5)
    """
    sympy = import_sympy()
    expressions: dict[Feature, Any] = {}
    numbers = itertools.count()
    for node in feature.subfeatures():
        parts = [expressions[child] for child in node.children]
        if node.name is not None:
            expressions[node] = sympy.Symbol(node.name)
        elif node.transform is None:
            expressions[node] = sympy.Mul(*parts)
        else:
            inner = parts[0]
            if node.kind == "projection":
                if alphas is None:
                    values = [sympy.Symbol(f"alpha_{next(numbers)}") for _ in range(len(parts) + 1)]
                else:
                    values = [sympy.Float(value) for value in coefficients(node, alphas).tolist()]
                inner = sympy.Add(values[0], *(value * part for value, part in zip(values[1:], parts)))
            transform: Transform | None = transforms.get(node.transform)
            build = None if transform is None else transform.sympy
            expressions[node] = (build or sympy.Function(node.transform))(inner)
    return expressions[feature]
