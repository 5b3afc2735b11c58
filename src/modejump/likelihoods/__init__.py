"""Marginal likelihoods p(y|M): families of responses and likelihoods of the user's own.

To add a family or a link, write its module like those in `glm` and add it to the list below, or to its family's links.

May import: numpy, scipy, numba, the standard library, `modejump.core` and `modejump.priors`. Nothing else of the
package.
"""

from modejump.likelihoods.family import FAMILIES, Family, Link, register_link, resolve_family
from modejump.likelihoods.gaussian.family import Gaussian
from modejump.likelihoods.gaussian.student import Student
from modejump.likelihoods.glm.binomial import Binomial
from modejump.likelihoods.glm.gamma import Gamma
from modejump.likelihoods.glm.poisson import Poisson

for _family in (Gaussian, Binomial, Poisson, Gamma, Student):
    FAMILIES.register(_family)

__all__ = [
    "FAMILIES",
    "Binomial",
    "Family",
    "Gamma",
    "Gaussian",
    "Link",
    "Poisson",
    "Student",
    "register_link",
    "resolve_family",
]
