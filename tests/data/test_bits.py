"""Columns as bits: packing, and the compiled counts and sums against plain NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import modejump.data.bits as bits
from modejump.core.compilation import entry
from modejump.core.errors import InputError
from modejump.data.bits import BitColumns, and_count, bit_sums

ROWS = [1, 7, 63, 64, 65, 500, 1031]


@entry
def joint_counts(words, others):
    out = np.empty((len(words), len(others)), np.int64)
    for i in range(len(words)):
        for j in range(len(others)):
            out[i, j] = and_count(words, i, others, j)
    return out


def zeros_and_ones(seed: int, n: int, m: int = 23) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.random((n, m)) < rng.random(m)).astype(np.int8)


@pytest.fixture(params=[8 * 2**20, 4096], ids=["one block", "many blocks"], autouse=True)
def block_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(bits, "_CHUNK_BYTES", request.param)
    yield


@pytest.mark.parametrize("n", ROWS)
def test_row_r_is_bit_r_and_bits_beyond_the_rows_are_zero(n: int) -> None:
    x = zeros_and_ones(1, n)
    columns = BitColumns.pack(x)
    assert columns.words.dtype == np.uint64 and columns.words.shape == (x.shape[1], -(-n // 64))
    assert len(columns) == x.shape[1] and columns.n == n
    for j, row in enumerate(columns.words.tolist()):
        whole = sum(word << (64 * w) for w, word in enumerate(row))
        assert whole == sum(1 << r for r in range(n) if x[r, j])


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("made", [
    np.asfortranarray, lambda x: x.astype(bool), lambda x: x.astype(np.float32), lambda x: x.tolist(),
    pd.DataFrame, lambda x: pd.DataFrame(x).astype("Int8"), lambda x: pl.DataFrame(x.astype(bool)),
    lambda x: pd.DataFrame(x).astype({3: float, 4: bool}),
])  # fmt: skip
def test_tables_of_all_kinds_pack_and_unpack(n: int, made: Any) -> None:
    x = zeros_and_ones(2, n)
    columns = BitColumns.pack(made(x))
    assert columns.unpack().dtype == np.int8
    np.testing.assert_array_equal(columns.unpack(), x)
    np.testing.assert_array_equal(columns.unpack(3), x[:, 3])
    np.testing.assert_array_equal(columns.unpack([5, 1]), x[:, [5, 1]])
    np.testing.assert_array_equal(columns.unpack(slice(4, 9)), x[:, 4:9])


@pytest.mark.parametrize("n", ROWS)
def test_counts_and_sums_are_those_of_the_matrix(n: int) -> None:
    x, other = zeros_and_ones(3, n), zeros_and_ones(4, n, 11)
    columns, others = BitColumns.pack(x), BitColumns.pack(other)
    wide = x.astype(np.int64)
    np.testing.assert_array_equal(columns.counts(), wide.sum(axis=0))
    np.testing.assert_array_equal(joint_counts(columns.words, others.words), wide.T @ other)
    v = np.random.default_rng(5).normal(size=n)
    np.testing.assert_allclose(columns.sums(v), wide.T @ v, rtol=0, atol=1e-13 * np.abs(v).sum())
    # Some columns alone, and a vector that is no contiguous array of floats.
    whole = np.arange(2 * n)[::2]
    np.testing.assert_array_equal(bit_sums(columns.words[2:5], whole.astype(float)), x[:, 2:5].T @ whole)
    np.testing.assert_array_equal(columns.sums(whole), wide.T @ whole)


def test_sums_over_more_columns_than_are_looked_at_together() -> None:
    x = zeros_and_ones(8, 200, 2 * bits._TABLE_COLUMNS + 5)
    v = np.arange(200.0)
    np.testing.assert_array_equal(BitColumns.pack(x).sums(v), x.T @ v)


def test_no_column_and_no_row() -> None:
    assert BitColumns.pack(np.zeros((5, 0))).counts().shape == (0,)
    empty = BitColumns.pack(np.zeros((0, 3)))
    assert empty.sums(np.zeros(0)).tolist() == [0.0, 0.0, 0.0] and empty.unpack().shape == (0, 3)


@pytest.mark.parametrize(("value", "shown"), [(2, "2"), (-1, "-1"), (0.5, "0.5"), (np.nan, "nan")])
def test_other_values_are_refused_by_column_and_row(value: float, shown: str) -> None:
    x = zeros_and_ones(6, 90).astype(float)
    x[71, 14] = x[80, 20] = value
    for table, name in ((x, "x14"), (pd.DataFrame(x).add_prefix("rs"), "rs14")):
        with pytest.raises(InputError, match=rf"^column '{name}' is {shown}(\.0)? in row 71 .*not 0 or 1"):
            BitColumns.pack(table)


def test_what_is_no_table_of_numbers_is_refused() -> None:
    for table, said in (
        (pd.DataFrame({"a": [0, 1], "b": ["0", "1"]}), "column 'b' does not hold numbers"),
        (np.array([["0", "1"]]), "does not hold numbers"),
        (np.zeros(3), "1 dimension"),
    ):
        with pytest.raises(InputError, match=said):
            BitColumns.pack(table)
