"""What has to be measured in a process of its own: ``python -m bench.child TASK ...`` prints one line of JSON.

- ``first-fit ALGORITHM FOLDER``: import from that folder, first fit, and the same fit again.
- ``long ROWS``: resident memory before a logistic problem is built and a model fitted, and at most during it.
- ``memory TERMS ROWS``: resident memory before a fit and at most during it.
- ``chunks FILE REPETITIONS``: fits to a Parquet file in chunks, and reading it as often.
- ``work enumerate|sample SIZE``: a piece of work whose instructions are counted from outside.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from bench.measure import Missing, now

ROOT = Path(__file__).resolve().parent.parent
_TIMEOUT = 1800


def run_child(*arguments: object, env: dict[str, str] | None = None) -> dict[str, float]:
    """Run a task in a new process and read its figures."""
    command = [sys.executable, "-m", "bench.child", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env, timeout=_TIMEOUT)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Missing(f"the measurement {' '.join(map(str, arguments))} failed: {reason}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def first_fit(algorithm: str, folder: str) -> dict[str, float]:
    """CPU and wall seconds of the import, of the first fit, and of the same fit again."""
    start = now()
    import modejump

    if not Path(modejump.__file__).resolve().is_relative_to(Path(folder).resolve()):
        raise SystemExit("the package was not imported from the folder that is measured")
    estimator = modejump.BGLMRegressor
    imported = now()
    import numpy as np

    rng = np.random.default_rng(1)
    x = rng.standard_normal((100, 10))
    y = x[:, :3].sum(axis=1) + rng.standard_normal(100)
    budget = None if algorithm == "enumerate" else modejump.Budget(steps=20_000)
    figures = {"import_cpu": (imported - start).cpu, "import_wall": (imported - start).wall}
    for name in ("first", "again"):
        begun = now()
        estimator(algorithm=algorithm, budget=budget, random_state=1, progress=False).fit(x, y)
        took = now() - begun
        figures |= {f"{name}_cpu": took.cpu, f"{name}_wall": took.wall}
    return figures


def resident(mark: str) -> float:
    """Resident memory of this process in bytes: now ("VmRSS") or at most since the start or a reset ("VmHWM").

    Linux carries ``ru_maxrss`` over from the process that started this one; the marks in ``/proc`` are our own.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{mark}:"):
                return float(line.split()[1]) * 1024
    from resource import RUSAGE_SELF, getrusage

    # The unit is a kilobyte, on macOS a byte.
    return float(getrusage(RUSAGE_SELF).ru_maxrss) * (1 if sys.platform == "darwin" else 1024)


def reset_mark() -> None:
    """Let the high-water mark start from what is resident now, where the system offers that."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def memory(terms: int, rows: int) -> dict[str, float]:
    """Resident memory, in bytes, before a fit and at most during it; the kernels are loaded before."""
    import modejump
    from bench.problems import wide

    model = modejump.BGLMRegressor(
        algorithm="mjmcmc",
        model_prior=modejump.BetaBinomialPrior(1.0, float(terms)),
        budget=modejump.Budget(steps=20_000),
        random_state=1,
        progress=False,
    )
    small = wide(12, 100)
    model.fit(small.x, small.y)
    case = wide(terms, rows)
    reset_mark()
    before = resident("VmRSS")
    begun = now()
    model.fit(case.x, case.y)
    took = now() - begun
    after = resident("VmHWM")
    return {"table": case.x.nbytes, "before": before, "after": after, "cpu": took.cpu, "wall": took.wall}


def long(rows: int) -> dict[str, float]:
    """Resident memory, in bytes, before a logistic problem is built and its largest model fitted, and at most then."""
    from bench.large import table
    from modejump.likelihoods.columns import fit_columns
    from modejump.likelihoods.glm.newton import new_glm_work
    from modejump.problem.problem import Problem

    def fit(x, y) -> None:  # type: ignore[no-untyped-def]
        data = Problem.build(x, y, family="binomial", coef_prior="bic").data
        p = x.shape[1]
        fit_columns(data.glm, new_glm_work(data.glm, p), data.first[:p].copy(), data.coef_prior, data.n)

    fit(*table(1000))
    x, y = table(rows)
    reset_mark()
    before = resident("VmRSS")
    fit(x, y)
    return {"table": x.nbytes, "before": before, "after": resident("VmHWM")}


def work(kind: str, size: int) -> dict[str, float]:
    """All models of ``size`` terms, or ``size`` steps at 20 terms."""
    from bench.adapters.ours import Ours
    from bench.problems import gauss

    if kind == "enumerate":
        return {"count": Ours().enumerate(gauss(size)).models}
    # Without warm-up, whose length would change with the size.
    return {"count": Ours().sample(gauss(), size, seed=1, warmup=0).steps}


def main(arguments: list[str]) -> None:
    """Run the task that the arguments name."""
    task, *rest = arguments
    if task == "first-fit":
        figures = first_fit(rest[0], rest[1])
    elif task == "memory":
        figures = memory(int(rest[0]), int(rest[1]))
    elif task == "chunks":
        from bench.chunked import measure

        figures = measure(rest[0], int(rest[1]))
    elif task == "long":
        figures = long(int(rest[0]))
    else:
        figures = work(rest[0], int(rest[1]))
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1:])
