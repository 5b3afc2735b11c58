"""Predictive distributions of Gaussian and generalised linear models."""
