"""Compiled kernels: evaluation, model sets, the cache, proposals, optimisers, mode jumps, and the traversal.

May import: errors, priors, likelihoods, problem; NumPy and Numba. Nothing here touches Python objects at run time:
every function is compiled, releases the interpreter lock, and works on preallocated arrays.
"""
