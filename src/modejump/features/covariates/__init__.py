"""The language of plain covariates: a feature is one column of a table of very many.

May import: errors, compilation, random, features.
"""
