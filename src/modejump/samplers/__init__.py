"""Samplers: enumeration and MJMCMC. They drive the compiled kernels and return a ``SamplerResult``.

May import: errors, priors, likelihoods, problem, kernels; NumPy, SciPy and Numba.
"""
