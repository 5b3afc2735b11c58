"""One page about a fitted model: a file of HTML that needs no network.

It is given a fitted estimator and asks nothing of it but its public face, so that it may stand below the estimators,
whose method ``report`` calls it.

May import: core, features, priors, samplers, posterior.
"""

from modejump.report.page import write_report

__all__ = ["write_report"]
