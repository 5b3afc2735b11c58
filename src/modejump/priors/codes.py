"""Integer codes of the coefficient priors.

Compiled code cannot dispatch on classes, so each coefficient prior owns one of these integers. They live in
the lowest layer because both the prior objects and the marginal likelihoods need them.
"""

JEFFREYS = 0
G = 1
HYPER_G = 2
HYPER_G_N = 3
JZS = 4
EB_LOCAL = 5
BIC = 6
AIC = 7
ROBUST = 8
INTRINSIC = 9
BETA_PRIME = 10
KNOWN_VARIANCE = 11

# Priors whose marginal likelihood is an integral over g that has no elementary closed form.
MIXTURES = (HYPER_G, HYPER_G_N, JZS, ROBUST, INTRINSIC)
