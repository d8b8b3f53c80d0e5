# `make` lists the targets. Everything runs from the repository root; nothing is installed outside `.venv`, `.cluster`
# and the cache, but for Debian packages that the local cluster names before it installs them.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
KUBECONFIG_LOCAL := $(CURDIR)/.cluster/kubeconfig
ARCHIVE := dist/metaoperator.tar
IMAGE_NAME ?= metaoperator:0.1.0
WITH_CLUSTER := tests/tools/with-cluster

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(READY): requirements-dev.lock pyproject.toml
	@tests/tools/venv $(VENV)
	@touch $@

.PHONY: venv
venv: $(READY)

# ---- fast checks

.PHONY: format
format: $(READY) ## format the code
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix --quiet .

.PHONY: lint
lint: $(READY) ## formatting and lint, nothing is changed
	@$(VENV)/bin/ruff format --check --quiet .
	@$(VENV)/bin/ruff check --quiet .

.PHONY: types
types: $(READY) ## mypy --strict
	@$(VENV)/bin/mypy --no-error-summary

.PHONY: arch
arch: $(READY) ## the architecture, as import contracts
	@$(VENV)/bin/lint-imports --no-logo >$(VENV)/arch.log 2>&1 || { cat $(VENV)/arch.log; exit 1; }

.PHONY: unit
unit: $(READY) ## unit and golden tests
	@$(PY) -m pytest -q tests/unit tests/golden

.PHONY: parts
parts: $(READY) ## the parts, and whole operators, against the fake API server
	@$(PY) -m pytest -q tests/parts tests/fake

.PHONY: golden
golden: $(READY) ## rewrite the golden files; the diff is what gets reviewed
	@GOLDEN=write $(PY) -m pytest -q tests/golden

.PHONY: check
check: lint types arch unit ## before each commit: format, lint, types, arch, unit and golden tests

# ---- the local cluster

.PHONY: cluster
cluster: $(READY) ## start the local cluster; it runs until `make cluster-down`
	@$(PY) -m tests.cluster up

.PHONY: cluster-down
cluster-down: ## stop the local cluster and take everything off the machine again
	@python3 -m tests.cluster down

.PHONY: image
image: $(READY) ## the operator's image as an OCI archive, made without a container engine
	@mkdir -p dist
	@$(PY) -m tests.cluster image --out $(ARCHIVE) --tag $(IMAGE_NAME)

.PHONY: render
render: $(READY) ## what namespace NS would get, for example: make render NS=team-a
	@$(VENV)/bin/metaoperator render $(NS)

.PHONY: demo
demo: $(READY) ## the main job, end to end, on the local cluster, until `make cluster-down`; CLUSTER=current: on your own
	@$(PY) -m tests.demo --cluster "$(or $(CLUSTER),local)" $(if $(YES),--yes) $(if $(VALUES),--values "$(VALUES)")

.PHONY: demo-down
demo-down: $(READY) ## take away what a killed `make demo CLUSTER=current` left
	@$(PY) -m tests.demo --cluster current --down

# ---- on real parts

.PHONY: contract
contract: $(READY) ## the fake API server and the real one, held to the same truth
	@$(WITH_CLUSTER) env METAOPERATOR_KUBECONFIG=$(KUBECONFIG_LOCAL) $(PY) -m pytest -q tests/contract

.PHONY: e2e
e2e: $(READY) image ## end to end on the local cluster, the operator as a pod, real controllers
	@$(WITH_CLUSTER) env KUBECONFIG=$(KUBECONFIG_LOCAL) $(PY) -m pytest -q tests/e2e

.PHONY: admission
admission: $(READY) ## the admission policies with each component, on a real API server alone; needs no root
	@$(PY) -m pytest -q tests/admission

.PHONY: current
current: $(READY) ## `make demo CLUSTER=current` by somebody without root, on the local cluster
	@$(WITH_CLUSTER) env KUBECONFIG=$(KUBECONFIG_LOCAL) $(PY) -m pytest -q tests/current

.PHONY: chaos
chaos: $(READY) image ## freeze leaders 20 times, kill all replicas 50 times in 50 opt-ins, on the local cluster
	@mkdir -p bench/results
	@CHAOS=full $(WITH_CLUSTER) env KUBECONFIG=$(KUBECONFIG_LOCAL) $(SHELL) -c 'set -o pipefail; $(PY) -m pytest -q -rP \
		tests/e2e/test_killed.py tests/e2e/test_takeover.py | tee bench/results/chaos.log'

# What takes minutes has a short form in `make e2e`, and its full form here: docs/local-cluster.md.
.PHONY: long
long: $(READY) image ## the e2e tests that have a short form in `make test`, in full, on the local cluster
	@mkdir -p bench/results
	@E2E=full $(WITH_CLUSTER) env KUBECONFIG=$(KUBECONFIG_LOCAL) $(SHELL) -c 'set -o pipefail; $(PY) -m pytest -q -rP \
		tests/e2e/test_settled.py tests/e2e/test_drain.py tests/e2e/test_every_door.py \
		tests/e2e/test_rollout.py | tee bench/results/long.log'

.PHONY: compat
compat: $(READY) ## the main job on the kubeconfig's cluster: make compat VERSION=v4.1.2 [IMAGE=… EXECUTOR=…]
	@$(PY) -m tests.compat "$(VERSION)" "$(IMAGE)" "$(EXECUTOR)"

.PHONY: readme
readme: $(READY) ## run README's shell blocks unchanged, in an empty directory, under env -i
	@$(PY) -m pytest -q -x tests/readme

.PHONY: real
real: contract e2e current

.PHONY: test
test: check parts admission image ## everything; what CI runs
	@$(WITH_CLUSTER) $(MAKE) --no-print-directory real
	@METAOPERATOR_TEST=1 $(MAKE) --no-print-directory readme

# ---- long

.PHONY: bench
bench: $(READY) ## measure; the figures go to bench/results
	@$(PY) -m tests.bench

.PHONY: soak
soak: $(READY) chaos long ## generated data at 10,000 examples a law, and what `make test` runs in a short form, in full
	@set -o pipefail; export HYPOTHESIS_PROFILE=soak; { $(PY) -m pytest -q -o timeout=3600 tests/unit && \
		$(PY) -m pytest -q -o timeout=3600 tests/parts/test_anything.py; } | tee bench/results/soak.log
