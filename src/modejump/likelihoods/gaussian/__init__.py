"""Gaussian marginal likelihoods, exact.

May import: what `modejump.likelihoods` may.
"""
