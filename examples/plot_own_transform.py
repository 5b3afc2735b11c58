"""
A function of your own in the search
====================================

The functions that laws are made of are a list that you can add to. Here a response rises only beyond a threshold:
softplus, :math:`\\log(1 + e^x)`, is a smooth corner, and it is not among the functions that come with the package.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import modejump
from modejump.plots import plot_inclusion, plot_law

rng = np.random.default_rng(5)
X = pd.DataFrame({"heat": rng.uniform(-4, 6, 200), "light": rng.uniform(0, 1, 200), "wind": rng.normal(size=200)})
y = 2.0 * np.logaddexp(0.0, X["heat"]) + 0.3 * rng.normal(size=200)
y = y.rename("growth")

# %%
# **Add it.** A name and a NumPy function are enough. With a LaTeX form and a SymPy form, equations can be written and
# differentiated as well. The search is told to use no other function.
modejump.transforms.add("softplus", lambda x: np.logaddexp(0.0, x), latex=r"\log(1 + e^{#1})")
model = modejump.BGNLMRegressor(
    transforms=("softplus",),
    space=modejump.Space(constants=False),
    chains=8,
    budget=modejump.Budget(warmup=6_000, steps=20_000),
    random_state=1,
)
model.fit(X, y)
print(model.equation(digits=3))
print(model.to_latex(digits=3))

# %%
# The curve is the predictive mean with its 90 % band, over heat, other covariates at their medians.
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.6), layout="constrained", width_ratios=(1.2, 1))
plot_law(model, X, y, "heat", ax=left)
plot_inclusion(model, ax=right)
plt.show()

# %%
modejump.transforms.remove("softplus")
