"""The wheel holds what it should, installs into a fresh environment, and runs there."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import modejump

ROOT = Path(__file__).resolve().parents[2]
DATA = "modejump/experiments/data/exoplanets.csv"
PAGE = {f"modejump/report/page.{kind}" for kind in ("html", "css", "js")}
READ = """
import importlib.metadata, modejump, modejump.experiments
print(modejump.__file__)
print(importlib.metadata.version("modejump"), modejump.experiments.load_exoplanets().shape)
"""


def run(*command: object, cwd: Path = ROOT) -> str:
    # Nothing but the new environment is on the path.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_with_its_data_and_nothing_else(wheel: Path) -> None:
    held = zipfile.ZipFile(wheel).namelist()
    assert set(held) >= PAGE
    assert {DATA, "modejump/py.typed", f"modejump-{modejump.__version__}.dist-info/licenses/LICENSE"} <= set(held)
    assert {name.split("/")[0] for name in held} == {"modejump", f"modejump-{modejump.__version__}.dist-info"}
    assert not [name for name in held if "__pycache__" in name]


def test_the_wheel_installs_and_runs(wheel: Path, tmp_path: Path) -> None:
    builder = venv.EnvBuilder()
    builder.create(tmp_path / "env")
    there = builder.ensure_directories(tmp_path / "env")
    run(sys.executable, "-m", "pip", "--python", there.env_exe, "install", "--no-index", "--no-deps", wheel)
    # Dependencies come from here; editable installations do not, because files .pth there are not read.
    site = Path(run(there.env_exe, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    assert modejump.__version__ in run(Path(there.bin_path) / "modejump", "--version", cwd=tmp_path)
    where, read = run(there.env_exe, "-c", READ, cwd=tmp_path).splitlines()
    assert Path(where).is_relative_to(site)
    assert read == f"{modejump.__version__} (223, 11)"
