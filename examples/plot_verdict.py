"""
Is the run long enough? Reading the verdict
===========================================

With more than about twenty terms the models are too many to list, and Markov chains sample them. How does one see that
they have run for long enough?
"""

# %%
# **Data.** Thirty covariates in pairs that resemble each other, so that models with one of a pair and models with the
# other are modes of the posterior.
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import modejump
from modejump.plots import plot_agreement, plot_chains

rng = np.random.default_rng(8)
pairs, rows = 15, 150
common = rng.normal(size=(rows, pairs))
columns = {f"{side}{j + 1}": common[:, j] + 0.35 * rng.normal(size=rows) for j in range(pairs) for side in "ab"}
X = pd.DataFrame(columns)
y = common[:, :4] @ [1.0, 0.8, 0.6, 0.5] + rng.normal(size=rows)

# %%
# **Two runs.** A very short one, and one with the default budget. ``fit`` warns about the first; here the warning is
# printed instead.
fits = {}
for name, budget in {"400 steps": modejump.Budget(warmup=100, steps=400), "default": None}.items():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", modejump.ModejumpWarning)
        fits[name] = modejump.BGLMRegressor(budget=budget, random_state=1).fit(X, y)
    print(f"{name}: {fits[name].verdict_.level}, {fits[name].verdict_.search}\n{fits[name].verdict_}\n")

# %%
# **Chains.** One line for each chain and feature. In the short run the chains still disagree; in the long one the
# lines of a feature are one.
fig, axes = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained", sharey=True)
for ax, (name, fit) in zip(axes, fits.items()):
    plot_chains(fit, most=3, ax=ax)
    ax.set_title(f"{name}: {fit.verdict_.level}")
plt.show()

# %%
# **Two estimates of one number.** The share of steps with a feature in the model, and the posterior renormalised over
# the models that were met. They agree where the run is long enough.
fig, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
for ax, (name, fit) in zip(axes, fits.items()):
    plot_agreement(fit, ax=ax)
    ax.set_title(f"{name}: {fit.verdict_.level}")
plt.show()
