"""The guide's page on the command line shows what the commands print."""

import doctest
import re
import runpy
import shlex
import tempfile
from pathlib import Path

from modejump.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "command_line.rst"


def examples() -> list[tuple[str, str]]:
    """Commands of the page's console blocks, each with the output below it."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"\.\. code-block:: console\n\n((?:   .*\n|\n)+)", PAGE.read_text(encoding="utf-8")):
        for part in re.split(r"^   \$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def printed(command: str, capsys) -> str:
    """What a command of the page prints, on standard output and error together."""
    words = shlex.split(command)
    if words[0] == "python":
        code, to = words[2], words[4] if ">" in words else None
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "example.py")
            script.write_text(code)
            runpy.run_path(str(script))
        out = capsys.readouterr().out
        if to is None:
            return out
        Path(to).write_text(out)
        return ""
    lines = None
    if "|" in words:
        at = words.index("|")
        assert words[at + 1] == "head"
        words, lines = words[:at], int(words[at + 2].lstrip("-"))
    assert main(words[1:]) in (0, 2)
    out, err = capsys.readouterr()
    return "".join(out.splitlines(keepends=True)[:lines]) + err


def test_the_page_shows_what_the_commands_print(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    pages = examples()
    assert len(pages) >= 10 and {shlex.split(command)[1] for command, _ in pages} >= {"fit", "predict", "merge"}
    check = doctest.OutputChecker()
    for command, want in pages:
        # A space between thousands that does not break is a space here.
        got = printed(command, capsys).replace("\N{NO-BREAK SPACE}", " ")
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert check.check_output(want, got, flags), f"{command}\n{got}"
