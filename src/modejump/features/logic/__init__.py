"""The language of logic regression: boolean functions of binary covariates.

May import: numpy, numba, the standard library, `modejump.core` and what all languages share.
"""
