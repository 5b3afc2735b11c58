# Everything from a bare clone with python3 and make. The virtual environment is built when it is missing and
# brought up to date when pyproject.toml or the version changes; one stamp for each set of extras says what is in it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test test-full test-numba faults lint bench docs clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
		printf '%-18s %s\n' "$$name" "$$text"; done

demo: $(STAMP)-plots ## run the main job on embedded data
	$(BIN)/modejump demo

test: $(STAMP)-test ## run the tests, heavy statistical sweeps left out
	$(BIN)/python -m pytest -q -n auto --maxprocesses 2 --dist loadfile

test-full: $(STAMP)-test ## run all tests, heavy statistical sweeps too
	$(BIN)/python -m pytest -q -n auto --maxprocesses 2 --dist loadfile -m "full or not full"

faults: $(STAMP)-test ## kill, interrupt and damage a thousand runs, for half an hour at most
	PYTHONPATH=tests/support $(BIN)/python tests/support/faults.py 1000 29 1

# Each in an environment of its own that is thrown away. The oldest versions are the lower bounds of pyproject.toml, which
# exist for the oldest Python only.
test-numba: $(BIN)/python ## try the oldest and the newest dependencies, Numba above all
	@for which in oldest newest; do \
		folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && $(PYTHON) -m venv $$folder/env && \
		: > $$folder/constraints && \
		if [ $$which = oldest ]; then $(BIN)/python tools/oldest.py > $$folder/constraints; fi && \
		$$folder/env/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: \
			--constraint $$folder/constraints '.[test]' && \
		$$folder/env/bin/python -c 'import numba, numpy; print("Numba", numba.__version__, "NumPy", numpy.__version__)' && \
		NUMBA_CACHE_DIR=$$folder/cache $$folder/env/bin/python -m pytest -q tests/house/test_compilation.py || exit 1; \
		rm -rf $$folder; \
	done

lint: $(STAMP)-lint ## style, formatting, types, docstrings, and the rules of the house
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/numpydoc lint $$(find src/modejump -name '*.py')
	$(BIN)/python tools/check_house.py

bench: $(STAMP)-core ## print the benchmark table
	$(BIN)/python -m bench

docs: $(STAMP)-docs ## build the documentation into docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

clean: ## remove what was built, the virtual environment excepted
	rm -rf build dist docs/_build docs/api/generated docs/auto_examples docs/sg_execution_times.rst
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests tools examples docs -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { \
		echo "modejump needs Python 3.11 or newer, and $(PYTHON) was not found: name one with make PYTHON=..." >&2; \
		exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "modejump needs Python 3.11 or newer, and $(PYTHON) is older: name one with make PYTHON=python3.12" >&2; \
		exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) -m venv failed: install the venv module of this Python (package python3-venv on Debian)" >&2; \
		exit 1; }

$(STAMP)-core: pyproject.toml src/modejump/__init__.py | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# An installation with extras holds the core too.
$(STAMP)-%: pyproject.toml src/modejump/__init__.py | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $(STAMP)-core $@
