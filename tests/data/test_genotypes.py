"""Genotypes as dominant and recessive markers: coding, missing values, constant markers, new rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import modejump.data.bits as bits
from modejump.core.errors import InputError, ModejumpWarning
from modejump.data.bits import BitColumns
from modejump.data.markers import MISSING, MarkerSpec, learn_markers


@pytest.fixture(params=[8 * 2**20, 4096], ids=["one block", "many blocks"], autouse=True)
def block_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(bits, "_CHUNK_BYTES", request.param)
    yield


def learn_genotypes(table: Any, missing: str = "refuse", report: Any = None) -> tuple[MarkerSpec, BitColumns]:
    return learn_markers(table, coding="genotype", missing=missing, report=report)[:2]


def genotypes(seed: int, n: int = 150, m: int = 40) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.binomial(2, rng.uniform(0.3, 0.7, m), (n, m)).astype(np.int8)


def plainly_coded(g: np.ndarray) -> np.ndarray:
    return np.stack([g >= 1, g == 2], axis=2).reshape(len(g), -1)


@pytest.mark.parametrize("made", [
    np.asarray, np.asfortranarray, lambda g: g.astype(float), lambda g: g.tolist(), lambda g: g.astype(np.uint8),
    pd.DataFrame, lambda g: pd.DataFrame(g).astype("Int64"), pl.DataFrame,
])  # fmt: skip
def test_each_column_becomes_a_dominant_and_a_recessive_marker(made: Any) -> None:
    g = genotypes(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coding, markers = learn_genotypes(made(g))
    np.testing.assert_array_equal(markers.unpack(), plainly_coded(g))
    assert coding.names == [f"{name}_{kind}" for name in coding.columns for kind in "dr"]
    assert [marker.column for marker in coding.markers] == np.repeat(np.arange(40), 2).tolist()
    np.testing.assert_array_equal(coding.apply(made(g[:11])), plainly_coded(g[:11]))


def test_constant_markers_are_dropped_with_a_warning_and_copies_without() -> None:
    g = genotypes(2)
    g[:, 3] = np.minimum(g[:, 3], 1)  # no genotype 2: the recessive marker is constant
    g[:, 5] = np.maximum(g[:, 5], 1)  # no genotype 0: the dominant one
    g[:, 8] = 2
    g[:, 20] = 2 * (g[:, 20] > 0)  # no genotype 1: both markers are the same
    with pytest.warns(ModejumpWarning, match="^4 markers are constant and are ignored: x3_r, x5_d, x8_d, x8_r.$"):
        coding, markers = learn_genotypes(g)
    dropped = [7, 10, 16, 17, 41]
    np.testing.assert_array_equal(markers.unpack(), np.delete(plainly_coded(g), dropped, axis=1))
    assert len(coding.names) == len(markers) == 75 and "x20_d" in coding.names and "x20_r" not in coding.names
    new = genotypes(3, 9)
    np.testing.assert_array_equal(coding.apply(new), np.delete(plainly_coded(new), dropped, axis=1))


def test_a_table_of_constant_markers_is_refused() -> None:
    with pytest.raises(InputError, match="every marker is constant .'x0_d' is the first"):
        learn_genotypes(np.full((5, 3), 2))
    with pytest.raises(InputError, match="no binary covariate"):
        learn_genotypes(np.zeros((5, 0)))


def with_missing(g: np.ndarray, at: list[tuple[int, int]]) -> list[Any]:
    """The same genotypes with missing entries, in each way to say so."""
    whole, floating = g.astype(np.int8), g.astype(float)
    for row, column in at:
        whole[row, column], floating[row, column] = MISSING, np.nan
    return [whole, floating, pd.DataFrame(floating), pd.DataFrame(floating).astype("Int64"),
            pl.DataFrame(whole).with_columns(pl.all().replace(MISSING, None))]  # fmt: skip


def test_missing_genotypes_are_refused_by_count_and_place() -> None:
    g = genotypes(4)
    for table in with_missing(g, [(77, 12), (80, 12), (3, 39)]):
        with pytest.raises(InputError, match="^3 of 6000 genotypes are missing, the first in column '.*', row 77 "):
            learn_genotypes(table)
    coding, _ = learn_genotypes(g)
    with pytest.raises(InputError, match="^column 'x5' is -127 in row 2 .* not a genotype"):
        coding.apply(with_missing(g[:10], [(2, 5)])[0])


def test_missing_genotypes_are_replaced_by_the_most_frequent_one_of_the_fit() -> None:
    g = genotypes(5)
    g[:, 0] = np.repeat([0, 1, 2], [40, 40, 70])
    g[:, 1] = np.repeat([0, 1, 2], [20, 65, 65])  # a tie: the lower one
    at = [(140, 0), (5, 1), (30, 17)]
    filled = g.copy()
    filled[140, 0], filled[5, 1] = 2, 1
    filled[30, 17] = np.bincount(np.delete(g[:, 17], 30)).argmax()
    for table in with_missing(g, at):
        coding, markers = learn_genotypes(table, missing="mode")
        np.testing.assert_array_equal(markers.unpack(), plainly_coded(filled))
    # New rows get the genotype that was most frequent in the fit, though it is not in their own table.
    new = np.zeros((2, 40), np.int8)
    new[0, 0] = MISSING
    assert coding.apply(with_missing(new, [(0, 0)])[1])[:, :2].tolist() == [[1, 1], [0, 0]]


def test_a_column_without_any_genotype_is_constant() -> None:
    g = genotypes(6).astype(float)
    g[:, 2] = np.nan
    with pytest.warns(ModejumpWarning, match="^2 markers are constant and are ignored: x2_d, x2_r.$"):
        coding, markers = learn_genotypes(g, missing="mode")
    assert len(markers) == len(coding.names) == 78


@pytest.mark.parametrize("value", [3, -9, 0.5, np.inf])
def test_other_values_are_refused_by_column_and_row(value: float) -> None:
    g = genotypes(7).astype(float)
    g[44, 31] = value
    with pytest.raises(InputError, match=r"^column 'x31' is .* in row 44 .* genotypes are 0, 1 or 2"):
        learn_genotypes(g)


def test_new_rows_are_read_by_name_from_frames_and_by_position_from_arrays() -> None:
    g = genotypes(8)
    frame = pd.DataFrame(g).add_prefix("rs")
    coding, markers = learn_genotypes(frame)
    turned = frame.iloc[:, ::-1].assign(other="text")
    np.testing.assert_array_equal(coding.apply(turned), markers.unpack())
    np.testing.assert_array_equal(coding.apply(g), markers.unpack())
    with pytest.raises(InputError, match="no column 'rs7'"):
        coding.apply(frame.drop(columns="rs7"))
    with pytest.raises(InputError, match="X has 39 columns, but the fit had 40"):
        coding.apply(g[:, :-1])


def test_progress_ends_with_all_columns() -> None:
    told: list[tuple[float, float]] = []
    learn_genotypes(genotypes(10), report=lambda done, total, note: told.append((done, total)))
    assert told[-1] == (40, 40) and told == sorted(told)


def test_an_unknown_treatment_is_refused() -> None:
    with pytest.raises(InputError, match="missing must be 'refuse' or 'mode'; got 'mean'"):
        learn_genotypes(genotypes(9), missing="mean")
