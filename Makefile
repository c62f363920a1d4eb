# Each target works on a machine that has only Python 3.11+, make and the package registries: it makes .venv itself.
# The tests start processes of another account, which cannot run a Python that lies in a closed folder of root's.
OPEN := import ensurepip, os, pathlib, sys; sys.exit(sys.version_info < (3, 11) or not all(os.stat(one).st_mode & 1 for one in pathlib.Path(sys.base_prefix).resolve().parents))
PYTHON ?= $(shell for one in python3 /usr/bin/python3; do $$one -c '$(OPEN)' 2> /dev/null && echo $$one && exit; done; echo python3)
# Oban wants Python 3.12.
PYTHON_FOR_OBAN ?= $(shell for one in python3.14 python3.13 python3.12 $(wildcard $(HOME)/.pyenv/versions/3.1[2-9]*/bin/python3); do \
  $$one -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 12))' 2> /dev/null && echo $$one && exit; done; echo $(PYTHON))
# Where main has come to, or on main itself the commit before.
BASE ?= $(shell base=$$(git merge-base HEAD main); [ "$$base" = "$$(git rev-parse HEAD)" ] && echo HEAD^ || echo $$base)
BIN := .venv/bin
DEMO ?= .matins-demo
KILLS ?= 300
N ?= 40
SECONDS ?= 0
SEED ?= 1
SEEDS ?= 200
.DEFAULT_GOAL := help
.PHONY: help up test test-real test-scale record-real check style types torture torture-machines torture-processes simulate mutants mutants-seeded pages pictures bench bench-quick bench-beside bench-cron bench-durable bench-scale bench-processes bench-http bench-audit docs constraints release clean

help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

up: .venv/run  ## start Matins with a demonstration: an agent wakes, a run waits for you, one is skipped
	@exec $(BIN)/matins --home $(DEMO) demo

# Beside tests that wait for much: pyright takes half a minute of one core. What it says follows the tests.
test: style .venv/browser .venv/pooler  ## everything that must hold before a change lands
	@echo "$(BIN)/pytest -n auto --dist worksteal, and types and layers beside it"
	@$(MAKE) --no-print-directory types > .venv/types.log 2>&1 & types=$$!; \
	  $(BIN)/pytest -n auto --dist worksteal; tests=$$?; \
	  wait $$types; types=$$?; cat .venv/types.log; exit $$((tests || types))

check: style types  ## style, types, layers

style: .venv/test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/djangofmt --check src/matins/web/templates

types: .venv/test
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/structure.py
	$(BIN)/pyright

torture: .venv/test  ## real processes, killed as often as KILLS=, SECONDS=, SEED= say; one JSON line per store
	$(BIN)/python tests/torture/run.py --kills $(KILLS) --seconds $(SECONDS) --seed $(SEED)
	$(MAKE) --no-print-directory torture-machines

torture-machines: .venv/test  ## three machines on one PostgreSQL: power, disks, cut networks; root, on Linux
	$(BIN)/python tests/torture/many_machines.py --seconds $(if $(filter 0,$(SECONDS)),90,$(SECONDS)) --seed $(SEED)

torture-processes: .venv/test  ## commands: ten thousand runs, a flood of 1 GB, and KILLS= engines, wardens and keepers
	$(BIN)/python tests/executors/processes/process_torture.py --kills $(KILLS) --seed $(SEED)

test-scale: .venv/test  ## workers and a Temporal server that are killed, stopped and started again
	PYTHONPATH=tests:tests/temporal:tests/torture $(BIN)/pytest -n 0 tests/temporal/scale_failures.py

mutants: .venv/test  ## each promise of docs/security.md without its guard: its test must fail; ONLY= chooses
	PYTHONPATH=tests/security $(BIN)/python tests/security/mutation.py $(ONLY:%=--only "%")

mutants-seeded: .venv/test  ## N= mutants drawn by SEED=, against tests that call them; IDS= an earlier result, to compare
	PYTHONPATH=tests/security $(BIN)/python tests/security/seeded_mutants.py --seed $(SEED) -n $(N) $(IDS:%=--ids %)

simulate: .venv/test  ## the loops under a virtual clock and SEEDS= seeds of faults
	$(BIN)/python tests/simulation/run.py --seeds $(SEEDS)

pictures: .venv/browser  ## pictures of the page in docs/pictures, from the demonstration in a real browser
	PYTHONPATH=tests:tests/web $(BIN)/python tests/web/pictures.py

pages: .venv/test  ## renew the types and pages that are made from declarations
	$(BIN)/python tools/generate_rows.py
	$(BIN)/ruff format --quiet src/matins/store/_rows.py src/matins/chat/_rows.py
	$(BIN)/python tools/generate_types.py
	$(BIN)/python tools/generate_awaitable.py
	$(BIN)/ruff format --quiet src/matins/api/_types.py src/matins/api/_results.py src/matins/api/_nouns.py src/matins/api/_awaitable.pyi
	$(BIN)/python tests/config/file_settings_page.py
	$(BIN)/python tests/docs/event_names.py
	$(BIN)/python tests/docs/gate_table.py
	$(BIN)/python tests/docs/seeds_page.py
	$(BIN)/python tests/docs/use_case_page.py
	$(BIN)/python tests/surfaces/cli/cli_page.py
	PYTHONPATH=tests:tests/surfaces/cli:tests/web $(BIN)/python tests/golden/screens.py
	$(BIN)/python tests/docs/row_coverage.py

test-real: .venv/browser .venv/prometheus  ## real tools through `matins up`, with models on this machine; TOOL= and CASE= choose; npm installs them once
	PYTHONPATH=tests $(BIN)/python -m real.run $(TOOL:%=--tool %) $(CASE:%=--case %)
	$(if $(TOOL)$(CASE),,MATINS_TEST_REAL=1 $(BIN)/pytest -q tests/security/test_isolation_tools.py tests/mcp/test_mcp_inspector.py tests/surfaces/http/test_watching.py tests/web/test_oidc_provider.py)

record-real: .venv/test  ## the same, and what the tools wrote becomes the recordings that `make test` replays
	PYTHONPATH=tests $(BIN)/python -m real.run --record tests/recordings $(TOOL:%=--tool %) $(CASE:%=--case %)

bench: bench-cron bench-durable bench-processes bench-http  ## Matins beside its peers, with ratios

bench-cron: .venv-bench-cron/installed  ## when: parsing and the next fire
	.venv-bench-cron/bin/python benchmarks/cron.py

bench-quick: .venv-bench-durable/installed  ## before a change of engine, runtime, store or service lands: beside BASE=, 4 minutes
	.venv-bench-durable/bin/python benchmarks/durable.py --quick --minutes 3.5 --base $(BASE)

bench-beside: .venv-bench-durable/installed  ## every row of Matins beside the commit BASE= and the one that the aims began with
	.venv-bench-durable/bin/python benchmarks/durable.py --matins --base $(BASE) --base 8f184e0

bench-durable: .venv-bench-durable/installed .venv-bench-apscheduler4/installed .venv-bench-oban/installed  ## firing, with durable records
	.venv-bench-durable/bin/python benchmarks/durable.py --minutes 22

bench-scale: .venv-bench-durable/installed .venv-bench-oban/installed  ## engines on one PostgreSQL, a million schedules, limits, herds, ten million runs
	.venv-bench-durable/bin/python benchmarks/scale.py --sqlite

bench-processes: .venv/run  ## supervised commands beside bare ones, or beside an earlier commit: BEFORE=its-python
	$(BIN)/python benchmarks/processes.py $(if $(BEFORE),--before $(BEFORE))

bench-http: .venv/run  ## the API under load, while schedules fire
	$(BIN)/python benchmarks/api.py
	$(BIN)/python benchmarks/api.py --schedules 1000 --only page: --seconds 5
	$(BIN)/python benchmarks/api.py --schedules 100000 --only page: --seconds 5
	$(BIN)/python benchmarks/page.py
	$(BIN)/python benchmarks/agent_tools.py

bench-audit: .venv/run  ## `matins audit verify` on a log of a million events; URL= for PostgreSQL
	$(BIN)/python benchmarks/audit.py $(URL:%=--url %)

docs: .venv-docs/installed  ## the site of the documentation, in site/; a link that leads nowhere fails
	.venv-docs/bin/zensical build --clean --strict

constraints: .venv-release/installed  ## renew constraints.txt, the versions that an installation can repeat
	.venv-release/bin/python tools/release.py --constraints

release: .venv-release/installed  ## VERSION=1.2.0: changelog, wheel and sdist that were installed and tried, SBOM, tag; CHECK=1 only tries
	.venv-release/bin/python tools/release.py $(if $(CHECK),--check,$(VERSION))

clean:  ## remove what the other targets made
	rm -rf .venv .venv-* site dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache $(DEMO)

%/bin/python:
	@echo "Installing into $(@D:%/bin=%), once. This takes about a minute."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Matins needs Python 3.11 or later; name one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $* || \
	  { echo "Python's venv module is missing: on Debian and Ubuntu 'apt-get install python3-venv' brings it"; rm -rf $*; exit 1; }
	@$@ -m pip install --quiet --upgrade "pip>=25"

# A stamp for each set of packages, renewed when pyproject.toml changes.
.venv/run: .venv/bin/python pyproject.toml
	@echo "Installing Matins and the packages that it needs …"
	@$(BIN)/python -m pip install --quiet --progress-bar on --editable "."
	@touch $@
.venv/test: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	@touch $@
# The tests of the page drive a real browser: Debian's Chromium, or another that MATINS_CHROMIUM names.
.venv/browser: .venv/test
	@command -v "$${MATINS_CHROMIUM:-chromium}" > /dev/null || command -v chromium-browser > /dev/null || \
	  { apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core > /dev/null; } || \
	  { echo "The page's tests need Chromium: install it, or name a browser: make MATINS_CHROMIUM=/path test"; exit 1; }
	@touch $@
# The tests of the stores have a real pooler before PostgreSQL.
.venv/pooler: .venv/test
	@PATH="$$PATH:/usr/sbin" command -v pgbouncer > /dev/null || \
	  { apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends pgbouncer > /dev/null; } || \
	  { echo "The tests of the stores need PgBouncer: as root, 'apt-get install pgbouncer' brings it"; exit 1; }
	@touch $@
# A real Prometheus scrapes /metrics.
.venv/prometheus: .venv/test
	@command -v prometheus > /dev/null || \
	  { apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus > /dev/null; } || \
	  { echo "The test of the metrics needs Prometheus: as root, 'apt-get install prometheus' brings it"; exit 1; }
	@touch $@
.venv-bench-cron/installed .venv-bench-durable/installed .venv-bench-apscheduler4/installed: .venv-bench-%/installed: .venv-bench-%/bin/python pyproject.toml
	.venv-bench-$*/bin/python -m pip install --quiet --editable ".[bench-$*]"
	@touch $@
.venv-docs/installed .venv-release/installed: .venv-%/installed: .venv-%/bin/python pyproject.toml
	.venv-$*/bin/python -m pip install --quiet --editable ".[$*]"
	@touch $@
# On Python 3.11 one line of Oban is written as that Python has it; the benchmark says so.
.venv-bench-oban/installed:
	$(PYTHON_FOR_OBAN) -m venv .venv-bench-oban
	.venv-bench-oban/bin/python -m pip install --quiet --ignore-requires-python "oban>=0.7,<0.8"
	@.venv-bench-oban/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 12))' || \
	  sed -i 's/^type Result\[T\] = /T = __import__("typing").TypeVar("T")\nResult = /' .venv-bench-oban/lib/python3.11/site-packages/oban/job.py
	@touch $@
.PRECIOUS: %/bin/python
