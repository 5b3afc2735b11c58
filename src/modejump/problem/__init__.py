"""The target: columns or a space of features, response, priors and likelihood; and its fingerprint.

May import: core, data, features, priors, likelihoods.
"""
