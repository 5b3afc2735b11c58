"""Likelihoods of the user's own.

May import: what `modejump.likelihoods` may.
"""
