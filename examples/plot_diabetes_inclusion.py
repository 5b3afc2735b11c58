"""
Which variables matter for diabetes?
====================================

Ten covariates were measured on 442 patients, and a year later the progression of the disease. Ten covariates
make 1024 linear models: the estimator evaluates them all, so the inclusion probabilities are exact.
"""

# %%
# Fit under two coefficient priors: ``"g"`` fixes the g of Zellner's prior at n, ``"jzs"`` puts an inverse
# gamma distribution on it.
import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

import modejump

X, y = load_diabetes(return_X_y=True, as_frame=True)
fits = {}
for name in ("g", "jzs"):
    fits[name] = modejump.BGLMRegressor(coef_prior=name, random_state=1).fit(X, y)

# %%
# Four covariates are nearly certain under either prior. The serum measurements s1 to s4 are correlated and
# share what is left: no single one is certain.
fig, ax = plt.subplots(figsize=(7, 3.5))
order = fits["g"].inclusion_.index
for shift, (name, fit) in zip((-0.2, 0.2), fits.items()):
    probability = fit.inclusion_.loc[order, "probability"]
    ax.bar([place + shift for place in range(len(order))], probability, width=0.4, label=name)
ax.set_xticks(range(len(order)), order)
ax.set_ylabel("inclusion probability")
ax.axhline(0.5, color="grey", linewidth=0.8, linestyle=":")
ax.legend(title="coefficient prior", frameon=False)
fig.tight_layout()
plt.show()
