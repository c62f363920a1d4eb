# Each target works on a machine that has only Python 3.11+, make and the package registries: it makes .venv itself.
PYTHON ?= python3
BIN := .venv/bin
BENCH := .venv-bench-cron
.DEFAULT_GOAL := help
.PHONY: help up test check bench clean

help:  ## what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

up: .venv/run  ## install Matins and show it answering
	@$(BIN)/matins next "every weekday at 9am" --timezone Europe/London --count 3
	@echo
	@$(BIN)/matins next "*/15 9-17 * * 1-5" --timezone America/New_York --count 3
	@echo
	@$(BIN)/matins next "in 2 hours"

test: check  ## everything that must hold before a change lands
	$(BIN)/pytest -n auto --dist worksteal

check: .venv/test  ## style, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo

bench: $(BENCH)/bench  ## Matins beside its peers, with ratios
	$(BENCH)/bin/python benchmarks/cron.py

clean:  ## remove what the other targets made
	rm -rf .venv .venv-bench-* .pytest_cache .ruff_cache .hypothesis .import_linter_cache

%/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Matins needs Python 3.11 or later; name one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $* || \
	  { echo "Python's venv module is missing: on Debian and Ubuntu 'apt-get install python3-venv' brings it"; rm -rf $*; exit 1; }
	@$@ -m pip install --quiet --upgrade "pip>=25"

# A stamp for each set of extras, renewed when pyproject.toml changes.
.venv/run: EXTRAS :=
.venv/test: EXTRAS := [test]
$(BENCH)/bench: EXTRAS := [bench]
.venv/run .venv/test: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".$(EXTRAS)"
	@touch $@
$(BENCH)/bench: $(BENCH)/bin/python pyproject.toml
	$(BENCH)/bin/python -m pip install --quiet --editable ".$(EXTRAS)"
	@touch $@
.PRECIOUS: %/bin/python
