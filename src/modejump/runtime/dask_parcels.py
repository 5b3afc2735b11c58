"""How a problem comes to the workers of a Dask cluster; needs the extra ``dask``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import dask
from distributed import WorkerPlugin

from modejump.runtime import joblib_executor as crews

# Dask warns of large tasks, and means those that carry data; a snapshot has to be with the scheduler, where it outlives
# the worker.
_LARGE = {"distributed.admin.large-graph-warning-threshold": "4GB"}


class Bringer(WorkerPlugin):
    """Brings a parcel to every worker, and to those that begin later, such as one in the place of another that died.

    Parameters
    ----------
    key : str
        Name of the problem.
    parcel : bytes
        The problem, packed.
    """

    def __init__(self, key: str, parcel: bytes) -> None:
        self.key, self.parcel = key, parcel

    def setup(self, worker: Any) -> None:
        """Put the parcel where pieces of work look for it; the first one unpacks it."""
        crews.parcels[self.key] = self.parcel

    def teardown(self, worker: Any) -> None:
        """Forget the problem."""
        crews.forget(self.key)


@contextlib.contextmanager
def brought(client: Any, key: str, parcel: bytes) -> Iterator[None]:
    """Have a parcel on all workers of a cluster, for the time being."""
    with dask.config.set(_LARGE):
        client.register_plugin(Bringer(key, parcel), name=key)
        try:
            yield
        finally:
            # Workers that an interrupt has ended have forgotten it already.
            with contextlib.suppress(Exception):
                client.unregister_worker_plugin(key)
