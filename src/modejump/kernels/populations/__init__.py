"""Populations of features, and moves between them."""
