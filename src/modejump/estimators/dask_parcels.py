"""How a problem comes to the workers of a Dask cluster; needs the extra ``dask``."""

from __future__ import annotations

from typing import Any

from distributed import WorkerPlugin

from modejump.estimators import crews


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
