"""Row 13: rows that are read in chunks. Fits to a Parquet file against reading it as often, and their memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.child import reset_mark, resident, run_child
from bench.measure import Line, Missing, Note, Series, now

COVARIATES = 10
# Rows that are drawn at a time.
_PART = 250_000
CHAINS = 4
# Populations and sampling steps of each chain.
POPULATIONS, STEPS = 40, 20_000


def write_table(path: Path, rows: int) -> None:
    """A Parquet file of normal covariates and a response that depends on two of them."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise Missing("rows in chunks are left out: pyarrow is not installed.") from None
    rng = np.random.default_rng(1)
    names = [f"x{j + 1}" for j in range(COVARIATES)]
    schema = pa.schema([(name, pa.float64()) for name in (*names, "y")])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, _PART):
            x = rng.standard_normal((COVARIATES, min(_PART, rows - start)))
            y = 0.3 * x[0] - 0.1 * x[3] + rng.standard_normal(x.shape[1])
            writer.write_table(pa.table([*x, y], schema=schema))


def read_table(path: Path, passes: int) -> float:
    """Wall seconds of reading all columns so many times, batch by batch."""
    from pyarrow.parquet import ParquetFile

    from modejump.data.sources import CHUNK_ROWS

    begun = now()
    for _ in range(passes):
        for batch in ParquetFile(path, pre_buffer=False).iter_batches(batch_size=CHUNK_ROWS):
            assert batch.num_rows
    return (now() - begun).wall


def measure(path: str, repetitions: int) -> dict[str, float]:
    """In a process of its own: reading and fits in turns, after the kernels are loaded; and memory at most."""
    import modejump
    from modejump.data.sources import Source

    class Counted(Source):
        """A source that counts passes."""

        def __init__(self, source: Source) -> None:
            self.source, self.names, self.passes = source, source.names, 0

        def chunks(self, columns):
            self.passes += 1
            return self.source.chunks(columns)

    def selection() -> modejump.BGLMRegressor:
        return modejump.BGLMRegressor(n_jobs=2, progress=False)

    def search() -> modejump.BGNLMRegressor:
        budget = modejump.Budget(warmup=300 * POPULATIONS, steps=STEPS)
        return modejump.BGNLMRegressor(
            chains=CHAINS, budget=budget, random_state=1, n_jobs=2, progress=False,
            transforms=("sin", "troot", "exp_abs"),
        )  # fmt: skip

    few = np.random.default_rng(1).standard_normal((200, COVARIATES + 1))
    names = [*(f"x{j + 1}" for j in range(COVARIATES)), "y"]
    for make in (selection, search):
        make().fit(modejump.scan_chunks(lambda: [few], names), "y")
    figures: dict[str, float] = {}
    for name, make in (("selection", selection), ("search", search)):
        reset_mark()
        for i in range(repetitions):
            source = Counted(modejump.scan_parquet(path))
            begun = now()
            make().fit(source, "y")
            took = now() - begun
            figures |= {f"{name}_{i}": took.wall, f"{name}_cpu_{i}": took.cpu, f"{name}_passes": source.passes}
            figures[f"{name}_read_{i}"] = read_table(Path(path), source.passes)
        figures[f"{name}_memory"] = resident("VmHWM")
    return figures


def lines(row: int, rows: int, repetitions: int) -> Iterator[Line | Note]:
    """Seconds of fits against reading the file as often, and their memory."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = Path(folder) / "table.parquet"
        write_table(path, rows)
        figures = run_child("chunks", path, repetitions)
    for name, what in (("selection", "selection"), ("search", f"search, {CHAINS} chains of {POPULATIONS} populations")):
        ours = Series.of([figures[f"{name}_{i}"] for i in range(repetitions)])
        read = Series.of([figures[f"{name}_read_{i}"] for i in range(repetitions)])
        what = f"{what}, {rows} rows, {figures[f'{name}_passes']:.0f} passes"
        yield Line(row, what, "wall s", ours, read, "reading as often", less=True)
        cpu = Series.of([figures[f"{name}_cpu_{i}"] for i in range(repetitions)]).median
        yield Note(row, f"{name}: {cpu:.1f} CPU s, all memory at most {figures[f'{name}_memory'] / 2**20:.0f} MiB.")
