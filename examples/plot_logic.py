"""
Interactions between genes: logic regression
============================================

Two variants of a gene may matter only together, or either of them may be enough. Logic regression looks for such
statements: its terms are functions of markers made of "and", "or" and "not", and each has a posterior probability.
"""

# %%
# **Data.** A thousand people, 200 variants on five chromosomes, neighbours in linkage, and the age of each person. A
# genotype counts the copies of an allele: 0, 1 or 2. The trait depends on age and on two statements. The first holds
# for people with a copy of both ``s31`` and ``s112``; the second for people with a copy of ``s64`` who have two copies
# of ``s151`` or none of ``s187``.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import modejump
from modejump.plots import plot_genome

rng = np.random.default_rng(3)
people, variants = 1000, 200
strand = rng.standard_normal((2, people))
genotypes = np.empty((people, variants), np.int8)
for j in range(variants):
    link = 0.0 if j % 40 == 0 else 0.6
    strand = link * strand + np.sqrt(1.0 - link**2) * rng.standard_normal((2, people))
    genotypes[:, j] = (strand > rng.uniform(-0.2, 0.6)).sum(axis=0)
names = [f"s{j + 1}" for j in range(variants)]
chromosome = pd.Series(1 + np.arange(variants) // 40, index=names)
position = pd.Series(np.arange(variants) % 40 * 100_000, index=names)

X = pd.DataFrame(genotypes, columns=names).assign(age=rng.uniform(30, 70, people))
both = (X["s31"] > 0) & (X["s112"] > 0)
either = (X["s64"] > 0) & ((X["s151"] == 2) | (X["s187"] == 0))
y = 0.03 * X["age"] + 1.0 * both + 1.2 * either + rng.standard_normal(people)

# %%
# **Fit.** ``coding="genotype"`` makes two binary markers of each variant: ``s31_d``, dominant, is 1 with at least one
# copy, and ``s31_r``, recessive, with two. Age may hold any numbers because it is always in.
# The prior is a strict one: each marker in a feature costs the factor 1/n\ :sup:`2`. With 1/n the same two features are
# found, but the chains disagree about features of noise, and a run as short as this one ends with a warning.
model = modejump.LogicRegressor(
    coding="genotype",
    always_in=["age"],
    model_prior=modejump.ComplexityPrior("n^-2"),
    space=modejump.LogicSpace(leaves=3),
    chains=4,
    budget=modejump.Budget(steps=30_000),
    random_state=1,
)
model.fit(X, y)
print(model.inclusion_[["probability", "mcse"]].head(5).round(3))

# %%
# ``!s187_d`` says that there is no copy: both statements are found as they were planted. The set of features with an
# expected share of false ones of at most 5 %:
print(model.discoveries(fdr=0.05).round(3))

# %%
# **Along the genome.** A marker counts as in where some feature of the model has it.
fig, ax = plt.subplots(figsize=(9, 3.2), layout="constrained")
plot_genome(model, chromosome, position, ax=ax)
plt.show()

# %%
# **What selection of single variants sees.** The same 200 counts as terms of a linear model.
single = modejump.BGLMRegressor(always_in=["age"], budget=modejump.Budget(steps=100_000), random_state=1).fit(X, y)
print(single.inclusion_["probability"].head(6).round(2).to_dict())
print(f"R squared: logic {model.score(X, y):.2f}, single variants {single.score(X, y):.2f}")

# %%
# All five variants are found, because each interaction leaves a trace in the mean of each of its parts. What they do
# together is not, and the sum of the traces explains much less.
