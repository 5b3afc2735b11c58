"""What a formula may say: columns, numbers, arithmetic, and functions from a list; checked before it is evaluated."""

from __future__ import annotations

import ast
import re
from typing import Any

from modejump.core.errors import InputError

# Plain functions of a row, which may be stored; and those that learn from the data, which may not.
_PLAIN = {"C", "I", "Q", "log", "log10", "log2", "exp", "exp10", "exp2"}
_LEARNING = {"poly", "bs", "cs", "cr", "cc", "center", "scale", "standardize"}
_NUMPY = set(
    "log log10 log2 log1p exp expm1 exp2 sqrt cbrt square abs sign sin cos tan sinh cosh tanh arcsin arccos arctan "
    "arcsinh arccosh arctanh power minimum maximum floor ceil hypot reciprocal where clip".split()
)
_CONTRASTS = {"treatment", "sum", "helmert", "diff", "poly"}
_MODULES = {"np": _NUMPY, "contr": _CONTRASTS}
_NODES = (
    ast.Expression, ast.Name, ast.Load, ast.Constant, ast.BinOp, ast.UnaryOp, ast.unaryop, ast.Compare, ast.cmpop,
    ast.List, ast.Tuple, ast.keyword, ast.Call, ast.Attribute,
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr,
)  # fmt: skip
MOST_CHARACTERS = 20_000
MOST_TERMS = 20_000
# A power of two numbers is computed before any row is looked at.
_MOST_IN_POWER = 100


def check_formula(formula: str, columns: int, *, stored: bool = False, python: bool = False) -> None:
    """Refuse a formula that could run code, or that unfolds into more terms than anybody can fit.

    A dot stands for ``columns`` terms. In a stored formula functions that learn from the data are refused too; with
    ``python`` the user has said that any code may run.
    """
    from formulaic.parser import DefaultFormulaParser

    if len(formula) > MOST_CHARACTERS:
        raise InputError(f"the formula has {len(formula)} characters, at most {MOST_CHARACTERS}; name fewer terms.")
    parser = DefaultFormulaParser()
    for token in parser.get_tokens(formula):
        if token.kind is not None and token.kind.value == "python" and not python:
            _check_expression(str(token.token), stored)
    terms = _count_terms(parser.get_ast(formula), columns)
    if terms > MOST_TERMS:
        raise InputError(f"the formula unfolds into up to {terms:.3g} terms, at most {MOST_TERMS}; name fewer.")


def parse_expression(expression: str) -> ast.AST:
    """The syntax tree of a piece of Python in a formula; SyntaxError where it is none."""
    return ast.parse(re.sub(r"`[^`]*`", "quoted_name", expression), mode="eval")


def _check_expression(expression: str, stored: bool) -> None:
    try:
        nodes = list(ast.walk(parse_expression(expression)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"the formula's {short(expression)} cannot be read; write it in simpler terms.") from None
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    if "offset" in called:
        raise InputError("an offset is no term of the formula; give its values as offset= instead.")
    if stored and called & _LEARNING:
        raise InputError(
            f"the formula's {short(expression)} learns from the data, so it cannot be stored; "
            "compute it as a column first."
        )
    if not called <= _PLAIN | _LEARNING or not all(map(_is_allowed, nodes)):
        raise InputError(
            f"the formula's {short(expression)} is more than arithmetic, comparisons and known functions "
            f"({', '.join(sorted(_PLAIN | _LEARNING))}, np.sqrt and the like); compute it as a column first"
            + ("." if stored else ", or call fit_formula with python=True.")
        )


def _is_allowed(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.attr in _MODULES.get(node.value.id, ())
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name | ast.Attribute)
    if isinstance(node, ast.BinOp):
        texts = any(isinstance(side, ast.List | ast.Tuple) or _is_text(side) for side in (node.left, node.right))
        return not texts and (not isinstance(node.op, ast.Pow) or _is_small_power(node))
    return isinstance(node, _NODES)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and not isinstance(node.value, int | float)


def _is_small_power(node: ast.BinOp) -> bool:
    """Whether a power is one of a column, or of two small numbers."""
    if any(isinstance(part, ast.Name) for part in ast.walk(node.left)):
        return True
    sides = (node.left, node.right)
    return all(isinstance(s, ast.Constant) and abs(s.value) <= _MOST_IN_POWER for s in sides)  # type: ignore[arg-type]


def _count_terms(node: Any, columns: int) -> float:
    """At most how many terms a formula unfolds into, by its syntax tree."""
    if not hasattr(node, "operator"):
        return 1.0
    counts = [_count_terms(part, columns) for part in node.args]
    match node.operator.symbol:
        case ".":
            return float(columns)
        case ":" | "%in%" | "in":
            return counts[0] * counts[1]
        case "*" | "/":
            return counts[0] + counts[1] + counts[0] * counts[1]
        case "**" | "^":
            power = str(node.args[1])
            return counts[0] ** min(int(power), 1_000) if power.isdecimal() and counts[0] < 1e6 else float("inf")
        case "-":
            return sum(counts[:1])
    return sum(counts)


def short(expression: str) -> str:
    """A piece of a formula for a sentence."""
    return repr(expression if len(expression) <= 80 else f"{expression[:77]}...")
