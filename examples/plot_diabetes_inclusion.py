"""
Which variables matter for diabetes?
====================================

Ten covariates were measured on 442 patients, and a year later the progression of the disease. Ten covariates
make 1024 linear models: the estimator evaluates them all, so the inclusion probabilities are exact.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

import modejump
from modejump.plots import plot_inclusion, plot_models, plot_sizes

X, y = load_diabetes(return_X_y=True, as_frame=True)
model = modejump.BGLMRegressor().fit(X, y)
print(model.verdict_)
print(model.inclusion_["probability"].round(3).to_dict())

# %%
# Four covariates are nearly certain, and models have about six. The serum measurements s1 to s4 are correlated and
# share what is left: no single one is certain.
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.9), layout="constrained")
plot_inclusion(model, ax=left)
plot_sizes(model, ax=right)
plt.show()

# %%
# **Which replace which?** Each column is a model, as wide as it is probable. The best one, on the left, has s3; the
# next two have s1 instead, with s2 or s4. Whoever drops all of them for a probability near one half drops an effect
# that is nearly certain.
fig, ax = plt.subplots(figsize=(9, 3.9), layout="constrained")
plot_models(model, ax=ax)
plt.show()
