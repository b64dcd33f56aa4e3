# Everything sets itself up: the virtual environment is made on first use and whenever pyproject.toml changes.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
FUZZ_SECONDS ?= 600
FLWR ?= 1.40.0 1.41.0
DATA ?= data
# One version, so that everybody gets the same; of the experiments only those on CIFAR-10 need it.
TORCH ?= torch==2.13.0
NEED_TORCH := cifar_reliability membership cifar_masked
# A switch is off when it is empty, 0 or no.
yes = $(filter-out 0 no,$(1))

# What builds and checks packages is in an environment of its own.
TOOLS := build/tools

# Pythons to try beside PYTHON, where they are on this machine.
PYTHONS ?= python3.12 python3.13

# The compiled kernel is optional: without a compiler, or where it does not build, everything runs without it. A
# compiler that comes later is noticed; a build that failed is tried again when its sources change.
NATIVE := $(wildcard native/pyproject.toml native/meson.build native/src/*)
define build_native
if ! command -v $(CC) >/dev/null 2>&1; then echo "no C compiler ($(CC)): ccesa runs without its compiled kernel, more slowly"; \
elif touch $(1)/.native; ! $(1)/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps ./native >$(1)/native.log 2>&1; then \
    echo "ccesa-native could not be built (see $(1)/native.log): ccesa runs without its compiled kernel, more slowly"; fi
endef
# What is compiled without Python, with its own checks, for sanitizers, fuzzing and other processors.
CHECK := native/tests/check.c $(wildcard native/src/aes_*.c native/src/chacha20*.c) native/src/dispatch.c
CHECK_FLAGS := -std=gnu11 -g -Wall -Wextra -Wno-psabi
CHECK_SECONDS ?= 20
SANITIZE := address,undefined
ARM_CC ?= aarch64-linux-gnu-gcc
ARM_RUN ?= qemu-aarch64

.PHONY: help install client demo attack service-demo browser-demo packages test test-random test-service test-typescript test-slow test-lowest test-pythons test-adversarial test-flower test-flower-versions test-native-sanitized test-arm fuzz fuzz-native bench reproduce pictures notebooks docs docs-serve release-check lint lint-workflows format vectors clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 24

install: $(VENV)/.installed $(VENV)/.native  ## virtual environment with everything

$(VENV)/.installed: pyproject.toml
	@command -v $(PYTHON) >/dev/null 2>&1 || { echo "needs Python 3.11 or newer; try: make PYTHON=python3 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(VENV)/.native: $(VENV)/.installed $(NATIVE)
	@$(call build_native,$(VENV))

# The client for browsers and Node is built with its own tools. Without Node everything else runs.
CLIENT := clients/typescript
$(CLIENT)/node_modules/.installed: $(CLIENT)/package.json $(CLIENT)/package-lock.json
	cd $(CLIENT) && npm ci --silent --no-audit --no-fund
	@touch $@

$(CLIENT)/build/.built: $(CLIENT)/node_modules/.installed $(wildcard $(CLIENT)/tsconfig*.json) $(shell find $(CLIENT)/src $(CLIENT)/test $(CLIENT)/bench -name '*.ts')
	cd $(CLIENT) && npm run --silent build && npm run --silent build:test
	@touch $@

client:  ## build the client for browsers and Node, where there is Node
	@if .ci/packages --has node; then $(MAKE) --no-print-directory $(CLIENT)/build/.built; \
	else echo "no Node 20 with npm: the client for browsers and Node is not built"; fi

demo: install  ## train through secure aggregation, write demo-report.html
	$(BIN)/ccesa demo

service-demo: install  ## a hub and eight sites on this machine, two of which are killed; KEEP=1 leaves the page up
	$(BIN)/python examples/service_demo.py $(if $(call yes,$(KEEP)),--keep)

browser-demo: install client  ## a page to play with: open it in tabs and on phones; HOST=0.0.0.0 lets phones in, GUARD=active, PORT=8480
	$(BIN)/python examples/browser/demo.py $(if $(HOST),--host $(HOST)) $(if $(GUARD),--guard $(GUARD)) $(if $(PORT),--port $(PORT))

attack: install  ## attack a round; NAME=split-view (a list without it) DEFENCE=off JSON=1
	$(BIN)/python -m attacks $(or $(NAME),list) $(if $(DEFENCE),--defence $(DEFENCE)) $(if $(call yes,$(JSON)),--json)

packages:  ## a browser, a database, Node and a compiler for the tests: installed from Debian as root, named otherwise
	@.ci/packages

test: packages install client  ## the default tests; those of a missing part are skipped, and the last lines say how to run them, too
	$(BIN)/python -m pytest -n 3 --dist worksteal -q

test-random: install  ## the default tests with other random examples than last time
	HYPOTHESIS_PROFILE=random $(BIN)/python -m pytest -n 3 --dist worksteal -q

test-service: packages install  ## hubs and sites that are killed at random moments, and the load; a quarter of an hour
	$(BIN)/python -m pytest -m service -v tests/service

test-typescript: packages install client  ## the client in TypeScript: 240 mixed rounds, ten thousand requests and 240,000 charters beside Python
	$(BIN)/python -m pytest -m typescript -n 3 --dist worksteal -q tests/typescript

test-slow: install  ## the long ones
	$(BIN)/python -m pytest -m slow -q

# Flower asks for newer versions than we do, so what needs it is left out; test-flower-versions tries its own lowest.
test-lowest:  ## the default tests with the lowest version of everything that pyproject.toml allows
	$(PYTHON) -m venv --clear build/lowest
	$(PYTHON) tests/house/lowest.py demo dp plots join service dev > build/lowest/requirements.txt
	build/lowest/bin/python -m pip install --quiet --disable-pip-version-check --editable . --requirement build/lowest/requirements.txt
	build/lowest/bin/python -m pytest -n 3 --dist worksteal -q --ignore tests/flower --ignore tests/house/test_fuzz.py --ignore tests/house/test_pages.py --ignore tests/house/test_reference.py

test-pythons:  ## the default tests with other Pythons, those that are on this machine; PYTHONS='python3.12 …'
	@skipped=; for python in $(PYTHONS); do \
	    if ! $$python -c '' 2>/dev/null; then skipped="$$skipped $$python"; continue; fi; \
	    folder=build/$$(basename $$python); $$python --version; \
	    $$python -m venv $$folder && \
	    $$folder/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' && \
	    { $(call build_native,$$folder); } && \
	    $$folder/bin/python -m pytest -n 3 --dist worksteal -q || exit 1; \
	done; echo "skipped, not on this machine:$${skipped:- none}"

test-flower: install  ## Flower's simulation engine and a real deployment; needs a quiet machine
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'flwr[simulation]>=1.40,<1.42'
	$(BIN)/python -m pytest -m flower -v

test-flower-versions:  ## the default tests of ccesa.flower with each version of Flower that it works with
	for version in $(FLWR); do \
	    $(PYTHON) -m venv build/flwr-$$version && \
	    build/flwr-$$version/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' flwr==$$version && \
	    build/flwr-$$version/bin/python -m pytest -n 3 --dist worksteal -q tests/flower || exit 1; \
	done

test-adversarial: install  ## ten thousand rounds on a hostile network, and two thousand with helpers; ADVERSARIAL_ROUNDS=n for more or fewer
	$(BIN)/python -m pytest -m adversarial -n 3 --dist worksteal -v tests/protocol/test_stateful.py tests/protocol/test_assisted_hostile.py

fuzz: install  ## every decoder, ten minutes in all; FUZZ_SECONDS=n for more or less
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	$(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS)

test-native-sanitized: install  ## the compiled kernel under AddressSanitizer and UndefinedBehaviorSanitizer; CHECK_SECONDS=n
	@command -v $(CC) >/dev/null 2>&1 || { echo "needs gcc with its sanitizers"; exit 1; }
	@mkdir -p build/native
	$(CC) $(CHECK_FLAGS) -O1 -fsanitize=$(SANITIZE) -fno-sanitize-recover=all $(CHECK) -o build/native/sanitized
	build/native/sanitized $(CHECK_SECONDS)
	rm -rf build/native/site
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target build/native/site ./native \
	    -Csetup-args=-Db_sanitize=$(SANITIZE) -Csetup-args=-Db_lundef=false -Csetup-args=-Dbuildtype=debugoptimized
	export LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
	    UBSAN_OPTIONS=halt_on_error=1 PYTHONPATH=build/native/site PYTHONMALLOC=malloc; \
	CCESA_KERNEL=native $(BIN)/ccesa --version && \
	    $(BIN)/python -m pytest -q tests/crypto/test_kernels.py tests/crypto/test_kernel_arguments.py tests/crypto/test_native_numbers.py

fuzz-native:  ## all compiled kernels against a plain reference; FUZZ_SECONDS=n; with libFuzzer where clang is there
	@mkdir -p build/native/corpus
	if command -v clang >/dev/null 2>&1; then \
	    clang $(CHECK_FLAGS) -O2 -DLIBFUZZER -fsanitize=fuzzer $(CHECK) -o build/native/fuzz && \
	    build/native/fuzz -max_total_time=$(FUZZ_SECONDS) build/native/corpus; \
	else \
	    $(CC) $(CHECK_FLAGS) -O2 $(CHECK) -o build/native/fuzz && build/native/fuzz $(FUZZ_SECONDS); \
	fi

test-arm:  ## the compiled kernels for ARMv8, cross-compiled and run by an emulator; CHECK_SECONDS=n
	@command -v $(ARM_CC) >/dev/null 2>&1 && command -v $(ARM_RUN) >/dev/null 2>&1 || \
	    { echo "needs $(ARM_CC) and $(ARM_RUN); Debian: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"; exit 1; }
	@mkdir -p build/native
	$(ARM_CC) $(CHECK_FLAGS) -O2 -static $(CHECK) -o build/native/arm
	$(ARM_RUN) build/native/arm $(CHECK_SECONDS)

bench: install  ## the tables of docs/performance.md
	$(BIN)/python -m bench

reproduce: install  ## every table and figure of the paper, into build/; DATA=folder ONLY=name QUICK=1 AGAIN=1 OUTPUT=folder
	$(if $(if $(ONLY),$(filter $(NEED_TORCH),$(ONLY)),all),$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(TORCH)' --editable '.[experiments]')
	$(BIN)/python -m experiments --data '$(DATA)' $(ONLY:%=--only %) $(if $(call yes,$(QUICK)),--quick) $(if $(call yes,$(AGAIN)),--again) $(if $(OUTPUT),--output '$(OUTPUT)')

$(TOOLS)/.installed: release/requirements.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

release-check: $(TOOLS)/.installed $(if $(call yes,$(QUICK)),,client)  ## build what would be published, check it, install and run it in empty environments; QUICK=1 only builds ccesa; PYTHONS='python3.12 …'
	$(TOOLS)/bin/python -m release $(if $(call yes,$(QUICK)),--quick) --pythons $(PYTHONS)

lint-workflows: $(TOOLS)/.installed  ## the files for hosted machines: their form, and what they may do
	$(TOOLS)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(TOOLS)/bin/check-jsonschema --builtin-schema custom.github-workflows-require-timeout .github/workflows/*.yml
	$(TOOLS)/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(TOOLS)/bin/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	$(TOOLS)/bin/zizmor --offline --quiet --pedantic --strict-collection .github

pictures: install  ## the two pictures of the front page, from a real round and real plans
	$(BIN)/python -m docs.pictures.make

notebooks: install  ## run the notebooks anew, with their outputs; ONLY=planner
	$(BIN)/python -m docs.notebooks.execute $(ONLY)

# Material's note about its successor is for those who choose a tool, not for those who build a page.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs
$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

docs: install $(VENV)/.docs  ## the documentation site, strictly, into build/site
	$(MKDOCS) build --strict
	@echo "open build/site/index.html"

docs-serve: install $(VENV)/.docs  ## the site while you write: http://127.0.0.1:8000, built again at every change
	$(MKDOCS) serve --watch src --watch README.md

# Without Node, TypeScript and JavaScript are left out and a line says so. Where parts are required, it is an error.
define biome
if .ci/packages --has node; then $(MAKE) --no-print-directory $(CLIENT)/node_modules/.installed && cd $(CLIENT) && npm run --silent $(1); \
elif [ -n "$$CCESA_REQUIRE_PARTS" ]; then echo "no Node 20 with npm, and CCESA_REQUIRE_PARTS is set: sudo .ci/packages" >&2; exit 1; \
else echo "no Node 20 with npm: TypeScript and JavaScript are left out of make $(1)"; fi
endef

lint: install  ## format, lint, types; of Python, TypeScript and JavaScript
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@$(call biome,lint)

format: install  ## rewrite in the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	@$(call biome,format)

vectors: install  ## write vectors/*.json anew, and what docs/protocol.md says of them
	$(BIN)/python vectors/make.py
	$(BIN)/python vectors/checks.py

clean:  ## remove what make built
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .fuzz dist
