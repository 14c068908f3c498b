# Everything runs in .venv, which the targets make by themselves.

VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTEST := $(BIN)/pytest -q

PYTHONS   := python3.14 python3.13 python3.12 python3.11 python3
IS_RECENT := import sys; sys.exit(sys.version_info < (3, 11))
HAS_VENV  := import ensurepip, venv

.DEFAULT_GOAL := help
.PHONY: help demo test bench interop proof lint types clean

help:
	@echo "make demo     let an agent fix a typo (no key, no network), then ask its session what a log can answer"
	@echo "make test     run the tests"
	@echo "make bench    measure speed and memory (the comparison with dsh needs Node.js)"
	@echo "make interop  run the tests that run dsh beside turnlog (they need Node.js)"
	@echo "make proof    run every counted proof at its full count"
	@echo "make lint     ruff and the import floors"
	@echo "make types    mypy --strict and basedpyright"
	@echo "make clean    remove .venv, caches and build output"

demo: $(VENV)/.runtime
	@$(BIN)/python examples/demo.py

test: $(VENV)/.dev
	$(PYTEST) -n auto

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

interop: $(VENV)/.dev
	TURNLOG_INTEROP=1 $(PYTEST) -m interop -s

proof: $(VENV)/.dev
	TURNLOG_PROOF=full $(PYTEST) -n auto -m proof -s

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.dev
	$(BIN)/mypy --strict
	$(BIN)/basedpyright

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache benchmarks/.work
	find . -name node_modules -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# A name on PATH proves nothing (a pyenv shim may fail when run), so every candidate is run.
$(VENV)/.runtime: pyproject.toml
	@found=; python=; \
	for candidate in $(PYTHONS); do \
	    "$$candidate" -c '$(IS_RECENT)' >/dev/null 2>&1 || continue; \
	    found=$$candidate; \
	    "$$candidate" -c '$(HAS_VENV)' >/dev/null 2>&1 || continue; \
	    python=$$candidate; break; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "Turnlog needs Python 3.11 or later, and none of $(PYTHONS) on PATH is one that runs." >&2; exit 1; \
	fi; \
	if [ -z "$$python" ]; then \
	    echo "$$found has no venv module with pip; install it (on Debian and Ubuntu: apt install $$found-venv)." >&2; exit 1; \
	fi; \
	if ! $(BIN)/python -c '$(IS_RECENT); import pip' >/dev/null 2>&1; then \
	    echo "Making $(VENV) with $$("$$python" --version)."; \
	    "$$python" -m venv --clear $(VENV) || exit 1; \
	fi; \
	$(PIP) --editable . || { echo "pip could not install what turnlog needs; its message is above." >&2; exit 1; }
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@$(PIP) --editable '.[dev]' || { echo "pip could not install the development tools; its message is above." >&2; exit 1; }
	@touch $@
