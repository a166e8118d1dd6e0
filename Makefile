# Every target does the set-up it needs: a machine with Python 3.11 and make is enough.
PYTHON ?= python3.11
VENV := .venv
STAMP := $(VENV)/.setup-done
BIN := $(VENV)/bin
FOR ?=
WEB_SEED ?= 1
PORT ?= 3000

.DEFAULT_GOAL := help
.PHONY: help setup demo up test test-long check bench lock clean

help:
	@echo "make demo [FOR=seconds] [WEB_SEED=n] [PORT=n]   crawl a synthetic web, with Dagster on http://127.0.0.1:3000"
	@echo "make test                              checks and tests (what CI runs)"
	@echo "make up                                crawl the real web: see 'crawl up --help' for its options"
	@echo "make setup | check | test-long | bench | lock | clean"

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	$(BIN)/python -m crawl_platform.digest
	touch $@

demo: setup
	$(BIN)/crawl demo --web-seed $(WEB_SEED) --port $(PORT) $(if $(FOR),--for $(FOR),)

up: setup
	@$(BIN)/crawl up $(ARGS)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: check
	$(BIN)/python -m pytest -m "not long" -n 2 --dist loadfile --no-loadscope-reorder tests

test-long: setup
	$(BIN)/python -m pytest -m long tests

bench: setup
	@for b in $$(ls bench/*.py bench/*/__main__.py | grep -v __init__ | sed 's,/__main__,,; s,/,.,g; s,\.py$$,,'); do $(BIN)/python -m $$b --json; done

lock: EXPORT := --format requirements-txt --no-emit-project --no-annotate --no-header
lock:
	$(BIN)/uv lock --upgrade
	$(BIN)/uv export $(EXPORT) > requirements.lock
	echo "# What the image installs: requirements.lock without what only developers need. Made by \`make lock\`." > deploy/requirements.lock
	$(BIN)/uv export $(EXPORT) --no-dev >> deploy/requirements.lock

# Build products only. A lake, its cells' state and its logs are never touched: `crawl` owns those.
clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
