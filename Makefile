# Two commands set everything up on a machine with Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help

.PHONY: help
help: ## Print the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(VENV)/.core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; try: make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --constraint constraints.txt --editable .
	@$(BIN)/python -m compileall -q verdict_cli
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) install --constraint constraints.txt --editable '.[dev]'
	@touch $@

.PHONY: demo
demo: $(VENV)/.core ## Judge the sample with the embedded model: no key, no network
	$(BIN)/verdict run configs/xstest.yaml datasets/xstest_sample.jsonl --model baseline/lexical --out runs/demo --fresh

.PHONY: test
test: $(VENV)/.dev ## Run the tests
	$(BIN)/python -m pytest -q -n 2

.PHONY: check
check: $(VENV)/.dev ## Format, lint, types, floors, schema freshness
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/verdict schema | diff -q - schemas/pipeline.schema.json

.PHONY: format
format: $(VENV)/.dev ## Format the code and mend what lint can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: schema
schema: $(VENV)/.core ## Write schemas/pipeline.schema.json anew
	$(BIN)/verdict schema --out schemas/pipeline.schema.json

.PHONY: clean
clean: ## Remove the environment, caches and runs
	rm -rf $(VENV) runs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
