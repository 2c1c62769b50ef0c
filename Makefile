# make demo   trains, tests and looks at a translator, from nothing
# make setup  an environment in .venv with everything
# make check  format, lint, types and the fast tests: 90 seconds
# make test   the same with the slow ring: nine minutes
# make test-full  the same with what rarely breaks: sanitizers, ARM by emulation, more kills, larger counts, pictures
# make docs   the pictures of docs/, anew
# make learn  the learning table (copy, reverse, sort; with and without attention)
# make bench  training (15 minutes) and decoding (20) beside other toolkits, on a quiet machine; a step with and without cache

PYTHON ?= python3
RUN := .venv/bin/python
# Not in the lock files: whether it is a CPU or a CUDA build, which brings further packages, depends on the machine.
TORCH := torch==2.13.0
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo setup test test-full check lint docs learn bench clean

demo: setup
	.venv/bin/regard demo

setup: .venv/.ready

# The stamp is written last, so an interrupted install is taken up again.
.venv/.ready: requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Regard needs Python 3.11 or newer; is $(PYTHON) one? Name another: make $(or $(MAKECMDGOALS),demo) PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(RUN) -m pip install --quiet --no-deps -r requirements-dev.lock
	$(RUN) -m pip install --quiet $(TORCH)
	$(RUN) -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

lint: setup
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy

# A module goes to one worker, so that what it shares is made once; tests/conftest.py has their order.
PYTEST := $(RUN) -m pytest -n 2 --dist loadscope --no-loadscope-reorder

check: lint
	$(PYTEST) -m "not slow and not full"

test: lint
	$(PYTEST) -m "not full"

test-full: lint
	$(PYTEST)

docs: setup
	$(RUN) docs/make.py
	$(RUN) docs/screenshot.py

learn: setup
	$(RUN) bench/learning.py

bench: setup .venv-bench/.ready
	$(RUN) bench/cache.py
	$(RUN) -m bench.training
	$(RUN) -m bench.decoding

# Rivals have an environment of their own, so that they never meet what Regard is tested with.
.venv-bench/.ready: requirements-bench.lock
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --no-deps -r requirements-bench.lock
	.venv-bench/bin/python -m pip install --quiet $(TORCH)
	@touch $@

clean:
	rm -rf .venv .venv-bench build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
