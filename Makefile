# Everything starts here. `make demo` and `make test` do all of their own set-up on a fresh Debian
# machine that has Swift and Python; a second run only does what has changed.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
SERVER := .build/release/twofold-server
# The tests run optimised, as the server does (the kernel is compared on millions of boards), in a build of
# their own: they need the internals.
TEST_BUILD := --configuration release -Xswiftc -enable-testing --scratch-path .build/tests

# What to format and lint; generated code says itself that it is left alone.
SWIFT_CODE := Package.swift Sources Tests

.PHONY: help demo test test-swift test-python check format server bench proto clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: server $(VENV)/installed ## Train a 2048 agent for two minutes and compare it with random play.
	$(VENV)/bin/python python_client/examples/train_ntuple.py $(DEMO_ARGS)

test: test-swift test-python ## Run all tests, Swift and Python.

test-swift: .build/system-packages ## Run the Swift tests.
	swift test $(TEST_BUILD)

test-python: server $(VENV)/installed ## Run the Python tests against the release server.
	cd python_client && ../$(VENV)/bin/python -m pytest

check: .build/system-packages $(VENV)/installed ## Lint and type-check.
	swift format lint --strict --recursive $(SWIFT_CODE)
	cd python_client && ../$(VENV)/bin/ruff check . && ../$(VENV)/bin/ruff format --check .
	cd python_client && ../$(VENV)/bin/mypy

format: $(VENV)/installed ## Rewrite the code as the linters want it.
	swift format --in-place --recursive $(SWIFT_CODE)
	cd python_client && ../$(VENV)/bin/ruff check --fix . ; ../$(VENV)/bin/ruff format .

server: .build/system-packages ## Build the server, release.
	swift build -c release --product twofold-server

bench: server $(VENV)/installed ## Measure the server beside its peers and the transport's limit (long).
	$(SERVER) bench
	$(VENV)/bin/python python_client/benchmarks/end_to_end.py $(BENCH_ARGS)

proto: ## Regenerate the protocol's code after a change in proto/ (minutes the first time).
	proto/generate.sh

clean: ## Remove everything that was built or installed here.
	rm -rf .build $(VENV) runs python_client/.mypy_cache python_client/.ruff_cache \
	    python_client/.pytest_cache python_client/.hypothesis
	find python_client -name __pycache__ -prune -exec rm -rf {} +

.build/system-packages: .ci/system-packages
	PYTHON=$(PYTHON) .ci/system-packages
	@mkdir -p .build && touch $@

$(VENV)/installed: python_client/pyproject.toml | .build/system-packages
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
	    --editable 'python_client[dev,examples]'
	@touch $@
