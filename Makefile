# Two commands set everything up: `make quickstart` and `make test`.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
WARD   := runs/quickstart

.DEFAULT_GOAL := help
.PHONY: help quickstart test test-slow crash-test fuzz-test lint tables models docs clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1|/' | column -t -s '|'

$(VENV)/.installed: requirements.txt setup.py
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo "error: ncl_tf needs Python 3.11 to 3.13; choose one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "installing the pinned versions into $(VENV): some 800 MB to download, 3 GB on the disk; it takes minutes"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --requirement requirements.txt
	$(BIN)/pip install --quiet --no-deps --editable .
	touch $@

quickstart: $(VENV)/.installed  ## simulate a ward, prepare it, train NCL(n_w) on it, evaluate, export and report on it
	bin/prepare simulate --stays=2000 --seed=1 --output=$(WARD)/ward --overwrite
	bin/prepare physionet2019 --source=$(WARD)/ward --split=random --keep_raw --output=$(WARD)/ward.h5 --overwrite
	bin/prepare physionet2019 --source=$(WARD)/ward --split=random --observations=recency,count --output=$(WARD)/observed.h5 --overwrite
	bin/cohort describe $(WARD)/observed.h5
	bin/train --gin_file=gin/quickstart.gin --run_dir=$(WARD)/ncl_w
	bin/evaluate --run_dir=$(WARD)/ncl_w --overwrite
	bin/report --runs=$(WARD)/ncl_w --output=$(WARD)/report.html --overwrite
	@echo "done: open $(CURDIR)/$(WARD)/report.html in a browser; bin/train --help lists what else can be trained"

lint: $(VENV)/.installed  ## check the style (ruff) and the direction of dependencies (import-linter)
	$(BIN)/ruff check .
	$(BIN)/lint-imports

test: $(VENV)/.installed lint  ## the fast tests and lint: about ten minutes
	$(BIN)/pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder

test-slow: $(VENV)/.installed  ## the long checks: more wards, two devices, a Ray cluster; real data where NCL_PHYSIONET2019, NCL_MIMIC3_DEMO and NCL_YAIB_DEMO name it
	$(BIN)/pytest -m slow

crash-test: $(VENV)/.installed  ## kill every program 200 times in all, also inside writes, and compare: about an hour
	$(BIN)/python tests/crashes.py --kills=200 --output=runs/reliability_crash.json

fuzz-test: $(VENV)/.installed  ## read some 69,000 damaged files of all kinds; the figures: results/reliability_fuzz.json
	PYTHONPATH=tests $(BIN)/python -m fuzz.campaign --seed=1 --output=results/reliability_fuzz.json

tables: $(VENV)/.installed  ## rebuild the tables of README.md and docs/ from results/
	$(BIN)/python -m docs.tables

models: $(VENV)/.installed  ## make models/, which ships, from finished runs: RUNS="NAME=RUN_DIR NAME=RUN_DIR:EVALUATION"
	$(BIN)/python -m docs.models $(RUNS)

docs: $(VENV)/.installed  ## draw the pictures and build the documentation into site/; after `make quickstart`, with new screenshots
	$(BIN)/python -m docs.pictures
	$(BIN)/python -m docs.screenshots
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "done: $(BIN)/python -m http.server --directory site shows it at http://localhost:8000"

clean:  ## remove the environment, the quickstart's files and the built documentation
	rm -rf $(VENV) $(WARD) site
