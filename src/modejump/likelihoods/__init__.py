"""Marginal likelihoods p(y|M).

May import: numpy, scipy, numba, the standard library, `modejump.core.errors` and `modejump.priors`. Nothing else
of the package.
"""

from modejump.likelihoods.gaussian.marginal import MarginalTable, log_marginal, log_marginal_fast, make_table
from modejump.likelihoods.gaussian.shrinkage import posterior_g_nodes, shrinkage_factor

__all__ = [
    "MarginalTable",
    "log_marginal",
    "log_marginal_fast",
    "make_table",
    "posterior_g_nodes",
    "shrinkage_factor",
]
