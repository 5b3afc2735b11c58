"""Tables from files and standard input: separators, encodings, Excel; cells are named by the line an editor shows."""

import bz2
import gzip
import io
import json
import lzma
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from modejump.cli import main
from modejump.commands.delimited import Reading
from modejump.commands.files import open_table
from modejump.core.errors import InputError, ModejumpWarning

ROWS = 30


@pytest.fixture
def table(tmp_path, monkeypatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(ROWS, 2)).round(3), columns=["höhe", "width"])
    frame["y"] = (frame["höhe"] + 0.3 * rng.normal(size=ROWS)).round(3)
    frame.to_csv("plain.csv", index=False)
    return frame


def fitted(*arguments: str) -> dict:
    """What a fit says as JSON."""
    assert main(["fit", *arguments, "--target", "y", "--json", "answer.json", "--quiet"]) == 0
    return json.loads(Path("answer.json").read_text())


def refused(capsys, *arguments: str) -> str:
    """The sentence that a fit is refused with."""
    assert main(["fit", *arguments, "--target", "y"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err
    return err.splitlines()[-1]


def pipe(monkeypatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def write_excel(frame: pd.DataFrame, path: str) -> None:
    pytest.importorskip("openpyxl")
    frame.to_excel(path, index=False)


SPELLINGS = {
    "semicolons and commas": (["--sep", ";", "--decimal", ","], {"sep": ";", "decimal": ","}),
    "tabs": (["--sep", "tab"], {"sep": "\t"}),
    "spaces": (["--sep", "space"], {"sep": " "}),
    "latin-1": (["--encoding", "latin-1"], {"encoding": "latin-1"}),
    "a byte order mark": ([], {"encoding": "utf-8-sig"}),
    "utf-16 with its mark": ([], {"encoding": "utf-16"}),
    "utf-16 without a mark": (["--encoding", "utf-16-le"], {"encoding": "utf-16-le"}),
}


@pytest.mark.parametrize("options, spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_a_table_is_the_same_however_it_is_spelt(table, options, spelling):
    want = fitted("plain.csv")
    table.to_csv("other.csv", index=False, **spelling)
    got = fitted("other.csv", *options)
    assert got["inclusion"] == want["inclusion"] and got["models"] == want["models"]
    assert {row["feature"] for row in got["inclusion"]} == {"höhe", "width"}


@pytest.mark.parametrize("compress, ending", [(gzip.compress, "gz"), (bz2.compress, "bz2"), (lzma.compress, "xz")])
def test_compressed_tables_are_read(table, compress, ending):
    Path(f"plain.csv.{ending}").write_bytes(compress(Path("plain.csv").read_bytes()))
    table.to_csv("tabs.tsv", index=False, sep="\t")
    Path(f"tabs.tsv.{ending}").write_bytes(compress(Path("tabs.tsv").read_bytes()))
    for name in ("plain.csv", "tabs.tsv"):
        pd.testing.assert_frame_equal(open_table(Path(f"{name}.{ending}")).frame, open_table(Path(name)).frame)


def test_parquet_and_excel_are_read_by_their_endings(table):
    want = fitted("plain.csv")["inclusion"]
    table.to_parquet("table.parquet")
    write_excel(table, "table.xlsx")
    for name in ("table.parquet", "table.xlsx"):
        got = fitted(name)["inclusion"]
        assert [row["feature"] for row in got] == [row["feature"] for row in want]
        np.testing.assert_allclose([r["probability"] for r in got], [r["probability"] for r in want], rtol=1e-9)


def test_standard_input_is_a_table_and_standard_output_holds_json_alone(table, monkeypatch, capsys):
    want = fitted("plain.csv")
    pipe(monkeypatch, Path("plain.csv").read_bytes())
    assert main(["fit", "-", "--target", "y", "--json", "-", "--out", "run"]) == 0
    got = json.loads(capsys.readouterr().out)
    assert got["inclusion"] == want["inclusion"] and got["title"] == "y in standard input"
    assert main(["predict", "run", "plain.csv"]) == 0
    means = capsys.readouterr().out
    pipe(monkeypatch, gzip.compress(Path("plain.csv").read_bytes()))
    assert main(["predict", "run", "-"]) == 0
    assert capsys.readouterr().out == means
    pipe(monkeypatch, table.to_csv(index=False, sep=";", decimal=",").encode("latin-1"))
    options = ["--sep", ";", "--decimal", ",", "--encoding", "latin-1", "--json", "-"]
    assert main(["predict", "run", "-", *options]) == 0
    rows = json.loads(capsys.readouterr().out)
    np.testing.assert_allclose([row["mean"] for row in rows], [float(text) for text in means.split()[1:]])


def test_a_terminal_is_no_table(table, monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    assert "standard input, and there is none" in refused(capsys, "-")


def test_another_separator_is_noticed_and_told(table, capsys):
    table.to_csv("other.csv", index=False, sep=";")
    assert main(["fit", "other.csv", "--target", "y", "--quiet"]) == 0
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "read with --sep ';'" in err
    table.to_csv("other.csv", index=False, sep=";", decimal=",")
    assert "'y' has commas in its numbers" in (said := refused(capsys, "other.csv")) and "--decimal ," in said
    assert main(["fit", "other.csv", "--target", "y", "--decimal", ",", "--quiet"]) == 0
    assert "leaves no comma" in refused(capsys, "plain.csv", "--decimal", ",")


# Lines of a file from the second on, and what is said of it.
BAD_CELLS = {
    "text among numbers": (["1,2,3", "4,?,6", "7,8,9"], ["'width' holds numbers, but '?' in line 3", "--na '?'"]),
    "after blank lines": (["1,2,3", "", "  ", "4,bad,6", "7,8,9"], ["'width' holds numbers, but 'bad' in line 5"]),
    "after a cell of two lines": (
        ['"1", 2 ,3', '4,5,"6', '"', "7,8,9", "1,oh,2"],
        ["'width' holds numbers, but 'oh' in line 6"],
    ),
    "text column": (["1,red,3", "4,blue,6"], ["'width' holds text, such as 'red' in line 2", "--factors width"]),
    "thousands": (['1,"1,234",3', '4,"5,678",6'], ["'1,234' in line 2", "without commas"]),
    "an empty cell": (["1,2,3", "4,,6", "7,,8"], ["'width' is empty in line 3 and 1 more", "--drop"]),
    "a word for missing": (["1,2,3", "4,NA,6", "7,8,9"], ["'width' is 'NA', which means missing, in line 3"]),
    "an infinite number": (["1,2,3", "4,inf,6", "7,8,9"], ["'width' is infinite (inf) in line 3"]),
    "a short row": (["1,2,3", "4,5", "7,8,9"], ["'y' is empty in line 3"]),
    "a long row": (["1,2,3", "4,5,6,7", "7,8,9"], ["line 3 of the file", "has 4 cells, but the header names 3"]),
    "a long first row": (["1,2,3,4", "4,5,6", "7,8,9"], ["line 2 of the file", "has 4 cells"]),
    "an open quotation mark": (["1,2,3", '4,"5,6', "7,8,9"], ["cannot be read as CSV", "quotation mark"]),
    "the target": (["1,2,3", "4,5,low", "7,8,9"], ["'y' holds numbers, but 'low' in line 3"]),
}  # fmt: skip


@pytest.mark.parametrize("lines, words", BAD_CELLS.values(), ids=BAD_CELLS)
def test_a_bad_cell_is_shown_with_its_line(table, capsys, lines, words):
    Path("bad.csv").write_text("\n".join(["height,width,y", *lines]) + "\n")
    said = refused(capsys, "bad.csv")
    for part in words:
        assert part in said


def test_texts_for_missing_values_and_what_may_be_done_about_them(table, capsys):
    frame = table.astype(object)
    frame.loc[4, "width"], frame.loc[7, "width"] = "?", -999
    frame.to_csv("gaps.csv", index=False)
    assert "is '?', which means missing, in line 6 and 1 more" in refused(capsys, "gaps.csv", "--na", "?,-999")
    assert "holds numbers, but '?' in line 6" in refused(capsys, "gaps.csv", "--formula", "y ~ höhe + width")
    got = fitted("gaps.csv", "--na", "?,-999", "--drop", "width")
    assert [row["feature"] for row in got["inclusion"]] == ["höhe"]
    assert main("fit gaps.csv --target y --na ?,-999 --missing mode".split()) == 2


def test_rows_of_excel_and_parquet_are_counted_as_shown(table, capsys):
    frame = table.astype(object)
    frame.loc[4, "width"] = "oops"
    write_excel(frame, "bad.xlsx")
    assert "'oops' in row 6" in refused(capsys, "bad.xlsx")
    table.assign(width=table["width"].where(table.index != 4)).to_parquet("bad.parquet")
    assert "'width' is empty in row 5" in refused(capsys, "bad.parquet")


def test_a_workbook_says_which_sheet_is_read_and_blank_rows_do_not_count(table, capsys):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "first"
    book.create_sheet("second")
    cells = [list(table.columns), [], *table.to_numpy().tolist()]
    cells[10][1] = "two\nlines"
    for row in cells:
        book.active.append(row)
    book.save("book.xlsx")
    assert "'two lines' in row 11" in refused(capsys, "book.xlsx")
    book.active["B11"] = 0.5
    book.save("book.xlsx")
    with pytest.warns(ModejumpWarning, match="2 sheets, 'first', 'second'; the first is read"):
        assert len(open_table(Path("book.xlsx")).frame) == ROWS


@pytest.mark.parametrize(
    "header, said",
    [
        ("a,b,a,y", "'a' (columns 1 and 3)"),
        ("a, b ,b,y", "'b' (columns 2 and 3)"),
        ("a,b,a,y,b", "'a' (columns 1 and 3), 'b' (columns 2 and 5)"),
        ("a,b,,y", "column 3 of the file"),
    ],
)
def test_headers_with_the_same_name_or_none_are_refused(table, capsys, header, said):
    Path("twice.csv").write_text(header + "\n" + ",".join("1234567"[: header.count(",") + 1]) + "\n")
    assert said in refused(capsys, "twice.csv")


def test_row_labels_and_trailing_separators_are_no_columns(table, capsys):
    want = fitted("plain.csv")["inclusion"]
    lines = Path("plain.csv").read_text().splitlines()
    Path("labels.csv").write_text("\n".join([lines[0], *(f"r{i},{line}" for i, line in enumerate(lines[1:]))]))
    Path("trailing.csv").write_text("\n".join(f"{line}," for line in lines))
    Path("rows.csv").write_text("\n".join([lines[0], *(f"{line}," for line in lines[1:])]))
    table.to_csv("index.csv")
    for name, warnings in (("labels.csv", 1), ("trailing.csv", 0), ("rows.csv", 0), ("index.csv", 1)):
        capsys.readouterr()
        assert fitted(name)["inclusion"] == want, name
        assert capsys.readouterr().err.count("warning") == warnings
    Path("labels.csv").write_text("\n".join([lines[0], "r1,1,2,3", "r2,1,huh,3", "r3,1,5,3"]))
    assert "'width' holds numbers, but 'huh' in line 3" in refused(capsys, "labels.csv")


def test_files_that_are_something_else_get_a_sentence(table, capsys):
    table.to_csv("latin.csv", index=False, encoding="latin-1")
    assert "not in UTF-8, as its line 1 shows; add --encoding latin-1" in refused(capsys, "latin.csv")
    assert "not in the encoding 'ascii'" in refused(capsys, "plain.csv", "--encoding", "ascii")
    table.to_parquet("parquet.csv")
    assert "give it the ending .parquet" in refused(capsys, "parquet.csv")
    write_excel(table, "excel.xlsx")
    Path("excel.xlsx").rename("excel.csv")
    assert "Excel file" in refused(capsys, "excel.csv")
    Path("broken.xlsx").write_text("height,y\n1,2\n")
    assert "cannot be read as Excel" in refused(capsys, "broken.xlsx")
    Path("old.xls").write_bytes(b"\xd0\xcf\x11\xe0")
    assert "save it as .xlsx or CSV" in refused(capsys, "old.xls")
    Path("cut.csv.gz").write_bytes(gzip.compress(Path("plain.csv").read_bytes())[:-20])
    assert "cannot be unpacked" in refused(capsys, "cut.csv.gz")
    Path("wide.csv").write_bytes(Path("plain.csv").read_text().encode("utf-16-le"))
    assert "--encoding utf-16" in refused(capsys, "wide.csv")


def test_a_comment_is_no_header(table, capsys):
    Path("comment.csv").write_text("# by hand\n" + Path("plain.csv").read_text())
    assert "begins with a comment" in refused(capsys, "comment.csv")


def test_without_openpyxl_excel_files_say_what_to_install(table, monkeypatch, capsys):
    Path("table.xlsx").write_bytes(b"PK\x03\x04")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    assert "pip install 'modejump[excel]'" in refused(capsys, "table.xlsx")


def test_a_sheet_is_read_by_its_name(table, capsys):
    with pd.ExcelWriter("book.xlsx") as book:
        pd.DataFrame({"note": ["nothing here"]}).to_excel(book, sheet_name="notes", index=False)
        table.to_excel(book, sheet_name="Messung 1", index=False)
    assert main(["fit", "book.xlsx", "--sheet", "Messung 1", "--target", "y", "--out", "run", "--quiet"]) == 0
    assert main(["predict", "run", "book.xlsx", "--sheet", "Messung 1", "-o", "new.csv"]) == 0
    assert len(pd.read_csv("new.csv")) == ROWS
    capsys.readouterr()
    assert "no sheet 'data'; its sheets are 'notes', 'Messung 1'." in refused(capsys, "book.xlsx", "--sheet", "data")
    assert main(["predict", "run", "book.xlsx", "--sheet", "data"]) == 2
    assert "its sheets are 'notes', 'Messung 1'." in " ".join(capsys.readouterr().err.split())
    table.to_csv("plain.csv", index=False)
    assert "--sheet is about Excel files" in refused(capsys, "plain.csv", "--sheet", "data")
    table.to_parquet("table.parquet")
    with pytest.raises(InputError, match="--sheet is about Excel files"):
        open_table(Path("table.parquet"), Reading(sheet="data"))


@pytest.mark.parametrize("option", [{"sep": ";"}, {"decimal": ","}, {"encoding": "latin-1"}, {"na": ("x",)}])
def test_options_of_text_are_refused_where_there_is_none(table, option):
    table.to_parquet("table.parquet")
    with pytest.raises(InputError, match=f"--{next(iter(option))} is about text"):
        open_table(Path("table.parquet"), Reading(**option))
    write_excel(table, "table.xlsx")
    if "na" not in option:
        with pytest.raises(InputError, match=f"--{next(iter(option))} is about text"):
            open_table(Path("table.xlsx"), Reading(**option))


def test_levels_of_factors_may_look_like_numbers_and_truth_values_have_gaps(table, capsys):
    kinds = (["1", "2", "x"] * ROWS)[:ROWS]
    table.assign(kind=kinds).to_csv("kinds.csv", index=False)
    assert {row["feature"] for row in fitted("kinds.csv", "--factors", "kind")["inclusion"]} == {
        "höhe",
        "width",
        "kind",
    }
    assert "--factors kind if it is a level" in refused(capsys, "kinds.csv")
    table.assign(flag=[True, None, *[False] * (ROWS - 2)]).to_csv("flags.csv", index=False)
    assert "'flag' is empty in line 3" in refused(capsys, "flags.csv")
