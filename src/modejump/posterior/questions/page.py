"""A posterior in a few lines, and as a page for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from modejump.core.errors import printable
from modejump.posterior.verdict import count

if TYPE_CHECKING:
    from modejump.posterior.posterior import Posterior

# Terms and models that are listed.
TERMS, MODELS = 10, 5
# Borders and bars are mixed from the colour of the text, so that they are seen on a light page and on a dark one.
_STYLE = """
.modejump {font-family: sans-serif; font-size: 0.9em; line-height: 1.4; max-width: 52em; color: inherit}
.modejump table {border-collapse: collapse; margin: 0.6em 0; background: transparent; color: inherit; font: inherit}
.modejump th, .modejump td {text-align: left; padding: 0.15em 0.9em 0.15em 0; background: transparent; color: inherit;
  border-bottom: 1px solid rgba(128, 128, 128, 0.35); vertical-align: baseline}
.modejump .number {text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap}
.modejump .bar {display: inline-block; height: 0.7em; background: #4c8dc9}
.modejump .title {font-weight: bold; font-size: 1.1em}
"""


def describe(posterior: Posterior) -> str:
    """A posterior in a few lines: what it is over, the leading terms, the best model, and the verdict."""
    if not len(posterior.result.models):
        return _heading(posterior)
    best = " + ".join(posterior.best_model()) or "(no term)"
    probability = float(posterior.models(1)["probability"].iloc[0])
    lines = [_heading(posterior), f"terms: {_leading(posterior)}", f"best model: {best} ({probability:.3g})"]
    lines.append(f"verdict ({posterior.verdict.level}): {posterior.verdict}")
    return "\n".join(map(printable, lines))


def _heading(posterior: Posterior) -> str:
    noun = "laws" if posterior.laws is not None else "terms"
    how = "all enumerated" if posterior.exact else f"by {posterior.result.algorithm}"
    models = f"{count(posterior.n_models)} model{'' if posterior.n_models == 1 else 's'}"
    return f"Posterior over {models} of {count(posterior.problem.n_terms)} {noun}, {how}"


def _leading(posterior: Posterior) -> str:
    shown = posterior.inclusion["probability"].iloc[:TERMS]
    more = len(posterior.inclusion) - len(shown)
    text = ", ".join(f"{name} {p:.3g}" for name, p in shown.items())
    return f"{text or 'none'}{f', and {count(more)} more' if more else ''}"


def posterior_html(posterior: Posterior) -> str:
    """A posterior as a page for notebooks, from what it knows itself."""
    inclusion = posterior.inclusion.iloc[:TERMS]
    sampled = posterior.diagnostics is not None
    features = [
        (str(name), float(row["probability"]), float(row["mcse"]) if sampled else None)
        for name, row in inclusion.iterrows()
    ]
    models = [
        (" + ".join(row["features"]) or "(none of them)", float(row["probability"]))
        for _, row in posterior.models(MODELS).iterrows()
    ]
    more = len(posterior.inclusion) - len(features)
    return html_page(_heading(posterior), (), posterior.verdict, posterior.verdict.level, features, models, more)


def html_page(
    title: str,
    facts: Sequence[tuple[str, str]],
    verdict: str,
    level: str,
    features: Sequence[tuple[str, float, float | None]],
    models: Sequence[tuple[str, float]],
    more: int = 0,
) -> str:
    """A page of plain HTML that reads on light and on dark backgrounds; all text is escaped."""
    parts = [f"<style>{_STYLE}</style>", f'<div class="title">{_safe(title)}</div>']
    if facts:
        rows = "".join(f"<tr><th>{_safe(label)}</th><td>{_safe(text)}</td></tr>" for label, text in facts)
        parts.append(f"<table>{rows}</table>")
    parts.append(f"<p><b>Verdict: {_safe(level)}.</b> {_safe(verdict)}</p>")
    rows = "".join(_feature(*line) for line in features)
    rest = f"<tr><td colspan=3>and {count(more)} more</td></tr>" if more else ""
    head = '<tr><th>term</th><th class="number">probability</th><th></th></tr>'
    parts.append(f"<table><thead>{head}</thead><tbody>{rows}{rest}</tbody></table>")
    rows = "".join(f'<tr><td class="number">{p:.4f}</td><td>{_safe(text)}</td></tr>' for text, p in models)
    head = "<tr><th>probability</th><th>model</th></tr>"
    parts.append(f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>")
    return f'<div class="modejump">{"".join(parts)}</div>'


def _feature(name: str, probability: float, mcse: float | None) -> str:
    error = "" if mcse is None or mcse != mcse else f" ± {mcse:.4f}"
    bar = f'<span class="bar" style="width: {8.0 * min(max(probability, 0.0), 1.0):.2f}em"></span>'
    return f'<tr><td>{_safe(name)}</td><td class="number">{probability:.4f}{error}</td><td>{bar}</td></tr>'


def _safe(text: str) -> str:
    return escape(printable(str(text).replace("\N{NO-BREAK SPACE}", " ")))
