"""Tables and lists of a page, complete without a script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from modejump.core.errors import InputError
from modejump.report.contents import markup
from modejump.report.mathml import formula

# Terms shown at once; the others unfold.
SHOWN, LEAST_SHOWN, MOST_ROWS = 15, 3, 60
# Terms below this probability unfold too: rows of 0.0000 say nothing.
RARE = 0.001
ALIASES = 3


def plain(value: float | None, digits: int = 3) -> str:
    """A number for reading; a dash where there is none.

    Examples
    --------
    >>> plain(0.123456), plain(None), plain(1234567.0)
    ('0.123', '–', '1.23e+06')
    """
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}g}".replace("-", "−")


def count(number: int) -> str:
    """A whole number with its thousands apart."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def how_many(terms: Sequence[dict[str, Any]]) -> int:
    """How many of the terms, best first, are shown at once."""
    likely = sum((term["probability"] or 0.0) >= RARE for term in terms)
    return min(max(likely, LEAST_SHOWN), SHOWN, len(terms))


def figure(name: str, caption: str) -> str:
    """A place for the script to draw in."""
    return f'<figure id="{name}"><figcaption>{escape(caption)}</figcaption><div class="plot"></div></figure>\n'


def term_table(posterior: Any, data: dict[str, Any]) -> str:
    """Probabilities with bars and whiskers."""
    rows = [_term_row(posterior, place, term) for place, term in enumerate(data["terms"][:MOST_ROWS])]
    head = (
        f'<thead><tr><th scope="col">#</th><th scope="col">{data["noun"]}</th><th scope="col">probability</th>'
        '<th scope="col" class="wide"><span class="hidden">bar</span></th></tr></thead>'
    )
    table = '<table class="terms" data-roving><caption class="hidden">{}</caption>' + head + "<tbody>{}</tbody></table>"
    first = how_many(data["terms"])
    made = table.format(f"Leading {data['noun']}s", "".join(rows[:first]))
    rest = posterior.problem.n_terms - len(rows)
    if len(rows) > first:
        more = f"<p>{count(rest)} less probable ones are left out.</p>" if rest > 0 else ""
        made += (
            f"<details><summary>{len(rows) - first} less probable {data['noun']}s</summary>"
            + table.format(f"More {data['noun']}s", "".join(rows[first:]))
            + f"{more}</details>"
        )
    return made


def _term_row(posterior: Any, place: int, term: dict[str, Any]) -> str:
    p, error = term["probability"] or 0.0, term["mcse"]
    value, whisker = f"{p:.4f}", ""
    if error:
        left, right = max(p - 2 * error, 0.0), min(p + 2 * error, 1.0)
        whisker = f'<b style="left:{100 * left:.2f}%;width:{100 * (right - left):.2f}%"></b>'
    if error is not None and posterior.frequency is not None:
        value += f" <small>± {error:.4f}</small>"
    also = ""
    if term["aliases"]:
        more = len(term["aliases"]) - ALIASES
        spelt = "".join(f"<li>{formula(alias)}</li>" for alias in term["aliases"][:ALIASES])
        spelt += f"<li>and {more} more</li>" if more > 0 else ""
        also = f'<details class="also"><summary>other spellings</summary><ul class="scroll">{spelt}</ul></details>'
    tip = escape(f"{term['name']}: {p:.4f}" + (f" ± {error:.4f}" if error else ""))
    return (
        f'<tr><td>{place + 1}</td><th scope="row">'
        f'<div class="scroll">{markup(posterior, term["name"])}</div>{also}</th><td class="number">{value}</td>'
        f'<td class="wide"><div class="bar" role="img" aria-label="{tip}" data-tip="{tip}">'
        f'<i style="width:{100 * p:.2f}%"></i>{whisker}</div></td></tr>'
    )


def value_table(what: str, heads: Sequence[str], rows: Sequence[tuple[str, Sequence[float]]], digits: int = 4) -> str:
    """A table of numbers; its first column is markup already."""
    head = "".join(f'<th scope="col" class="number">{escape(name)}</th>' for name in heads)
    body = "".join(
        f'<tr><th scope="row"><div class="scroll cell">{first}</div></th>'
        + "".join(f'<td class="number">{plain(value, digits)}</td>' for value in values)
        + "</tr>"
        for first, values in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Table: {escape(what)}"><table>'
        f'<thead><tr><th scope="col">{escape(what)}</th>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def law_rows(model: Any) -> str:
    """The best law of each complexity."""
    try:
        table = model.law_table()
    except InputError:
        return ""
    rows = []
    for row in table.itertuples():
        good = " ✓" if row.as_good else ""
        law = formula(row.law) if row.complexity else "no law"
        rows.append((law, [row.complexity, row.probability, row.error], good))
    made = value_table("law", ["complexity", "probability", "error"], [(f"{law}{good}", v) for law, v, good in rows], 3)
    return (
        "<h3>The best law of each complexity</h3><p>The error is the root mean square error of rows left out; a tick "
        f"marks laws that are as good as the best within one standard error.</p>{made}"
    )


def constant_rows(model: Any, level: float) -> str:
    """Constants inside the best model, with intervals; nothing where it has none, or nobody knows them."""
    if not hasattr(model, "constants"):
        return ""
    try:
        table = model.constants(level)
    except InputError:
        return ""
    rows = []
    for name, *values, simple in table.itertuples():
        rows.append((formula(name) + (f" perhaps {formula(simple)}" if simple else ""), values))
    if not rows:
        return ""
    made = value_table("constant", ["value", f"{100 * level:g} % from", "to"], rows)
    law = formula(model.equation(numbers=False))
    return f"<h3>Constants of the best model</h3><p>{law}, fitted together with the coefficients.</p>{made}"


def diagnostics_table(posterior: Any, data: dict[str, Any]) -> str:
    """Chains, time, acceptance, and the diagnostics of the leading terms."""
    result = posterior.result
    facts = [("Algorithm", result.algorithm), ("Distinct models evaluated", count(result.n_models))]
    if result.batch_means is not None:
        facts.append(("Chains", str(len(result.batch_means))))
        facts.append(("Steps", f"{count(result.steps)} after {count(result.warmup_steps)} of warm-up"))
    spent = f"{plain(result.seconds)}" + (
        f" after {plain(result.warmup_seconds)} of warm-up" if result.warmup_seconds else ""
    )
    facts.append(("Seconds", spent))
    rate = "Models a second" if result.exact else "Steps a second"
    if result.seconds > 0:
        facts.append((rate, count(round(posterior.steps_per_second))))
    moves = [
        (name, f"{100 * accepted / tried:.3g} % of {count(tried)} accepted" if tried else "not tried")
        for name, (tried, accepted, *_) in (*result.acceptance.items(), *result.population_moves.items())
    ]
    made = definition_list(facts)
    if moves:
        made += f"<details><summary>Acceptance of {len(moves)} moves</summary>{definition_list(moves)}</details>"
    if posterior.diagnostics is None:
        return f"{made}<p>Without chains there is neither R-hat, nor an effective size, nor a Monte Carlo error.</p>"
    names = ("probability", "mcse", "ess", "r_hat", "renormalised")
    rows = [
        (markup(posterior, term["name"]), [float("nan") if term[n] is None else term[n] for n in names])
        for term in data["terms"][: how_many(data["terms"])]
    ]
    heads = ("probability", "MCSE", "ESS", "R-hat", "renormalised")
    return made + value_table(data["noun"], heads, rows)


def facts_list(model: Any, facts: Sequence[tuple[str, str]]) -> str:
    """Data, family, priors and algorithm in words."""
    names = getattr(model, "feature_names_in_", None)
    columns = count(model.n_features_in_)
    if names is not None:
        columns += ": " + ", ".join(map(str, names[:30])) + (", …" if len(names) > 30 else "")
    response = str(getattr(model, "target_", "y"))
    known = dict(facts)
    words = f"{response}; {known.pop('response', None) or model.posterior_.problem.family.name}"
    first = [("Response", words), ("Columns", columns)]
    return definition_list([*first, *((name.capitalize(), value) for name, value in facts if name != "response")])


def definition_list(facts: Sequence[tuple[str, str]]) -> str:
    """Words and what they stand for."""
    inside = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    return f'<dl class="facts">{inside}</dl>'
