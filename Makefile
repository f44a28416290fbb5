# Every target sets up what it needs; `make` alone lists them.

PYTHON ?= python3
JOBS ?= 2
SOAK_MINUTES ?= 60
VENV := .venv
DEMO := "Where is the train station?" "I would like a cup of tea." "My brother has bought a new car."
RUN := $(VENV)/bin/python

# Relative, so that a path with spaces does no harm. Older pips do not know the second name and ignore it.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt

define CHECK_PYTHON
import sys
if sys.version_info < (3, 11):
    sys.exit("pcfgnat needs Python 3.11 or newer, but %s is %d.%d; name another one: make PYTHON=python3.12"
             % (sys.executable, sys.version_info[0], sys.version_info[1]))
try:
    import ensurepip, venv
except ImportError as error:
    sys.exit("%s cannot make a virtual environment (%s); on Debian and Ubuntu: apt install python3-venv"
             % (sys.executable, error))
endef
export CHECK_PYTHON

.PHONY: help demo serve test test-slow test-gpu lint bench soak clean

help:
	@echo 'make demo       translate three sentences with the bundled model, and draw their trees'
	@echo 'make serve      open the page of the bundled model on http://127.0.0.1:8000'
	@echo 'make test       lint, then all tests but the slow ones'
	@echo 'make test-slow  all tests, with array bounds checked inside the compiled kernels'
	@echo 'make test-gpu   compare the GPU kernels with the reference and time them, on a machine with a GPU'
	@echo 'make lint       ruff and mypy'
	@echo 'make bench      time the dynamic programs'
	@echo 'make soak       what takes hours: all tests, fuzzing, mutants, a million lines, load'
	@echo 'make clean      remove caches and build products; .venv stays'
	@echo
	@echo 'PYTHON=python3.12 chooses the interpreter of .venv; JOBS=0 runs the tests in one process.'

demo: $(VENV)/.installed
	$(RUN) -m pcfgnat translate --tree $(DEMO)

serve: $(VENV)/.installed-serve
	$(RUN) -m pcfgnat serve

test: lint
	OMP_NUM_THREADS=1 $(RUN) -m pytest -n $(JOBS) --dist worksteal

# A cache of its own: numba does not compile again what it has compiled without checks.
test-slow: $(VENV)/.installed-dev
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/bounds-checked OMP_NUM_THREADS=1 $(RUN) -m pytest -m '' -n $(JOBS)

test-gpu: $(VENV)/.installed-dev
	@$(RUN) -m benchmarks.gpu_timing --check
	$(RUN) -m pcfgnat doctor
	$(RUN) -m pytest tests/gpu
	$(RUN) -m benchmarks.gpu_timing

lint: $(VENV)/.installed-dev
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy

bench: $(VENV)/.installed-dev
	$(RUN) -m benchmarks.structures

soak: test-slow
	$(RUN) -m tests.fuzz.run --minutes $(SOAK_MINUTES)
	$(RUN) -m tests.mutation.run
	$(RUN) -m benchmarks.million_lines
	$(RUN) -m benchmarks.serve_load --compare

clean:
	rm -rf build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name $(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/pip:
	@command -v "$(PYTHON)" >/dev/null || { echo "$(PYTHON) not found; pcfgnat needs Python 3.11 or newer" >&2; exit 1; }
	@"$(PYTHON)" -c "$$CHECK_PYTHON"
	"$(PYTHON)" -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(RUN) -m pip install -c constraints.txt -e '.[onnx]'
	@touch $@

$(VENV)/.installed-serve: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(RUN) -m pip install -c constraints.txt -e '.[onnx,serve]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(RUN) -m pip install -c constraints.txt -e '.[dev]'
	@touch $(VENV)/.installed $(VENV)/.installed-serve $@
