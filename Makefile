# make train: set everything up and train AP-GCN on the embedded Cora graph
# make test:  set everything up and run all checks

PYTHON ?= python3
BIN := .venv/bin

.PHONY: train test clean

train: .venv/installed
	$(BIN)/apgcn train cora

test: .venv/installed-dev
	scripts/browser
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[report,tune,fast]"
	touch $@

.venv/installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $@ .venv/installed

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
