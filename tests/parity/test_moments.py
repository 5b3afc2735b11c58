"""Compiled sums over the columns of features: transforms by vector instructions, and products against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modejump.features.nonlinear.functions import apply_column

from modejump.data.moments import Block, Moments, everything
from modejump.features.nonlinear.builtin import Code
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.transforms import transforms
from modejump.features.nonlinear.vectors import apply_vectors
from modejump.kernels.moments import columns_plain, new_sums, sum_moments, sum_moments_plain
from modejump.samplers import programs
from modejump.samplers.programs import CompiledMoments, is_compiled, loads, program_of
from modejump.samplers.streamed_features import FeatureColumns

EPS = np.finfo(float).eps
NAMES = ("a", "b", "c", "d")

# --- transforms ---------------------------------------------------------------------------------------------------

COLUMNS = {
    "usual": lambda rng: rng.normal(size=1003),
    "small": lambda rng: 1e-7 * rng.normal(size=1003),
    "wide": lambda rng: rng.choice([-1.0, 1.0], 1003) * 10.0 ** rng.uniform(-70, 4.9, 1003),
    "hundreds": lambda rng: 300.0 * rng.normal(size=1003),
    "right angles": lambda rng: rng.integers(-50_000, 50_000, 1003) * (np.pi / 2.0),
    "whole, with zeros": lambda rng: np.append(rng.integers(-4, 5, 1001).astype(float), [0.0, -0.0]),
    "positive": lambda rng: np.exp(3.0 * rng.normal(size=1003)),
    "beyond": lambda rng: np.append(rng.normal(size=990), [np.nan, np.inf, -np.inf, 1e-310, -1e-310, 1e308, -1e200]),
}  # fmt: skip


VECTORS = (
    Code.SIGMOID, Code.SIN, Code.COS, Code.SIN_DEG, Code.COS_DEG, Code.TANH, Code.GAUSS, Code.EXP_ABS, Code.LOG1P_ABS,
    Code.TROOT, Code.TO23, Code.TO25, Code.TO35, Code.P0,
)  # fmt: skip


@pytest.mark.parametrize("column", list(COLUMNS))
@pytest.mark.parametrize("code", VECTORS, ids=lambda code: code.name.lower())
def test_vector_transforms_have_plain_twins(code: Code, column: str) -> None:
    x = COLUMNS[column](np.random.default_rng(int(code)))
    out = np.empty_like(x)
    apply_vectors(int(code), x, out)
    with np.errstate(all="ignore"):
        plain = transforms.by_code(int(code))(x)
    # Exponentials below the normal numbers are zero; the rest is right to a few units in the last place.
    np.testing.assert_allclose(out, plain, rtol=8.0 * EPS, atol=1e-300)


@pytest.mark.parametrize("column", list(COLUMNS))
def test_other_transforms_are_those_of_columns(column: str) -> None:
    x = COLUMNS[column](np.random.default_rng(1))
    for code in set(Code) - set(VECTORS):
        out, other = np.empty_like(x), np.empty_like(x)
        apply_vectors(int(code), x, out)
        apply_column(int(code), x, other)
        np.testing.assert_array_equal(out, other)


# --- sums ---------------------------------------------------------------------------------------------------------

FEATURES = [
    Feature(text)
    for text in (
        "a", "b", "d", "a*b", "a*a*c", "sin(a)", "sin(a)*b", "troot(b*c)", "exp_abs(sin(a)*b)", "p0(a)", "to23(c)*d*d",
        "sigmoid(1 + a + b*c)", "gelu(c)", "tanh(sigmoid(1 + a + b*c))", "troot(1 + d)",
    )
]  # fmt: skip
ALPHAS: dict[Feature, np.ndarray | None] = {
    Feature("sigmoid(1 + a + b*c)"): np.array([0.3, -1.2, 0.7]), Feature("troot(1 + d)"): None
}  # fmt: skip


@given(
    st.integers(0, 10_000), st.lists(st.sampled_from(FEATURES), unique=True, min_size=1), st.integers(1, 700),
    st.sampled_from([64, 128, 512]), st.booleans(),
)  # fmt: skip
@settings(max_examples=60)
def test_sums_have_a_plain_twin(seed: int, features: list[Feature], m: int, step: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(5, m)) * [[1.0], [3.0], [0.2], [1.0], [2.0]] + [[0.0], [50.0], [0.0], [-2.0], [1e4]]
    root = np.sqrt(rng.integers(1, 4, m)) if weighted else np.zeros(0)
    k = len(features) + 1
    every = rng.permutation(k)
    left = np.sort(every[: rng.integers(0, k + 1)])
    pairs = ((left, np.unique([*left, *every[: rng.integers(1, k + 1)]])), *everything(k))
    program, groups = program_of(features, NAMES, ALPHAS), programs._ordered(pairs)
    sums = new_sums(program, groups)
    cut = int(rng.integers(0, m + 1))
    for part in (slice(cut), slice(cut, None)):
        sum_moments(np.ascontiguousarray(values[:, part]), root[part], step, program, groups, sums)
    plain = sum_moments_plain(values, root, program, groups)
    assert sums.n[0] == pytest.approx(plain.n[0], rel=1e-14)
    columns = columns_plain(values, program)
    size, spread = np.abs(columns).max(axis=1), np.sqrt(plain.squares)
    # What rounding makes of the values, of their deviations, and of sums of these.
    np.testing.assert_array_less(
        np.abs(sums.mean - plain.mean)[np.isfinite(size)], (20 * EPS * size + 1e-300)[np.isfinite(size)]
    )
    slack = 40.0 * EPS * np.sqrt(sums.n[0]) * (np.outer(size, spread) + np.outer(spread, size)) + 1e-30 * sums.n[0]
    one = CompiledMoments(program, pairs)(Block(values, root**2 if weighted else None, 0))
    for g, (first, second) in enumerate(pairs):
        z = columns - plain.mean[:, None]
        exact = (z[first] * (root**2 if weighted else 1.0)) @ z[second].T
        room = slack[np.ix_(first, second)]
        fine = np.isfinite(room)
        assert (np.abs(one.cross[g] - exact)[fine] <= room[fine]).all()
        assert not np.isfinite(one.cross[g][~fine]).any()
        place = slice(groups.place[g], groups.place[g + 1])
        ours, twin = sums.cross[place], plain.cross[place]
        assert (np.isfinite(ours) == np.isfinite(twin)).all()


@given(st.integers(0, 10_000), st.lists(st.sampled_from(FEATURES), unique=True, min_size=1))
@settings(max_examples=20)
def test_programs_make_the_columns_of_features(seed: int, features: list[Feature]) -> None:
    values = np.random.default_rng(seed).normal(size=(5, 30))
    columns = FeatureColumns(tuple(features), NAMES, ALPHAS)(values)
    np.testing.assert_allclose(columns_plain(values, program_of(features, NAMES, ALPHAS)), columns, rtol=1e-13)


def test_what_features_share_is_computed_once() -> None:
    features = [Feature(text) for text in ("exp_abs(sin(a*b))", "sin(a*b)", "c*sin(a*b)", "a*b")]
    program = program_of(features, NAMES, {})
    # Loads of a, b, c and the response, two products, and two transforms.
    assert len(program.instruction) == 4 + 2 + 2 and program.width == len(features) + 1 + 3


def test_sums_of_blocks_with_and_without_rows_merge() -> None:
    values = np.random.default_rng(3).normal(size=(3, 50)) + [[1e6], [0.0], [-3.0]]
    call = CompiledMoments(loads([2, 0, 1]), everything(3))
    none = call(Block(values[:, :0], None, 0))
    assert none.rows == 0 and none.n == 0.0
    whole, plain = call(Block(values, None, 0)), Moments.of(values[[2, 0, 1]], None, everything(3))
    for found in (
        none.merged(whole),
        whole.merged(none),
        call(Block(values[:, :7], None, 0)).merged(call(Block(values[:, 7:], None, 1))),
    ):
        np.testing.assert_allclose(found.mean, plain.mean, rtol=1e-14)
        np.testing.assert_allclose(found.cross[0], plain.cross[0], rtol=1e-9)
        assert found.rows == 50


def test_transforms_that_users_added_are_not_compiled() -> None:
    transforms.add("cubed_here", lambda x: x**3)
    try:
        assert is_compiled([Feature("sin(a)"), Feature("a")])
        assert not is_compiled([Feature("sin(a)"), Feature("b*sin(cubed_here(a))")])
    finally:
        transforms.remove("cubed_here")
