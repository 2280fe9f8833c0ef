# make demo: install, then learn from "not this class" labels on scikit-learn's digits.
# make test: install, then all that decides: ruff, mypy, pytest with doctests and the pages' examples.
# Three workers keep two cores busy: one of them waits for a browser, a server or other processes at any time.
# Tests run in an order drawn anew each time; make test SEED=123 repeats the order of the run that printed 123.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-cuda soak bench clean

demo: .venv/installed
	$(BIN)/naysayer demo

test: .venv/installed
	@sh tests/services.sh
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 3 --dist worksteal $(if $(SEED),--order-seed=$(SEED))

# On a machine with an NVIDIA GPU: what the fused kernels and captured steps compute, against their plain twins.
test-cuda:
	PYTHONPATH=src $(PYTHON) -m pytest -o norecursedirs= tests/cuda tests/test_contributing.py

# The asking app under load, kill -9 and made-up requests, for some 20 minutes; its figures go to benchmarks/results.
soak: .venv/installed
	@sh tests/services.sh
	$(BIN)/python benchmarks/soak.py

bench: .venv/installed
	$(BIN)/python benchmarks/throughput.py

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist *.egg-info src/*.egg-info
