"""Print the oldest versions that pyproject.toml allows, one a line, as constraints for pip."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text(encoding="utf-8"))


def oldest(requirements: list[str]) -> list[str]:
    """Lower bounds, such as that of ``"numba>=0.62,<0.70"``, as exact versions."""
    bounds = [re.match(r"([\w-]+)[^>]*>=([\d.]+)", text) for text in requirements]
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound]


if __name__ == "__main__":
    extras = PROJECT["project"]["optional-dependencies"]
    print("\n".join(sorted({*oldest(PROJECT["project"]["dependencies"]), *oldest(extras["test"])})))
