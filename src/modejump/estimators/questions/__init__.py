"""Questions people ask of a fitted estimator, and what it hands to other programs.

May import: what `modejump.estimators` may.
"""
