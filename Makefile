# Two commands do everything on a fresh machine: `make demo` and `make test`.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -e '.[test,dev]'
	touch $@

venv: $(VENV)/.ready ## the virtual environment with chainwatch and its test tools

test: venv ## the whole test suite
	$(BIN)/pytest

lint: venv ## ruff, mypy and the import contract
	$(BIN)/ruff check src tests dev
	$(BIN)/ruff format --check src tests dev
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: help venv test lint
