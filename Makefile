# The two commands are `make train` and `make test`; everything they need is set up first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RECIPE ?= skull_king/quick
SOURCES := $(shell find native src/playmill -name '*.hpp' -o -name '*.cpp') CMakeLists.txt pyproject.toml
CPP := $(shell find native -name '*.hpp' -o -name '*.cpp')

.PHONY: train test setup lint format types imports native-test cuda-check python-test sanitize bench docs stub golden fuzz clean

train: $(VENV)/.train
	$(BIN)/playmill train $(RECIPE) $(ARGS)

test: lint native-test cuda-check python-test

setup: $(VENV)/.dev

$(VENV)/.pip: constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt "scikit-build-core>=0.11" "nanobind>=2.7" "cmake>=3.25" "ninja>=1.11"
	touch $@

$(VENV)/.train: $(VENV)/.pip $(SOURCES)
	flock $(VENV)/.pip $(BIN)/pip install -q -c constraints.txt --no-build-isolation -e ".[report]"
	touch $@

$(VENV)/.dev: $(VENV)/.pip $(SOURCES)
	flock $(VENV)/.pip $(BIN)/pip install -q -c constraints.txt --no-build-isolation -e ".[dev]"
	touch $@ $(VENV)/.train

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CPP)
	cmp src/playmill/_native.pyi $$($(BIN)/python -c 'import pathlib, playmill._native as n; print(pathlib.Path(n.__file__).parent / "_native.pyi")') || (echo 'the stub is stale: make stub' && false)
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

native-test: setup
	$(BIN)/cmake -S . -B build/native -G Ninja -DPLAYMILL_TESTS=ON -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja
	$(BIN)/cmake --build build/native
	$(BIN)/ctest --test-dir build/native --output-on-failure

sanitize: setup
	$(BIN)/cmake -S . -B build/sanitize -G Ninja -DPLAYMILL_TESTS=ON -DPLAYMILL_SANITIZE=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja
	$(BIN)/cmake --build build/sanitize
	$(BIN)/ctest --test-dir build/sanitize --output-on-failure

cuda-check:
	@if command -v nvcc >/dev/null; then mkdir -p build && nvcc -std=c++20 --expt-relaxed-constexpr -arch=sm_90 -Inative -c native/tests/cuda_compile.cu -o build/cuda_compile.o && echo "every game compiles as CUDA device code"; else echo "no nvcc here: the CUDA compile check is left out"; fi

python-test: setup
	$(BIN)/pytest -q

bench: setup
	$(BIN)/pip install -q -c constraints.txt --no-build-isolation -e ".[dev,bench]"
	for name in pool train learn-tiny learn-skull-king resume; do $(BIN)/playmill bench $$name --json; done

stub: setup
	cp $$($(BIN)/python -c 'import pathlib, playmill._native as n; print(pathlib.Path(n.__file__).parent / "_native.pyi")') src/playmill/_native.pyi

clean:
	rm -rf build $(VENV)
