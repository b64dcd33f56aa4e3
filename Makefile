# Everything sets itself up: the virtual environment is made on first use and whenever pyproject.toml changes.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help install demo test test-slow bench lint format vectors clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(VENV)/.installed  ## virtual environment with everything but flwr

$(VENV)/.installed: pyproject.toml
	@command -v $(PYTHON) >/dev/null 2>&1 || { echo "needs Python 3.11 or newer; try: make PYTHON=python3 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: install  ## train through secure aggregation, write demo-report.html
	$(BIN)/ccesa demo

test: install  ## the default tests
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

test-slow: install  ## the long ones
	$(BIN)/python -m pytest -m slow -q

bench: install  ## the tables of docs/performance.md; installs flwr to compare with
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[flower]'
	$(BIN)/python -m bench

lint: install  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: install  ## rewrite in the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

vectors: install  ## write vectors/*.json anew
	$(BIN)/python vectors/make.py

clean:  ## remove what make built
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist
