"""Posterior: estimates, diagnostics, a verdict in words, prediction, coefficients, and storage.

May import: errors, priors, likelihoods, problem, kernels, samplers; NumPy, SciPy, Numba and pandas.
"""

from modejump.posterior.coefficients import coefficients
from modejump.posterior.posterior import Posterior
from modejump.posterior.prediction.gaussian import (
    NewRows,
    Predictor,
    new_rows,
    predictive_interval,
    predictive_mean,
    predictive_std,
)
from modejump.posterior.prediction.glm import GlmPredictor
from modejump.posterior.storage import load_run, save_run
from modejump.posterior.verdict import Verdict, verdict

__all__ = [
    "GlmPredictor",
    "NewRows",
    "Posterior",
    "Predictor",
    "Verdict",
    "coefficients",
    "load_run",
    "new_rows",
    "predictive_interval",
    "predictive_mean",
    "predictive_std",
    "save_run",
    "verdict",
]
