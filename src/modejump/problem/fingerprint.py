"""What a problem is, as digests: two runs belong together exactly where these agree.

A problem has parts: its data (rows in any order; a row of weight two is two rows), its terms (names, groups, those
always in, parents) or its space of features, its likelihood, and its priors.

May import: samplers and what is below them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.data.moments import Digest
from modejump.features.language import stored_language
from modejump.likelihoods.glm.newton import Glm
from modejump.problem.feature_problem import FeatureProblem
from modejump.problem.problem import Problem
from modejump.problem.wide_problem import WideProblem

_BLOCK_BYTES = 4 * 2**20
# How each part is called in a sentence.
PARTS = {
    "likelihood": "the family, link or noise floor of the response",
    "terms": "the terms (or which of them are always in)",
    "space": "the covariates, transforms or limits of the space of features",
    "prior": "the priors",
    "noise": "the frozen weights of Student-t errors (give both runs steps instead of seconds)",
    "data": "the data",
}


def fingerprints(problem: Problem | FeatureProblem) -> dict[str, str]:
    """A digest of each part of a problem, by its name; none for a likelihood of the user's own."""
    if problem.family.custom:
        raise InputError("nobody can tell two functions apart, so a likelihood of your own has no fingerprint.")
    parts: dict[str, Any] = {
        "likelihood": [problem.family.spec, problem.family.link],
        "prior": [problem.coef_prior.to_dict(), problem.model_prior.to_dict()],
    }
    if problem.noise_floor:
        parts["likelihood"].append(problem.noise_floor)
    if isinstance(problem, FeatureProblem):
        if problem.noise_weight is not None:
            parts["noise"] = np.sort(problem.noise_weight).tolist()
        fixed = [[name, columns.shape[1]] for name, columns in problem.always_in.items()]
        # The language of very many columns has their names, or only their number.
        names = None if isinstance(problem, WideProblem) else list(problem.names)
        parts["space"] = [names, stored_language(problem.language), problem.intercept]
        parts["space"] += [fixed] if fixed else []
        data = _feature_digest(problem)
    else:
        prior = problem.data.prior
        parts["terms"] = [
            list(problem.names), list(problem.always_in), problem.data.first.tolist(), bool(problem.intercept),
            prior.parent_start.tolist(), prior.parent_index.tolist(),
        ]  # fmt: skip
        data = problem.digest or _problem_digest(problem)
    return {name: _sha256(value) for name, value in parts.items()} | {"data": data}


def sealed(problem: Problem) -> Problem:
    """The problem with the digest of its rows written down, where they lie in a table that was not copied."""
    if problem.digest is not None or not problem.data.glm.layout:
        return problem
    return dataclasses.replace(problem, digest=_problem_digest(problem))


def is_unchanged(problem: Problem) -> bool:
    """Whether the table of a sealed problem still holds its rows; others have their own copy of them."""
    return problem.digest is None or not problem.data.glm.layout or _problem_digest(problem) == problem.digest


def differing(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """The part in which two problems differ, as it is called in a sentence; empty where they are the same."""
    for name, words in PARTS.items():
        if ours.get(name) != theirs.get(name):
            return words
    return ""


def _sha256(value: Any) -> str:
    plain = json.dumps(value, sort_keys=True, default=_plain, ensure_ascii=True)
    return hashlib.sha256(plain.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """NumPy numbers as plain ones."""
    return value.item() if isinstance(value, np.generic) else str(value)


def _problem_digest(problem: Problem) -> str:
    """Digest of the rows: candidates, columns always in, response, and an offset where there is one."""
    if problem.observed is None:
        raise InputError("the problem holds no rows and no digest of them, so nobody can tell what its data were.")
    y, weight, offset = problem.observed
    columns, glm = problem.data.columns, problem.data.glm
    fixed = columns.base[:, int(problem.intercept) :]
    last = [y, offset] if offset.any() else [y]
    digest: Digest | None = None
    width = columns.x.shape[1] + fixed.shape[1] + len(last)
    step = max(1, _BLOCK_BYTES // (8 * width))
    for start in range(0, len(y), step):
        rows = slice(start, start + step)
        candidates = glm.table_rows(rows) if isinstance(glm, Glm) and glm.layout else columns.x[rows].T
        block = np.vstack([candidates, fixed[rows].T, *(part[None, rows] for part in last)])
        part = Digest.of(block, weight[rows])
        digest = part if digest is None else digest.merged(part)
    assert digest is not None
    return digest.text


def _feature_digest(problem: FeatureProblem) -> str:
    weight = problem.root_weight**2
    whole = np.rint(weight)
    # Squares of roots of whole numbers are whole but for rounding.
    weight = np.where(np.abs(weight - whole) < 1e-9 * np.maximum(whole, 1.0), whole, weight)
    known = [] if problem.offset is None else [problem.offset]
    fixed = [columns.T for columns in problem.always_in.values()]
    rest = [*fixed, problem.y, *known]
    if isinstance(problem, WideProblem):
        blocks = (np.asarray(problem.x[some], dtype=np.float64) for some in problem.blocks())
        return Digest.of_blocks(itertools.chain(blocks, [np.vstack(rest)]), weight).text
    return Digest.of(np.vstack([problem.x, *rest]), weight).text
