"""Formulas run no code of their own and unfold into no more terms than anybody can fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from modejump import BGLMRegressor, InputError
from modejump.data.formulas import FormulaSpec, learn_formula


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.uniform(1, 2, (40, 3)), columns=["a", "b", "a b"])
    return table.assign(f=list("xyzw") * 10, y=rng.normal(size=40))


@pytest.mark.parametrize(
    "term",
    [
        "I(a * __import__('os').system('touch {path}'))",
        "{{a * __import__('os').system('touch {path}')}}",
        "C(f, levels=[__import__('os').system('touch {path}')])",
        "np.load('{path}')",
        "open('{path}', 'w')",
        "I((lambda: open('{path}', 'w'))())",
        "I([open('{path}', 'w') for i in a])",
        "I(f'{{open}}')",
        "I(a.__class__)",
        "np.lib.format.open_memmap('{path}', 'w+')",
    ],
)
def test_no_code_runs(term: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "touched"
    with pytest.raises(InputError, match="known functions|cannot be read"):
        learn_formula(f"y ~ a + {term.format(path=path)}", frame)
    assert not path.exists()


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ I(a * 9**9**9)", "y ~ I(a * (2 * 5)**9)", "y ~ I(a * 1**-10000)", "y ~ I('a' * 10**9)",
        "y ~ I([1] * 10**9)",
        "y ~ (a + b + f)**200", "y ~ " + "*".join(["(a + b)"] * 30), "y ~ (.)**9 + ." + " + a" * 6000,
        "y ~ I(" + "(" * 500 + "a" + ")" * 500 + ")", "y ~ I(1 << a)",
    ],
)  # fmt: skip
def test_sizes_are_bounded(formula: str, frame: pd.DataFrame) -> None:
    stored = {"formula": formula, "available": ["a", "b", "f"], "columns": [], "texts": [], "design": []}
    with pytest.raises(InputError):
        learn_formula(formula, frame)
    with pytest.raises(InputError):
        FormulaSpec.from_dict(stored)


@pytest.mark.parametrize(
    "right",
    [
        "a + C(f) + a:b", "(a + b + f)**3", ".", "a*b - 1", "np.sqrt(a) + log(b) + I(a**2 / b)",
        "poly(a, 3) + bs(b, df=4)",
        "I(a > 1.5) + C(f, contr.sum)", "`a b` + I(`a b` * 10**3)", "scale(a) + C(f, contr.treatment('y'))", "a/b",
    ],
)  # fmt: skip
def test_usual_formulas_are_read(right: str, frame: pd.DataFrame) -> None:
    spec, design, _ = learn_formula(f"y ~ {right}", frame)
    assert spec.terms and np.isfinite(design).all()


def test_python_where_the_user_says_so(frame: pd.DataFrame) -> None:
    formula = "y ~ a + I(b.cumsum())"
    with pytest.raises(InputError, match="python=True"):
        BGLMRegressor().fit_formula(formula, frame)
    model = BGLMRegressor().fit_formula(formula, frame, python=True)
    assert list(model.inclusion_.index) and "I(b.cumsum())" in model.inclusion_.index
    with pytest.raises(InputError, match="column first"):
        model.table_.to_dict()
