"""The text of features: what is read, what is written, what is refused."""

from __future__ import annotations

import pytest
from feature_cases import features
from hypothesis import given
from hypothesis import strategies as st

from modejump.core.errors import InputError
from modejump.features.nonlinear.expression import MAX_DEPTH, Feature
from modejump.features.nonlinear.text import MAX_EXPONENT

# Letters of the language, so that random texts often get past the tokenizer.
PIECES = (
    "x",
    "y",
    "sin",
    "troot",
    "1",
    "2",
    "64",
    "65",
    "0",
    ".",
    "_",
    "*",
    "**",
    "^",
    "+",
    "-",
    "(",
    ")",
    "`",
    " ",
    "é",
)


@given(features)
def test_text_reads_back(feature: Feature) -> None:
    text = str(feature)
    assert Feature.parse(text) is feature
    assert Feature.parse(text, names=sorted(feature.covariates)) is feature
    assert Feature(text) is feature


@given(features, st.data())
def test_blanks_and_brackets_have_no_meaning(feature: Feature, data: st.DataObject) -> None:
    blanks = st.text(" \t\n", max_size=2)

    def spelled(node: Feature) -> str:
        """The feature with children in any order, blanks anywhere, and brackets around anything but a sum."""
        if not node.children:
            text = str(node)
        else:
            parts = [spelled(child) for child in data.draw(st.permutations(node.children))]
            sign = "*" if node.kind == "product" else "+"
            if node.kind == "projection" and (len(parts) == 1 or data.draw(st.booleans())):
                parts.insert(data.draw(st.integers(0, len(parts))), "1")
            text = sign.join(data.draw(blanks) + part + data.draw(blanks) for part in parts)
            if node.transform is not None:
                text = f"{node.transform}{data.draw(blanks)}({text})"
        return f"({text})" if data.draw(st.booleans()) else text

    assert Feature.parse(data.draw(blanks) + spelled(feature) + data.draw(blanks)) is feature


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("x2*(x1*x2)", "x1*x2*x2"),
        ("rho*R**3", "R*R*R*rho"),
        ("rho*R^3", "R*R*R*rho"),
        ("(a*b)**2", "a*a*b*b"),
        ("sin(x)^2*x^1", "x*sin(x)*sin(x)"),
        ("sin(x + y)", "sin(1 + x + y)"),
        ("sin(y + 1 + x)", "sin(1 + x + y)"),
        ("sin(1+x)", "sin(1 + x)"),
        ("sin(x + x)", "sin(1 + x)"),
        ("sin(x*y + x)", "sin(1 + x + x*y)"),
        ("sin*cos", "cos*sin"),
        ("sin (sin)", "sin(sin)"),
        ("`x`", "x"),
        ("`x y`*`1`", "`1`*`x y`"),
        ("`a``b`", "`a``b`"),
        ("```x`", "```x`"),
        (".x.1*_y", ".x.1*_y"),
        ("Größe*α", "Größe*α"),
        ("`x²`", "`x²`"),
        ("y*troot(x)*x", "x*y*troot(x)"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(Feature.parse(text)) == canonical
    assert str(Feature.parse(canonical)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at position 1, expected a name or '(', found the end."),
        ("  ", "at position 3, expected a name or '(', found the end."),
        ("x*", "at position 3, expected a name or '(', found the end."),
        ("x y", "at position 3, expected '*' or the end, found 'y'."),
        ("(x", "at position 3, expected '*' or ')', found the end."),
        ("x)", "at position 2, expected '*' or the end, found ')'."),
        ("sin(x", "at position 6, expected '*', '+' or ')', found the end."),
        ("sin()", "at position 5, expected a name or '(', found ')'."),
        ("sin(1)", "at position 6, expected '+' and a parent after the intercept 1, found ')'."),
        ("sin(1*x)", "at position 6, expected '+' and a parent after the intercept 1, found '*'."),
        ("sinn(x)", "at position 1, 'sinn' is no transform: perhaps you mean 'sin'."),
        ("x*qqqq(x)", "at position 3, 'qqqq' is no transform: list(modejump.transforms) shows those there are."),
        ("x**0", "at position 4, expected a whole number from 1 to 64 as exponent, found '0'."),
        ("x^65", "at position 3, expected a whole number from 1 to 64 as exponent, found '65'."),
        ("x**`3`", "at position 4, expected a whole number from 1 to 64 as exponent, found '3'."),
        ("x**(2)", "at position 4, expected a whole number from 1 to 64 as exponent, found '('."),
        ("x**2.0", "at position 4, expected a whole number from 1 to 64 as exponent, found '2.0'."),
        ("x^2^3", "at position 4, expected '*' or the end, found '^'."),
        ("`x", "at position 1, a backtick is not closed: end the name with another one."),
        ("x*``", "at position 3, a name in backticks is empty: write a name between them."),
        ("-x", "at position 1, '-' has no meaning: put a name with such a letter in backticks."),
        ("x²", "at position 2, '²' has no meaning: put a name with such a letter in backticks."),
        ("`sin`(x)", "at position 6, expected '*' or the end, found '('."),
    ],
)
def test_errors_say_where_and_what(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        Feature.parse(text)
    assert str(caught.value) == f"Cannot read the feature {text!r}: {message}"


@pytest.mark.parametrize("text", ["x + y", "sin((x + y))", "(1 + x)", "sin(x) + 1"])
def test_a_sum_needs_a_transform(text: str) -> None:
    with pytest.raises(InputError, match="a sum needs a transform around it|a number is the intercept"):
        Feature.parse(text)


@pytest.mark.parametrize("text", ["2*x", "2x", "1", "sin(0 + x)", "sin(1 + 1 + x)", "1.5", "٣", "..."])
def test_numbers_have_their_places(text: str) -> None:
    with pytest.raises(InputError, match="a number is the intercept 1 of a projection or an exponent"):
        Feature.parse(text)


def test_names_are_checked_where_they_are_given() -> None:
    names = ["mass", "host star", "sin"]
    assert str(Feature.parse("mass*`host star`*sin(sin)", names)) == "`host star`*mass*sin(sin)"
    with pytest.raises(InputError, match="at position 6, 'mas' is no column: perhaps you mean 'mass'"):
        Feature.parse("mass*mas", names)
    with pytest.raises(InputError, match="'qqqq' is no column: use the names of the columns"):
        Feature.parse("qqqq", names)
    with pytest.raises(InputError, match="'x' is no column"):
        Feature.parse("x", [])


@pytest.mark.parametrize("text", [None, 3, b"x"])
def test_only_text_is_read(text: object) -> None:
    with pytest.raises(InputError, match="read from text"):
        Feature.parse(text)  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 1000, 100_000])
@pytest.mark.parametrize("opening", ["(", "sin(", "sin(1 + "])
def test_deep_nesting_is_refused(opening: str, depth: int) -> None:
    with pytest.raises(InputError, match=f"parentheses are more than {MAX_DEPTH} deep") as caught:
        Feature.parse(opening * depth + "x" + ")" * depth)
    assert len(str(caught.value)) < 250


def test_the_deepest_nesting_is_read() -> None:
    assert Feature.parse("(" * MAX_DEPTH + "x" + ")" * MAX_DEPTH) is Feature.covariate("x")
    assert Feature.parse("sin(" * MAX_DEPTH + "x" + ")" * MAX_DEPTH).depth == MAX_DEPTH


def test_parentheses_beside_each_other_are_not_nested() -> None:
    factors = 2 * MAX_DEPTH
    assert Feature.parse("*".join(["(x)"] * factors)) is Feature.product(*[Feature.covariate("x")] * factors)


def test_powers_of_powers_cannot_explode() -> None:
    assert Feature.parse(f"x**{MAX_EXPONENT}").complexity == MAX_EXPONENT
    with pytest.raises(InputError, match="complexity 4096 is too large"):
        Feature.parse("((x**64)**64)**64")
    with pytest.raises(InputError, match="expected a whole number"):
        Feature.parse("x**" + "9" * 10_000)


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=20).map("".join)))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        feature = Feature.parse(text)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert Feature.parse(str(feature)) is feature


@given(st.text(min_size=1))
def test_any_column_name_can_be_written(name: str) -> None:
    covariate = Feature.covariate(name)
    assert Feature.parse(str(covariate)) is covariate
    assert Feature.parse(f"sin({covariate}*{covariate})").covariates == {name}
