# The entry point for every task. `make demo` and `make test` do all of their own setup on a fresh Debian
# machine with Swift and Python; a second run repeats only the steps whose inputs have changed.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
# The factor by which `make test-long` does more than `make test`, and the duration of its soak test, which steps,
# resets, opens and closes sessions.
LONG_SCALE ?= 10
SOAK_SECONDS ?= 1200
VENV := .venv
# The dependencies of the installed package, and the file with its version.
INSTALLED := .build/python python_client/pyproject.toml Sources/TwofoldService/EnvironmentService.swift
SERVER := .build/release/twofold-server
# `swift test` makes the next build compile SwiftProtobuf again, so the targets run its program directly.
SWIFT_TESTS := .build/release/twofoldPackageTests.xctest --testing-library swift-testing
PYTEST := ../$(VENV)/bin/python -m pytest

# Makes a virtual environment of PYTHON's version, unless it exists and has pip.
make_venv = \
    test "$$($(1)/bin/python -c 'import pip, sys; print(sys.version)' 2>/dev/null)" \
        = "$$($(PYTHON) -c 'import sys; print(sys.version)')" || $(PYTHON) -m venv --clear $(1)

# The code to format and lint. Generated code opts out by a comment.
SWIFT_CODE := Package.swift Sources Tests

.PHONY: help demo test test-long test-swift test-python fuzz sanitize check format server bench certify proto clean \
    simulate defects posix-test swift-tests test-browser trainers training openenv-test score-per-second regret \
    published hooks times bench-jax pictures pages wheel wheel-arm64 wheel-test swift-6.2 arm64-test \
    container-test docs docs-serve

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z0-9.-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

DEMO_SECONDS ?= 120
DEMO_GAMES ?= 2000

demo: server $(VENV)/installed ## Train a 2048 agent for two minutes and evaluate it: DEMO_SECONDS=120 DEMO_GAMES=2000.
	mkdir -p runs
	$(VENV)/bin/twofold train runs/demo.npz --seconds $(DEMO_SECONDS) --threads $$(nproc) --evaluate-every 30 \
	    --plot runs/demo.png
	$(VENV)/bin/twofold evaluate ntuple:runs/demo.npz --against fixed-order --episodes $(DEMO_GAMES)

# The Python environment is installed while the server is built. The Python tests then run while the Swift tests are
# built and run, because each leaves some processors idle.
test: ## Run all tests, Swift and Python.
	+$(MAKE) --jobs --output-sync=target server $(VENV)/installed
	+$(MAKE) --jobs --output-sync=target test-swift test-python

test-long: server swift-tests $(VENV)/installed ## Run the long tests: many boards, malformed messages, bad networks, dying servers (an hour).
	TWOFOLD_TEST_SCALE=$(LONG_SCALE) $(SWIFT_TESTS) --filter TwofoldCoreTests
	cd python_client && TWOFOLD_SOAK_SECONDS=$(SOAK_SECONDS) $(PYTEST) -m long
	cd python_client && $(PYTEST) -s --scale $(LONG_SCALE) --timeout 7200 \
	    tests/test_fuzz.py tests/test_fairness.py tests/test_recovery.py tests/test_resume.py
	$(VENV)/bin/python python_client/simulation/simulate.py --minutes 2
	$(VENV)/bin/python python_client/simulation/simulate.py --models --minutes 2

FUZZ_SECONDS ?= 600
FUZZ_BUILD := .build/fuzz

SEED ?= 1
STEPS ?= 1000

simulate: server $(VENV)/installed ## Run clients and servers in a simulated world: SEED=1 STEPS=1000, SIMULATE_ARGS='--minutes 10'.
	$(VENV)/bin/python python_client/simulation/simulate.py --seed $(SEED) --steps $(STEPS) $(SIMULATE_ARGS)

defects: server $(VENV)/installed ## Plant defects, one after another, and check that the simulation finds each (half an hour).
	$(VENV)/bin/python python_client/simulation/plant.py $(DEFECTS_ARGS)

# Starts with small messages, which reach the most code. Then, for a fifth of that time, sends messages of up to 16 MiB.
# None of them may take more than 10 s.
fuzz: .build/system-packages ## Run libFuzzer on the library's C interface, with AddressSanitizer; FUZZ_SECONDS=600.
	TWOFOLD_FUZZ=1 swift build -c release --product FuzzRequests --scratch-path $(FUZZ_BUILD) \
	    -Xswiftc -sanitize=fuzzer,address
	swiftc -sanitize=fuzzer,address -o $(FUZZ_BUILD)/fuzz-requests -Xlinker --whole-archive \
	    $(FUZZ_BUILD)/release/libFuzzRequests.a -Xlinker --no-whole-archive 2>$(FUZZ_BUILD)/link.log \
	    || { cat $(FUZZ_BUILD)/link.log; exit 1; }
	mkdir -p $(FUZZ_BUILD)/corpus $(FUZZ_BUILD)/large
	python3 Tests/FuzzRequests/seeds.py $(FUZZ_BUILD)/corpus $(FUZZ_BUILD)/large
	cd $(FUZZ_BUILD) && ASAN_OPTIONS=detect_leaks=0 TWOFOLD_MAX_BOARDS_PER_SESSION=200 TWOFOLD_THREADS=1 ./fuzz-requests -max_total_time=$(FUZZ_SECONDS) \
	    -max_len=8192 -print_final_stats=1 corpus 2>&1 | tee fuzz.log
	cd $(FUZZ_BUILD) && ASAN_OPTIONS=detect_leaks=0 TWOFOLD_MAX_BOARDS_PER_SESSION=20000 TWOFOLD_THREADS=1 TWOFOLD_MAX_BYTES=1000000000 ./fuzz-requests \
	    -max_total_time=$$(($(FUZZ_SECONDS) / 5 + 1)) -max_len=16777216 -len_control=0 -timeout=10 \
	    -print_final_stats=1 large 2>&1 | tee fuzz-large.log
	@! grep "no interesting inputs" $(FUZZ_BUILD)/fuzz.log $(FUZZ_BUILD)/fuzz-large.log  # libFuzzer ran without coverage

# Skips the tests that measure memory, because AddressSanitizer keeps freed memory. One test makes libzmq ask for more
# memory than the machine has, which requires allocator_may_return_null.
sanitize: .build/system-packages ## Run the Swift tests under AddressSanitizer, TwofoldCore's also under ThreadSanitizer (long).
	ASAN_OPTIONS=allocator_may_return_null=1 \
	LSAN_OPTIONS='suppressions="$(CURDIR)/Tests/leaks-of-others.txt":print_suppressions=0' \
	    swift test --configuration release --disable-xctest --sanitize=address \
	    --scratch-path .build/asan --skip "leaks? no memory"
	swift test --configuration release --disable-xctest --sanitize=thread \
	    --scratch-path .build/tsan --filter TwofoldCoreTests

POSIX_BUILD := .build/posix

# Skips the test that sees memory returned to the system, for which POSIX has no function.
posix-test: .build/system-packages ## Build with POSIX's functions alone, and run the Swift tests (a quarter of an hour).
	TWOFOLD_POSIX=1 swift build -c release --build-tests --scratch-path $(POSIX_BUILD)
	$(POSIX_BUILD)/release/twofoldPackageTests.xctest --testing-library swift-testing \
	    --skip "closed sessions leak no memory" $(SWIFT_TEST_ARGS)

# Builds the server first, because two builds at once would wait for each other.
swift-tests: server ## Build everything, including the Swift tests.
	swift build -c release --build-tests

test-swift: swift-tests ## Run the Swift tests.
	$(SWIFT_TESTS) $(SWIFT_TEST_ARGS)

# One more process than processors, because many tests wait. The tests start hundreds of Python processes. Each loads
# compiled modules, also where the environment forbids Python to write them, and starts no threads for linear algebra.
test-python: export PYTHONDONTWRITEBYTECODE :=
test-python: export OPENBLAS_NUM_THREADS := 1
# SwiftPM replaces the link .build/release at the end of each build, so the tests use the folder that it names,
# whatever these variables of the environment say.
test-python: export TWOFOLD_SERVER = $(realpath $(SERVER))
test-python: export TWOFOLD_LIBRARY = $(realpath .build/release/libtwofold.so)
test-python: export TWOFOLD_SIMULATION_LIBRARY = $(realpath .build/release/libtwofold-simulation.so)
test-python: server $(VENV)/installed ## Run the Python tests against the release server.
	cd python_client && $(PYTEST) --numprocesses $$(($$(nproc) + 1)) --dist worksteal -m "not long"

test-browser: $(VENV)/installed ## Run the tests of the replay page in Chromium (Debian: apt install chromium).
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'playwright >=1.45'
	cd python_client && $(PYTEST) tests/test_replay_page.py

TRAINERS ?= sb3 torchrl tianshou rllib jax exports trl mcp

trainers: server $(TRAINERS:%=.build/trainers/%/installed) ## Run the tests with training libraries, JAX, Minari and Hugging Face; installs them (1 GB each).
	for library in $(TRAINERS); do \
	    (cd python_client && ../.build/trainers/$$library/bin/python -m pytest tests/trainers/test_$$library*.py); \
	done

openenv-test: ## Run the tests of the games for OpenEnv's clients; installs OpenEnv.
	$(MAKE) trainers TRAINERS=openenv

training: server $(patsubst %,.build/trainers/%/installed,$(filter-out jax exports trl mcp,$(TRAINERS))) ## Train with each library and print the table of results (hours).
	$(PYTHON) python_client/benchmarks/training/compare.py $(TRAINING_ARGS)

score-per-second: server $(VENV)/installed .build/trainers/sb3/installed ## Train each learner for an hour on two cores and print its scores after 1, 10 and 60 minutes.
	$(VENV)/bin/python python_client/benchmarks/training/score_per_second.py $(SCORE_ARGS)

regret: server $(VENV)/installed .build/trainers/sb3/installed ## Train learners on small boards and print their exact regret (an hour).
	$(VENV)/bin/python python_client/benchmarks/training/regret.py $(REGRET_ARGS)

published: server $(VENV)/installed ## Fetch published networks, evaluate them, and print their rows of results.
	$(VENV)/bin/python python_client/benchmarks/published.py $(PUBLISHED_ARGS)

# Each library in a separate environment, with the versions of tests/trainers/<library>.txt and PyTorch for the CPU.
.build/trainers/%/installed: python_client/tests/trainers/%.txt $(INSTALLED) | .build/system-packages
	$(call make_venv,$(@D))
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check pytest pytest-timeout \
	    --requirement $< --editable python_client
	@touch $@

check: .build/system-packages $(VENV)/installed ## Lint and type-check.
	swift format lint --strict --recursive $(SWIFT_CODE)
	cd python_client && ../$(VENV)/bin/ruff check . && ../$(VENV)/bin/ruff format --check .
	cd python_client && ../$(VENV)/bin/mypy

hooks: $(VENV)/installed ## Make git run the linters before each commit.
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'pre-commit >=4'
	$(VENV)/bin/pre-commit install

format: $(VENV)/installed ## Format the code.
	swift format --in-place --recursive $(SWIFT_CODE)
	cd python_client && ../$(VENV)/bin/ruff check --fix . ; ../$(VENV)/bin/ruff format .

server: .build/system-packages ## Build the server and the library in release mode.
	swift build -c release

times: ## Print where the time of `make test` goes, in a fresh clone (seven minutes).
	$(PYTHON) python_client/benchmarks/suites.py $(TIMES_ARGS)

bench: server $(VENV)/installed ## Compare the server with its peers and the transport's limit (long).
	$(SERVER) bench
	$(VENV)/bin/python python_client/benchmarks/end_to_end.py $(BENCH_ARGS)

bench-jax: server $(VENV)/installed ## Compare twofold.jax with pgx and Jumanji inside lax.scan (five minutes).
	$(VENV)/bin/python python_client/benchmarks/scans.py $(BENCH_ARGS)

certify: server $(VENV)/installed ## Check the rules against exact values and other packages (ten minutes).
	$(VENV)/bin/python python_client/certify/certify.py $(CERTIFY_ARGS)

pictures: server $(VENV)/installed ## Make docs/pictures (two minutes) with Chromium.
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
	    --editable 'python_client[pictures]'
	$(VENV)/bin/python python_client/pictures/make.py $(PICTURES_ARGS)

pages: server $(VENV)/installed ## Write the generated parts of the documents: command line, exceptions, API.
	$(VENV)/bin/python python_client/pages/generate.py

wheel: .build/system-packages ## Build the wheels and the sdist into python_client/dist.
	$(PYTHON) python_client/packaging/build.py

wheel-arm64: server ## Add the wheel for arm64 to python_client/dist (as root).
	$(PYTHON) python_client/packaging/arm64.py

wheel-test: wheel ## Install the wheels in Debian systems without Swift, and use them (as root).
	$(PYTHON) python_client/packaging/try_wheel.py

swift-6.2: server ## Build with the oldest Swift that is supported, in a Debian system (as root, half an hour).
	$(PYTHON) python_client/packaging/try_swift.py

# --short leaves out the wheel and the tests, --keep skips what passed at an earlier commit, and --publish writes the
# results into docs/figures.
arm64-test: server $(VENV)/installed ## Build for arm64 and test in emulated Debian systems (as root, over an hour): ARM64_ARGS=--short.
	$(VENV)/bin/python python_client/packaging/try_arm64.py $(ARM64_ARGS)

container-test: ## Build the images with Docker in a separate Debian system, and run them (as root).
	$(PYTHON) python_client/packaging/try_container.py

# NO_MKDOCS_2_WARNING silences mkdocs-material's notice about its successor.
docs: $(VENV)/installed ## Build the documentation site into .build/site.
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

docs-serve: $(VENV)/installed ## Serve the site on http://127.0.0.1:8000 and reload it after each change in docs.
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs serve

proto: ## Regenerate the protocol's code after a change in proto/ (minutes the first time).
	PYTHON=$(PYTHON) proto/generate.sh

clean: ## Remove everything that was built or installed here.
	rm -rf .build $(VENV) runs python_client/.mypy_cache python_client/.ruff_cache \
	    python_client/.pytest_cache python_client/.hypothesis python_client/dist
	find python_client -name __pycache__ -prune -exec rm -rf {} +

# Changes when PYTHON has another version.
.PHONY: always
.build/python: always
	@mkdir -p .build
	@$(PYTHON) -c 'import sys; print(sys.version)' >$@.new 2>&1 || true
	@cmp -s $@.new $@ || mv $@.new $@

.build/system-packages: .ci/system-packages .build/python
	PYTHON=$(PYTHON) .ci/system-packages
	@mkdir -p .build && touch $@

$(VENV)/installed: $(INSTALLED) | .build/system-packages
	$(call make_venv,$(VENV))
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
	    --editable 'python_client[dev,plot,data]'
	@touch $@
