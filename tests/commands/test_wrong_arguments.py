"""Wrong arguments of every command: status 2 and one sentence on standard error that says what to do, no traceback."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from modejump.cli import main

# A line of arguments, and words that its sentence has to have.
WRONG = {
    "fit": [
        ("", "missing argument"),
        ("data.csv", "--target"),
        ("data.csv --target nonsense", "'nonsense' is not a column"),
        ("absent.csv --target y", "does not exist"),
        ("folder --target y", "folder is a directory"),
        ("data.csv --target y --seed five", "'--seed'"),
        ("data.csv --target y --factors site --seed -1", "--seed is -1"),
        ("data.csv --target y", "column 'site' holds text, such as 'north' in line 2"),
        ("data.csv --target y --drop sight", "--drop 'sight' is not a column"),
        ("data.csv --target y --factors sight", "--factors 'sight' is not a column"),
        ("data.csv --target y --drop site --family normal", "gaussian"),
        ("data.csv --target y --drop site --algorithm fast", "algorithm"),
        ("data.csv --target y --drop site --coef-prior h", "prior"),
        ("data.csv --target y --drop site --coef-prior g=-2", "above 0"),
        ("data.csv --target y --drop site --coef-prior g=1,2", "got 2 number(s)"),
        ("data.csv --target y --drop site --model-prior beta-binomial=1,x", "must be a name"),
        ("data.csv --target y --drop site --model-prior bernoulli=2", "2"),
        ("data.csv --target y --drop site --chains 0", "chains"),
        ("data.csv --target y --drop site --steps 10 --seconds 3", "seconds"),
        ("data.csv --target y --drop site --weights sight", "--weights 'sight' is not a column"),
        ("data.csv --target y --drop site --weights alpha", "--weights is negative in line"),
        ("data.csv --target y --drop y,site", "--target 'y' has another role"),
        ("data.csv --target site", "column 'site' holds text"),
        ("data.csv --target y --factors site --link logit", "link"),
        ("data.csv --target y --factors site --backend mpi", "threads"),
        ("data.csv --target y --factors site --scheduler there:1", "--scheduler"),
        ("data.csv --target y --factors site --checkpoint 5", "--out"),
        ("data.csv --target y --factors site --leaves 3", "--logic"),
        ("data.csv --target y --factors site --chunked", "--chunked"),
        ("data.csv --target y --factors site --sep ab", "--sep 'ab'"),
        ("data.csv --target y --factors site --decimal ;", "--decimal ';'"),
        ("data.csv --target y --factors site --sep . ", "--sep and --decimal"),
        ("data.csv --target y --factors site --encoding klingon", "--encoding 'klingon'"),
        ("data.csv --target y --factors site --json absent/a.json", "does not exist"),
        ("data.csv --target y --factors site --json folder", "is a directory"),
        ("data.csv --target y --factors site --plot a.doc", ".png"),
        ("data.csv --target y --factors site --out run", "use --force"),
        ("data.csv --target y --factors site --unknown", "--unknown"),
        ("data.csv --target y --formula y~ab(", "formula"),
        ("data.csv --target y --factors site --always-in delta", "'delta'"),
    ],
    "predict": [
        ("", "missing argument"),
        ("run", "missing argument"),
        ("absent new.csv", "absent"),
        ("folder new.csv", "folder"),
        ("data.csv new.csv", "data.csv"),
        ("run absent.csv", "does not exist"),
        ("run folder", "is a directory"),
        ("run other.csv", "the covariate 'alpha' is not a column"),
        ("run text.csv", "column 'alpha' holds numbers, but 'x' in line 4"),
        ("run gap.csv", "column 'alpha' is empty in line 3"),
        ("run level.csv", "'west'"),
        ("run new.csv --interval 1.5", "1.5"),
        ("run new.csv --interval wide", "'--interval'"),
        ("run new.csv --kind mode", "'mode'"),
        ("run new.csv --offset w", "without an offset"),
        ("run new.csv --out absent/a.csv", "cannot be written"),
        ("run new.csv --out folder", "cannot be written"),
        ("run new.csv --json absent/a.json", "does not exist"),
        ("run new.csv --json - --out -", "standard output"),
        ("run new.csv --sep long", "--sep"),
        ("run new.csv --encoding none", "--encoding"),
        ("run new.csv third", "third"),
        ("run new.parquet --sep ;", "--sep is about text"),
        ("run empty.csv", "is empty"),
        ("run header.csv", "no rows"),
    ],
    "resume": [
        ("", "missing argument"),
        ("absent", "absent"),
        ("folder", "folder"),
        ("data.csv", "data.csv"),
        ("run --jobs many", "'--jobs'"),
        ("run --backend mpi", "threads"),
        ("run --scheduler there:1", "--scheduler"),
        ("run --checkpoint often", "'--checkpoint'"),
        ("run second", "second"),
        ("run --unknown", "--unknown"),
        ("run --json folder", "is a directory"),
        ("run --json absent/a.json", "does not exist"),
        ("run --json", "--json"),
        ("run --plot a.doc", ".png"),
        ("run --plot absent/a.png", "does not exist"),
        ("run --plot folder.png", "is a directory"),
        ("run --force", "--force"),
        ("run --seed 3", "--seed"),
        ("damaged", "damaged"),
        ("run/run.json", "run.json"),
    ],
    "merge": [
        ("", "missing"),
        ("run", "missing option"),
        ("run --out both", "at least two"),
        ("run run2", "--out"),
        ("run absent --out both", "absent"),
        ("run folder --out both", "folder"),
        ("run data.csv --out both", "data.csv"),
        ("run damaged --out both", "damaged"),
        ("run unlike --out both", "not of the same problem"),
        ("run run2 --out run", "not empty"),
        ("run run2 --out data.csv", "data.csv"),
        ("run run2 --out", "--out"),
        ("run run2 --out both --json folder", "is a directory"),
        ("run run2 --out both --json absent/a", "does not exist"),
        ("run run2 --out both --plot a.doc", ".png"),
        ("run run2 --out both --plot a", ".png"),
        ("run run2 --out both --plot absent/a.png", "does not exist"),
        ("run run2 --out both --jobs 2", "--jobs"),
        ("run run2 --out both --forced", "--forced"),
        ("run run2 --out both --quiet=yes", "--quiet"),
    ],
    "reproduce": [
        ("", "missing argument"),
        ("newton", "'newton'"),
        ("kepler mass", "mass"),
        ("kepler --runs 0", "--runs is 0"),
        ("kepler --runs few", "'--runs'"),
        ("kepler --seed -1", "--seed is -1"),
        ("kepler --jobs 0", "--jobs is 0"),
        ("kepler --protocol paper", "--protocol 'paper'"),
        ("kepler --spelling trees", "--spelling"),
        ("mass --spelling words", "--spelling 'words'"),
        ("kepler --algorithm mjmcmc", "--algorithm 'mjmcmc'"),
        ("kepler --threads 1,two", "'two'"),
        ("kepler --threads 0", "'0'"),
        ("kepler --budget long", "long"),
        ("kepler --seconds 3", "--seconds"),
        ("kepler --plot a.png", "--plot"),
        ("kepler --laws ohm", "--laws"),
        ("kepler --data absent.csv", "does not exist"),
        ("kepler --json folder", "is a directory"),
        ("kepler --sampler fast", "sampler"),
        ("physics --laws gravty", "perhaps you mean 'gravity'"),
        ("physics --noise -1", "'-1'"),
        ("logic --features trees", "'trees'"),
        ("accuracy --plot a.doc", ".png"),
        ("classification", "--data"),
    ],
    "demo": [
        ("crime", "'crime'"),
        ("nonsense", "'nonsense'"),
        ("Kepler", "'Kepler'"),
        ("kepler mass", "mass"),
        ("kepler --plot", "--plot"),
        ("kepler --plot a.doc", ".png"),
        ("kepler --plot a", ".png"),
        ("kepler --plot absent/a.png", "does not exist"),
        ("kepler --plot folder.png", "is a directory"),
        ("mass --plot a.txt", ".png"),
        ("diabetes --plot a.png", "draws no plot"),
        ("logic --plot a.png", "draws no plot"),
        ("diabetes --json", "--json"),
        ("diabetes --json folder", "is a directory"),
        ("diabetes --json absent/a.json", "does not exist"),
        ("logic --json absent/a.json", "does not exist"),
        ("kepler --json folder", "is a directory"),
        ("diabetes --seed 3", "--seed"),
        ("diabetes --quiet", "--quiet"),
        ("diabetes -x", "-x"),
    ],
    "transforms": [
        ("sin", "sin"),
        ("sin cos", "sin"),
        ("''", "argument"),
        ("-", "-"),
        ("--name sin", "--name"),
        ("--jso", "--jso"),
        ("--json", "--json"),
        ("--json folder", "is a directory"),
        ("--json absent/a.json", "does not exist"),
        ("--json data.csv/a.json", "does not exist"),
        ("--json a.json b.json", "b.json"),
        ("--json folder folder", "folder"),
        ("--plot a.png", "--plot"),
        ("--quiet", "--quiet"),
        ("--out a", "--out"),
        ("--version", "--version"),
        ("-h", "-h"),
        ("-x", "-x"),
        ("--seed 1", "--seed"),
        ("--list --json -", "--list"),
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with tables, runs, and things that are neither."""
    folder = tmp_path_factory.mktemp("wrong")
    rng = np.random.default_rng(5)
    rows = 40
    table = pd.DataFrame(rng.normal(size=(rows, 2)), columns=["alpha", "beta"])
    table["site"] = ["north", "south"] * (rows // 2)
    table["y"] = table["alpha"] + rng.normal(size=rows)
    table.to_csv(folder / "data.csv", index=False)
    table.assign(y=table["beta"]).to_csv(folder / "data2.csv", index=False)
    new = table.head(4).astype({"alpha": object})
    new.to_csv(folder / "new.csv", index=False)
    table.head(4).to_parquet(folder / "new.parquet")
    new.rename(columns={"alpha": "aleph"}).to_csv(folder / "other.csv", index=False)
    new.assign(alpha=[1.0, 2.0, "x", 3.0]).to_csv(folder / "text.csv", index=False)
    new.assign(alpha=[1.0, None, 2.0, 3.0]).to_csv(folder / "gap.csv", index=False)
    new.assign(site=["north", "west", "south", "south"]).to_csv(folder / "level.csv", index=False)
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("alpha,beta,site,y\n")
    (folder / "folder").mkdir()
    (folder / "folder.png").mkdir()
    for name, data in (("run", "data.csv"), ("run2", "data.csv"), ("unlike", "data2.csv")):
        line = ["fit", str(folder / data), "--target", "y", "--factors", "site", "--quiet", "--out", str(folder / name)]
        assert main(line) == 0
    shutil.copytree(folder / "run", folder / "damaged")
    (folder / "damaged" / "run.json").write_text("{")
    return folder


@pytest.mark.parametrize(
    "command, line, words", [(c, line, words) for c, all_ in WRONG.items() for line, words in all_]
)
def test_wrong_arguments_get_one_sentence(command, line, words, place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    before = sorted(path.name for path in place.rglob("*"))
    assert main([command, *[part.strip("'") for part in line.split()]]) == 2
    out, err = capsys.readouterr()
    assert out == "" and words in err
    assert err.startswith("modejump: ") and err.endswith(".\n") and err.count("\n") == 1
    assert "Traceback" not in err and "Errno" not in err and len(err) < 400
    assert sorted(path.name for path in place.rglob("*")) == before


def test_every_command_has_twenty():
    assert all(len({line for line, _ in lines}) >= 20 for lines in WRONG.values())
