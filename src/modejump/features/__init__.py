"""Features: expressions over the covariates, and the languages that make them.

`language` is the interface of every language, with what all languages share beside it: the table that interns features,
the pool of populations, the distribution of a fresh feature. `nonlinear` is the paper's language.

May import: numpy, scipy, numba, the standard library and `modejump.core`; SymPy where it is asked for.
"""
