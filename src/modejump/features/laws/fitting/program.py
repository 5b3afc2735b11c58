"""A law with constants as a short program: its values and its derivatives by the constants, row by row, compiled.

What holds no constant is evaluated once, into the leaves. Each instruction makes one row of values from leaves and from
rows of earlier instructions, and with it one row of derivatives for each constant below it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import kernel
from modejump.core.handles import scalars_of
from modejump.features.laws.fitting.fixed_columns import column_into
from modejump.features.laws.fitting.row_functions import COS, LOG, SIN, apply_function, apply_power, apply_slope
from modejump.features.laws.nodes import CALL, FREE, MINUS, ONE, POWER, PRODUCT

# Instructions. CONSTANT: c; SCALE: c times a row; the others as their names say.
CONSTANT, SCALE, TIMES, PLUS, NEGATIVE, FUNCTION, RAISE = range(7)
# What a constant does, which says where its search begins: a frequency or phase of sin and cos; a rate, the scale of
# another function's argument; a shift, a term of a sum that is raised to a power or multiplied.
FREQUENCY, RATE, SHIFT = range(3)
NOWHERE = -(1 << 40)
# Rows that are worked on at once.
BLOCK = 2000


class Program(NamedTuple):
    """Instructions, leaves and rows of one law."""

    op: np.ndarray  # int64 (I,)
    a: np.ndarray  # int64 (I,): first operand: an earlier instruction, or leaf j as -1 - j
    b: np.ndarray  # int64 (I,): second operand, constant, function or exponent
    depends: np.ndarray  # int64 (I,): set of the constants below it, as bits
    value: np.ndarray  # float64 (I, m)
    slope: np.ndarray  # float64 (K, I, m)
    bend: np.ndarray  # float64 (2, m)
    role: np.ndarray  # int64 (K,): FREQUENCY, RATE or SHIFT
    inside: np.ndarray  # int64 (K,): 1 where a shift may make a sum zero on some rows
    factor: np.ndarray  # int64 (K,): what the constant is multiplied by, an operand; NOWHERE: nothing
    total: np.ndarray  # int64 (K,): instruction that ends the sum of which it is a term, -1 where it is none
    phase: np.ndarray  # int64 (K,): constant that is the phase of a frequency, -1 where there is none
    scalars: np.ndarray  # count: instructions; leaves; constants; last: operand of the result; full: no room


def new_program(instructions: int, constants: int, rows: int) -> Program:
    """Room for a program."""
    whole = {name: np.zeros(instructions, np.int64) for name in ("op", "a", "b", "depends")}
    of_constants = {name: np.zeros(constants, np.int64) for name in ("role", "inside", "factor", "total", "phase")}
    return Program(
        **whole,
        value=np.zeros((instructions, rows)),
        slope=np.zeros((constants, instructions, rows)),
        bend=np.zeros((2, rows)),
        **of_constants,
        scalars=scalars_of(count=0, leaves=0, constants=0, last=0, full=0),
    )


@kernel
def _below(program, a):
    return program.depends[a] if a >= 0 else np.int64(0)


@kernel
def _emit(program, op, a, b, depends):
    """Add an instruction; returns its number."""
    i = program.count
    if i == len(program.op):
        program.full = 1
        return np.int64(0)
    program.count = i + 1
    program.op[i], program.a[i], program.b[i], program.depends[i] = op, a, b, depends
    return np.int64(i)


@kernel
def _new_leaf(program, pool):
    """A leaf with the column in the first scratch row; its operand."""
    j = program.leaves
    if j == len(pool.rows.leaf):
        program.full = 1
        return np.int64(-1)
    program.leaves = j + 1
    pool.rows.leaf[j] = pool.scratch[0]
    return np.int64(-1 - j)


@kernel
def _fold(program, pool, leaf, multiply):
    """Multiply a leaf by, or add to it, the column in the first scratch row; a new leaf where there is none yet."""
    if leaf == NOWHERE:
        return _new_leaf(program, pool)
    row, column = pool.rows.leaf[-1 - leaf], pool.scratch[0]
    for r in range(len(row)):
        row[r] = row[r] * column[r] if multiply else row[r] + column[r]
    return leaf


@kernel
def _new_constant(program, role, inside):
    """A constant that is no term of a sum, as far as is known; its number."""
    k = program.constants
    program.constants = k + 1
    program.role[k], program.inside[k] = role, inside
    program.total[k], program.phase[k], program.factor[k] = -1, -1, NOWHERE
    return np.int64(k)


@kernel
def _end_sum(program, first, last, at):
    """Note of which sum the constants ``first`` to ``last`` are terms, and which of them is the phase of another."""
    for k in range(first, last):
        if program.total[k] == -2:
            program.total[k] = at
            if program.role[k] == FREQUENCY and program.factor[k] == NOWHERE:
                for other in range(first, k):
                    if program.total[other] == at and program.factor[other] != NOWHERE:
                        program.phase[other] = k


@kernel
def _translate(program, table, pool, f, role, inside):
    """Add the instructions of an entry of the table; its operand. Constants are numbered in the order of the walk."""
    kind, start, code = table.kind[f], table.start[f], table.code[f]
    if table.constants[f] == 0:
        column_into(table, pool, f, np.int64(0))
        return _new_leaf(program, pool)
    if kind == FREE:
        k = _new_constant(program, role, inside)
        below = table.child[start]
        if table.kind[below] == ONE:
            return _emit(program, CONSTANT, np.int64(0), k, np.int64(1) << k)
        a = _translate(program, table, pool, below, np.int64(SHIFT), np.int64(0))
        program.factor[k] = a
        return _emit(program, SCALE, a, k, _below(program, a) | np.int64(1) << k)
    if kind == MINUS:
        a = _translate(program, table, pool, table.child[start], np.int64(SHIFT), np.int64(0))
        return _emit(program, NEGATIVE, a, np.int64(0), _below(program, a))
    if kind == CALL:
        inline = pool.inline[code]
        wave = inline == SIN or inline == COS
        held = np.int64(FREQUENCY if wave else SHIFT if inline == LOG else RATE)
        a = _translate(program, table, pool, table.child[start], held, np.int64(0))
        return _emit(program, FUNCTION, a, code, _below(program, a))
    if kind == POWER:
        smooth = np.int64(pool.denominator[code] == 1 and pool.numerator[code] > 0)
        a = _translate(program, table, pool, table.child[start], np.int64(SHIFT), smooth)
        return _emit(program, RAISE, a, code, _below(program, a))
    leaf, result = np.int64(NOWHERE), np.int64(NOWHERE)
    multiply = kind == PRODUCT
    op = TIMES if multiply else PLUS
    first = program.constants
    for i in range(table.arity[f]):
        child = table.child[start + i]
        if table.constants[child] == 0:
            column_into(table, pool, child, np.int64(0))
            leaf = _fold(program, pool, leaf, multiply)
            continue
        own = program.constants
        a = _translate(
            program, table, pool, child, np.int64(SHIFT) if multiply else role, np.int64(1) if multiply else inside
        )
        if not multiply and table.kind[child] == FREE:
            program.total[own] = -2
        result = a if result == NOWHERE else _emit(program, op, result, a, _below(program, result) | _below(program, a))
    if leaf != NOWHERE:
        result = _emit(program, op, result, leaf, _below(program, result))
    if not multiply:
        _end_sum(program, first, program.constants, result)
    return result


@kernel
def translate(program, table, pool, f):
    """Make the program of a law and evaluate its leaves; False where there is no room."""
    program.count = program.leaves = program.constants = program.full = 0
    program.last = _translate(program, table, pool, f, np.int64(SHIFT), np.int64(0))
    return program.full == 0


@kernel
def operand(program, leaf, a, first, m):
    """The values that an operand stands for, of some rows."""
    return leaf[-1 - a, first : first + m] if a < 0 else program.value[a, :m]


@kernel
def _multiply_slopes(program, i, leaf, first, m):
    """Derivatives of a product of two rows."""
    a, b, slope = program.a[i], program.b[i], program.slope
    u, v = operand(program, leaf, a, first, m), operand(program, leaf, b, first, m)
    for k in range(program.constants):
        bit = np.int64(1) << k
        out = slope[k, i]
        by_a, by_b = _below(program, a) & bit, _below(program, b) & bit
        if by_a and by_b:
            s, t = slope[k, a], slope[k, b]
            for r in range(m):
                out[r] = s[r] * v[r] + t[r] * u[r]
        elif by_a:
            s = slope[k, a]
            for r in range(m):
                out[r] = s[r] * v[r]
        elif by_b:
            t = slope[k, b]
            for r in range(m):
                out[r] = t[r] * u[r]


@kernel
def _add_slopes(program, i, m):
    """Derivatives of a sum of two rows."""
    a, b, slope = program.a[i], program.b[i], program.slope
    for k in range(program.constants):
        bit = np.int64(1) << k
        out = slope[k, i]
        by_a, by_b = _below(program, a) & bit, _below(program, b) & bit
        if by_a and by_b:
            s, t = slope[k, a], slope[k, b]
            for r in range(m):
                out[r] = s[r] + t[r]
        elif by_a or by_b:
            s = slope[k, a if by_a else b]
            for r in range(m):
                out[r] = s[r]


@kernel
def _chain_slopes(program, i, by, factor, m):
    """Derivatives of a function of a row, whose own derivative stands in the row ``by``, times a number."""
    a, slope = program.a[i], program.slope
    for k in range(program.constants):
        if _below(program, a) & (np.int64(1) << k):
            out, s = slope[k, i], slope[k, a]
            for r in range(m):
                out[r] = factor * by[r] * s[r]


@kernel
def _differentiate(program, pool, i, constants, leaf, first, m):
    """Derivatives of the row of one instruction, given its values."""
    op, a, b, bend = program.op[i], program.a[i], program.b[i], program.bend[0]
    out = program.value[i]
    if op == CONSTANT:
        program.slope[b, i, :m] = 1.0
    elif op == SCALE:
        bend[:m] = 1.0
        if a >= 0:
            _chain_slopes(program, i, bend, constants[b], m)
        program.slope[b, i, :m] = operand(program, leaf, a, first, m)
    elif op == TIMES:
        _multiply_slopes(program, i, leaf, first, m)
    elif op == PLUS:
        _add_slopes(program, i, m)
    elif op == NEGATIVE:
        bend[:m] = 1.0
        _chain_slopes(program, i, bend, -1.0, m)
    else:
        u = operand(program, leaf, a, first, m)
        if op == FUNCTION:
            apply_slope(pool, b, u, out, bend, program.bend[1], m)
            _chain_slopes(program, i, bend, 1.0, m)
        else:
            for r in range(m):
                bend[r] = out[r] / u[r] if u[r] != 0.0 else 0.0
            _chain_slopes(program, i, bend, pool.numerator[b] / pool.denominator[b], m)


@kernel
def run(program, pool, constants, leaf, first, m, derivatives):
    """Values of all instructions for m rows of the leaves, and the derivatives where they are wanted."""
    for i in range(program.count):
        op, a, b, out = program.op[i], program.a[i], program.b[i], program.value[i]
        if op == CONSTANT:
            out[:m] = constants[b]
        else:
            u = operand(program, leaf, a, first, m)
            if op == SCALE:
                c = constants[b]
                for r in range(m):
                    out[r] = c * u[r]
            elif op == TIMES:
                v = operand(program, leaf, b, first, m)
                for r in range(m):
                    out[r] = u[r] * v[r]
            elif op == PLUS:
                v = operand(program, leaf, b, first, m)
                for r in range(m):
                    out[r] = u[r] + v[r]
            elif op == NEGATIVE:
                for r in range(m):
                    out[r] = -u[r]
            elif op == FUNCTION:
                apply_function(pool, b, u, out, m)
            else:
                apply_power(u, out, pool.numerator[b], pool.denominator[b], m)
        if derivatives:
            _differentiate(program, pool, i, constants, leaf, first, m)
