"""Likelihoods of the user's own."""
