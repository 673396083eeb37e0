.DEFAULT_GOAL := help
PYTHON ?= python3.11
BIN := .venv/bin
CONSTRAINTS := requirements/constraints.txt

export DIALEVAL_DATA ?= $(abspath $(wildcard ../shared/data))

dev: .venv/dev  ## make .venv with everything the tests need

.PHONY: help dev demo docs release test core soak lint audit weights lock lowest benchmarks picture clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

.venv/user: pyproject.toml $(CONSTRAINTS)
	@test -x $(BIN)/python || $$(command -v $(PYTHON) || echo python3) -m venv .venv
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || (echo "dialeval needs Python 3.11 or newer" && exit 1)
	$(BIN)/python -m pip install -q -c $(CONSTRAINTS) -e .
	@touch $@

.venv/dev: .venv/user
	$(BIN)/python -m pip install -q -U 'pip>=25.1' -c $(CONSTRAINTS)
	$(BIN)/python -m pip install -q -c $(CONSTRAINTS) --group dev
	@touch $@

demo: .venv/user  ## install into .venv, score the bundled examples, write demo/report.html
	$(BIN)/dialeval demo

test: .venv/dev  ## everything CI runs
	$(MAKE) -j2 lint core
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not soak"

core: .venv/dev  ## the built package without any extra, in an environment of its own
	@test -x .venv-core/bin/python || $(BIN)/python -m venv .venv-core
	@rm -rf .venv-core/wheel
	$(BIN)/python -m pip wheel -q --no-deps -w .venv-core/wheel .
	.venv-core/bin/python -m pip install -q --force-reinstall --no-deps .venv-core/wheel/*.whl
	.venv-core/bin/python -m pip install -q -c $(CONSTRAINTS) .venv-core/wheel/*.whl
	.venv-core/bin/python tests/core/check_core_install.py

lint: .venv/dev  ## style, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/dev  ## the documentation as a site in site/, strictly: no link leads nowhere
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q --strict
	@echo site/index.html

release: .venv/dev  ## wheel and sdist in dist/, looked at, tried on every Python at hand, with SHA256SUMS
	$(BIN)/python release.py

soak: .venv/dev  ## kill loops, bit flips, full disks, simulations, fuzzing: long
	$(BIN)/python -m pytest -m soak -s tests

audit: .venv/dev  ## known faults in what is pinned; needs the network (PyPI's advisories), no answer offline
	$(BIN)/python -m pip install -q -c $(CONSTRAINTS) --group audit || { echo "no answer: pip-audit is not installed, and PyPI could not be reached"; exit 1; }
	$(BIN)/pip-audit --strict --disable-pip --no-deps -r $(CONSTRAINTS) || { echo "faults are listed above; where none are, PyPI gave no answer, which is not a clean bill"; exit 1; }

weights: .venv/dev  ## pull the published encoder and build the shipped one of it again, to the byte
	$(BIN)/python weights/build_encoder.py
	git diff --exit-code -- src/dialeval/models/shipped

lock: .venv/dev  ## write the constraints file from what is installed
	$(BIN)/python -m pip freeze --exclude-editable | grep -v '^dialeval' | sed 's/+cpu$$//' > $(CONSTRAINTS)

clean:
	rm -rf .venv .venv-core demo site .mypy_cache .ruff_cache .import_linter_cache .hypothesis

picture: .venv/dev  ## make the picture of the report in docs/images
	$(BIN)/python docs/picture.py

benchmarks: .venv/dev  ## speed, each as a ratio to a peer in one run
	$(BIN)/python -m pip install -q -c $(CONSTRAINTS) --group peers
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/bootstrap.py
	$(BIN)/python benchmarks/encoder.py
	$(BIN)/python benchmarks/bertscore.py
	$(BIN)/python benchmarks/segment_acts.py
	$(BIN)/python benchmarks/user_reaction.py
	$(BIN)/python benchmarks/floweval.py
	$(BIN)/python benchmarks/turn_quality.py
	$(BIN)/python benchmarks/multiwoz.py
	$(BIN)/python benchmarks/dialoguescore.py
	$(BIN)/python benchmarks/votes.py
	$(BIN)/python benchmarks/quality.py
	$(BIN)/python benchmarks/language_model.py
	$(BIN)/python benchmarks/followups.py
	$(BIN)/python benchmarks/student.py
	$(BIN)/python benchmarks/batch.py --turns 50000 --speed-turns 10000
	$(BIN)/python benchmarks/trust.py
	$(BIN)/python benchmarks/serving.py

lowest: requirements/lowest.txt  ## the tests with the lowest versions that are allowed
	python3.11 -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install -q -U 'pip>=25.1'
	.venv-lowest/bin/python -m pip install -q -c requirements/lowest.txt -e . --group dev
	.venv-lowest/bin/python -m pytest -n 2 --dist worksteal -m "not soak and not browser"
