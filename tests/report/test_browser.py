"""The page in a real browser: it renders, its slider computes, it is alone, and anyone can read it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from report_cases import NASTY, classes, enumerated, laws, numbers_of, sampled, table, weighed_again

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

FLAGS = ("--no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
         "--disable-sync").split()  # fmt: skip
WIDTHS, SCHEMES = (360, 1200), ("light", "dark")
# Least contrast of text, by the guidelines for accessible pages (WCAG 2.2, AA).
CONTRAST = 4.5

# The least contrast of any text on the page, and which text has it.
LEAST_CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  let least = [Infinity, ""];
  for (const element of document.querySelectorAll("body *")) {
    const words = [...element.childNodes].filter((n) => n.nodeType === 3).map((n) => n.textContent.trim()).join("");
    if (!words || !element.getClientRects().length || ["SCRIPT", "STYLE", "OPTION"].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const front = luminance(parse(element instanceof SVGElement ? style.fill : style.color));
    const back = luminance(behind(element));
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (ratio < least[0]) least = [ratio, words];
  }
  return least;
}"""

# What the Tab key should reach: everything that can be used or read out, and is there to be seen.
REACHABLE = """() => {
  const all = document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]');
  const seen = [...all].filter((e) => e.checkVisibility() && e.getClientRects().length);
  seen.forEach((element, k) => { element.dataset.stop = k; });
  return seen.length;
}"""
FOCUSED = """() => {
  const style = getComputedStyle(document.activeElement), svg = document.activeElement instanceof SVGElement;
  return [document.activeElement.dataset.stop ?? null, svg ? style.strokeWidth !== "0px" && style.stroke !== "none"
    : style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2];
}"""


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    frame, y = table(rows=60, seed=9)
    return {
        "enumerated": enumerated().report(folder / "enumerated.html", frame, y),
        "sampled": sampled().report(folder / "sampled.html"),
        "classes": classes().report(folder / "classes.html", frame, np.where(y > 0, "<yes>", "no")),
        "laws": laws().report(folder / "laws.html"),
    }


CASES = {"enumerated": enumerated, "sampled": sampled, "classes": classes, "laws": laws}


class Watched:
    """A page and everything on it that should not happen."""

    def __init__(self, browser, path: Path, width: int = 1200, scheme: str = "light") -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        self.wrong: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.wrong.append("a dialog"), dialog.dismiss()))
        self.page.on("request", self._ask)
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready=yes]")

    def _ask(self, request) -> None:
        if not request.url.startswith(("file:", "data:,")):
            self.wrong.append(f"request: {request.url}")

    def __enter__(self):
        return self.page

    def __exit__(self, *_) -> None:
        self.page.close()
        assert self.wrong == []


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_renders_and_can_be_read(browser, pages, case, width, scheme):
    with Watched(browser, pages[case], width, scheme) as page:
        wide, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= room
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= room
        ratio, words = page.evaluate(LEAST_CONTRAST)
        assert ratio >= CONTRAST, words
        figures = page.locator("figure").count()
        assert figures >= 2 and page.locator("figure svg [data-tip]").count() >= figures
        assert page.locator("math").first.bounding_box()["height"] > 0


@pytest.mark.parametrize("case", CASES)
def test_the_slider_gives_what_python_computes(browser, pages, case):
    model, data = CASES[case](), numbers_of(pages[case].read_text(encoding="utf-8"))
    step = data["prior"]["step"]
    with Watched(browser, pages[case]) as page:
        slider = page.locator("#delta")
        slider.focus()
        position = 0.0
        for presses in (-8, 13, 0):
            for _ in range(abs(presses)):
                page.keyboard.press("ArrowRight" if presses > 0 else "ArrowLeft")
            position += presses * step
            if presses == 0:
                page.locator("#reset").click()
                position = 0.0
            assert float(slider.input_value()) == position
            wanted = weighed_again(model, position)
            shown = page.locator("#live-terms .value").all()
            assert len(shown) >= 3
            for value in shown:
                name = data["terms"][int(value.get_attribute("data-term"))]["name"]
                assert float(value.inner_text()) == pytest.approx(wanted["inclusion"][name], abs=5.1e-5)
            best = page.locator("#live-models .value").first.inner_text()
            assert float(best) == pytest.approx(wanted["best"], abs=5.1e-5)
            assert float(page.locator("#mean-size").inner_text()) == pytest.approx(wanted["mean_size"], abs=5.1e-4)
            effective = page.locator("#effective").inner_text().replace("\u202f", "")
            rounded = 0.51 if wanted["effective"] >= 100 else 0.0051
            assert float(effective) == pytest.approx(wanted["effective"], abs=rounded)


def test_the_page_warns_where_the_visited_models_do_not_suffice(browser, pages):
    with Watched(browser, pages["sampled"]) as page:
        warning = page.locator("#warning")
        assert warning.is_hidden() == (sampled().posterior_.result.unvisited <= 0.05)
        page.locator("#delta").focus()
        page.keyboard.press("End")
        assert warning.is_visible() and "Fit again" in warning.inner_text()
    with Watched(browser, pages["enumerated"]) as page:
        page.locator("#delta").focus()
        page.keyboard.press("End")
        assert page.locator("#warning").is_hidden()
        assert "exact" in page.locator("#covered").inner_text()


@pytest.mark.parametrize("case", ["sampled", "classes"])
def test_the_tab_key_reaches_everything(browser, pages, case):
    with Watched(browser, pages[case]) as page:
        stops = page.evaluate(REACHABLE)
        reached = []
        for _ in range(stops + 20):
            page.keyboard.press("Tab")
            stop, visible = page.evaluate(FOCUSED)
            if stop is not None:
                reached.append(int(stop))
                assert visible, f"stop {stop} does not show that it has the focus"
            if len(set(reached)) == stops:
                break
        assert sorted(set(reached)) == list(range(stops))
        assert reached == sorted(reached)


def test_marks_answer_the_mouse_and_the_keyboard(browser, pages):
    with Watched(browser, pages["enumerated"]) as page:
        tip = page.locator("#tip")
        assert tip.is_hidden()
        first = page.locator("#sizes [data-tip]").first
        first.focus()
        words = tip.inner_text()
        assert tip.is_visible() and words == first.get_attribute("data-tip")
        page.keyboard.press("ArrowRight")
        assert tip.is_visible() and tip.inner_text() != words
        page.keyboard.press("Escape")
        assert tip.is_hidden()
        page.locator("#terms .bar").nth(1).hover()
        assert tip.is_visible() and tip.inner_text() in page.locator("#terms .bar").nth(1).get_attribute("data-tip")


def test_names_are_shown_as_text(browser, pages):
    with Watched(browser, pages["enumerated"]) as page:
        assert page.locator("img").count() == 0
        shown = page.locator("#terms").inner_text()
        for name in NASTY:
            assert name in shown
