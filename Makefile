# Everything runs in .venv, which `make setup` makes from pyproject.toml and constraints.txt.
# Another Python: make setup PYTHON=python3.13

PYTHON ?= python3
WORKERS ?= 2
# Neighbouring tests share a worker, and with it what they start; a worker that has nothing left takes from the others.
SPREAD := -n $(WORKERS) --dist worksteal
DEMO_ARGS ?=
TEST_ARGS ?=
BENCH_ARGS ?=
SOAK_ARGS ?=
FUZZ_SECONDS ?= 300

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
PGJDBC := $(VENV)/share/java/postgresql.jar
PEER := .venv-bench-pathway
PEER_STAMP := $(PEER)/.stamp

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench soak fuzz format clean

help:  ## say what each command does
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1 \t\2/' | expand -t 16

setup: $(STAMP) $(PGJDBC)  ## make .venv with everything in it (the other commands do this by themselves)

$(STAMP): pyproject.toml setup.py constraints.txt $(wildcard src/penstock/native/*.[ch])
	@command -v $(PYTHON) >/dev/null || { echo "penstock needs Python 3.11 or newer, and there is no '$(PYTHON)' here. Install it (Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python) and run make again."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "penstock needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) -V). Install a newer one and name it: make setup PYTHON=python3.13"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "This Python has no venv module. Install it (Debian, Ubuntu: apt install python3-venv) and run make again."; exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) -V)."
	@$(PYTHON) -m venv $(VENV)
	@PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
		$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@$(BIN)/python -m penstock.native
	@$(BIN)/python -m penstock.run.spark.install
	@touch $@
	@echo "Done: $(VENV) has penstock and all it needs."

# For the tests alone. Where it cannot be had, that is said, and the tests that need it are skipped.
$(PGJDBC): | $(STAMP)
	@$(BIN)/python tests/gateway/clients/bring_pgjdbc.py

demo: $(STAMP)  ## watch views keep up with a stream of orders, for half a minute
	@$(BIN)/python -m penstock.demo $(DEMO_ARGS)

test: $(STAMP) $(PGJDBC)  ## run every test
	$(BIN)/python -m pytest $(SPREAD) $(TEST_ARGS)

check: $(STAMP) $(PGJDBC)  ## format, lint, types, layers and the fast tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	HYPOTHESIS_PROFILE=fast $(BIN)/python -m pytest $(SPREAD) -m "not slow" $(TEST_ARGS)

bench: $(STAMP) $(PEER_STAMP)  ## compare with Pathway, DuckDB, Spark and bare numpy (some minutes: BENCH_ARGS=--small)
	$(BIN)/python -m bench --pathway-python $(PEER)/bin/python $(BENCH_ARGS)

$(PEER_STAMP): $(STAMP) bench/peers/pathway-constraints.txt
	@echo "Setting up $(PEER): Pathway needs a pyarrow older than ours."
	@$(BIN)/python -m venv $(PEER)
	@PIP_CONSTRAINT= PIP_DISABLE_PIP_VERSION_CHECK=1 \
		$(PEER)/bin/python -m pip install --quiet -c bench/peers/pathway-constraints.txt pathway
	@touch $@

soak: $(STAMP)  ## kill a writing process thousands of times and judge what it comes back with (SOAK_ARGS=--help)
	PYTHONPATH=tests $(BIN)/python -m durable.soak $(SOAK_ARGS)

fuzz: $(STAMP)  ## random bytes for the server (FUZZ_SECONDS), and 10,000 connections that say nothing
	@PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --editable '.[fuzz]'
	PYTHONPATH=tests $(BIN)/python -m gateway.fuzz -max_total_time=$(FUZZ_SECONDS) -max_len=2000 -timeout=60
	PENSTOCK_HALF_OPEN=10000 $(BIN)/python -m pytest tests/gateway/test_half_open.py

format: $(STAMP)  ## format the code and mend what the linter can mend
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

clean:  ## remove the environments, caches and results
	rm -rf $(VENV) $(PEER) .bench .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache build dist
	find . -name __pycache__ -prune -exec rm -rf {} +
