"""Posterior: estimates, diagnostics, a verdict in words, prediction, coefficients, and storage.

May import: core, data, priors, likelihoods, problem, kernels, samplers; NumPy, SciPy, Numba and pandas.
"""

from modejump.posterior.coefficients import coefficients
from modejump.posterior.posterior import Posterior
from modejump.posterior.prediction.distribution import NewRows, PredictiveDistribution, new_rows
from modejump.posterior.prediction.gaussian import Predictor
from modejump.posterior.prediction.glm import GlmPredictor
from modejump.posterior.storage import load_run, save_run
from modejump.posterior.verdict import Verdict, verdict

__all__ = [
    "GlmPredictor",
    "NewRows",
    "Posterior",
    "PredictiveDistribution",
    "Predictor",
    "Verdict",
    "coefficients",
    "load_run",
    "new_rows",
    "save_run",
    "verdict",
]
