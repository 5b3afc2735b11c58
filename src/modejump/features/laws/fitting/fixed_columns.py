"""Columns of what holds no constants, from the covariates, compiled; the plain twin is `evaluate` of expressions."""

from __future__ import annotations

from modejump.core.compilation import kernel
from modejump.features.laws.fitting.row_functions import apply_function, apply_power
from modejump.features.laws.nodes import CALL, MINUS, ONE, POWER, PRODUCT
from modejump.features.table import COVARIATE


@kernel
def column_into(table, pool, f, level):
    """Write the column of an entry without constants into a scratch row; its parts use the rows after it."""
    row = pool.scratch[level]
    n = len(row)
    kind, first = table.kind[f], table.start[f]
    if pool.slot[f] > 0:
        row[:] = pool.values[pool.slot[f] - 1]
    elif kind == COVARIATE:
        row[:] = pool.x[table.code[f]]
    elif kind == ONE:
        row[:] = 1.0
    else:
        column_into(table, pool, table.child[first], level)
        if kind == CALL:
            apply_function(pool, table.code[f], row, row, n)
        elif kind == POWER:
            apply_power(row, row, pool.numerator[table.code[f]], pool.denominator[table.code[f]], n)
        elif kind == MINUS:
            for r in range(n):
                row[r] = -row[r]
        else:
            below = pool.scratch[level + 1]
            for i in range(1, table.arity[f]):
                column_into(table, pool, table.child[first + i], level + 1)
                if kind == PRODUCT:
                    for r in range(n):
                        row[r] *= below[r]
                else:
                    for r in range(n):
                        row[r] += below[r]
