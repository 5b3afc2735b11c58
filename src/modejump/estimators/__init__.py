"""Estimators: the scikit-learn face. Tables and formulas become problems, posteriors become predictions.

May import: errors, progress, priors, likelihoods, problem, kernels, samplers, posterior; any library of
the package.
"""
