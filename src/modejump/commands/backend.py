"""``--backend``: which workers a command runs its chains on."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Iterator
from typing import Any

import joblib

from modejump.core.errors import InputError

BACKENDS = ("threads", "loky", "dask", "ray")
# Seconds in which a scheduler has to answer.
PATIENCE = 10


def check_backend(backend: str, scheduler: str | None) -> None:
    """Refuse what cannot be, before any table is read."""
    if backend not in BACKENDS:
        raise InputError(f"--backend {backend!r} is not known; choose one of {', '.join(BACKENDS)}.")
    if scheduler is not None and backend not in ("dask", "ray"):
        raise InputError("--scheduler is the address of a cluster; give --backend dask or --backend ray as well.")


def jobs_for(backend: str, jobs: int | None) -> int:
    """Workers: one thread where nothing is asked for, and all there are of any other kind."""
    if jobs is not None:
        return jobs
    return 1 if backend == "threads" else -1


@contextlib.contextmanager
def working_on(backend: str, scheduler: str | None, jobs: int | None) -> Iterator[None]:
    """Let fits inside run their chains on these workers.

    Parameters
    ----------
    backend : str
        One of ``BACKENDS``.
    scheduler : str, optional
        Address of a cluster of Dask or Ray; without one, workers of this machine are started for the time being.
    jobs : int, optional
        Workers.
    """
    check_backend(backend, scheduler)
    count = jobs_for(backend, jobs)
    if backend == "threads":
        yield
        return
    with contextlib.ExitStack() as stack:
        if backend == "dask":
            stack.enter_context(_dask_client(scheduler, count))
        elif backend == "ray":
            stack.enter_context(_ray_cluster(scheduler, count))
        stack.enter_context(joblib.parallel_config(backend=backend, n_jobs=count))
        yield


def _missing(backend: str) -> InputError:
    return InputError(
        f"--backend {backend} needs the extra {backend!r}; install it with: pip install modejump[{backend}]"
    )


def _no_answer(backend: str, scheduler: str, error: BaseException) -> InputError:
    return InputError(
        f"no {backend} scheduler answers at {scheduler!r} ({type(error).__name__}); check the address, and that the "
        "cluster runs."
    )


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let processes that are started now never hear of an interrupt, which is for this process to answer."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _dask_client(scheduler: str | None, count: int) -> Iterator[Any]:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise _missing("dask") from None
    with contextlib.ExitStack() as stack:
        if scheduler is None:
            workers = joblib.cpu_count() if count < 1 else count
            with _uninterrupted():
                cluster = LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None)
            client = stack.enter_context(Client(stack.enter_context(cluster)))
        else:
            try:
                client = stack.enter_context(Client(scheduler, timeout=PATIENCE))
            except (OSError, TimeoutError, ValueError) as error:
                raise _no_answer("dask", scheduler, error) from None
        yield client


@contextlib.contextmanager
def _ray_cluster(scheduler: str | None, count: int) -> Iterator[None]:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise _missing("ray") from None
    options: dict[str, Any] = {"address": scheduler or "local", "log_to_driver": False, "logging_level": logging.ERROR}
    if scheduler is None and count > 0:
        options["num_cpus"] = count
    try:
        ray.init(include_dashboard=None if scheduler else False, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise _no_answer("ray", scheduler or "this machine", error) from None
    register_ray()
    try:
        yield
    finally:
        ray.shutdown()
