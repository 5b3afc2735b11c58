"""Priors: p(M) over models and the priors of the coefficients given M.

May import: numpy, scipy, numba, the standard library and `modejump.core`. Nothing else of the package.
"""
