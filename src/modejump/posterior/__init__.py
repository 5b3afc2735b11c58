"""Posterior: estimates, diagnostics, a verdict in words, prediction, coefficients, and storage.

May import: core, data, priors, likelihoods, problem, kernels, samplers; NumPy, SciPy, Numba and pandas.
"""

from modejump.posterior.posterior import Posterior

__all__ = ["Posterior"]
