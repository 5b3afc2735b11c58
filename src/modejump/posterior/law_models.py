"""Models of laws: marginal likelihoods of those that a search found, and of those that it did not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from modejump.core.errors import InputError
from modejump.features.expression import Expression
from modejump.likelihoods.custom.own import StoredLikelihood
from modejump.samplers.chains.workspace import all_constants

if TYPE_CHECKING:
    from modejump.posterior.posterior import Posterior


def marginal_of_laws(posterior: Posterior, features: Sequence[str | Expression]) -> float:
    """``log p(y|M) - log p(y|base)`` of a model of features, whether the search found them or not."""
    laws, searched = posterior.result.laws, posterior.searched
    assert laws is not None
    parsed = [f if isinstance(f, Expression) else laws.language.parse(f) for f in features]
    law_of = {alias: law for law, aliases in laws.aliases.items() for alias in aliases}
    wanted = sorted({law_of.get(feature, feature) for feature in parsed})
    missing = [f.text for f in wanted if f not in laws.features]
    if not missing:
        several = [law.text for law in wanted if laws.aliases.get(law)]
        if several and isinstance(posterior.problem.family, StoredLikelihood):
            raise InputError(
                f"the saved model holds no functions, and of models with {several[0]!r} only the sum over the law's "
                "spellings; fit again to evaluate them."
            )
        return posterior.marginal_of([feature.text for feature in wanted])
    if searched is None:
        raise InputError(
            f"the search did not find the feature {missing[0]!r}, and a model read from a file or fitted to chunks "
            "holds no rows to evaluate it on; fit again."
        )
    return _evaluated(posterior, wanted)


def _evaluated(posterior: Posterior, features: Sequence[Expression]) -> float:
    """The same from the rows."""
    searched, laws = posterior.searched, posterior.result.laws
    assert searched is not None and laws is not None
    constants = all_constants(searched, features, laws.constants)
    columns = np.column_stack(searched.language.columns(features, searched.table, constants))
    bad = ~np.isfinite(columns).all(axis=0)
    if bad.any():
        raise InputError(f"the feature {features[int(np.argmax(bad))].text!r} is not finite on the training data.")
    problem = searched.selection(features, columns)
    return type(posterior)(problem, replace(posterior.result, laws=None)).marginal_of(problem.names)
