# Every target makes its own virtual environment from the lock file; only Python >= 3.11 is needed.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Less: what the scheduler and the demo need, without what tests and lint need.
RUNS   := $(VENV)/.runs
ARGS   ?=
# The stories wait more than they compute; each worker has a sandbox of its own.
WORKERS ?= 11
# In virtual time nothing waits. Beside other work on the same cores, four get more of the cores than two would.
SWEEP_WORKERS ?= 4
# Each has a Kubernetes and two Slurms of its own: about 1.5 GiB of memory. They wait more than they compute, too:
# with other work on two cores, four need 28 minutes where three need 35, and use less than half of the cores.
LIVE_WORKERS ?= 5
SOAK_MINUTES ?= 30
# A number plays that soak again; without one each is another.
SOAK_SEED ?=

# The tests start over a thousand Python processes. Where the environment forbids bytecode files, as
# images of Python do, each would compile the project and its tests anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv demo test test-sweep live-rigs test-live soak lint format docs site manifests bench bench-smoke image image-sbom release rig kind kind-down lock clean

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

$(STAMP): requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $(STAMP)

venv: $(STAMP) ## the virtual environment with everything in it

$(RUNS): requirements/runtime.txt requirements/build.txt pyproject.toml
	@echo "1/3 making the virtual environment $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "2/3 installing $$(cat requirements/runtime.txt requirements/build.txt | grep -c ==)" \
	  "packages into it, about 100 MB: a quarter of a minute, and as long as the download takes"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes \
	  -r requirements/runtime.txt -r requirements/build.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(RUNS)
	@echo "3/3 starting the demo"

demo: $(if $(wildcard $(STAMP)),$(STAMP),$(RUNS)) ## watch pods go through Slurm on the embedded sandbox
	$(BIN)/slurm-pod-scheduler demo $(ARGS)

test: TESTS ?= tests
test: $(STAMP) ## fast tier: unit, property, component, stories on the sandbox
	$(BIN)/python -m pytest $(TESTS) -m "not live and not sweep" -n $(WORKERS) --dist worksteal $(ARGS)

# Where their tests are: tests/support/tier_folders.py says why they are named.
test-sweep: TESTS ?= tests/crash tests/faults
test-live: TESTS ?= tests/admission tests/contract tests/deploy tests/rigs tests/stories tests/unit/page

test-sweep: $(STAMP) ## a crash at every point, every fault on every call, in virtual time
	$(BIN)/python -m pytest $(TESTS) -m sweep -n $(SWEEP_WORKERS) --dist worksteal $(ARGS)

live-rigs: $(STAMP) ## build what the live tier needs, or find it in the cache
	$(BIN)/python -m tests.rigs.setup

test-live: live-rigs ## live tier: real kube-apiserver, etcd, kubelet and Slurm (root on Debian)
	$(BIN)/python -m pytest $(TESTS) -m "live and not soak" -n $(LIVE_WORKERS) --dist loadgroup $(ARGS)

soak: live-rigs ## churn and faults on real servers for SOAK_MINUTES (root on Debian)
	$(BIN)/python -m pytest tests/stories/soak -m soak -s --soak-minutes $(SOAK_MINUTES) \
		$(if $(SOAK_SEED),--soak-seed $(SOAK_SEED)) $(ARGS)

lint: $(STAMP) ## format, lint, types, layers, shell scripts, known vulnerabilities
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/shellcheck deploy/*/*.sh scheduler/*/*.sh tests/rigs/*.sh .ci/run
	$(BIN)/python .ci/audit.py requirements/runtime.txt requirements/image.txt requirements/build.txt requirements/dev.txt

format: $(STAMP) ## rewrite to the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP) ## rewrite the tables and dashboards that come from the code
	$(BIN)/python -m docs._make
	$(BIN)/python -m deploy.helm.dashboards
	$(BIN)/python -m deploy.helm.values_docs
	$(BIN)/python -m deploy.helm.admission
	$(BIN)/python -m tests.rigs.kind_conf

site: $(STAMP) ## the documentation as a site in build/site, with its links checked (needs npm)
	$(BIN)/python -m docs._site

manifests: $(STAMP) ## rewrite the plain manifests from the Helm chart (builds helm with Go)
	$(BIN)/python -m tests.rigs.manifests

bench: $(STAMP) ## the benchmarks, full size, on the sandbox
	$(BIN)/python -m benchmarks.decode
	$(BIN)/python -m benchmarks.decide
	$(BIN)/python -m benchmarks.scrape
	$(BIN)/python -m benchmarks.failover
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.gangs --on sandbox
	$(BIN)/python -m benchmarks.nodes
	$(BIN)/python -m benchmarks.churn

bench-smoke: $(STAMP) ## a short run of each benchmark
	$(BIN)/python -m benchmarks.decode --pods 1000
	$(BIN)/python -m benchmarks.decide --units 2000
	$(BIN)/python -m benchmarks.scrape --units 1000
	$(BIN)/python -m benchmarks.failover --rounds 1 --only stopped
	$(BIN)/python -m benchmarks --short
	$(BIN)/python -m benchmarks.gangs --on sandbox --sizes 8 --rounds 1
	$(BIN)/python -m benchmarks.nodes --nodes 100 --watch-seconds 2
	$(BIN)/python -m benchmarks.churn --rate 20 --seconds 5 --life 2

image: ## the container image, by docker, podman or buildah (docs/image.md)
	deploy/image/image.sh build $(ARGS)

release: ## the files of a release in dist, made twice and checked (docs/releasing.md)
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
	  -r requirements/release.txt -r requirements/runtime.txt
	build/release/bin/python -m deploy.release $(or $(ARGS),--to dist)

image-sbom: ## print what is in the image, as CycloneDX
	@deploy/image/image.sh sbom

rig: $(STAMP) ## real Kubernetes and Slurm with the chart installed, until Ctrl-C (root on Debian)
	$(BIN)/python -m tests.rigs --chart $(ARGS)

kind: $(STAMP) ## a Kubernetes by kind, a Slurm and the scheduler in containers, and stories on them
	deploy/kind/up.sh
	deploy/kind/test.sh
	PYTHON=$(BIN)/python deploy/kind/stories.sh $(ARGS)

kind-down: ## take them away
	deploy/kind/down.sh

lock: ## rewrite the lock files (needs uv)
	uv pip compile --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
	  --group dev pyproject.toml -o requirements/dev.txt
	uv pip compile --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
	  --group build --constraints requirements/dev.txt -o requirements/build.txt
	uv pip compile --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
	  pyproject.toml -o requirements/runtime.txt
	uv pip compile --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
	  --group pyproject.toml:image -o requirements/image.txt
	uv pip compile --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
	  --group pyproject.toml:release --constraints requirements/dev.txt -o requirements/release.txt

clean: ## remove what this Makefile made
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
