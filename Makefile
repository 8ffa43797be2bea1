# Everything is set up in .venv; nothing else on the machine is touched.
PYTHON ?= python3
# The plain name would bring gigabytes of CUDA libraries on most systems; name another build to test with it.
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint types wheel clean

demo: $(VENV)/demo.stamp ## decode the sample file that comes with the repository
	@$(BIN)/python examples/demo.py

test: $(VENV)/dev.stamp ## run the whole test suite
	$(BIN)/python -m pytest

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp
	$(BIN)/mypy

wheel: $(VENV)/dev.stamp
	rm -rf dist
	$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) dist

# Some systems have Python and pip without the ensurepip that `venv` wants; pip then fills the empty environment.
$(BIN)/python:
	@echo "Setting up $(VENV) ..."
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { rm -rf $(VENV); \
	  $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install -q pip; }

$(VENV)/demo.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@$(BIN)/python -m pip install -q --disable-pip-version-check $(TORCH)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/demo.stamp
