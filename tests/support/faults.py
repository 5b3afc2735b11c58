"""Faults at random moments: whatever happens to a run, it ends like one left alone, or with one clear sentence.

A script of its own, like `killing`: it compiles once and then forks a process for each part of a run. ``faults.py
FAULTS MINUTES SEED`` does so many faults over all samplers, families and kinds, or as many as fit into the minutes, and
prints a JSON object; status 1 where a fault did harm.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from mortal import outcome
from paper_rules import paper

import modejump
from modejump.runtime import checkpoints

EVERY = 0.002
# A limit on the address space of what resumes: an honest run takes much less than twice of it.
MEMORY = 4 << 30
RNG = np.random.default_rng(11)
X = RNG.uniform(0.5, 3.0, (60, 6))
Y = 2.0 + 5.0 * X[:, 0] * np.sin(X[:, 2]) + 0.5 * RNG.normal(size=60)
CLASSES = np.where(Y > np.median(Y), "yes", "no")
COUNTS = RNG.poisson(np.exp(0.5 * X[:, 0])).astype(float)
# Thirty-two tasks of an enumeration.
WIDE = RNG.normal(size=(60, 21))

COMMON: dict[str, Any] = {"random_state": 5, "progress": False, "n_jobs": 1}
LAWS: dict[str, Any] = COMMON | {"chains": 2, "transforms": ("sin",)} | paper(complexity=3, size=3)


def cases() -> dict[str, tuple[Any, np.ndarray, Any]]:
    """Models that take some tenths of a second each, and their data."""
    budget = modejump.Budget
    return {
        "enumerate": (modejump.BGLMRegressor(algorithm="enumerate", **COMMON), WIDE, Y),
        "mjmcmc": (modejump.BGLMRegressor(algorithm="mjmcmc", budget=budget(steps=100_000), **COMMON), X, Y),
        "mjmcmc binomial": (
            modejump.BGLMClassifier(algorithm="mjmcmc", budget=budget(steps=5_000), **COMMON), X, CLASSES,
        ),
        "mjmcmc poisson": (
            modejump.BGLMRegressor(family="poisson", algorithm="mjmcmc", budget=budget(steps=5_000), **COMMON),
            X, COUNTS,
        ),
        "gmjmcmc": (modejump.BGNLMRegressor(algorithm="gmjmcmc", budget=budget(steps=9_000), **LAWS), X, Y),
        "rgmjmcmc": (modejump.BGNLMRegressor(budget=budget(warmup=3_000, steps=20_000), **LAWS), X, Y),
    }  # fmt: skip


def begin(folder: Path, case: str, shift: float = 0.0) -> None:
    estimator, x, y = cases()[case]
    x = x + shift
    modejump.Run(folder, every=EVERY, force=True).fit(estimator, x, y)


def proceed(folder: Path, case: str) -> None:
    """Resume; where the fault came before the job was written down, there is nothing to resume."""
    if (folder / "job.json").exists() or (folder / "run.json").exists():
        modejump.resume(folder, progress=False)
    else:
        begin(folder, case)


def in_a_process(
    work: Callable[[], None], after: float | None = None, number: int = signal.SIGKILL, full: int = 0
) -> int:
    """Status of a process that does some work: 2 for a clear sentence, 1 for any other error."""
    child = os.fork()
    if child == 0:
        status = 1
        # As the command line has it.
        for name in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, signal.default_int_handler)
        try:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            if full:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (full, full))
            work()
            status = 0
        except (modejump.InputError, OSError) as error:
            status = 1 if "\n" in str(error) else 2
        except KeyboardInterrupt:
            status = 130
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    if after is not None:
        time.sleep(after)
        os.kill(child, number)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and path.stat().st_size)


def flip(folder: Path, rng: np.random.Generator, other: Path) -> None:
    path = rng.choice(np.array(files_of(folder), object))
    content = bytearray(path.read_bytes())
    content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)


def truncate(folder: Path, rng: np.random.Generator, other: Path) -> None:
    path = rng.choice(np.array(files_of(folder), object))
    os.truncate(path, int(rng.integers(path.stat().st_size)))


def swap(folder: Path, rng: np.random.Generator, other: Path) -> None:
    """A file of another run in the place of one of this name."""
    path = rng.choice(np.array(files_of(folder), object))
    twins = [p for p in files_of(other) if p.name.split("-")[0] == path.name.split("-")[0]] or files_of(other)
    shutil.copyfile(twins[0], path)


def link(folder: Path, rng: np.random.Generator, other: Path) -> None:
    """A link to a file of somebody's in the place of a file; also of one that will be written."""
    precious = folder.parent / "precious"
    precious.write_text("precious")
    name = rng.choice([path.name for path in files_of(folder)] + ["lock", "log.txt", "checkpoint.json", "run.json"])
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(precious)


CHANGES = {"bit flip": flip, "truncation": truncate, "swapped file": swap, "link": link}
KINDS = ("kill", "kill", "kill", "kill", "kill", "signal", "disk full", *CHANGES)


def one_fault(kind: str, case: str, folder: Path, other: Path, whole: float, rng: np.random.Generator) -> bool:
    """Begin a run, let the fault happen, resume; whether work had begun when it happened."""
    if kind == "disk full":
        in_a_process(partial(begin, folder, case), full=int(rng.integers(1_000, 60_000)))
    else:
        number = signal.SIGKILL if kind != "signal" else [signal.SIGTERM, signal.SIGHUP, signal.SIGINT][rng.integers(3)]
        in_a_process(partial(begin, folder, case), rng.uniform(0.0, whole), number)
    begun = (folder / "checkpoint.json").exists() or (folder / "run.json").exists()
    if kind in CHANGES and folder.is_dir() and files_of(folder):
        CHANGES[kind](folder, rng, other)
    return begun


def answer(folder: Path, kind: str) -> list[Any]:
    """What a run gave. Tables for people, which nobody reads again, may be what was changed."""
    return outcome(folder)[: 1 if kind in CHANGES else None]


def main(faults: int, minutes: float, seed: int) -> dict[str, Any]:
    """Do the faults, and count how the runs ended."""
    # Small states: write whenever there is something to write.
    checkpoints.MOST_SHARE = 1e9
    warnings.simplefilter("ignore")
    rng, until = np.random.default_rng(seed), time.monotonic() + 60.0 * minutes
    ended: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    harm: list[str] = []
    begun = done = 0
    with tempfile.TemporaryDirectory() as place:
        alone, whole = {}, {}
        for case in cases():
            folder = alone[case] = Path(place) / f"alone {case}"
            begin(folder, case)
            began = time.perf_counter()
            begin(folder, case)
            whole[case] = time.perf_counter() - began
        other = Path(place) / "other"
        in_a_process(partial(begin, other, "mjmcmc", 1.0), 0.7 * whole["mjmcmc"])
        while done < faults and time.monotonic() < until:
            case, kind = list(alone)[done % len(alone)], KINDS[int(rng.integers(len(KINDS)))]
            folder = Path(place) / "run"
            folder.mkdir()
            begun += one_fault(kind, case, folder, other, whole[case], rng)
            status = in_a_process(partial(proceed, folder, case))
            done, kinds[kind] = done + 1, kinds[kind] + 1
            precious = Path(place) / "precious"
            intact = not precious.exists() or precious.read_text() == "precious"
            if status == 2 and intact:
                ended["one sentence"] += 1
            elif status == 0 and intact and answer(folder, kind) == answer(alone[case], kind):
                ended["the same answer"] += 1
            else:
                harm.append(f"{kind}, {case}: status {status}, precious file {'intact' if intact else 'changed'}")
            shutil.rmtree(folder)
    return {"faults": done, "after work began": begun, "kinds": kinds, "ended with": ended, "harm": harm}


if __name__ == "__main__":
    told = main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps(told, indent=1))
    sys.exit(bool(told["harm"]))
