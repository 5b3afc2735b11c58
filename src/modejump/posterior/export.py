"""The posterior in the language of ArviZ, for both of its lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from modejump.core.errors import InputError
from modejump.core.numbers import whole_number
from modejump.posterior.coefficients import labelled
from modejump.posterior.questions.coefficient_posteriors import CoefficientPosteriors

if TYPE_CHECKING:
    from modejump.posterior.posterior import Posterior

# What the variables are, as their attributes say.
COEFFICIENT = (
    "independent draws of the coefficients from the posterior averaged over models, on the original scale of the "
    "columns; zero where the model drawn lacks the column. They are no Markov chain."
)
BATCH_SHARE = (
    "share of each batch of consecutive steps of a chain during which a term was in the model. Its mean is the "
    "inclusion probability; its spread is Monte Carlo error and no posterior of that probability."
)


def to_arviz(posterior: Posterior, draws: int = 1000, random_state: int = 0) -> Any:
    """Coefficients and batches as an ArviZ object.

    The group ``posterior`` holds ``coefficient`` with dimensions chain (one), draw and column: independent draws from
    the posterior averaged over models. After sampling the group ``sample_stats`` holds ``batch_share`` with dimensions
    chain, draw (a batch of steps) and feature. A likelihood of the user's own has no coefficients.
    """
    draws = whole_number(draws, "draws", least=1)
    means, own = posterior.result.batch_means, posterior.problem.family.custom
    sampled = not posterior.exact and means is not None and means.shape[1] > 0
    if own and not sampled:
        raise InputError(
            "this posterior has neither coefficients nor chains to hand to ArviZ; sample it, with algorithm='mjmcmc' "
            "or 'rgmjmcmc'."
        )
    try:
        import arviz
    except ImportError:
        raise InputError("to_arviz needs ArviZ, which is not installed; run: pip install 'modejump[arviz]'.") from None
    groups: dict[str, dict[str, np.ndarray]] = {}
    coords, dims, words = {}, {}, {}
    if not own:
        found = CoefficientPosteriors(posterior.predictor())
        values = found.draw(draws, np.random.default_rng(random_state))
        groups["posterior"] = {"coefficient": values[None]}
        names = labelled(posterior.problem, {"place": np.arange(values.shape[1])}).index
        coords["column"], dims["coefficient"], words["posterior"] = list(names), ["column"], COEFFICIENT
    if sampled:
        groups["sample_stats"] = {"batch_share": np.asarray(means)}
        coords["feature"], dims["batch_share"] = list(posterior.problem.names), ["feature"]
        words["sample_stats"] = BATCH_SHARE
    # The 0.x line takes groups as keywords and gives InferenceData; the 1.x line one mapping, and a DataTree.
    if int(arviz.__version__.split(".")[0]) < 1:
        made = arviz.from_dict(**groups, coords=coords, dims=dims)
    else:
        made = arviz.from_dict(groups, coords=coords, dims=dims)
    for group, text in words.items():
        made[group].attrs["description"] = text
    return made
