"""
Counts: which roads have more accidents?
========================================

Counts are not measurements: their noise grows with their mean, and a road that is twice as long has twice as many. The
Poisson family knows the first, and an offset the second.
"""

# %%
# **Data.** 300 stretches of road. The rate depends on the speed and on lighting; six more columns do not matter.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import modejump
from modejump.plots import plot_calibration, plot_inclusion

rng = np.random.default_rng(1)
roads = 300
X = pd.DataFrame(
    {
        "speed": rng.choice([50.0, 70.0, 90.0, 110.0], roads),
        "light": rng.integers(0, 2, roads).astype(float),
        "slope": rng.normal(size=roads),
        "width": rng.normal(3.5, 0.3, roads),
        "trucks": rng.uniform(0, 0.4, roads),
        "trees": rng.integers(0, 2, roads).astype(float),
    }
)
length = rng.uniform(1, 12, roads)
y = rng.poisson(length * np.exp(-0.8 + 0.02 * X["speed"] - 0.4 * X["light"]))

# %%
# **Fit.** The offset is the logarithm of the length: it enters the linear predictor with coefficient one.
model = modejump.BGLMRegressor(family="poisson").fit(X[:200], y[:200], offset=np.log(length[:200]))
print(model.equation(digits=3))
print(model.inclusion_["probability"].round(3).to_dict())

# %%
# **Intervals of counts.** Rows that the fit has not seen. A count is inside an interval or not, as a whole, so that
# intervals hold their level at least, and the curve may lie above the diagonal.
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.0), layout="constrained", width_ratios=(1.3, 1))
plot_inclusion(model, ax=left)
plot_calibration(model, X[200:], y[200:], offset=np.log(length[200:]), ax=right)
plt.show()
