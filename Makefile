# The two commands are `make train` and `make test`; whatever they need is set up first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RECIPE ?= skull_king/quick
ARGS ?=
CPP := $(shell find native -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh')
CMAKE := $(BIN)/cmake -S . -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DPLAYMILL_TESTS=ON -DPLAYMILL_CUDA=OFF
BUILT := $(BIN)/python -c 'import pathlib, playmill._native as n; print(pathlib.Path(n.__file__).parent)'
BENCHES := pool generals train learn-tiny learn-skull-king resume ranks replay transport weights engines actors off-policy chaos service soak signature

.PHONY: train test setup lint format native-test cuda-check python-test sanitize bench docs stub proto golden fuzz clean

train: $(VENV)/.train
	$(BIN)/playmill train $(RECIPE) $(ARGS)

test: lint native-test cuda-check python-test

setup: $(VENV)/.dev

$(VENV)/.tools: constraints.txt
	.ci/packages $(PYTHON)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt "scikit-build-core>=0.11" "nanobind>=2.7" "cmake>=3.25" "ninja>=1.11"
	touch $@

$(VENV)/.train: $(VENV)/.tools $(CPP) CMakeLists.txt pyproject.toml
	flock $(VENV)/.tools $(BIN)/pip install -q -c constraints.txt --no-build-isolation -e ".[report,bench]" || \
	  { echo "without OpenSpiel and sb3-contrib: no exploitability, no benchmarks beside them"; \
	    flock $(VENV)/.tools $(BIN)/pip install -q -c constraints.txt --no-build-isolation -e ".[report]"; }
	touch $@

$(VENV)/.dev: $(VENV)/.tools $(CPP) CMakeLists.txt pyproject.toml
	flock $(VENV)/.tools $(BIN)/pip install -q -c constraints.txt --no-build-isolation -e ".[dev]"
	touch $@ $(VENV)/.train

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CPP)
	@for stub in _native.pyi _cuda.pyi; do \
	  test ! -e $$($(BUILT))/$$stub || cmp src/playmill/$$stub $$($(BUILT))/$$stub || \
	    { echo "the stub is stale: make stub"; exit 1; }; done
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

native-test: setup
	$(CMAKE) -B build/native
	$(BIN)/cmake --build build/native
	$(BIN)/ctest --test-dir build/native --output-on-failure

sanitize: setup
	$(CMAKE) -B build/sanitize -DPLAYMILL_SANITIZE=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo
	$(BIN)/cmake --build build/sanitize
	$(BIN)/ctest --test-dir build/sanitize --output-on-failure

cuda-check: setup
	@if command -v nvcc >/dev/null; then \
	  $(BIN)/python -c 'import playmill._cuda as c; print("every game and kernel compiled for CUDA", c.ARCHITECTURES)'; \
	else echo "no nvcc here: the CUDA lane is left out"; fi

python-test: setup
	.ci/tests

bench: setup
	for name in $(BENCHES); do $(BIN)/playmill bench $$name --save || exit 1; done

docs: setup
	$(BIN)/pytest -q tests/unit/test_docs.py tests/unit/test_contributing.py tests/unit/test_examples.py

stub: setup
	cp $$($(BUILT))/*.pyi src/playmill/

proto: setup
	$(BIN)/python -m tests.contract.protoc

golden: setup
	$(BIN)/python -m tests.golden.transcript

fuzz: setup
	$(BIN)/python -m tests.skull_king.fuzz --games 20000
	$(BIN)/python -m tests.generals.fuzz --games 10000 --processes 2

clean:
	rm -rf build $(VENV)
