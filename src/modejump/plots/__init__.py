"""Plots of fitted estimators; Matplotlib is optional and imported when a plot is drawn.

Each takes ``ax``, the axes to draw on, and returns the axes drawn on.

May import: everything below; NumPy, pandas, SciPy and Matplotlib.
"""

from modejump.plots.calibration import plot_calibration
from modejump.plots.chains import plot_agreement, plot_chains
from modejump.plots.effects import plot_coefficient, plot_effect, plot_law
from modejump.plots.genome import plot_genome
from modejump.plots.inclusion import plot_inclusion, plot_joint_inclusion
from modejump.plots.law_table import plot_law_table
from modejump.plots.models import plot_models, plot_sizes
from modejump.plots.prediction import plot_prediction

__all__ = [
    "plot_agreement",
    "plot_calibration",
    "plot_chains",
    "plot_coefficient",
    "plot_effect",
    "plot_genome",
    "plot_inclusion",
    "plot_joint_inclusion",
    "plot_law",
    "plot_law_table",
    "plot_models",
    "plot_prediction",
    "plot_sizes",
]
