"""
Factors and interactions: a field trial
=======================================

A yield depends on the variety sown, on the fertiliser, and perhaps on how varieties take the fertiliser. Which of these
terms do the data support? A factor is one term, whatever the number of its levels, and an interaction may enter only
where both of its parents are in.
"""

# %%
# **Data.** 240 plots, four varieties, three soils, a dose of fertiliser and the rain. Varieties differ, the dose
# helps, and it helps the variety "delta" more. Soil does not matter, nor does the rain.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import modejump
from modejump.plots import plot_models, plot_sizes

rng = np.random.default_rng(4)
plots = 240
table = pd.DataFrame(
    {
        "variety": pd.Categorical(rng.choice(["alpha", "beta", "gamma", "delta"], plots)),
        "soil": pd.Categorical(rng.choice(["clay", "loam", "sand"], plots)),
        "dose": rng.uniform(0, 100, plots).round(),
        "rain": rng.normal(600, 80, plots).round(),
    }
)
gain = table["variety"].map({"alpha": 0.0, "beta": 0.4, "gamma": 0.1, "delta": -0.5}).astype(float)
slope = np.where(table["variety"] == "delta", 0.022, 0.010)
table["yield_"] = (5.0 + gain + slope * table["dose"] + 0.35 * rng.normal(size=plots)).round(2)
print(table.head(3))

# %%
# **Fit.** ``fit_formula`` takes the terms of a formula as the units of selection.
model = modejump.BGLMRegressor(model_prior=modejump.BetaBinomialPrior(heredity="strong"))
model.fit_formula("yield_ ~ variety + soil + dose + rain + variety:dose + soil:dose", table)
print(model.inclusion_["probability"].round(3).to_dict())

# %%
# Variety, dose and their interaction are certain; all else is unlikely.
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 3.3), layout="constrained", width_ratios=(1.6, 1))
plot_models(model, ax=left)
plot_sizes(model, ax=right)
plt.show()

# %%
# **What does the fertiliser do?** Predictions of new plots, averaged over models, with 90 % intervals of the yield.
new = pd.DataFrame({"variety": ["alpha", "delta"] * 2, "soil": "loam", "dose": [0, 0, 100, 100], "rain": 600})
print(new[["variety", "dose"]].join(model.predict(new, interval=0.9).round(2)))
