"""Features: expressions over the covariates, and the languages that make them.

`language` is the interface of every language, with what all languages share beside it: the table that interns features,
the pool of populations, the distribution of a fresh feature. `nonlinear` is the paper's language.

May import: numpy, scipy, numba, the standard library and `modejump.core`; SymPy where it is asked for.
"""

from modejump.features.nonlinear.expression import MAX_COMPLEXITY, MAX_DEPTH, Feature, evaluate
from modejump.features.nonlinear.printing import to_latex, to_sympy
from modejump.features.nonlinear.transforms import Domain, Transform

__all__ = [
    "MAX_COMPLEXITY",
    "MAX_DEPTH",
    "Domain",
    "Feature",
    "Transform",
    "evaluate",
    "to_latex",
    "to_sympy",
]
