"""
Does the answer depend on the prior?
====================================

Two priors enter an inclusion probability: that of the coefficients and that of the models. Neither can be right for
everybody. What can be checked is whether a conclusion depends on them.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import modejump
from modejump.plots.style import CYCLE, GREY, tidy

X, y = load_diabetes(return_X_y=True, as_frame=True)

# %%
# **Priors of the coefficients.** ``"g"`` fixes Zellner's g at n, ``"jzs"`` and ``"hyper-g"`` let the data choose it,
# and ``"bic"`` is the approximation that many use without knowing. Models have the beta-binomial prior throughout.
by_coefficients = {
    name: modejump.BGLMRegressor(coef_prior=name).fit(X, y).inclusion_["probability"]
    for name in ("g", "jzs", "hyper-g", "bic")
}

# %%
# **Priors of the models.** Uniform over models means that half of all covariates are expected to matter. The
# beta-binomial prior is uniform over sizes. The last one expects one covariate of ten.
by_models = {
    name: modejump.BGLMRegressor(model_prior=prior).fit(X, y).inclusion_["probability"]
    for name, prior in {
        "beta-binomial": "beta-binomial",
        "uniform": "uniform",
        "Bernoulli 0.1": modejump.BernoulliPrior(0.1),
    }.items()
}

# %%
# Four covariates are in whatever the prior, and age is out. What changes is the share of s1 to s4, and that is what the
# data do not decide.
order = by_coefficients["g"].index
fig, axes = plt.subplots(1, 2, figsize=(11, 3.7), layout="constrained", sharey=True)
for ax, fits, title in zip(axes, (by_coefficients, by_models), ("prior of the coefficients", "prior of the models")):
    for shift, colour, (name, probability) in zip(np.linspace(-0.24, 0.24, len(fits)), CYCLE, fits.items()):
        ax.plot(np.arange(len(order)) + shift, probability[order], "o", color=colour, markersize=6, label=name)
    for place in range(len(order) - 1):
        ax.axvline(place + 0.5, color=GREY, linewidth=0.4, alpha=0.4)
    ax.axhline(0.5, color=GREY, linewidth=0.8, linestyle=":", zorder=0)
    ax.set_xticks(range(len(order)), order)
    ax.legend(title=title, frameon=False, fontsize=9)
    tidy(ax)
axes[0].set_ylabel("inclusion probability")
plt.show()
