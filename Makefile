# Two commands do everything on a fresh machine: `make demo` and `make test`.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
.DEFAULT_GOAL := help
# Where it is set, each of the many processes that tests start would compile everything again.
export PYTHONDONTWRITEBYTECODE :=

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(VENV)/.base: pyproject.toml
	python="$$(PYTHON="$(PYTHON)" dev/install python)" && "$$python" -m venv --clear $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -e .
	touch $@

$(VENV)/.ready: $(VENV)/.base
	$(BIN)/pip install -q --disable-pip-version-check -e '.[test,dev]'
	touch $@

venv: $(VENV)/.ready ## the virtual environment with chainwatch and its test tools

# What the two commands need of the distribution, after one question.
for-demo for-test:
	@dev/install python slurm $(if $(filter for-test,$@),services) >/dev/null

slurm: ## Slurm's daemons for the private cluster, from the distribution's packages where they are missing
	@dev/install slurm

services: ## real counterparts of the tests: PostgreSQL, Prometheus, Chromium
	@dev/install services

demo: for-demo $(VENV)/.base ## a training run survives one bad night, live, on a private Slurm
	@$(BIN)/python -m dev.demo

test: for-test venv ## the whole test suite, on a real private Slurm too
	$(BIN)/pytest -n 5 --dist worksteal

test-matrix: venv slurm ## the backends' contract on real Slurm 22.05, 24.11 and 26.05 (the newer ones in a chroot); writes the README's matrix
	$(BIN)/python -m dev.matrix $(MATRIX)

unit: venv ## the tests that need no Slurm
	$(BIN)/pytest -m 'not slurm'

real: venv ## checkpoints that the real torch writes now, cut everywhere (TORCH=torch==2.13.0 names the build)
	@test -d .real/torch || timeout 900 $(BIN)/pip install -q --disable-pip-version-check --target .real '$(or $(TORCH),torch==2.13.0)' \
		|| { rm -rf .real; echo "torch did not install: the checkpoints that it writes were not tested" >&2; }
	@test ! -d .real/torch || PYTHONPATH=.real $(BIN)/pytest -p no:cacheprovider tests/checkpoints/test_fresh_torch.py

never: venv ## what must never happen, on HISTORIES=500 new random histories of the simulated cluster
	CHAINWATCH_HISTORIES=$(or $(HISTORIES),500) $(BIN)/pytest tests/simulation/test_never.py --timeout=0

hangs: venv ## the table of false alarms and stops found, over generated histories of running jobs
	$(BIN)/pytest -q tests/diagnosis/test_hang_replay.py

bench: venv ## the benchmarks
	$(BIN)/pytest --benchmark-enable --benchmark-only

lint: venv ## ruff, mypy and the import contract
	$(BIN)/ruff check src tests dev
	$(BIN)/ruff format --check src tests dev
	$(BIN)/mypy
	$(BIN)/lint-imports

fuzz: ## coverage-guided fuzzing of the checkpoint readers, SECONDS=60 for each (in an environment of its own)
	test -x .venv-fuzz/bin/python || $(PYTHON) -m venv .venv-fuzz
	.venv-fuzz/bin/pip install -q --disable-pip-version-check atheris crc32c h5py isal zstandard
	PYTHONPATH=src .venv-fuzz/bin/python -m dev.fuzz.run --seconds $(or $(SECONDS),60)

docs: venv ## the documentation site, in build/site
	$(BIN)/python -m dev.docs

.PHONY: for-demo for-test never hangs docs help venv slurm test test-matrix unit bench lint fuzz services demo
