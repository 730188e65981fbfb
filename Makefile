# Every target makes its own virtual environment from the lock file; only Python >= 3.11 is needed.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
TESTS  ?= tests
ARGS   ?=
# The stories wait more than they compute; each worker has a sandbox of its own.
WORKERS ?= 4

.PHONY: help venv demo test test-live lint format docs bench bench-smoke lock clean

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

$(STAMP): requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $(STAMP)

venv: $(STAMP) ## the virtual environment with everything in it

demo: $(STAMP) ## watch pods go through Slurm on the embedded sandbox
	$(BIN)/slurm-pod-scheduler demo $(ARGS)

test: $(STAMP) ## fast tier: unit, property, component, stories on the sandbox
	$(BIN)/python -m pytest $(TESTS) -m "not live" -n $(WORKERS) --dist worksteal $(ARGS)

test-live: $(STAMP) ## live tier: real kube-apiserver, etcd, kubelet and Slurm (root on Debian)
	$(BIN)/python -m tests.rigs.setup
	$(BIN)/python -m pytest $(TESTS) -m live $(ARGS)

lint: $(STAMP) ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## rewrite to the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP) ## rewrite the tables that come from the code
	$(BIN)/python -m scheduler.docs

bench: $(STAMP) ## the benchmarks, full size, on the sandbox
	$(BIN)/python -m benchmarks.decode
	$(BIN)/python -m benchmarks.decide
	$(BIN)/python -m benchmarks.main_path --on sandbox --pods 1000

bench-smoke: $(STAMP) ## a short run of each benchmark
	$(BIN)/python -m benchmarks.decode --pods 1000
	$(BIN)/python -m benchmarks.decide --units 2000
	$(BIN)/python -m benchmarks.main_path --on sandbox --pods 100

lock: ## rewrite the lock files (needs uv)
	uv pip compile --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
	  --group dev pyproject.toml -o requirements/dev.txt
	uv pip compile --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
	  pyproject.toml -o requirements/runtime.txt

clean: ## remove what this Makefile made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
