"""Generalised linear models: fits by Newton's method, marginal likelihoods by Laplace's.

May import: what `modejump.likelihoods` may.
"""
