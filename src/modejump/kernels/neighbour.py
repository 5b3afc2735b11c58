"""Evaluation of neighbours: the models that differ from a state's in a few terms.

The tableau of the flipping columns is taken from the state's inverse and eliminated (see ``kernels.state`` for the
algebra); a model met before costs a look-up. Whatever rounding could tip goes to the canonical evaluation.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import generic, implements, kernel
from modejump.kernels.evaluate import (
    GUARD,
    NEG_INF,
    REFINE_BELOW,
    RESID_FLOOR,
    canonical_resid,
    factorise,
    log_likelihood,
)
from modejump.kernels.state import (
    column_count,
    column_product,
    gather,
    leaving_first,
    refresh,
    toggle,
)
from modejump.kernels.store import insert, probe
from modejump.likelihoods.columns import Conjugate, log_marginal_of_columns
from modejump.likelihoods.custom.own import CustomRows
from modejump.likelihoods.glm.newton import ANSWERED, ASKED, NOTHING, Glm
from modejump.likelihoods.glm.parts import LONG
from modejump.priors.compiled import log_model_prior


@kernel
def tableau(data, st, work, b):
    """Swept tableau of the flipping columns; those that leave come first."""
    gram, slot, inner, h = data.gram, st.slot, st.cols, st.inverse
    cols, a, rhs, products = work.flip_cols, work.tableau, work.rhs, work.products
    for i in range(b):
        c = cols[i]
        s = slot[c]
        if s >= 0:
            rhs[i] = st.beta[s]
            for j in range(i + 1):
                a[i, j] = -h[s, slot[cols[j]]]
            continue
        a[i, i], rhs[i] = column_product(data, st, c, products, i)
        for j in range(i):
            sj = slot[cols[j]]
            if sj >= 0:
                a[i, j] = products[i, sj]
            else:
                t = gram[c, cols[j]]
                for m in range(st.columns):
                    t -= gram[c, inner[m]] * products[j, m]
                a[i, j] = t


@kernel
def eliminate(st, work, b):
    """Residual share after the flips, or -1.0 where a pivot is too small to trust."""
    a, rhs, slot, cols = work.tableau, work.rhs, st.slot, work.flip_cols
    resid = st.resid
    for i in range(b):
        pivot = a[i, i]
        leaving = slot[cols[i]] >= 0
        if (leaving and -pivot * GUARD > 1.0) or (not leaving and pivot < GUARD):
            return -1.0
        f = rhs[i] / pivot
        resid -= rhs[i] * f
        for j in range(i + 1, b):
            g = a[j, i] / pivot
            rhs[j] -= a[j, i] * f
            for m in range(i + 1, j + 1):
                a[j, m] -= g * a[m, i]
    return resid


@kernel
def prior_now(data, st):
    """Log prior of the model in the set representations."""
    if data.prior.heredity != 0:
        return log_model_prior(st.member, st.size, data.prior)
    # A running sum would be cheaper and drift; a weight of minus infinity would spoil it for good.
    order, weight = st.order, data.prior.log_weight
    total = data.prior.log_size[st.size]
    for i in range(st.size):
        total += weight[order[i]]
    return total


@kernel
def _contains_perfect(st, work):
    """Whether the model contains one that is known to fit perfectly: then nothing has to be refined."""
    perfect, words = work.perfect, st.words
    for i in range(work.perfect_count):
        inside = True
        for w in range(len(words)):
            if perfect[i, w] & ~words[w]:
                inside = False
                break
        if inside:
            return True
    return False


@kernel
def _note_perfect(st, work):
    """Remember a model that fits perfectly; the oldest makes way."""
    at = work.perfect_next
    for w in range(len(st.words)):
        work.perfect[at, w] = st.words[w]
    work.perfect_next = (at + 1) % work.perfect.shape[0]
    work.perfect_count = max(work.perfect_count, at + 1)


@kernel
def _canonical_likelihood(data, st, work):
    """log p(y|M) of the model in the set representations, by the canonical evaluation."""
    k = column_count(data, st)
    if k > data.max_cols:
        return NEG_INF
    if gather(data, st, work) < 0:
        st.overflow = 1
        return NEG_INF
    return gathered_likelihood(data.glm, data, st, work, k)


@generic
def gathered_likelihood(glm, data, st, work, k):
    """log p(y|M) of the k columns gathered, by the kind of likelihood."""


@implements(gathered_likelihood, Glm)
@implements(gathered_likelihood, CustomRows)
def _from_rows(glm, data, st, work, k):
    if factorise(data.rank, data.corr, work.sorted_cols, k, work.chol, work.solved) < -0.5:
        return NEG_INF
    if work.glm.may_ask and k * len(glm.y) >= LONG:
        return _asked_likelihood(st, work, k)
    return log_marginal_of_columns(glm, work.glm, work.sorted_cols, k, data.coef_prior, data.n)


@kernel
def _asked_likelihood(st, work, k):
    """log p(y|M) as it was answered, or the question: the step is then made again once there is an answer."""
    glm, asked, cols = work.glm, work.glm.asked, work.sorted_cols
    if glm.stage == ANSWERED and glm.asked_columns == k:
        same = True
        for i in range(k):
            same = same and asked[i] == cols[i]
        if same:
            glm.stage = NOTHING
            return glm.answer
    if glm.stage != ASKED:
        glm.stage = ASKED
        glm.asked_columns = k
        for i in range(k):
            asked[i] = cols[i]
    st.overflow = 1
    return NEG_INF


@implements(gathered_likelihood, Conjugate)
def _gaussian_likelihood(glm, data, st, work, k):
    if _contains_perfect(st, work):
        resid = factorise(data.gram, data.corr, work.sorted_cols, k, work.chol, work.solved)
        return log_likelihood(data, k, RESID_FLOOR if resid > -0.5 else -1.0)
    resid = canonical_resid(data, work.sorted_cols, k, work.chol, work.solved)
    if resid == RESID_FLOOR:
        _note_perfect(st, work)
    return log_likelihood(data, k, resid)


@generic
def neighbour_likelihood(glm, data, st, work, flips, m, leaving):
    """log p(y|M') of a neighbour; the set representations are the neighbour's already, the inverse is not."""


@implements(neighbour_likelihood, Glm)
@implements(neighbour_likelihood, CustomRows)
def _canonical(glm, data, st, work, flips, m, leaving):
    return _canonical_likelihood(data, st, work)


@implements(neighbour_likelihood, Conjugate)
def _by_elimination(glm, data, st, work, flips, m, leaving):
    if not st.ready or st.ill:
        return _canonical_likelihood(data, st, work)
    b = np.int64(0)
    k = st.columns
    for i in range(m):
        t = flips[i]
        for c in range(data.first[t], data.first[t + 1]):
            work.flip_cols[b] = c
            b += 1
            k += -1 if i < leaving else 1
    if k > data.max_cols:
        return NEG_INF
    tableau(data, st, work, b)
    resid = eliminate(st, work, b)
    if resid < REFINE_BELOW:
        return _canonical_likelihood(data, st, work)
    return log_likelihood(data, k, resid)


@kernel
def neighbour(data, st, work, store, flips, m):
    """Log posterior of the model that differs from the state's in these terms; (value, entry in the store).

    The state is left as it was. A model met before costs a look-up; one that the prior excludes is not stored.
    """
    leaving = leaving_first(st, flips, m)
    for i in range(m):
        toggle(data, st, flips[i])
    entry = probe(store, st.hash, st.words)
    if entry >= 0:
        value = store.log_posterior[entry]
    else:
        value = prior_now(data, st)
        if value > NEG_INF:
            value += neighbour_likelihood(data.glm, data, st, work, flips, m, leaving)
            if not st.overflow:
                entry = insert(store, st.hash, st.words, value)
    for i in range(m - 1, -1, -1):
        toggle(data, st, flips[i])
    return value, entry


@kernel
def here(data, st, work, store):
    """Log posterior of the state's own model and its entry, from the cache or by the canonical evaluation."""
    entry = probe(store, st.hash, st.words)
    if entry >= 0:
        return store.log_posterior[entry], entry
    value = prior_now(data, st)
    if value > NEG_INF:
        value += _canonical_likelihood(data, st, work)
        if not st.overflow:
            entry = insert(store, st.hash, st.words, value)
    return value, entry


@kernel
def set_model(data, st, work, store, member):
    """Put the state at a given model."""
    for t in range(len(member)):
        if member[t] != st.member[t]:
            toggle(data, st, t)
    refresh(data, st, work)
    st.log_posterior, st.entry = here(data, st, work, store)
