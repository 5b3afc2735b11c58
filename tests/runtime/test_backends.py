"""One answer whoever works on the chains: threads, processes, a Dask cluster, Ray; and when a worker is killed."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import dying
import joblib
import numba
import numpy as np
import pandas as pd
import pytest
from paper_rules import paper
from running import gmjmcmc, mjmcmc, rgmjmcmc

import modejump
from modejump import BatchLikelihood, BGLMRegressor, BGNLMRegressor, Budget, InputError, OwnLikelihood
from modejump.cli import main
from modejump.core.random import fresh_sequence
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.likelihoods.custom.own import LikelihoodError
from modejump.problem.feature_problem import feature_problem
from modejump.problem.problem import Problem
from modejump.runtime.checkpoints import Checkpoint
from modejump.runtime.executors import Executor, Pace
from modejump.runtime.files import CHECKPOINT
from modejump.runtime.remote import RemoteExecutor, executor_for, pack, unpack, work_on
from modejump.samplers.chains.mjmcmc_chain import MJMCMCChain
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.settings import Sampler
from modejump.samplers.warmup.adaptation import first_moves
from modejump.samplers.warmup.library import build_library
from modejump.samplers.warmup.search import search_piece

ALGORITHMS = ("mjmcmc", "gmjmcmc", "rgmjmcmc")
BUDGETS = {
    "mjmcmc": Budget(warmup=800, steps=30_000),
    "gmjmcmc": Budget(steps=6_000),
    "rgmjmcmc": Budget(warmup=3_000, steps=4_000),
}
pytestmark = pytest.mark.filterwarnings("ignore::modejump.ModejumpWarning")


def table() -> tuple[np.ndarray, np.ndarray]:
    """A response of one product and one column."""
    x = np.random.default_rng(7).normal(size=(60, 8))
    return x, 2.0 * x[:, 0] * x[:, 1] - x[:, 2] + np.random.default_rng(8).normal(size=60)


def fit(algorithm: str, jobs: int | None, **options: Any) -> Any:
    """A short fit."""
    x, y = table()
    common = {"algorithm": algorithm, "chains": 3, "random_state": 4, "n_jobs": jobs, "progress": False}
    common |= {"budget": BUDGETS[algorithm]} | options
    if algorithm == "mjmcmc":
        return BGLMRegressor(**common).fit(x, y)
    return BGNLMRegressor(**paper() | {"transforms": ("sin", "troot")} | common).fit(x[:, :3], y)


@functools.cache
def alone(algorithm: str) -> Any:
    """The answer of one thread."""
    return fit(algorithm, 1)


def assert_same(one: Any, other: Any) -> None:
    """Every number of both answers is the same, bit by bit."""
    a, b = one.posterior_.result, other.posterior_.result
    for name in ("words", "log_posterior", "visits", "first_seen", "chains"):
        np.testing.assert_array_equal(getattr(a.models, name), getattr(b.models, name), strict=True)
    for name in ("renormalised", "size_distribution", "batch_means", "chain_best"):
        if getattr(a, name) is not None:
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), strict=True)
    for name in ("steps", "warmup_steps", "acceptance", "log_evidence", "n_models", "populations", "library", "notes"):
        assert getattr(a, name) == getattr(b, name), name
    pd.testing.assert_frame_equal(one.inclusion_, other.inclusion_, check_exact=True)
    pd.testing.assert_frame_equal(one.models_, other.models_, check_exact=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A Dask cluster of two worker processes on this machine."""
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as made, distributed.Client(made) as client:
        yield client


def on(backend: str, request: pytest.FixtureRequest) -> Any:
    """The context in which fits use a backend; its cluster is started where it needs one."""
    if backend == "dask":
        request.getfixturevalue("cluster")
        return joblib.parallel_config(backend="dask")
    return contextlib.nullcontext() if backend == "threads" else joblib.parallel_config(backend=backend, n_jobs=2)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces so short that every chain travels several times."""
    monkeypatch.setattr(RemoteExecutor, "pace", Pace(0.01, 0.1, 4_000, 0.02))


@pytest.mark.parametrize("backend", ["threads", "loky", "dask"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.usefixtures("hasty")
def test_one_answer_for_all_workers(algorithm: str, backend: str, request: pytest.FixtureRequest) -> None:
    with on(backend, request):
        assert_same(alone(algorithm), fit(algorithm, 2 if backend == "threads" else None))


@pytest.fixture
def deadly(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """For each algorithm, options with which a worker dies in the middle of its work."""
    transforms.add("deadly", dying.DeadlySine(tmp_path, calls=20))
    yield {
        "mjmcmc": {"family": BatchLikelihood(dying.DeadlyScore(tmp_path, calls=40))},
        "gmjmcmc": {"transforms": ("deadly",)},
        "rgmjmcmc": {"transforms": ("deadly",)},
    }
    transforms.remove("deadly")


@pytest.mark.parametrize(
    ("algorithm", "backend"), [("mjmcmc", "loky"), ("gmjmcmc", "loky"), ("rgmjmcmc", "loky"), ("rgmjmcmc", "dask")]
)
def test_worker_killed_in_the_middle(
    algorithm: str, backend: str, deadly: dict[str, Any], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    one = fit(algorithm, 1, **deadly[algorithm])
    assert not (tmp_path / "died").exists()
    with on(backend, request):
        other = fit(algorithm, 2, **deadly[algorithm])
    assert (tmp_path / "died").exists()
    assert_same(one, other)


@pytest.mark.parametrize("backend", ["loky", "dask"])
def test_problem_travels_once_to_each_process(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    with on(backend, request):
        executor = executor_for(2)
        assert isinstance(executor, RemoteExecutor)
        executor.open(Problem.build(*table()))
        tasks = [(i, str(tmp_path)) for i in range(6)]
        try:
            seen = [back for _ in range(3) for _, back in executor.run(dying.die, tasks)]
        finally:
            executor.close()
    assert (tmp_path / "died").exists()
    assert sorted(number for number, _, _ in seen) == sorted(3 * list(range(6)))
    assert len({process for _, process, _ in seen}) == len({(process, problem) for _, process, problem in seen})


ALONE = """
import os, sys
import joblib, numpy as np
sys.path.insert(0, sys.argv[1])
import dying
from modejump.runtime.remote import executor_for
from modejump.problem.problem import Problem
# So large that joblib maps it from a file.
x = np.random.default_rng(1).normal(size=(60_000, 3))
with joblib.parallel_config(backend="loky", n_jobs=2):
    executor = executor_for(2)
    executor.open(Problem.build(x, x[:, 0] ** 3))
    workers = {process for _, (_, process, _) in executor.run(dying.die, [(0, None), (2, None)])}
    assert any(names for _, _, names in os.walk(os.environ["JOBLIB_TEMP_FOLDER"]))
    print(*workers, flush=True)
    os.kill(os.getpid(), 9)
"""


def test_workers_end_with_the_process_that_they_work_for(tmp_path: Path) -> None:
    """Otherwise every run that is killed would leave processes with its data in memory, and a file."""
    here = str(Path(__file__).resolve().parents[1] / "support")
    # The workers hold the pipe as well: it is closed when they are gone.
    ended = subprocess.run(
        [sys.executable, "-c", ALONE, here], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=120,
        env=os.environ | {"JOBLIB_TEMP_FOLDER": str(tmp_path)},
    )  # fmt: skip
    workers = ended.stdout.split()
    assert len(workers) >= 1 and str(os.getpid()) not in workers
    # joblib's own watcher removes the file when the last process is gone.
    for _ in range(100):
        if not any(names for _, _, names in os.walk(tmp_path)):
            break
        time.sleep(0.1)
    assert not any(names for _, _, names in os.walk(tmp_path))


def test_a_piece_that_always_kills_is_given_up(request: pytest.FixtureRequest) -> None:
    with on("loky", request):
        executor = executor_for(2)
        executor.open(Problem.build(*table()))
        with pytest.raises(InputError, match="workers died 3 times in a row"):
            list(executor.run(dying.die, [(i, None) for i in range(3)]))
        executor.close()


def test_errors_of_the_work_come_back_in_one_sentence(request: pytest.FixtureRequest) -> None:
    def score(models: list[tuple[str, ...]]) -> list[float]:
        return [1.0 / (3 - len(model)) for model in models]

    with on("loky", request), pytest.raises(LikelihoodError, match="failed with ZeroDivisionError"):
        fit("mjmcmc", 2, family=BatchLikelihood(score))


def score_by_name(models: list[tuple[str, ...]]) -> list[float]:
    """A likelihood by the names of the terms."""
    return [3.0 * ("x2" in model) - abs(len(model) - 2.0) for model in models]


def squared(y: np.ndarray, X: np.ndarray, weights: np.ndarray, params: np.ndarray) -> float:
    """A likelihood by the columns of the model."""
    rest = y - X @ np.linalg.solve(X.T @ X + params[0] * np.eye(X.shape[1]), X.T @ y)
    return -0.5 * len(y) * np.log(rest @ rest) - 2.0 * X.shape[1]


@pytest.mark.parametrize(
    ("algorithm", "family"),
    [
        ("mjmcmc", BatchLikelihood(score_by_name)),
        pytest.param("mjmcmc", OwnLikelihood(squared, params=[1e-9]), marks=pytest.mark.full),
        pytest.param("gmjmcmc", BatchLikelihood(score_by_name), marks=pytest.mark.full),
        pytest.param("rgmjmcmc", OwnLikelihood(squared, params=[1e-9]), marks=pytest.mark.full),
    ],
)
def test_likelihoods_of_the_users_own_are_made_again_there(
    algorithm: str, family: Any, request: pytest.FixtureRequest
) -> None:
    budget = {"budget": Budget(warmup=800, steps=2_000)} if algorithm == "mjmcmc" else {}
    one = fit(algorithm, 1, family=family, **budget)
    with on("loky", request):
        assert_same(one, fit(algorithm, 2, family=family, **budget))


@pytest.mark.full
@pytest.mark.parametrize("family", ["poisson", "binomial"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_answer_for_other_families(algorithm: str, family: str, request: pytest.FixtureRequest) -> None:
    x, y = table()
    response = (y > 0).astype(float) if family == "binomial" else np.random.default_rng(3).poisson(np.exp(0.4 * y))
    problem: Any
    if algorithm == "mjmcmc":
        problem, sampler = Problem.build(x, response, family=family), mjmcmc
    else:
        chosen = [transforms["sin"]]
        problem = feature_problem(
            x[:, :3], response, list("abc"), transforms=chosen, space=Space(), family=family, coef_prior="g"
        )
        sampler = gmjmcmc if algorithm == "gmjmcmc" else rgmjmcmc  # type: ignore[assignment]
    one = sampler(problem, chains=2, budget=BUDGETS[algorithm], seed=1)
    with on("loky", request):
        two = sampler(problem, chains=2, budget=BUDGETS[algorithm], seed=1, executor=executor_for(2))
    np.testing.assert_array_equal(one.renormalised, two.renormalised, strict=True)
    np.testing.assert_array_equal(one.models.log_posterior, two.models.log_posterior, strict=True)


def planets() -> Any:
    """A small problem over features."""
    x, y = table()
    return feature_problem(
        x[:, :3], y, ["a", "b", "c"], transforms=[transforms["sin"], transforms["troot"]], space=Space()
    )


def test_packed_problems_are_the_same_to_compiled_code() -> None:
    problem = Problem.build(*table())
    packed = pack(problem)
    packed.flags.writeable = False
    again = unpack(packed)
    assert numba.typeof(again.data) == numba.typeof(problem.data)
    np.testing.assert_array_equal(again.data.gram, problem.data.gram, strict=True)
    assert again.data.columns.x.flags.writeable
    features = planets()
    other = unpack(pack(features))
    for name in ("x", "y", "response", "basis", "root_weight", "base_model"):
        assert numba.typeof(getattr(other, name)) == numba.typeof(getattr(features, name)), name
    assert other.language.to_dict() == features.language.to_dict()


def test_what_cannot_be_packed_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be sent to other processes"):
        pack(sys.stderr)


def snapshots_equal(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    """Whether two snapshots are the same, bit by bit."""
    return one.keys() == other.keys() and all(one[k].tobytes() == other[k].tobytes() for k in one)


@pytest.mark.parametrize("kind", ["mjmcmc", "rgmjmcmc"])
def test_a_used_chain_can_be_put_anywhere(kind: str) -> None:
    seeds = fresh_sequence(3).spawn(3)
    chains: list[Any]
    if kind == "mjmcmc":
        problem: Any = Problem.build(*table())
        moves = first_moves(Sampler(), problem)
        chains = [MJMCMCChain(problem, seed, 1 << 20, 100) for seed in seeds]
        work = functools.partial(MJMCMCChain.run_batches, moves=moves, count=5)
    else:
        problem = planets()
        library = build_library(problem, {frozenset([Feature.parse(text)]): 0.0 for text in ("a*b", "sin(c)", "a")})
        chains = [ReversibleChain(problem, *library, seed, Sampler(), 1 << 20) for seed in seeds]
        work = functools.partial(ReversibleChain.run_batches, count=5)
        for chain in chains:
            chain.batch = 200
    one, used, _ = chains
    work(one)
    work(used)
    work(used)
    start = one.snapshot()
    used.restore(start)
    work(one)
    work(used)
    assert snapshots_equal(one.snapshot(), used.snapshot())
    # The second piece finds the chain that the first one left.
    idle: dict[bytes, Any] = {}
    for _ in range(2):
        after, _ = work_on(problem, type(one), one.recipe(), start, work, idle)
        assert len(idle) == 1
        assert snapshots_equal(one.snapshot(), after)


def test_pieces_of_a_search_end_where_they_should() -> None:
    problem, seed, options = planets(), np.random.SeedSequence(1), {"steps": 50, "memory": 1 << 24}
    whole = search_piece(problem, seed, options, None, 60, None, np.inf)
    assert whole.finished is not None
    back = search_piece(problem, seed, options, None, 60, None, 0.0)
    pieces = 1
    while back.finished is None:
        back = search_piece(problem, seed, options, back.snapshot, 60, None, 0.0)
        pieces += 1
    assert pieces > 2
    assert snapshots_equal(whole.finished, back.finished)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_interrupted_there_and_resumed_here(algorithm: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    problem: Any = Problem.build(*table()) if algorithm == "mjmcmc" else planets()
    sampler: Any = {"mjmcmc": mjmcmc, "gmjmcmc": gmjmcmc, "rgmjmcmc": rgmjmcmc}[algorithm]
    budget = Budget(steps=90_000) if algorithm == "gmjmcmc" else BUDGETS[algorithm]
    how: dict[str, Any] = {"chains": 2, "seed": 5, "budget": budget}
    whole = sampler(problem, **how)
    keeper = Checkpoint(tmp_path, every=1e-6)

    def stop(done: float, total: float, note: str) -> None:
        # After the first checkpoint, and when there is something to show.
        if CHECKPOINT.exists(tmp_path) and done / total > 0.3:
            raise KeyboardInterrupt

    with on("loky", request), contextlib.suppress(KeyboardInterrupt):
        broken = sampler(problem, progress=stop, checkpoint=keeper, executor=executor_for(2), **how)
        assert not broken.finished
    keeper = Checkpoint(tmp_path)
    assert keeper.state is not None
    again = sampler(problem, checkpoint=keeper, **how)
    np.testing.assert_array_equal(whole.renormalised, again.renormalised, strict=True)
    np.testing.assert_array_equal(whole.models.visits, again.models.visits, strict=True)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_seconds_are_kept_by_workers_elsewhere(algorithm: str, request: pytest.FixtureRequest) -> None:
    with on("loky", request):
        found = fit(algorithm, 2, budget=Budget(seconds=1.5)).posterior_.result
    assert found.finished
    assert found.steps > 0


def test_which_workers_are_meant() -> None:
    assert type(executor_for(3)) is Executor
    assert (executor_for(8).threads(4), executor_for(2).threads(4)) == (2, 1)
    for backend in ("threading", "sequential"):
        with joblib.parallel_config(backend=backend, n_jobs=2):
            assert type(executor_for(2)) is Executor
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert type(executor_for(1)) is Executor
        assert isinstance(executor_for(2), RemoteExecutor)
        assert executor_for(8).threads(4) == 1


def test_estimators_follow_the_number_of_jobs_of_joblib() -> None:
    assert BGLMRegressor().n_jobs is None
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert modejump.estimators.options.count_workers(None) == 2


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    """A table in a file."""
    x, y = table()
    frame = pd.DataFrame(x, columns=[f"c{j}" for j in range(x.shape[1])]).assign(y=y)
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("backend", ["loky", pytest.param("dask", marks=pytest.mark.full)])
def test_backends_on_the_command_line(backend: str, csv: Path, tmp_path: Path) -> None:
    common = ["fit", str(csv), "--target", "y", "--algorithm", "mjmcmc", "--steps", "5000", "--chains", "2", "--quiet"]
    more = ["--backend", backend, "--jobs", "2"]
    assert main([*common, "--out", str(tmp_path / "one")]) == 0
    assert main([*common, "--out", str(tmp_path / "two"), *more]) == 0
    first, second = ((tmp_path / name / "inclusion.csv").read_text() for name in ("one", "two"))
    assert first == second


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--backend", "mpi"], "--backend 'mpi' is not known"),
        (["--scheduler", "tcp://127.0.0.1:1"], "--scheduler is the address of a cluster"),
        (["--backend", "dask", "--scheduler", "tcp://127.0.0.1:1"], "no dask scheduler answers"),
        (["--backend", "dask", "--scheduler", "nonsense://x"], "no dask scheduler answers"),
    ],
)
def test_bad_backends_on_the_command_line(
    options: list[str], sentence: str, csv: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "dask" in options:
        pytest.importorskip("distributed", reason="the extra dask is not installed")
    monkeypatch.setattr("modejump.commands.backend.PATIENCE", 0.5)
    assert main(["fit", str(csv), "--target", "y", *options]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(("backend", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_missing_extras_are_named(
    backend: str, module: str, csv: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert main(["fit", str(csv), "--target", "y", "--backend", backend]) == 2
    assert f"needs the extra '{backend}'" in capsys.readouterr().err


@pytest.fixture
def ray_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ray with two workers on this machine."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")
    joblib_of_ray = pytest.importorskip("ray.util.joblib", reason="the extra ray is not installed")
    # Ray's workers do not know where the tests are.
    cloudpickle.register_pickle_by_value(dying)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    joblib_of_ray.register_ray()
    yield
    ray.shutdown()
    cloudpickle.unregister_pickle_by_value(dying)


@pytest.mark.full
@pytest.mark.usefixtures("hasty", "ray_cluster")
def test_one_answer_on_ray(deadly: dict[str, Any], request: pytest.FixtureRequest, tmp_path: Path) -> None:
    one = fit("gmjmcmc", 1, **deadly["gmjmcmc"])
    with on("ray", request):
        for algorithm in ALGORITHMS:
            assert_same(alone(algorithm), fit(algorithm, 2))
        assert_same(one, fit("gmjmcmc", 2, **deadly["gmjmcmc"]))
    assert (tmp_path / "died").exists()
