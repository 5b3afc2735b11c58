"""The paper's features: products, transforms and projections of covariates.

May import: core and what all languages share.
"""
