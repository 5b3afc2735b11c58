"""Gaussian marginal likelihoods, exact."""
