"""The page of a fitted model: its numbers, its formulas, and names that would be markup if nobody escaped them."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from report_cases import NASTY, NASTY_TARGET, classes, enumerated, laws, numbers_of, sampled, table, weighed_again

import modejump
from modejump.cli import main
from modejump.core.errors import InputError
from modejump.report.mathml import formula
from modejump.report.prior_slider import prior_slider, term_charges
from modejump.samplers.result import ModelTable

CASES = {"enumerated": enumerated, "sampled": sampled, "classes": classes, "laws": laws}


@pytest.fixture(params=CASES)
def model(request):
    return CASES[request.param]()


def page_of(model, folder: Path, *rows, **more) -> str:
    return model.report(folder / "report.html", *rows, **more).read_text(encoding="utf-8")


class Reader(HTMLParser):
    """Elements of a page, and the text that a reader sees."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.hidden = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.hidden = tag if tag in ("script", "style") else self.hidden

    def handle_endtag(self, tag: str) -> None:
        self.hidden = "" if tag == self.hidden else self.hidden

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def test_the_numbers_are_those_of_the_model(model, tmp_path):
    data = numbers_of(page_of(model, tmp_path))
    inclusion, posterior = model.inclusion_, model.posterior_
    assert [term["name"] for term in data["terms"]] == list(inclusion.index[: len(data["terms"])])
    for term in data["terms"]:
        row = inclusion.loc[term["name"]]
        for name in ("probability", "mcse", "ess", "r_hat", "renormalised"):
            assert term[name] == (pytest.approx(row[name], rel=1e-12) if np.isfinite(row[name]) else None)
    held = posterior.models(None)
    by_name = {frozenset(f): (p, q) for f, p, q in zip(held["features"], held["probability"], held["renormalised"])}
    for listed in data["models"]:
        probability, share = by_name[frozenset(data["terms"][j]["name"] for j in listed["members"])]
        assert listed["probability"] == pytest.approx(probability, abs=1e-12)
        assert np.exp(listed["log_share"]) == pytest.approx(share, rel=1e-9)
    assert data["held"] == len(held) and data["exact"] == posterior.exact


def tilted(prior: dict, log2: float) -> np.ndarray:
    """Weights of the groups of models, as the page's script computes them."""
    log_weight = np.array(prior["log_mass"]) + log2 * np.log(2.0) * np.array(prior["units"])
    weights = np.exp(log_weight - log_weight.max())
    return weights / weights.sum()


def test_the_slider_weighs_the_models_held(model, tmp_path):
    data = numbers_of(page_of(model, tmp_path))
    prior = data["prior"]
    for log2 in (0.0, -2.0, 1.5, prior["least"], prior["most"]):
        wanted, weights = weighed_again(model, log2), tilted(prior, log2)
        for j, p in enumerate(weights @ np.array(prior["inclusion"])):
            assert p == pytest.approx(wanted["inclusion"][data["terms"][j]["name"]], abs=2e-7)
        sizes = weights @ np.array(prior["sizes"])
        assert sizes @ np.arange(len(sizes)) == pytest.approx(wanted["mean_size"], abs=2e-5)
        units = np.array(prior["units"]) * log2 * np.log(2.0)
        total = np.logaddexp.reduce(np.array(prior["log_mass"]) + units)
        squares = np.logaddexp.reduce(np.array(prior["log_squared"]) + 2.0 * units)
        assert np.exp(2.0 * total - squares) == pytest.approx(wanted["effective"], rel=1e-6)
        best = max(m["log_share"] + log2 * np.log(2.0) * m["units"] for m in data["models"])
        assert np.exp(best - total) == pytest.approx(wanted["best"], rel=1e-6)


def test_the_slider_of_independent_terms_is_a_fit_with_another_inclusion_probability():
    # Odds of a quarter in place of one: q = 0.2 in place of 0.5.
    data = prior_slider(enumerated().posterior_, enumerated()._options.model_prior, list(range(5)))
    assert (data["kind"], data["value"]) == ("inclusion", 0.5)
    again = modejump.BGLMRegressor(model_prior=modejump.BernoulliPrior(0.2)).fit(*table())
    wanted = again.inclusion_["probability"].reindex(enumerated().posterior_.problem.names)
    assert tilted(data, -2.0) @ np.array(data["inclusion"]) == pytest.approx(wanted.to_numpy(), abs=2e-7)


def test_the_slider_of_laws_changes_the_complexity_prior():
    posterior, prior = laws().posterior_, laws()._options.model_prior
    n, features = posterior.problem.data.n, posterior.laws.features
    data = prior_slider(posterior, prior, [0])
    assert data["kind"] == "complexity" and data["value"] == pytest.approx(1.0 / n)
    other = modejump.ComplexityPrior(data["value"] * 4.0)
    change = other.log_weights_of(features, n, 3) - prior.log_weights_of(features, n, 3)
    assert change == pytest.approx(2.0 * np.log(2.0) * term_charges(posterior, prior), rel=1e-9)
    assert data["value"] * 2.0 ** data["most"] < 1.0


def test_what_was_not_visited_is_known_for_the_prior_of_the_fit():
    posterior = sampled().posterior_
    data = prior_slider(posterior, sampled()._options.model_prior, [0])
    assert posterior.result.unvisited > 0.0
    assert sum(data["alone"]) / sum(data["visits"]) == pytest.approx(posterior.result.unvisited, rel=1e-12)


def test_only_part_of_an_enumeration_may_be_held():
    posterior, prior = enumerated().posterior_, enumerated()._options.model_prior
    models = posterior.result.models
    fewer = ModelTable(models.words[:6], models.log_posterior[:6], models.visits[:6], models.first_seen[:6])
    part = dataclasses.replace(posterior, result=dataclasses.replace(posterior.result, models=fewer))
    data = prior_slider(part, prior, [0])
    share = np.exp(np.logaddexp.reduce(data["log_mass"]))
    assert share == pytest.approx(np.exp(models.log_posterior[:6] - posterior.log_evidence).sum(), rel=1e-9)
    assert np.exp(np.logaddexp.reduce([value for _, value in data["all"]])) == pytest.approx(1.0, rel=1e-9)
    # The share of all models at another prior, against the whole list.
    p = weighed_again(enumerated(), -3.0)["p"]
    log_tilt = -3.0 * np.log(2.0)
    held = np.logaddexp.reduce(np.array(data["log_mass"]) + log_tilt * np.array(data["units"]))
    every = np.logaddexp.reduce([value + log_tilt * size for size, value in data["all"]])
    assert np.exp(held - every) == pytest.approx(p[:6].sum(), rel=1e-9)


def test_names_are_text(tmp_path):
    page = page_of(enumerated(), tmp_path, *table(), title=NASTY_TARGET)
    reader = Reader(page)
    assert [attributes.get("type") for tag, attributes in reader.elements if tag == "script"] == [
        "application/json",
        None,
    ]
    assert not [tag for tag, _ in reader.elements if tag in ("img", "b", "iframe", "object")]
    assert not [name for _, attributes in reader.elements for name in attributes if name.startswith("on")]
    for name in (*NASTY, NASTY_TARGET):
        assert name in reader.text
    assert {term["name"] for term in numbers_of(page)["terms"]} == set(NASTY)


def test_the_page_asks_nothing_of_the_network_and_is_small(model, tmp_path):
    page = page_of(model, tmp_path)
    assert len(page.encode()) < 300_000
    links = [v for _, a in Reader(page).elements for k, v in a.items() if k in ("src", "href", "action", "data")]
    assert all(link.startswith("#") or link == "data:," for link in links)
    assert "default-src 'none'" in page
    for word in ("http:", "https:", "@import", "url(", "fetch("):
        assert word not in page.replace("http://www.w3.org/2000/svg", "")


def test_the_order_and_the_words_of_the_page(model, tmp_path):
    reader = Reader(page_of(model, tmp_path))
    sections = [attributes["id"] for tag, attributes in reader.elements if tag == "section"]
    assert sections == "verdict terms best prior chains predictions diagnostics data again".split()
    verdict = model.verdict_
    assert f"Mixing: {verdict.level}" in reader.text and f"Search: {verdict.search}" in reader.text
    assert " ".join(str(verdict).split()) in reader.text
    assert f"modejump {modejump.__version__}, seed 1" in reader.text and "random_state=1" in reader.text
    assert "a stored run holds no rows" in reader.text
    levels = [int(tag[1]) for tag, _ in reader.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1 and all(b - a <= 1 for a, b in zip(levels, levels[1:]))


def test_a_stored_model_gives_the_same_numbers(tmp_path):
    before = numbers_of(page_of(laws(), tmp_path))
    again = modejump.load(laws().save(tmp_path / "run"))
    assert again.target_ == "force"
    assert numbers_of(page_of(again, tmp_path)) == before
    assert modejump.load(enumerated().save(tmp_path / "other")).target_ == NASTY_TARGET


def test_predictions_are_compared_with_rows(tmp_path):
    frame, y = table(rows=60, seed=9)
    check = numbers_of(page_of(enumerated(), tmp_path, frame, y))["check"]
    for level, share in check["coverage"]:
        inside = enumerated().predict(frame, interval=level)
        assert share == ((y >= inside["lower"]) & (y <= inside["upper"])).mean()
    assert check["rmse"] == pytest.approx(float(np.sqrt(((y - enumerated().predict(frame)) ** 2).mean())))
    labels = np.where(y > 0, "<yes>", "no")
    check = numbers_of(page_of(classes(), tmp_path, frame, labels))["check"]
    assert sum(count for *_, count in check["bins"]) == 60
    assert check["accuracy"] == classes().score(frame, labels)


MATHML = {
    "a*b/(c + d)": "<mfrac><mrow><mi>a</mi><mo>·</mo><mi>b</mi></mrow>"
    "<mrow><mi>c</mi><mo>+</mo><mi>d</mi></mrow></mfrac>",
    "x^(2/3)": "<msup><mi>x</mi><mn>2/3</mn></msup>",
    "c0": "<msub><mi>c</mi><mn>0</mn></msub>",
    "`c0`": "<mi>c0</mi>",
    "cbrt(x)": "<mroot><mrow><mi>x</mi></mrow><mn>3</mn></mroot>",
    "2e-05": "<mrow><mn>2</mn><mo>×</mo><msup><mn>10</mn><mn>−5</mn></msup></mrow>",
    "a - (b - c)": "<mrow><mi>a</mi><mo>−</mo><mrow><mo>(</mo><mrow><mi>b</mi><mo>−</mo><mi>c</mi></mrow>"
    "<mo>)</mo></mrow></mrow>",
    "a | b & c": "<mrow><mi>a</mi><mo>∨</mo><mrow><mo>(</mo><mrow><mi>b</mi><mo>∧</mo><mi>c</mi></mrow>"
    "<mo>)</mo></mrow></mrow>",
    "!a & (b | c)": "<mrow><mrow><mo>¬</mo><mi>a</mi></mrow><mo>∧</mo><mrow><mo>(</mo><mrow><mi>b</mi><mo>∨</mo>"
    "<mi>c</mi></mrow><mo>)</mo></mrow></mrow>",
}


@pytest.mark.parametrize("text", MATHML)
def test_formulas_are_typeset(text):
    assert formula(text) == f"<math>{MATHML[text]}</math>"


@pytest.mark.parametrize(
    "text", ["", "a +", "a b", "(a", "a)", "§", "`", "(" * 300 + "a" + ")" * 300, "1 + " * 5000 + "1"]
)
def test_what_is_no_formula_stays_text(text):
    made = formula(text)
    assert made.startswith("<code>") and ElementTree.fromstring(made).text == (text or None)


def test_every_law_is_typeset(tmp_path):
    page = page_of(laws(), tmp_path)
    spelt = re.search(r'<template id="formulas">(.*?)</template>', page, re.DOTALL)
    assert spelt is not None and "<code>" not in spelt[1]
    ElementTree.fromstring(f"<all>{spelt[1].replace('&#x2061;', '')}</all>")


def test_a_likelihood_of_ones_own_has_a_page_without_coefficients(tmp_path):
    frame, y = table()
    own = modejump.BatchLikelihood(lambda models: np.array([-2.0 * len(model) for model in models]))
    model = modejump.BGLMRegressor(family=own, algorithm="enumerate").fit(frame, y)
    text = Reader(page_of(model, tmp_path)).text
    assert "has no coefficients that modejump knows of" in text


WRONG = {
    "nowhere": "not a directory",
    ". -o report.html": "not a saved model",
    "run -o missing/report.html": "folder missing does not exist",
    "run -o run": "is a directory",
    "run --data nothing.csv": "does not exist",
    "run --data other.csv": "not a column",
    "run --data data.csv --levels 3": "no such option",
    "": "missing argument",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(50, 3)), columns=["alpha", "beta", "gamma"])
    frame["y"] = frame["alpha"] + rng.normal(size=50)
    frame.to_csv(made / "data.csv", index=False)
    frame.drop(columns="y").to_csv(made / "other.csv", index=False)
    assert (
        main(["fit", str(made / "data.csv"), "--target", "y", "--seed", "7", "--out", str(made / "run"), "--quiet"])
        == 0
    )
    return made


def test_the_command_writes_the_page_of_a_run(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert main("report run -o page.html --data data.csv".split()) == 0
    assert "page.html" in capsys.readouterr().out
    page = (folder / "page.html").read_text(encoding="utf-8")
    text = Reader(page).text
    assert "modejump fit" in text and "--target y --seed 7" in text and "y in data.csv" in text
    assert numbers_of(page)["check"]["rows"] == 50


@pytest.mark.parametrize("words", WRONG)
def test_wrong_arguments_get_one_sentence(words, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert main(["report", *words.split()]) == 2
    out, err = capsys.readouterr()
    assert out == "" and WRONG[words] in err.lower() and err.count("\n") == 1


def test_wrong_arguments_of_the_method(tmp_path):
    frame, y = table()
    with pytest.raises(InputError, match="needs both X and y"):
        enumerated().report(tmp_path / "report.html", frame)
    with pytest.raises(InputError, match="one response for each row"):
        enumerated().report(tmp_path / "report.html", frame, y[:-1])
    with pytest.raises(InputError, match="the classes are"):
        classes().report(tmp_path / "report.html", frame, ["perhaps"] * len(frame))
    assert not list(tmp_path.iterdir())
