# Two commands do everything on a fresh machine with Python 3.11+:  make demo   and   make test
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# Processes that tests start load our modules compiled; some machines say that nothing compiled is kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help console demo demo-sites test check lint types unit thorough bench golden clean

help:  ## what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(READY): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@$(BIN)/python -m tidemill.runtime.kernels.compiling.warm
	@touch $@

demo: $(READY)  ## a live parking lot and temperatures, in the terminal
	@$(BIN)/tidemill demo

demo-sites: $(READY)  ## two sites on this machine, and the bytes that cross between them
	@$(BIN)/tidemill demo --sites

test: check  ## set everything up and pass all checks

check: $(READY) lint types unit  ## exactly what CI runs

lint: $(READY)
	@$(BIN)/ruff check src tests benchmarks
	@$(BIN)/ruff format --check --quiet src tests benchmarks
	@$(BIN)/lint-imports --no-cache

types: $(READY)
	@$(BIN)/mypy src tests benchmarks

unit: $(READY)
	@$(BIN)/python -m pytest --doctest-modules src tests -m "not spark" --ignore tests/spark -n logical --dist loadfile --no-loadscope-reorder
	@$(BIN)/python -m pytest tests/spark

thorough: $(READY)  ## the same properties with thousands of cases, and more crashes
	@TIDEMILL_THOROUGH=1 $(BIN)/python -m pytest tests -m "not spark" --ignore tests/spark -n logical -o timeout=0
	@TIDEMILL_THOROUGH=1 $(BIN)/python -m pytest tests/spark -o timeout=0

bench: $(READY)  ## all benchmarks, results and plots in docs/benchmarks
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[bench]'
	@$(BIN)/python -m benchmarks

console:  ## bundle the page of the console; needs npm
	@cd console && npm ci --silent && npm run --silent build
	@$(PYTHON) console/stamp.py

golden: $(READY)  ## write the expected plans of the rules anew; read the diff
	@TIDEMILL_GOLDEN=1 $(BIN)/python -m pytest tests/rules

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
