# Everything runs in a virtual environment of its own, made on first use from requirements.lock. Needs python3 >= 3.11.
PYTHON ?= python3
VENV ?= .venv
OUT ?= out/fa_fwd_subtiled
BIN := $(VENV)/bin
READY := $(VENV)/ready

.DEFAULT_GOAL := help
.PHONY: help setup example test check unit format lock bench pictures docs wheel clean

help:  ## this list
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:[^#]*## */\t/' | expand -t 12

setup: $(READY)  ## make the virtual environment

example: $(READY)  ## schedule a real attention kernel for Hopper; the result goes to $(OUT)
	$(BIN)/twill schedule examples/ttgir/fa_fwd_subtiled.sm90.ttgir --arch sm90 --out $(OUT)

test: check unit  ## everything that must pass: lint, format, types, tests

check: $(READY)  ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

unit: $(READY)  ## the test suite
	$(BIN)/pytest -n 2 --dist worksteal

format: $(READY)  ## rewrite the sources in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(READY)  ## pin the newest versions that pyproject.toml allows
	$(BIN)/uv pip compile pyproject.toml --extra triton --group dev --universal --python-version 3.11 --upgrade \
		--generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock" -o requirements.lock

bench: $(READY)  ## with a Hopper GPU: measure every example from reports/schedules, renew reports/h200.md
	$(BIN)/python benchmarks/hopper.py generate build/bench
	$(BIN)/python benchmarks/hopper.py measure build/bench
	$(BIN)/python benchmarks/hopper.py report build/bench

pictures: example  ## renew the pictures of the README
	mkdir -p docs/images
	cp $(OUT)/timeline.svg docs/images/fa_fwd_subtiled.sm90.timeline.svg
	cp $(OUT)/graph.svg docs/images/fa_fwd_subtiled.sm90.graph.svg

docs: $(READY)  ## build the documentation as a site, in site/
	$(BIN)/python -m mkdocs build --quiet --strict

wheel: $(READY)  ## build dist/*.whl
	$(BIN)/uv build --wheel --no-build-isolation --python $(BIN)/python

clean:  ## remove what the other targets made
	rm -rf $(VENV) site out dist .pytest_cache .ruff_cache .hypothesis

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Twill needs Python 3.11 or newer; set PYTHON=..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
