"""The page itself: sections of HTML around numbers, in one file."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from modejump import __version__
from modejump.core.errors import InputError
from modejump.report.calibration import check_predictions
from modejump.report.contents import best_equation, coefficient_rows, is_formula, markup, page_data, plain_name
from modejump.report.mathml import equation
from modejump.report.tables import (
    constant_rows,
    count,
    diagnostics_table,
    facts_list,
    figure,
    law_rows,
    plain,
    term_table,
    value_table,
)

# Coefficients listed, and the level of their intervals.
COEFFICIENTS, LEVEL = 40, 0.9
_HEADS = {
    "lower": f"{100 * LEVEL:g} % from",
    "upper": "to",
    "conditional_mean": "mean if in",
    "conditional_sd": "sd if in",
}
_MARKS = {"good": ("✓", "fine"), "doubt": ("!", "in doubt"), "bad": ("✕", "not good")}
_MIXING = {
    "exact": ("good", "Every model was evaluated, so nothing here has a Monte Carlo error."),
    "good": ("good", "The chains agree: the probabilities hold within the errors shown."),
    "doubtful": ("doubt", "Read the sentences below before you rely on the second decimal."),
    "bad": ("bad", "Do not rely on these probabilities yet; run longer."),
}
_SEARCH = {
    "complete": ("good", "No model was left out."),
    "well searched": ("good", "Independent searches met the same best model."),
    "uncertain": ("doubt", "Better models may exist that nobody met."),
}


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    *,
    prior: Any,
    call: str,
    title: str = "",
    command: str = "",
    X: Any = None,
    y: Any = None,
    offset: Any = None,
) -> Path:
    """Write the page about a fitted model.

    Parameters
    ----------
    model : estimator
        One of modejump's, fitted.
    path : str or path
        The file to write.
    prior : prior object
        Prior of the models as the user stated it.
    call : str
        Python that fits the model again.
    title : str
        Heading of the page; what the model explains, by default.
    command : str
        The command that fitted it, where one did.
    X : data frame or array, optional
        Rows to compare predictions with.
    y, offset : array, optional
        Their responses, and their offset where the fit had one.

    Returns
    -------
    Path
        The file.
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target} is a directory; give the name of a file, such as report.html.")
    if not target.parent.is_dir():
        raise InputError(f"the folder {target.parent} does not exist; make it, or give another path.")
    if (X is None) != (y is None):
        raise InputError("a comparison of predictions with responses needs both X and y; give both, or neither.")
    check = None if X is None else check_predictions(model, X, y, offset)
    text = report_html(model, prior=prior, call=call, title=title, command=command, check=check)
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"the file {target} cannot be written: {error.strerror or error}.") from None
    return target


def report_html(
    model: Any, *, prior: Any, call: str, title: str = "", command: str = "", check: dict[str, Any] | None = None
) -> str:
    """The page as text.

    Parameters
    ----------
    model, prior, call, title, command : object
        As for `write_report`.
    check : dict, optional
        What `check_predictions` found.
    """
    data = page_data(model, prior) | {"check": check}
    summary, posterior = model.page(), model.posterior_
    script = _file("page.js")
    sections = [
        ("verdict", "Verdict", _verdict(model.verdict_)),
        ("terms", f"{data['noun'].capitalize()}s and their probabilities", _terms(model, data)),
        ("best", "The best model", _best(model)),
        ("prior", "Another prior", _prior(data)),
        ("chains", "The chains", _chains(data, posterior)),
        ("predictions", "Predicted against observed", _predictions(data["check"])),
        ("diagnostics", "Diagnostics", diagnostics_table(posterior, data)),
        ("data", "Data and priors", facts_list(model, summary.facts)),
        ("again", "The same again", _again(model, call, command)),
    ]
    return Template(_file("page.html")).substitute(
        title=escape(title or f"What explains {_response(model)}"),
        subject=escape(summary.title),
        version=escape(__version__),
        style=_file("page.css"),
        script=script,
        digest=_digest(f"\n{script}\n"),
        links=" ".join(f'<a href="#{key}">{escape(name)}</a>' for key, name, _ in sections),
        sections="\n".join(
            f'<section id="{key}" aria-labelledby="{key}-title">'
            f'<h2 id="{key}-title">{escape(name)}</h2>\n{body}</section>'
            for key, name, body in sections
        ),
        formulas="".join(f"<span>{markup(posterior, term['name'])}</span>" for term in data["terms"]),
        data=_embedded(data),
    )


def _file(name: str) -> str:
    return (files("modejump.report") / name).read_text(encoding="utf-8").strip()


def _digest(script: str) -> str:
    """What lets this script run and no other, whatever a name of a column might hold."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _embedded(data: Any) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _response(model: Any) -> str:
    return str(getattr(model, "target_", "y"))


# --- sections ---------------------------------------------------------------------------------------------------------


def _verdict(verdict: Any) -> str:
    cards = []
    for what, word, (level, sentence) in (
        ("Mixing", verdict.level, _MIXING[verdict.level]),
        ("Search", verdict.search, _SEARCH[verdict.search]),
    ):
        sign, meaning = _MARKS[level]
        cards.append(
            f'<div class="card {level}"><p class="mark">'
            f'<span class="sign" role="img" aria-label="{meaning}">{sign}</span>'
            f" {what}: <strong>{escape(word)}</strong></p><p>{escape(sentence)}</p></div>"
        )
    # Thousands stay together where the line breaks.
    sentences = re.sub(r"(?<=\d) (?=\d{3}\b)", "\N{NARROW NO-BREAK SPACE}", str(verdict))
    return f'<div class="cards">{"".join(cards)}</div>\n<p class="lead">{escape(sentences)}</p>'


def _terms(model: Any, data: dict[str, Any]) -> str:
    posterior = model.posterior_
    how = (
        "Probabilities are exact."
        if data["exact"]
        else "Probabilities are shares of the sampling steps; whiskers are two Monte Carlo errors to either side."
        if posterior.frequency is not None
        else "Probabilities are renormalised over the models found, without an error estimate."
    )
    made = f"<p>Probability that each {data['noun']} is in the model, given the data and the priors. {how}</p>"
    made += term_table(posterior, data)
    if is_formula(posterior) and hasattr(model, "law_table"):
        made += law_rows(model)
    return made


def _best(model: Any) -> str:
    found, family = best_equation(model), model.posterior_.problem.family
    if found is None:
        return "<p>A likelihood of your own has no coefficients that modejump knows of, so there is no equation.</p>"
    classes = getattr(model, "classes_", None)
    event = _response(model) if classes is None else f"{_response(model)} = {classes[1]}"
    share = model.posterior_.models(1)["probability"].iloc[0]
    made = (
        f"<p>It holds {plain(100 * share, 3)} % of the posterior; predictions average over all models.</p>"
        f'<p class="equation" role="group" aria-label="Equation of the best model">'
        f"{equation(family.text(event), *found)}</p>"
        f"<details><summary>As text and as LaTeX</summary>"
        f"{_code(f'{family.text(event)} = {model.equation()}')}{_code(_latex(model))}</details>"
    )
    made += constant_rows(model, LEVEL)
    names, rows = coefficient_rows(model, LEVEL, COEFFICIENTS)
    if not names:
        return made
    heads = [_HEADS.get(name, name) for name in names]
    missing = "" if "lower" in names else " Intervals are missing: this version of modejump computes none."
    made += (
        "<h3>Coefficients, averaged over the models</h3><p>On the original scale of each column; zero where a model "
        f"lacks it.{missing}</p>"
    )
    terms = set(model.posterior_.problem.names)
    typeset = {name: markup(model.posterior_, name) if name in terms else plain_name(name) for name, _ in rows}
    return made + value_table("coefficient", heads, [(typeset[name], values) for name, values in rows])


def _latex(model: Any) -> str:
    try:
        return str(model.to_latex())
    except InputError as error:
        return str(error)


def _prior(data: dict[str, Any]) -> str:
    prior = data["prior"]
    words = {
        "complexity": "How much complexity costs",
        "inclusion": "Prior inclusion probability of each term",
        "odds": "Prior odds of each term",
        "leaves": "Prior weight of each leaf",
    }[prior["kind"]]
    what = {
        "complexity": "each unit of complexity multiplies a model's prior by a, and the slider changes a",
        "leaves": "the slider multiplies a model's prior by the same factor for each leaf of its features",
    }.get(prior["kind"], "the slider multiplies a model's prior by the same factor for each of its terms")
    if is_law := prior["kind"] == "complexity":
        what += "; a law counts by its simplest spelling"
    return f"""<p>How far does the answer depend on the prior? Move the slider: {what}. The {count(data["held"])} models
held are weighed again, in this page; nothing is sampled anew.</p>
<div class="slider"><label for="delta">{words}</label>
<input id="delta" type="range" min="{prior["least"]:g}" max="{prior["most"]:g}" step="{prior["step"]:g}" value="0"
 aria-describedby="delta-words">
<p class="ends" aria-hidden="true"><span>{"costlier" if is_law else "fewer"}</span><span>as fitted</span>
<span>{"cheaper" if is_law else "more"}</span></p>
<p id="delta-words"><output id="delta-value" for="delta"></output>
<button type="button" id="reset">back to the fit</button></p>
</div>
<p id="warning" class="note doubt" role="status" hidden></p>
<dl class="facts"><div><dt>Effective number of models</dt><dd id="effective"></dd></div>
<div><dt>Mean number of {data["noun"]}s</dt><dd id="mean-size"></dd></div>
<div><dt>What is known of the rest</dt><dd id="covered"></dd></div></dl>
<h3>Probabilities at this prior</h3>
<p class="hint">Bars: at this prior, over the models held. Thin marks: the probabilities of the fit.</p>
<div id="live-terms"></div>
{figure("sizes", f"Number of {data['noun']}s in the model")}
{figure("space", "Leading models, as wide as they are probable: a filled cell is a " + data["noun"] + " in the model")}
<h3>Leading models at this prior</h3><p id="listed" class="hint"></p><ol id="live-models" class="models"></ol>
"""


def _chains(data: dict[str, Any], posterior: Any) -> str:
    if data["chains"] is None:
        why = (
            "All models were enumerated, so there are no chains."
            if data["exact"]
            else "The run recorded no sampling steps of chains, so there is nothing to draw."
        )
        return f"<p>{why}</p>"
    made = figure("agreement", "Frequency in the chains against the estimate renormalised over all models evaluated")
    if not data["chains"]["terms"]:
        return made + f"<p>Every {data['noun']} was always in or always out, so no running probability is drawn.</p>"
    options = "".join(
        f'<option value="{k}">{escape(data["terms"][trace["term"]]["name"])}</option>'
        for k, trace in enumerate(data["chains"]["terms"])
    )
    choice = f'<p><label for="traced">Running probability of</label> <select id="traced">{options}</select></p>'
    return choice + figure("running", "Share of the steps so far, a line for each chain") + made


def _predictions(check: dict[str, Any] | None) -> str:
    if check is None:
        return (
            "<p>Missing: a stored run holds no rows. Hand rows to the report, best those that the fit has not seen: "
            "<code>modejump report DIR --data FILE -o report.html</code>, or <code>model.report(path, X, y)</code>.</p>"
        )
    caution = "Where the model was fitted to these very rows, expect new ones to be predicted a little less well."
    if check["kind"] == "numbers":
        fit = f"root mean squared error {plain(check['rmse'])}, R squared {plain(check['r2'], 5)}"
        facts = f"{count(check['rows'])} rows: {fit}."
        return (
            f"<p>{facts} {caution}</p>"
            + figure("scatter", "Observed against predicted; rings lie outside of their 90 % interval")
            + figure("coverage", "Share of rows inside intervals of each level; on the line, intervals say the truth")
        )
    facts = f"{count(check['rows'])} rows: accuracy {plain(check['accuracy'])}, Brier score {plain(check['brier'])}."
    said = f"Share of {check['event']} among rows of like predicted probability; on the line, probabilities are right"
    return f"<p>{escape(facts)} {caution}</p>" + figure("reliability", said)


def _again(model: Any, call: str, command: str) -> str:
    made = ""
    if command:
        made += f"<p>The command:</p>{_code(command)}"
    seeds: Sequence[int] = getattr(model, "merged_seeds_", ())
    merged = f" The run was merged from runs with the seeds {', '.join(map(str, seeds))}." if seeds else ""
    return (
        made
        + f"<p>In Python, with the same rows:</p>{_code(call)}"
        + f"<p>modejump {escape(__version__)}, seed {int(model.seed_)}.{merged} One seed gives one answer, on any "
        "number of workers, unless the budget is in seconds.</p>"
    )


def _code(text: str) -> str:
    return f'<pre tabindex="0" role="region" aria-label="Text to copy"><code>{escape(text)}</code></pre>'
