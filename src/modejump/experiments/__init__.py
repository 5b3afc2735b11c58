"""Experiments: simulated data with known laws.

May import: everything below plots; NumPy and pandas.
"""

from modejump.experiments.planets import simulate_planets

__all__ = ["simulate_planets"]
