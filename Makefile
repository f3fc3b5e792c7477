# make train:     set up .venv and train AP-GCN on the embedded Cora graph
# make test:      set up .venv and run format, lint, types and the fast tests
# make test-slow: the tests that kill processes, start Ray clusters or ranks, or fuzz for minutes

PYTHON ?= python3
BIN := .venv/bin

.PHONY: train test test-slow clean

train: .venv/installed
	$(BIN)/apgcn train cora

test: .venv/installed-dev
	scripts/browser
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check

test-slow: .venv/installed-dev
	PATH="$(CURDIR)/$(BIN):$$PATH" pytest -m slow --numprocesses 2 --dist loadfile --durations=5

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[report,tune]"
	touch $@

.venv/installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $@ .venv/installed

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
