"""Rows that are read in chunks: the same posteriors as in memory, in bounded memory, from files that may be hostile."""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import modejump
from modejump import BGLMRegressor, BGNLMRegressor, Budget, InputError
from modejump.cli import main
from modejump.commands.fit import show
from modejump.core.errors import InterruptedRun
from modejump.data.moments import Block, Digest, Moments, Sample
from modejump.data.sources import Source, is_source, scan_dask
from modejump.problem.fingerprint import fingerprints
from modejump.problem.problem import Problem
from modejump.problem.products import least_resid

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

NAMES = ["a", "b", "c", "d", "e", "f"]
# Sums of a few hundred rounded products of order one: what is called equal to rounding.
ROUNDING = 1e-11


class Counted:
    """A table in chunks that counts how often it is read."""

    def __init__(self, frame: pd.DataFrame, rows: int) -> None:
        self.frame, self.rows, self.passes = frame, rows, 0

    def __call__(self) -> Iterator[np.ndarray]:
        self.passes += 1
        table = self.frame.to_numpy(np.float64)
        return (table[i : i + self.rows] for i in range(0, len(table), self.rows))

    @property
    def source(self) -> Source:
        return modejump.scan_chunks(self, list(self.frame.columns))


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Columns of very different size and level, whole weights with zeros among them."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(900, 6)) * [1.0, 1e5, 1e-4, 1.0, 1.0, 3.0] + [0.0, 1e7, 0.0, 50.0, 0.0, 0.0]
    x[:, 5] += 0.5 * x[:, 4]
    y = 0.3 * x[:, 0] + 0.2 * x[:, 3] + 0.1 * x[:, 5] + rng.normal(size=900)
    return pd.DataFrame(x, columns=NAMES).assign(y=y, w=rng.integers(0, 3, 900).astype(float))


def assert_same(one: BGLMRegressor, two: BGLMRegressor, new: pd.DataFrame) -> None:
    """The same posterior and predictions to rounding."""
    assert list(one.inclusion_.index) == list(two.inclusion_.index)
    np.testing.assert_allclose(two.inclusion_["probability"], one.inclusion_["probability"], rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(two.models_["log_posterior"], one.models_["log_posterior"], rtol=1e-12, atol=ROUNDING)
    ours, theirs = one.predict(new, interval=0.9), two.predict(new, interval=0.9)
    # The ends of an interval are the roots of an equation, found to eight digits.
    np.testing.assert_allclose(theirs, ours, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(two.coefficients(), one.coefficients(), rtol=1e-8, atol=1e-8)


# What is summed up.


@given(st.integers(0, 10_000), st.integers(1, 5), st.lists(st.integers(0, 60), min_size=1, max_size=6), st.booleans())
@settings(max_examples=40)
def test_moments_do_not_depend_on_the_chunks(seed: int, k: int, sizes: list[int], weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    n = sum(sizes) + 2
    x = rng.normal(size=(k, n)) * 10.0 ** rng.integers(-6, 6, (k, 1)) + 10.0 ** rng.integers(-3, 9, (k, 1))
    w = rng.integers(1, 4, n).astype(float) if weighted else None
    cuts = np.cumsum([0, *sizes, 2])
    parts = [Moments.of(x[:, a:b], None if w is None else w[a:b]) for a, b in zip(cuts[:-1], cuts[1:]) if b > a]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merged(part)
    weight = np.ones(n) if w is None else w
    exact = np.asarray(x, np.longdouble)
    mean = (exact * weight).sum(axis=1) / weight.sum()
    z = (exact - mean[:, None]) * np.sqrt(weight.astype(np.longdouble))
    size = np.abs(x).max(axis=1)
    assert (np.abs(merged.mean - mean.astype(float)) <= 1e-14 * size).all()
    # Deviations are rounded at the size of the values; products of two of them accordingly.
    spread = np.sqrt((z**2).sum(axis=1)).astype(float)
    slack = 1e-15 * n * (np.outer(size, spread) + np.outer(spread, size) + np.outer(spread, spread))
    assert (np.abs(merged.cross - (z @ z.T).astype(float)) <= slack + 1e-30 * np.outer(size, size) * n).all()
    np.testing.assert_array_equal(merged.rows, n)


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 50))
@settings(max_examples=30)
def test_digest_knows_neither_order_nor_chunks_and_counts_rows(seed: int, k: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(k, n))
    x[rng.random((k, n)) < 0.2] = -0.0
    times = rng.integers(1, 5, n)
    order = rng.permutation(n)
    cut = int(rng.integers(0, n + 1))
    first, second = (
        Digest.of(x[:, order[rows]], times[order[rows]].astype(float)) for rows in (slice(cut), slice(cut, None))
    )
    whole = first.merged(second).text
    assert whole == Digest.of(np.repeat(np.abs(x) * np.sign(x), times, axis=1), None).text
    other = x.copy()
    other[0, 0] = np.nextafter(other[0, 0], np.inf)
    assert Digest.of(other, times.astype(float)).text != whole
    assert Digest.of(x, times + 0.5).text not in (whole, Digest.of(x, times + 0.25).text)


def test_digest_is_that_of_its_definition() -> None:
    def scrambled(z: int) -> int:
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = ((z ^ (z >> shift)) * factor) % 2**64
        return z ^ (z >> 31)

    x = np.random.default_rng(1).normal(size=(3, 20))
    sums = [0, 0]
    for row in x.view(np.uint64).T.tolist():
        first = scrambled(sum(bits * (scrambled(j + 1) | 1) for j, bits in enumerate(row)) % 2**64)
        sums = [sums[0] + first, sums[1] + scrambled((first + 0x9E3779B97F4A7C15) % 2**64)]
    assert Digest.of(x, None).text == "".join(f"{total % 2**64:016x}" for total in sums)


def test_sample_depends_on_seed_and_chunks_alone() -> None:
    rng = np.random.default_rng(1)
    blocks = [Block(rng.normal(size=(3, 40)), rng.uniform(1.0, 2.0, 40), i) for i in range(4)]
    one, two, three, four = (Sample.of(block, 10, 7) for block in blocks)
    left, tree = one.merged(two).merged(three).merged(four), one.merged(two).merged(three.merged(four))
    assert left.rows.shape == (4, 10) and (np.sort(left.ticket) == np.sort(tree.ticket)).all()
    assert {tuple(row) for row in left.rows.T} == {tuple(row) for row in tree.rows.T}
    table = {tuple(row) for block in blocks for row in np.vstack([block.values, block.weight]).T}
    assert {tuple(row) for row in left.rows.T} <= table
    assert set(Sample.of(blocks[0], 10, 8).ticket) != set(one.ticket)
    assert Sample.of(blocks[0], 100, 7).rows.shape == (4, 40)


def test_every_row_is_drawn_equally_often() -> None:
    # Chunks of different length, and a sample that some of them cannot fill.
    sizes, size, seeds = (3, 40, 1, 16), 12, 4000
    starts = np.cumsum([0, *sizes])
    count = np.zeros(starts[-1])
    for seed in range(seeds):
        parts = [
            Sample.of(Block(np.arange(a, b, dtype=float)[None], None, i), size, seed)
            for i, (a, b) in enumerate(zip(starts[:-1], starts[1:], strict=True))
        ]
        merged = parts[0].merged(parts[1]).merged(parts[2]).merged(parts[3])
        count[merged.rows[0].astype(int)] += 1
    share = size / starts[-1]
    # Draws without replacement are a little less variable than binomial ones.
    z = (count - seeds * share) / np.sqrt(seeds * share * (1.0 - share))
    assert np.abs(z).max() < 4.0 and 0.5 < z.var() < 2.0


def test_least_residual_share_passes_over_dependent_columns() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(50, 3))
    x = np.column_stack([x, x[:, 0] + x[:, 1]])
    x = (x - x.mean(axis=0)) / np.linalg.norm(x - x.mean(axis=0), axis=0)
    y = x[:, :3] @ [1.0, 2.0, 3.0] + 0.01 * rng.normal(size=50)
    y = (y - y.mean()) / np.linalg.norm(y - y.mean())
    rss = ((y - x @ np.linalg.lstsq(x, y, rcond=None)[0]) ** 2).sum()
    assert least_resid(x.T @ x, x.T @ y) == pytest.approx(rss, abs=1e-13)


# Selection among columns.


@pytest.mark.parametrize("prior", ["g", "jzs"])
@pytest.mark.parametrize("always_in", [(), ("d", "b")])
@pytest.mark.parametrize("noise", [1.0, 0.0])
def test_selection_is_that_in_memory(frame: pd.DataFrame, prior: str, always_in: tuple[str, ...], noise: float) -> None:
    exact = 0.3 * frame["a"] + 0.2 * frame["d"]
    data = frame.assign(y=exact + noise * (frame["y"] - exact))
    model = BGLMRegressor(coef_prior=prior, always_in=always_in, groups={"ef": ["e", "f"]})
    whole = BGLMRegressor(**model.get_params()).fit(data[NAMES], data["y"], data["w"])
    for rows in (1000, 37):
        chunks = Counted(data, rows)
        model.fit(chunks.source, "y", "w")
        assert chunks.passes == 1 + (len(always_in) > 0) + (noise == 0.0)
        assert_same(whole, model, data[NAMES])
        np.testing.assert_allclose(model.predict(chunks.source), model.predict(data[NAMES]), rtol=1e-13)
        assert model.score(chunks.source, "y") == pytest.approx(model.score(data[NAMES], data["y"]), abs=1e-13)
    assert fingerprints(model.problem_) == fingerprints(whole.problem_)


@pytest.mark.filterwarnings("ignore::modejump.ModejumpWarning")
def test_sampling_takes_the_same_path(frame: pd.DataFrame) -> None:
    options = {"algorithm": "mjmcmc", "budget": Budget(steps=2000), "chains": 2, "random_state": 5}
    whole = BGLMRegressor(**options).fit(frame[NAMES], frame["y"])
    model = BGLMRegressor(**options).fit(Counted(frame.drop(columns="w"), 100).source, "y")
    np.testing.assert_array_equal(model.posterior_.result.batch_means, whole.posterior_.result.batch_means)


def test_a_column_far_from_zero_in_the_first_chunk_does_not_cancel() -> None:
    rng = np.random.default_rng(4)
    x = np.concatenate([np.zeros(50), 1e9 + rng.normal(size=950)])
    frame = pd.DataFrame({"a": x, "b": rng.normal(size=1000)}).assign(y=lambda t: t["b"] + rng.normal(size=1000))
    whole = BGLMRegressor().fit(frame[["a", "b"]], frame["y"])
    model = BGLMRegressor().fit(Counted(frame, 50).source, "y")
    np.testing.assert_allclose(model.models_["log_posterior"], whole.models_["log_posterior"], atol=1e-9)


def test_constant_columns_are_named(frame: pd.DataFrame) -> None:
    with pytest.warns(modejump.ModejumpWarning, match="'k': constant"):
        model = BGLMRegressor().fit(Counted(frame.assign(k=1e8), 100).source, "y", "w")
    assert model.inclusion_["probability"]["k"] == 0.0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t.assign(a=t["a"].where(t.index != 250)), r"column 'a' is NaN or missing in row 50 of chunk 2"),
        (lambda t: t.assign(a=t["a"].where(t.index != 250, np.inf)), "column 'a' is infinite"),
        (lambda t: t.assign(w=t["w"].where(t.index != 250, -1.0)), "weights 'w' are negative in chunk 2"),
        (lambda t: t.assign(y=3.0), "y is constant"),
        (lambda t: t.iloc[:1].assign(w=1.0), "at least 2"),
        (lambda t: t.iloc[:0], "no rows"),
        (lambda t: t.assign(y=t["d"] * 2.0), "fit y perfectly"),
        (lambda t: t.assign(b=2.0 * t["d"] + 1.0), "linearly dependent"),
    ],
)
def test_bad_rows_are_refused_in_a_sentence(
    frame: pd.DataFrame, change: Callable[[pd.DataFrame], pd.DataFrame], sentence: str
) -> None:
    always_in = ("d", "b") if "dependent" in sentence else ("d",)
    with pytest.raises(InputError, match=sentence):
        BGLMRegressor(always_in=always_in).fit(Counted(change(frame), 100).source, "y", "w")


def test_what_chunks_cannot_do_is_refused(frame: pd.DataFrame, tmp_path: Path) -> None:
    source = Counted(frame, 100).source
    for model, call, sentence in [
        (BGLMRegressor(family="poisson"), {"y": "y"}, "need family 'gaussian'"),
        (modejump.BGLMClassifier(), {"y": "y"}, "need family 'gaussian'"),
        (BGLMRegressor(), {"y": frame["y"]}, "must be the name of a column"),
        (BGLMRegressor(), {"y": None}, "name of the response's column"),
        (BGLMRegressor(), {"y": "why"}, "'why' is not a column"),
        (BGLMRegressor(), {"y": "y", "sample_weight": "v"}, "'v' is not a column"),
        (BGLMRegressor(), {"y": "y", "offset": frame["a"]}, "offset"),
        (BGNLMRegressor(algorithm="rgmjmcmc"), {"y": "y"}, "'rgmjmcmc' needs the rows in memory"),
        (BGNLMRegressor(algorithm="mjmcmc"), {"y": "y"}, "selects among given terms"),
    ]:
        with pytest.raises(InputError, match=sentence):
            model.fit(source, **call)
    with pytest.raises(InputError, match="a run directory keeps the rows, and these are read in chunks"):
        modejump.Run(tmp_path / "run").fit(BGLMRegressor(), source, "y")
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match="names were given"):
        BGLMRegressor().fit(modejump.scan_chunks(lambda: [np.zeros((5, 3))], ["a", "y"]), "y")
    with pytest.raises(InputError, match="no table of numbers"):
        BGLMRegressor().fit(modejump.scan_chunks(lambda: [np.array([["a", "b"]])], ["a", "y"]), "y")
    with pytest.raises(InputError, match="needs a function"):
        modejump.scan_chunks([np.zeros((5, 2))], ["a", "y"])
    with pytest.raises(InputError, match="same name"):
        modejump.scan_chunks(lambda: [], ["a", "a"])


# Files and frames.


@pytest.fixture
def files(frame: pd.DataFrame, tmp_path: Path) -> Path:
    """The table in three Parquet files of a directory, with whole numbers, short floats and truth values in it."""
    data = frame.assign(n=np.arange(900) % 7, s=frame["a"].astype(np.float32), t=frame["b"] > 1e7)
    folder = tmp_path / "parts"
    folder.mkdir()
    for i in range(3):
        data.iloc[300 * i : 300 * (i + 1)].to_parquet(folder / f"{i}.parquet", row_group_size=70)
    return folder


def test_parquet_files_and_directories(frame: pd.DataFrame, files: Path) -> None:
    data = pd.read_parquet(files)
    covariates = [name for name in data.columns if name not in ("y", "w")]
    whole = BGLMRegressor().fit(data[covariates].astype(float), data["y"], data["w"])
    for path in (files, sorted(files.iterdir())):
        model = BGLMRegressor().fit(modejump.scan_parquet(path, rows=64), "y", "w")
        assert_same(whole, model, data[covariates].astype(float))
    some = modejump.scan_parquet(files, columns=["a", "n", "y"])
    assert some.names == ("a", "n", "y") and is_source(some)
    assert BGLMRegressor().fit(some, "y").feature_names_in_.tolist() == ["a", "n"]


def test_hostile_files_are_refused_in_a_sentence(frame: pd.DataFrame, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return (os.system, (f"touch {tmp_path / 'sprung'}",))

    whole = tmp_path / "whole.parquet"
    frame.to_parquet(whole)
    blob = whole.read_bytes()
    cases = {
        "pickle": pickle.dumps(Trap()),
        "empty": b"",
        "short": blob[: len(blob) // 2],
        "noise": b"PAR1" + np.random.default_rng(1).bytes(2000) + b"PAR1",
    }
    for name, content in cases.items():
        path = tmp_path / f"{name}.parquet"
        path.write_bytes(content)
        with pytest.raises(InputError, match="cannot be read as Parquet"):
            modejump.scan_parquet(path)
    # Damage inside the pages is met when they are read.
    middle = bytearray(blob)
    middle[100 : len(blob) // 3] = np.random.default_rng(2).bytes(len(blob) // 3 - 100)
    (tmp_path / "middle.parquet").write_bytes(bytes(middle))
    with pytest.raises(InputError):
        BGLMRegressor().fit(modejump.scan_parquet(tmp_path / "middle.parquet"), "y")
    assert not (tmp_path / "sprung").exists()


def test_parquet_files_that_do_not_fit_are_refused(frame: pd.DataFrame, files: Path, tmp_path: Path) -> None:
    frame.assign(t="text").to_parquet(tmp_path / "text.parquet")
    with pytest.raises(InputError, match="'t' does not hold numbers"):
        BGLMRegressor().fit(modejump.scan_parquet(tmp_path / "text.parquet"), "y")
    with pytest.raises(InputError, match="does not hold numbers"):
        modejump.scan_parquet(tmp_path / "text.parquet", columns=["t", "y"])
    assert BGLMRegressor().fit(modejump.scan_parquet(tmp_path / "text.parquet", columns=["a", "y"]), "y")
    frame.drop(columns="a").to_parquet(files / "3.parquet")
    with pytest.raises(InputError, match="has no column 'a'"):
        BGLMRegressor().fit(modejump.scan_parquet(files), "y", "w")
    frame.assign(a=frame["a"].where(frame.index > 3)).to_parquet(tmp_path / "gaps.parquet")
    with pytest.raises(InputError, match="column 'a' is NaN or missing in row 0 of chunk 0"):
        BGLMRegressor().fit(modejump.scan_parquet(tmp_path / "gaps.parquet"), "y")
    (tmp_path / "nothing").mkdir()
    for bad, sentence in [
        (tmp_path / "none.parquet", "does not exist"),
        (tmp_path / "nothing", "holds no Parquet file"),
        ([], "no file"),
    ]:
        with pytest.raises(InputError, match=sentence):
            modejump.scan_parquet(bad)
    with pytest.raises(InputError, match="whole number"):
        modejump.scan_parquet(files, rows=0)


def test_folders_of_parts_give_their_column(frame: pd.DataFrame, tmp_path: Path, monkeypatch) -> None:
    data = frame.assign(group=np.arange(900) % 3)[["a", "b", "y", "group"]]
    data["y"] += data["group"]
    folder = tmp_path / "parts"
    for value, part in data.groupby("group"):
        (folder / f"group={value}").mkdir(parents=True)
        part.drop(columns="group").to_parquet(folder / f"group={value}" / "0.parquet")
    # What others left while they were writing is no part of the table.
    for hidden in ("_temporary", ".trash"):
        (folder / hidden).mkdir()
        data.to_parquet(folder / hidden / "0.parquet")
    source = modejump.scan_parquet(folder)
    assert source.names == ("a", "b", "y", "group")
    model = BGLMRegressor().fit(source, "y")
    assert_same(BGLMRegressor().fit(data[["a", "b", "group"]], data["y"]), model, data[["a", "b", "group"]])
    assert modejump.scan_parquet(folder, columns=["a", "y"]).names == ("a", "y")
    np.testing.assert_array_equal(
        np.concatenate([*source.chunks(["group"])], axis=1)[0], np.repeat([0.0, 1.0, 2.0], 300)
    )
    (folder / "group=0").rename(folder / "group=none")
    with pytest.raises(InputError, match="'group' does not hold numbers"):
        BGLMRegressor().fit(modejump.scan_parquet(folder), "y")
    monkeypatch.chdir(tmp_path)
    assert main("fit parts --target y --drop group --quiet --out run".split()) == 0
    (folder / "group=none").rename(folder / "group=__HIVE_DEFAULT_PARTITION__")
    with pytest.raises(InputError, match="'group' is NaN or missing"):
        BGLMRegressor().fit(modejump.scan_parquet(folder), "y")


def test_labels_of_rows_are_no_covariates(frame: pd.DataFrame, tmp_path: Path) -> None:
    data = frame[["a", "b", "y"]][frame["a"] > 0]
    for name, saved in {"plain": data, "named": data.assign(id=np.arange(len(data)) ** 2).set_index("id")}.items():
        saved.to_parquet(tmp_path / f"{name}.parquet")
        source = modejump.scan_parquet(tmp_path / f"{name}.parquet")
        assert source.names == tuple(pd.read_parquet(tmp_path / f"{name}.parquet").columns)
        assert_same(
            BGLMRegressor().fit(data[["a", "b"]], data["y"]), BGLMRegressor().fit(source, "y"), data[["a", "b"]]
        )
    assert modejump.scan_parquet(tmp_path / "named.parquet", columns=["id", "y"]).names == ("id", "y")
    table = pq.read_table(tmp_path / "plain.parquet")
    for strange in (b"{", b"[]", b'{"index_columns": 3}'):
        pq.write_table(table.replace_schema_metadata({b"pandas": strange}), tmp_path / "strange.parquet")
        assert len(modejump.scan_parquet(tmp_path / "strange.parquet").names) == 4


@pytest.mark.parametrize(
    ("name", "value"), [("family", "poisson"), ("factors", "a"), ("formula", "y~a"), ("offset", "a")]
)
def test_directories_and_what_needs_the_rows_in_memory(name: str, value: str, files: Path, capsys) -> None:
    assert main(["fit", str(files), "--target", "y", f"--{name}", value]) == 2
    said = f"--{name} poisson does" if name == "family" else f"--{name} does"
    assert f"{said} not go with a directory of Parquet files" in capsys.readouterr().err


def test_new_rows_that_are_none_are_refused(frame: pd.DataFrame, tmp_path: Path) -> None:
    model = BGLMRegressor().fit(frame[NAMES], frame["y"])
    frame.iloc[:0].to_parquet(tmp_path / "none.parquet")
    for call in (
        lambda source: model.predict(source),
        lambda source: model.predict(source, interval=0.9),
        lambda source: model.score(source, "y"),
    ):
        with pytest.raises(InputError, match="no rows"):
            call(modejump.scan_parquet(tmp_path / "none.parquet"))


def test_chunks_that_are_frames_are_read_by_name(frame: pd.DataFrame) -> None:
    whole = BGLMRegressor().fit(frame[NAMES], frame["y"])
    turned = frame[[*NAMES, "y"]].iloc[:, ::-1]
    source = modejump.scan_chunks(lambda: [turned.iloc[:400], turned.iloc[400:, ::-1]], [*NAMES, "y"])
    assert_same(whole, BGLMRegressor().fit(source, "y"), frame[NAMES])
    # Names of the user's own are given in the order of the columns.
    other = frame[[*NAMES, "y"]].rename(columns=str.upper)
    assert_same(whole, BGLMRegressor().fit(modejump.scan_chunks(lambda: [other], [*NAMES, "y"]), "y"), frame[NAMES])


@pytest.mark.filterwarnings("ignore::modejump.ModejumpWarning")
def test_dask_frames_are_summed_where_they_are(frame: pd.DataFrame) -> None:
    dask = pytest.importorskip("dask", reason="dask is not installed")
    dd = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    lazy = dd.from_pandas(frame, npartitions=7)
    whole = BGLMRegressor().fit(frame[NAMES], frame["y"], frame["w"])
    with dask.config.set(scheduler="threads"):
        model = BGLMRegressor().fit(lazy, "y", "w")
        assert_same(whole, model, frame[NAMES])
        np.testing.assert_allclose(model.predict(lazy), model.predict(frame[NAMES]), rtol=1e-13)
        options = {"chains": 2, "budget": Budget(warmup=900, steps=1000), "random_state": 1, "transforms": "G1"}
        laws = BGNLMRegressor(**options).fit(lazy, "y", "w")
    # The same chunks in the same order, by other means.
    parts = [lazy.get_partition(i).compute().to_numpy() for i in range(7)]
    again = BGNLMRegressor(**options).fit(modejump.scan_chunks(lambda: parts, list(frame.columns)), "y", "w")
    assert laws.laws_.features == again.laws_.features
    np.testing.assert_allclose(laws.inclusion_["probability"], again.inclusion_["probability"], atol=ROUNDING)
    assert fingerprints(model.problem_) == fingerprints(whole.problem_)
    with pytest.raises(InputError, match="does not hold numbers"):
        BGLMRegressor().fit(lazy.assign(t="text"), "y")
    with pytest.raises(InputError, match="needs a data frame of Dask"):
        scan_dask(frame)
    with pytest.raises(InputError, match="two columns of the same name"):
        BGLMRegressor().fit(dd.from_pandas(pd.concat([frame, frame[["a"]]], axis=1), npartitions=2), "y")


# The command line.


def test_the_shell_reads_parquet_in_chunks(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = tmp_path / "one.parquet"
    pd.read_parquet(files).to_parquet(one)
    for i, data in enumerate((files, one)):
        asked = ["fit", str(data), "--target", "y", "--weights", "w", "--drop", "t", "--out", str(tmp_path / f"run{i}")]
        assert main([*asked, "--chunked", "--quiet"]) == 0
    runs = [modejump.load(tmp_path / f"run{i}") for i in (0, 1)]
    np.testing.assert_allclose(runs[0].inclusion_["probability"], runs[1].inclusion_["probability"], atol=ROUNDING)
    for new, out in ((files, "a.csv"), (one, "b.csv")):
        assert main(["predict", str(tmp_path / "run0"), str(new), "--interval", "0.9", "-o", str(tmp_path / out)]) == 0
    capsys.readouterr()
    np.testing.assert_allclose(pd.read_csv(tmp_path / "a.csv"), pd.read_csv(tmp_path / "b.csv"), rtol=1e-12)
    assert main(["predict", str(tmp_path / "run0"), str(files)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 901
    for more, sentence in [
        (["--formula", "y ~ a"], "--formula does not go with --chunked"),
        (["--drop", "zz"], "'zz' is not a column"),
        (["--transforms", "sin", "--algorithm", "rgmjmcmc"], "rgmjmcmc"),
        (["--out", str(tmp_path / "run2"), "--checkpoint", "5"], "--checkpoint does not go with rows that are read"),
    ]:
        assert main(["fit", str(one), "--target", "y", "--chunked", *more]) == 2
        assert sentence in capsys.readouterr().err
    assert main(["fit", str(tmp_path / "a.csv"), "--target", "mean", "--chunked"]) == 2
    assert "reads Parquet" in capsys.readouterr().err
    assert main(["fit", str(one), "--chunked"]) == 2
    assert "give --target" in capsys.readouterr().err
    monkeypatch.setattr("modejump.commands.files.IN_MEMORY", 1000)
    assert main(["fit", str(one), "--target", "y", "--quiet", "--transforms", "sin", "--steps", "300"]) == 0
    # Not read whole for the sake of an option that chunks do not have.
    assert main(["fit", str(one), "--target", "y", "--out", str(tmp_path / "run2"), "--checkpoint", "5"]) == 2
    assert "--checkpoint does not go with rows that are read" in capsys.readouterr().err


def test_a_fit_to_chunks_takes_the_place_of_a_run_that_was_ended(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for name in ("job.json", "job-1.npz", "checkpoint.json", "checkpoint-3.npz"):
        (run / name).write_bytes(b"{}")
    asked = ["fit", str(files), "--target", "y", "--weights", "w", "--drop", "t", "--out", str(run)]
    assert main(asked) == 2
    assert "holds an unfinished run" in capsys.readouterr().err
    assert main([*asked, "--force"]) == 0
    assert "The run is stored in" in capsys.readouterr().out
    assert {path.name for path in run.iterdir()} == {"run.json", "run-1.npz", "inclusion.csv", "models.csv"}
    assert main(["resume", str(run)]) == 2
    assert "holds a saved model and no run" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::modejump.ModejumpWarning")
def test_an_interrupted_fit_to_chunks_promises_no_resumption(
    frame: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = BGLMRegressor(algorithm="mjmcmc", budget=Budget(steps=2000), random_state=1)
    model.fit(Counted(frame, 100).source, "y")
    result = dataclasses.replace(model.posterior_.result, finished=False)
    model.posterior_ = dataclasses.replace(model.posterior_, result=result)
    modejump.Run(tmp_path / "run").store(model)
    with pytest.raises(InterruptedRun) as told:
        show(model, [], "y", tmp_path / "run", quiet=False)
    assert str(told.value) == "interrupted."
    out = " ".join(capsys.readouterr().out.split())
    assert "Partial results are in" in out and "resume" not in out


MEMORY = """
import sys, warnings
import modejump
from modejump import BGLMRegressor, BGNLMRegressor, Budget
import numpy as np
warnings.simplefilter("ignore")
tiny = lambda: [np.random.default_rng(1).normal(size=(9000, 11))]
names = [f"x{j}" for j in range(10)] + ["y"]
def fit(source):
    if sys.argv[2] == "selection":
        return BGLMRegressor().fit(source, "y")
    return BGNLMRegressor(chains=1, budget=Budget(warmup=300, steps=300), random_state=1).fit(source, "y")
fit(modejump.scan_chunks(tiny, names))
import pyarrow.parquet
status = lambda mark: next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(mark))
before = status("VmRSS")
model = fit(modejump.scan_parquet(sys.argv[1], rows=65536))
print(before, status("VmHWM"), model.problem_.rows)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system has no /proc to read memory from")
@pytest.mark.parametrize(("what", "group"), [("selection", 200_000), ("search", 3_000_000)])
def test_memory_is_bounded_whatever_the_rows(tmp_path: Path, what: str, group: int) -> None:
    rng = np.random.default_rng(1)
    path, rows = tmp_path / "large.parquet", 3_000_000
    block = rng.normal(size=(11, rows // 10))
    table = pa.table({name: block[j] for j, name in enumerate([*(f"x{j}" for j in range(10)), "y"])})
    pq.write_table(pa.concat_tables([table] * 10), path, row_group_size=group)
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(path), what], capture_output=True, text=True, check=True, timeout=300
    )
    before, most, read = map(int, done.stdout.split())
    assert read == rows
    # A few chunks of 6 MB and the libraries' own buffers take 100 MB; the table has 264 MB, in one row group or many.
    assert (most - before) * 1024 < 0.6 * 11 * 8 * rows


def test_problem_without_rows_or_digest_has_no_fingerprint(frame: pd.DataFrame) -> None:
    problem = Problem.build(frame[NAMES].to_numpy(), frame["y"].to_numpy())
    with pytest.raises(InputError, match="holds no rows"):
        fingerprints(dataclasses.replace(problem, observed=None))
