"""Tables and formulas become the same design matrix however they come, at fit and again at predict."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modejump.core.errors import InputError, ModejumpWarning
from modejump.data.coding import TableSpec, learn_table
from modejump.data.formulas import FormulaSpec, learn_formula
from modejump.data.response import read_offset, read_response, read_weights
from modejump.data.rows import merge_rows
from modejump.data.tables import read_formula, read_table

ROWS = 12


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "y": rng.normal(size=ROWS),
            "a": rng.uniform(1, 2, ROWS),
            "n": rng.integers(0, 5, ROWS),
            "b": rng.integers(0, 2, ROWS).astype(bool),
            "f": pd.Categorical(["lo", "mid", "hi"] * 4, categories=["lo", "mid", "hi", "never"]),
            "two words": rng.normal(size=ROWS),
        }
    )


def as_polars(table: pd.DataFrame) -> pl.DataFrame:
    levels = list(table["f"].cat.categories)
    columns = {name: table[name].to_list() for name in table.columns}
    return pl.DataFrame(columns).with_columns(pl.col("f").cast(pl.Enum(levels)))


def dummies(table: pd.DataFrame) -> np.ndarray:
    f = table["f"].to_numpy()
    return np.column_stack([f == "mid", f == "hi"]).astype(float)


@pytest.mark.parametrize("convert", [lambda t: t, as_polars], ids=["pandas", "polars"])
def test_a_frame_becomes_numbers_and_blocks(convert):
    table = frame().drop(columns="y")
    spec, design = learn_table(convert(table))
    assert spec.terms == {"a": [0], "n": [1], "b": [2], "f": [3, 4], "two words": [5]}
    assert spec.design_names == ["a", "n", "b", "f[T.mid]", "f[T.hi]", "two words"]
    expected = np.column_stack([table[["a", "n", "b"]].astype(float), dummies(table), table["two words"]])
    np.testing.assert_array_equal(design, expected)
    np.testing.assert_array_equal(spec.apply(convert(table)), expected)


def test_a_polars_categorical_without_declared_order_is_sorted():
    table = pl.DataFrame({"f": pl.Series(["v", "u", "w", "u"], dtype=pl.Categorical)})
    spec, design = learn_table(table)
    assert spec.design_names == ["f[T.v]", "f[T.w]"]
    np.testing.assert_array_equal(design, [[1, 0], [0, 0], [0, 1], [0, 0]])


def test_the_spec_survives_json_and_codes_new_rows_alike():
    table = frame().drop(columns="y")
    spec, design = learn_table(table, {"pair": ["a", 1]})
    again = TableSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
    assert again == spec
    np.testing.assert_array_equal(again.apply(table.iloc[3:7]), design[3:7])
    shuffled = table[list(table.columns[::-1])]
    np.testing.assert_array_equal(again.apply(shuffled), design)
    # A factor may come as text, and need not show all of its levels.
    np.testing.assert_array_equal(again.apply(table.assign(f="hi"))[:, 3:5], np.tile([0.0, 1.0], (ROWS, 1)))


@given(
    levels=st.lists(st.one_of(st.text(max_size=3), st.integers(-5, 5)), min_size=1, max_size=5, unique_by=str),
    codes=st.lists(st.integers(0, 4), min_size=1, max_size=20),
)
@settings(deadline=None, max_examples=40)
def test_a_factor_is_treatment_coded_whatever_its_levels(levels, codes):
    values = [levels[c % len(levels)] for c in codes]
    table = pd.DataFrame({"f": pd.Categorical(values, categories=levels)})
    spec, design = learn_table(table)
    present = [level for level in levels if level in values]
    assert spec.columns[0].levels == tuple(present)
    expected = np.array([[float(v == level) for level in present[1:]] or [0.0] for v in values])
    np.testing.assert_array_equal(design, expected)
    again = TableSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
    np.testing.assert_array_equal(again.apply(table), expected)


def test_arrays_have_positions_for_names():
    x = np.arange(12.0).reshape(4, 3)
    spec, design = learn_table(x)
    assert spec.terms == {"x0": [0], "x1": [1], "x2": [2]}
    np.testing.assert_array_equal(design, x)
    np.testing.assert_array_equal(spec.apply(pd.DataFrame(x, columns=["p", "q", "r"])), x)
    with pytest.raises(InputError, match="X has 2 columns, but the fit had 3"):
        spec.apply(pd.DataFrame(x[:, :2], columns=["p", "q"]))


def test_groups_stand_where_their_first_column_stood():
    spec, _ = learn_table(frame().drop(columns="y"), {"both": ["b", "n"], "rest": ["two words", "f"]})
    assert spec.terms == {"a": [0], "both": [1, 2], "rest": [3, 4, 5]}


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ({"g": ["a", "zzz"]}, "group 'g' names column 'zzz', which X does not have"),
        ({"g": [0, 99]}, "group 'g' names column 99, but X has 5 columns"),
        ({"g": ["a"], "h": ["a"]}, "column 'a' is listed twice"),
        ({"g": []}, "at least one column"),
        ({"g": "ab"}, "must be a list"),
        ({"a": ["n", "b"]}, "has the name of a column outside it"),
        (["a", "b"], "groups must be a mapping"),
    ],
)
def test_wrong_groups_are_refused(groups, sentence):
    with pytest.raises(InputError, match=sentence):
        learn_table(frame().drop(columns="y"), groups)


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ([f"id{i}" for i in range(ROWS)], f"column 'new' holds {ROWS} different texts in {ROWS} rows"),
        (["1", "2", "n/a", "4"] * 3, r"column 'new' looks like numbers but is 'n/a' in row 2 \(counting from 0\)"),
        (["1,5", "2"] * 6, r"column 'new' holds numbers stored as text, such as '1,5' in row 0"),
        (["u", None] * 6, r"column 'new' is missing \(NaN\) in row 1"),
        (pd.date_range("2020-01-01", periods=ROWS), "column 'new' holds dates or times"),
        ([1.0, np.nan] * 6, r"column 'new' is missing \(NaN\) in row 1"),
        ([1.0, 2.0, np.inf] * 4, r"column 'new' is infinite \(inf\) in row 2"),
        (pd.array([1, 2, None] * 4, dtype="Int64"), r"column 'new' is missing \(NaN\) in row 2"),
        (pd.Categorical(["u", None] * 6), r"column 'new' is missing \(NaN\) in row 1"),
        (np.arange(ROWS) * 1j, "column 'new' holds neither numbers nor categories"),
        (np.array([{}, 1.0] * 6, dtype=object), "column 'new' holds values that are not numbers"),
    ],
)
def test_columns_that_are_no_covariates_are_refused(column, sentence):
    with pytest.raises(InputError, match=sentence):
        learn_table(frame().assign(new=column))


def test_numbers_in_an_object_column_are_numbers():
    spec, design = learn_table(pd.DataFrame({"a": np.array([1, 2.5, True], dtype=object)}))
    np.testing.assert_array_equal(design[:, 0], [1.0, 2.5, 1.0])


def test_two_columns_of_one_name_and_lazy_frames_are_refused():
    with pytest.raises(InputError, match="two columns named 'a'"):
        learn_table(pd.DataFrame(np.ones((3, 2)), columns=["a", "a"]))
    with pytest.raises(InputError, match="collect"):
        learn_table(pl.LazyFrame({"a": [1.0, 2.0]}))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t.drop(columns="f"), "the new data have no column 'f'"),
        (lambda t: t.assign(f="elsewhere"), "column 'f' has the level 'elsewhere'"),
        (lambda t: t.assign(a="text"), "column 'a' held numbers"),
        (lambda t: t.assign(n=np.nan), "column 'n' is missing"),
        (lambda t: t.to_numpy(), "column 'f' is a factor, which an array cannot carry"),
    ],
)
def test_new_data_must_match(change, sentence):
    table = frame().drop(columns="y")
    spec, _ = learn_table(table)
    with pytest.raises(InputError, match=sentence):
        spec.apply(change(table))


FORMULAS = [
    "y ~ a + f + a:b",
    "y ~ .",
    "y ~ 0 + a*f",
    "np.exp(y) ~ I(`two words`**2) + np.sqrt(a) + C(n):f + b",
    "y ~ C(f, contr.treatment(base='hi')) + C(n) + log(a)",
]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("convert", [lambda t: t, as_polars], ids=["pandas", "polars"])
def test_a_formula_codes_new_rows_alike_and_survives_json(formula, convert):
    table = frame()
    spec, design, y = learn_formula(formula, convert(table))
    columns = sorted(j for indices in spec.terms.values() for j in indices)
    assert columns == list(range(design.shape[1]))
    np.testing.assert_allclose(y, np.exp(table["y"]) if formula.startswith("np.exp") else table["y"])
    np.testing.assert_array_equal(spec.apply(convert(table)), design)
    again = FormulaSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
    assert again.terms == spec.terms and again.intercept == spec.intercept
    np.testing.assert_array_equal(again.apply(convert(table.iloc[2:9])), design[2:9])


def test_terms_of_a_formula_are_blocks():
    spec, design, _ = learn_formula("y ~ a + f + a:b", frame())
    assert spec.terms == {"a": [0], "f": [1, 2], "a:b": [3]}
    np.testing.assert_array_equal(design[:, 1:3], dummies(frame()))
    assert spec.intercept and not learn_formula("y ~ 0 + a", frame())[0].intercept


@pytest.mark.parametrize(
    ("formula", "sentence"),
    [
        ("y ~ a + (", "cannot be read"),
        ("y ~ zzz", "names column 'zzz', which the data do not have"),
        ("y ~ mystery(a)", "known functions"),
        ("~ a", "must have a response and terms"),
        ("a", "must have a response and terms"),
        ("y ~ a | b", "must have a response and terms"),
        ("y ~ 1", "no term to select"),
        ("y ~ y + a", "on both sides"),
        ("y + a ~ b", "one numeric response"),
        ("f ~ a", "one numeric response"),
        ("y ~ np.log(a - 5)", "is NaN in row 0"),
        (3, "must be text"),
    ],
)
def test_wrong_formulas_are_refused(formula, sentence):
    with pytest.raises(InputError, match=sentence):
        learn_formula(formula, frame())


@pytest.mark.parametrize("formula", ["y ~ bs(a, df=4)", "y ~ center(a)", "y ~ I(a.mean() * b)", "y ~ np.mean(a):b"])
def test_only_plain_formulas_are_stored(formula):
    spec, design, _ = learn_formula(formula, frame(), python=True)
    np.testing.assert_allclose(spec.apply(frame()), design)
    with pytest.raises(InputError, match="cannot be stored|compute it as a column first"):
        spec.to_dict()


def test_a_stored_formula_runs_no_foreign_code():
    stored = learn_formula("y ~ a", frame())[0].to_dict()
    stored["formula"] = "y ~ I(__import__('os').getcwd() and a)"
    with pytest.raises(InputError, match="compute it as a column first"):
        FormulaSpec.from_dict(stored)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"f": "elsewhere"}, "column 'f' has the level 'elsewhere'"),
        ({"n": 77}, "column 'n' has the level 77"),
        ({"a": "text"}, "column 'a' held numbers"),
        ({"a": np.nan}, "column 'a' is missing"),
    ],
)
def test_new_data_must_match_a_formula(change, sentence):
    spec, _, _ = learn_formula("y ~ a + f + C(n)", frame())
    with pytest.raises(InputError, match=sentence):
        spec.apply(frame().assign(**change))
    with pytest.raises(InputError, match="have no column 'a'"):
        spec.apply(frame().drop(columns="a"))
    with pytest.raises(InputError, match="data frame"):
        spec.apply(np.ones((3, 3)))


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (None, "requires y"),
        (["a", "b", "c"], "y holds text"),
        ([1.0, np.nan, 2.0], "y is NaN in row 1"),
        (pl.Series([1.0, None, 2.0]), "y is NaN in row 1"),
        (pd.Series([1.0, 2.0, np.inf]), r"y is infinite \(inf\) in row 2"),
        ([1.0, 2.0], "X has 3 rows but y has 2"),
        (np.ones((3, 2)), "1d array"),
        ([1j, 2, 3], "Complex"),
    ],
)
def test_a_response_is_one_number_for_each_row(y, sentence):
    with pytest.raises(InputError, match=sentence):
        read_response(y, 3)


@pytest.mark.parametrize("y", [[1, 2, 3], pd.Series([1, 2, 3], dtype="Int64"), pl.Series([1, 2, 3]), (1.0, 2.0, 3.0)])
def test_responses_come_in_many_containers(y):
    np.testing.assert_array_equal(read_response(y, 3), [1.0, 2.0, 3.0])


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(0, 3), st.integers(1, 4))
def test_rows_are_merged_into_one_canonical_list(seed, n, p, values):
    rng = np.random.default_rng(seed)
    design, y = rng.integers(0, values, (n, p)).astype(float), rng.integers(0, values, n).astype(float)
    weights = rng.integers(0, 3, n).astype(float)
    weights[0] = 1.0
    expected: dict[tuple, float] = {}
    for row, w in zip(np.column_stack([y, design]).tolist(), weights, strict=True):
        expected[tuple(row)] = expected.get(tuple(row), 0.0) + w
    expected = {row: w for row, w in sorted(expected.items()) if w > 0}
    shuffle = rng.permutation(n)
    repeat = np.repeat(np.arange(n), weights.astype(int))
    for d, r, w, _ in (
        merge_rows(design, y, weights),
        merge_rows(design[shuffle], y[shuffle], weights[shuffle]),
        merge_rows(design[repeat], y[repeat], None),
    ):
        w = np.ones(len(r)) if w is None else w
        np.testing.assert_array_equal(np.column_stack([r, d]), np.array(list(expected)).reshape(-1, p + 1))
        np.testing.assert_array_equal(w, list(expected.values()))


def test_a_table_is_read_once_with_all_that_belongs_to_it():
    data = frame()
    weight = pd.Series(np.arange(ROWS) % 3, name="w")
    known = pl.Series("exposure", np.linspace(0.0, 1.0, ROWS))
    table = read_table(data.drop(columns="y"), data["y"], weight, known, groups={"ab": ["a", "b"]})
    assert (table.target, table.offset_name, table.classes) == ("y", "exposure", None)
    assert list(table.spec.terms) == ["ab", "n", "f", "two words"]
    np.testing.assert_array_equal(table.design, table.spec.apply(data))
    assert table.design.flags.c_contiguous and table.weights.dtype == table.offset.dtype == np.float64
    # Rows of weight zero do not count, whatever their response.
    assert set(table.used) == set(data["y"][weight > 0])
    merged = table.merged()
    assert len(merged.response) == (weight > 0).sum() and merged.weights.sum() == weight.sum()
    assert (np.diff(merged.response) >= 0).all() and (merged.target, merged.spec) == ("y", table.spec)
    order = np.argsort(data["y"][weight > 0])
    np.testing.assert_array_equal(merged.offset, known.to_numpy()[weight > 0][order])


def test_labels_and_formulas_are_read_alike():
    data = frame().assign(label=["no", "yes", "yes"] * 4)
    table = read_table(data[["a", "n"]], data["label"], labels=True)
    other = read_formula("label ~ a + n", data, labels=True)
    for one in (table, other):
        assert one.classes.tolist() == ["no", "yes"] and one.target == "label"
        np.testing.assert_array_equal(one.response, [0.0, 1.0, 1.0] * 4)
    np.testing.assert_array_equal(table.design, other.design)


def test_a_constant_response_says_something_beside_an_offset_alone():
    x = np.arange(8.0)[:, None]
    for offset in (None, np.ones(8)):
        with pytest.raises(InputError, match="y is constant"):
            read_table(x, np.ones(8), offset=offset)
    assert read_table(x, np.ones(8), offset=x[:, 0]).offset_name == "offset"
    with pytest.raises(InputError, match="y is constant"):
        read_table(x, np.r_[np.ones(7), 2.0], np.r_[np.ones(7), 0.0])


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([1.0, 2.0], r"sample_weight has shape \(2,\) but X has 3 rows; give one weight"),
        ([1.0, np.nan, 1.0], "sample_weight is NaN or infinite in row 1"),
        ([1.0, -1.0, 1.0], "sample_weight is negative in row 1"),
        ([0.0, 0.0, 0.0], "zero everywhere"),
        ([1j, 1.0, 1.0], "sample_weight holds values that are not numbers"),
        (["a", "b", "c"], "sample_weight holds values that are not numbers"),
    ],
)
def test_weights_and_offsets_are_one_number_for_each_row(weights, sentence):
    with pytest.raises(InputError, match=sentence):
        read_weights(weights, 3)
    if "negative" not in sentence and "zero" not in sentence:
        with pytest.raises(InputError, match=sentence.replace("sample_weight", "offset").replace("weight", "number")):
            read_offset(weights, 3)


def test_weights_that_look_like_precisions_are_told_apart():
    with pytest.warns(ModejumpWarning, match="amount to 1.5 observations in 3 rows"):
        read_weights([0.5, 0.5, 0.5], 3)
    assert read_weights(None, 3) is None and read_offset(None, 3) is None


# --- columns that features are made of ------------------------------------------------------------------------------


def people() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [30.0, 40.0, 50.0, 80.0],
            "sex": pd.Categorical(["male", "female", "male", "other"], categories=["female", "male", "other"]),
            "smokes": [True, False, False, True],
        }
    )


@pytest.mark.parametrize("convert", [pd.DataFrame, pl.from_pandas])
def test_indicators_of_all_levels(convert) -> None:
    spec, design = learn_table(convert(people()), indicators=True)
    assert spec.design_names == ["age", "sex[female]", "sex[male]", "sex[other]", "smokes"]
    assert design[:, 1:4].tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert np.array_equal(spec.apply(convert(people().iloc[::-1])), design[::-1])
    # Features are made of all but what is always in, where the intercept stands for the first level.
    assert spec.split(["sex"]) == ([0, 4], [2, 3])
    assert spec.split(["smokes", "age"]) == ([1, 2, 3], [0, 4])
    assert TableSpec.from_dict(spec.to_dict()) == spec
    new = people()
    new["sex"] = pd.Categorical(["male", "female", "male", "none"])
    with pytest.raises(InputError, match="'sex' has the level 'none', which the data of the fit did not have"):
        spec.apply(convert(new))


@pytest.mark.parametrize("convert", [pd.DataFrame, pl.from_pandas])
def test_medians_stand_for_missing_values(convert) -> None:
    table = people()
    table.loc[1, "age"] = np.nan
    table.loc[2, "sex"] = None
    spec, design = learn_table(convert(table), indicators=True, missing="median")
    assert spec.design_names == [
        "age", "age[missing]", "sex[female]", "sex[male]", "sex[other]", "sex[missing]", "smokes",
    ]  # fmt: skip
    assert design[1, :2].tolist() == [50.0, 1.0] and design[2, 2:6].tolist() == [0.0, 0.0, 0.0, 1.0]
    assert design[[0, 2, 3], 1].tolist() == [0.0, 0.0, 0.0]
    # New rows are filled by the medians of the fit, and columns that were whole have no indicator.
    new = table.astype({"smokes": object})
    new.loc[0, "age"], new.loc[3, "smokes"] = np.nan, None
    again = TableSpec.from_dict(spec.to_dict()).apply(new)
    assert again[0, :2].tolist() == [50.0, 1.0] and again[3, -1] == np.median([1.0, 0.0, 0.0, 1.0])
    with pytest.raises(InputError, match="'sex' is missing .NaN. in row 2"):
        learn_table(convert(table), indicators=True)
    table["age"] = np.nan
    with pytest.raises(InputError, match="'age' is missing in every row; drop it"):
        learn_table(convert(table), missing="median")


def test_missing_values_of_arrays() -> None:
    x = np.array([[1.0, 5.0], [np.nan, 6.0], [3.0, 7.0], [8.0, 9.0]])
    spec, design = learn_table(x, missing="median")
    assert spec.design_names == ["x0", "x0[missing]", "x1"]
    assert design.tolist() == [[1, 0, 5], [3, 1, 6], [3, 0, 7], [8, 0, 9]]
    assert spec.apply(np.array([[np.nan, np.nan]])).tolist() == [[3.0, 1.0, 6.5]]
    with pytest.raises(InputError, match="infinite"):
        spec.apply(np.array([[np.inf, 1.0]]))
    with pytest.raises(InputError, match="'x0' is NaN in row 1"):
        learn_table(x)
