"""Features: expressions over the covariates, their canonical form, the transforms G, parsing and printing.

The registry of G is `modejump.transforms`; it is not repeated here, where its name is that of its module. The
compiled half (`arena`, `columns`, `edits`, `functions`) is imported by the rooms that need it, so that reading and
printing a feature compiles nothing.

May import: numpy, scipy, numba, the standard library, `modejump.core.errors` and `modejump.core.compilation`; SymPy where it is asked
for. Nothing else of the package.
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
