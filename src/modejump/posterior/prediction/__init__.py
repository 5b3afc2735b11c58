"""Predictive distributions.

May import: what `modejump.posterior` may.
"""
