"""Questions people ask of a posterior: intervals and densities of coefficients, other priors, terms in pairs, models in
pairs, and pages for notebooks.

May import: what `modejump.posterior` may.
"""
