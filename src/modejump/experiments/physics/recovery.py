"""Whether what was found is the law: its constants and coefficients fitted again to rows without noise."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from modejump.features.expression import Expression
from modejump.features.language import Language
from modejump.features.symbols import import_sympy

# A model is the law where it leaves less than this share of the variance of rows without noise.
LEAST = 1e-9
# Terms of other programs that contribute less than this share of the standard deviation are not counted.
NEGLIGIBLE = 1e-5
# Worse than leaving everything unexplained, where a column is not defined.
_UNDEFINED = 2.0

Columns = Callable[[np.ndarray], np.ndarray]


def refit(columns: Columns, start: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """Least squares over an intercept, coefficients of columns, and constants inside them: the share of the variance
    that is left, and the constants.
    """
    z = (y - y.mean()) / (y.std() * np.sqrt(len(y)))

    def residuals(constants: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            x = columns(constants)
            x = x - x.mean(axis=0)
            x = x / np.maximum(np.linalg.norm(x, axis=0), np.finfo(float).tiny)
        if not np.isfinite(x).all():
            return _UNDEFINED * np.ones_like(z) / np.sqrt(len(z))
        return z - x @ np.linalg.lstsq(x, z, rcond=None)[0]

    at_start = float(np.sum(residuals(start) ** 2))
    if not len(start) or at_start < LEAST or at_start > 1.0:
        return at_start, start
    tight = 10 * np.finfo(float).eps
    found = least_squares(residuals, start, method="lm", x_scale="jac", xtol=tight, ftol=tight, gtol=tight)
    left = float(np.sum(found.fun**2))
    return (left, found.x) if left < at_start else (at_start, start)


def left_by_features(
    features: Sequence[Expression],
    language: Language,
    constants: Mapping[Expression, np.ndarray],
    table: Mapping[str, np.ndarray],
    y: np.ndarray,
) -> float:
    """Share of the variance that a model leaves once its constants are fitted to these rows."""
    inside = [f for f in features if f in constants]
    ends = np.cumsum([len(constants[f]) for f in inside])

    def columns(values: np.ndarray) -> np.ndarray:
        now = {**constants, **dict(zip(inside, np.split(values, ends[:-1])))} if inside else constants
        return np.column_stack([language.column(f, table, now) for f in features])

    if not features:
        return 1.0
    return refit(columns, np.concatenate([np.asarray(constants[f], float) for f in inside] or [np.empty(0)]), y)[0]


_OPERATORS: dict[type[Any], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.BitXor: operator.pow, ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip
# Functions in the formulas of other programs; roots and logarithms are protected there, and take |x|.
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg,
    "inv": lambda x: 1.0 / x, "square": lambda x: x * x, "pow": operator.pow,
}  # fmt: skip
_NUMERIC = _ARITHMETIC | {
    "sqrt": lambda x: np.sqrt(np.abs(x)), "log": lambda x: np.log(np.abs(x)), "cbrt": np.cbrt, "abs": np.abs,
    "exp": np.exp, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
}  # fmt: skip


class Formula:
    """The formula of another program, whose numbers are constants."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tree = ast.parse(text, mode="eval").body
        # Numbers in the order in which `_value` meets them.
        self.constants = np.array([n.value for n in _numbers(self._tree)], dtype=np.float64)

    def column(self, table: Mapping[str, np.ndarray], constants: np.ndarray) -> np.ndarray:
        """Column of the formula with other constants."""
        value = _value(self._tree, table, iter(constants.tolist()), _NUMERIC)
        return np.broadcast_to(value, len(next(iter(table.values())))).astype(np.float64)

    def left(self, table: Mapping[str, np.ndarray], y: np.ndarray) -> tuple[float, np.ndarray]:
        """Share of the variance left once the constants are fitted to these rows, and the constants."""
        return refit(lambda c: self.column(table, c)[:, None], self.constants, y)

    def terms(self, table: Mapping[str, np.ndarray], constants: np.ndarray) -> int:
        """Summands once products are multiplied out, without those that contribute next to nothing."""
        sympy = import_sympy()
        symbols = {name: sympy.Symbol(name, positive=True) for name in table}
        functions = _ARITHMETIC | {
            "sqrt": lambda x: sympy.sqrt(sympy.Abs(x)),
            "log": lambda x: sympy.log(sympy.Abs(x)),
            "abs": sympy.Abs,
            **{name: getattr(sympy, name) for name in ("cbrt", "exp", "sin", "cos", "tanh")},
        }
        numbers = (sympy.Float(c) for c in constants.tolist())
        whole = _value(self._tree, symbols, numbers, functions)
        whole = sympy.expand(whole, power_exp=False, power_base=False, log=False)
        spreads = []
        for term in sympy.Add.make_args(whole):
            value = sympy.lambdify(list(symbols.values()), term, "numpy")(*table.values())
            spreads.append(float(np.std(value)) if term.free_symbols else 0.0)
        total = np.std(sympy.lambdify(list(symbols.values()), whole, "numpy")(*table.values()))
        # A term that is not defined counts.
        return sum(not spread <= NEGLIGIBLE * total for spread in spreads)


def _numbers(node: ast.AST) -> list[Any]:
    if isinstance(node, ast.Constant):
        return [node]
    return [number for child in _operands(node) for number in _numbers(child)]


def _operands(node: Any) -> list[ast.AST]:
    """What an operation or function is applied to, from left to right."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    return list(node.args) if isinstance(node, ast.Call) else []


def _value(node: Any, names: Mapping[str, Any], numbers: Any, functions: Mapping[str, Callable[..., Any]]) -> Any:
    if isinstance(node, ast.Constant):
        return next(numbers)
    if isinstance(node, ast.Name):
        return names[node.id]
    values = [_value(child, names, numbers, functions) for child in _operands(node)]
    if isinstance(node, ast.Call):
        return functions[ast.unparse(node.func)](*values)
    return _OPERATORS[type(node.op)](*values)
