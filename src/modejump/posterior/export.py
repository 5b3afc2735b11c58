"""Chains in the language of ArviZ, for both of its lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from modejump.core.errors import InputError

if TYPE_CHECKING:
    from modejump.posterior.posterior import Posterior


def to_arviz(posterior: Posterior) -> Any:
    """Batch means as draws of an ArviZ object; see :meth:`Posterior.to_arviz`."""
    means = posterior.result.batch_means
    if posterior.exact or means is None or means.shape[1] == 0:
        raise InputError(
            "this posterior has no chains to hand to ArviZ; fit with algorithm='mjmcmc', or 'rgmjmcmc' for laws."
        )
    try:
        import arviz
    except ImportError:
        raise InputError("to_arviz needs ArviZ, which is not installed; run: pip install 'modejump[arviz]'.") from None
    groups = {"posterior": {"inclusion": np.asarray(means)}}
    labels: dict[str, Any] = {
        "coords": {"feature": list(posterior.problem.names)},
        "dims": {"inclusion": ["feature"]},
    }
    # The 0.x line takes groups as keywords and gives InferenceData; the 1.x line one mapping, and a DataTree.
    if int(arviz.__version__.split(".")[0]) < 1:
        return arviz.from_dict(**groups, **labels)
    return arviz.from_dict(groups, **labels)
