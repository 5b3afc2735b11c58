"""
Missing values
==============

Real tables have holes. ``fit`` refuses them, because no rule is right for all tables. What to do instead depends on why
values are missing: here, an instrument that fails more often on bad days.
"""

# %%
# **Data.** The diabetes table. A tenth of the blood pressures are lost, most of them of patients who fare worse.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

import modejump
from modejump.plots.style import ACCENT, GREY, STRONG, WEAK, tidy

X, y = load_diabetes(return_X_y=True, as_frame=True)
rng = np.random.default_rng(3)
lost = rng.uniform(size=len(X)) < np.where(y > 180, 0.22, 0.03)
holes = X.copy()
holes.loc[lost, "bp"] = np.nan
try:
    modejump.BGLMRegressor().fit(holes, y)
except modejump.InputError as error:
    print(error)

# %%
# **Three ways.** Drop the rows; put in the median; or put in the median and let a column of zeros and ones say where,
# so that being lost is a covariate itself. The imputer is part of a scikit-learn pipeline: new rows are treated
# alike.
dropped = modejump.BGLMRegressor().fit(holes[~lost], y[~lost])
median = make_pipeline(SimpleImputer(strategy="median").set_output(transform="pandas"), modejump.BGLMRegressor())
marked = make_pipeline(
    SimpleImputer(strategy="median", add_indicator=True).set_output(transform="pandas"), modejump.BGLMRegressor()
)
fits = {
    "complete table": modejump.BGLMRegressor().fit(X, y),
    "rows dropped": dropped,
    "median": median.fit(holes, y)[-1],
    "median and indicator": marked.fit(holes, y)[-1],
}

# %%
# The indicator is found, with probability one: that a value is missing tells something. The other probabilities change
# little, most of all those of s1 to s6, which the data do not decide in the complete table either.
order = [*fits["complete table"].inclusion_.index, "missingindicator_bp"]
fig, ax = plt.subplots(figsize=(9.5, 3.7), layout="constrained")
for shift, colour, (name, fit) in zip((-0.3, -0.1, 0.1, 0.3), (STRONG, WEAK, GREY, ACCENT), fits.items()):
    probability = fit.inclusion_["probability"].reindex(order)
    ax.bar(np.arange(len(order)) + shift, probability, width=0.2, color=colour, label=name)
ax.set_xticks(range(len(order)), [*order[:-1], "bp lost"])
ax.set_ylabel("inclusion probability")
ax.legend(frameon=False, fontsize=9, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
tidy(ax)
plt.show()
