# Giveway: `make demo` and `make test` do everything, set-up included.
.PHONY: help setup demo virtual torch dask horovod image image-horovod test test-all lint bench agreement clean

# The realtime engine makes network namespaces, which takes root.
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: ## install what is missing: Debian packages, .venv, pinned Python packages; compile the simulator
	@scripts/setup.sh

demo: setup ## run the quickstart experiment and print where its report is
	@$(SUDO) .venv/bin/giveway run experiments/quickstart.yaml --engine realtime

virtual: ## build the virtual engine's kernel, once (about 5 minutes), and check it
	@GIVEWAY_KERNEL=yes scripts/setup.sh
	@.venv/bin/python -m testbed.virtual.build
	@.venv/bin/python -m testbed.virtual.check

torch: ## install torch for the CPU, pinned, into .venv (for giveway profile)
	@scripts/torch.sh

dask: ## install Dask, pinned, into .venv (for giveway sweep --dask)
	@scripts/dask.sh

horovod: setup ## install torch and build Horovod, once (about 5 minutes), for `backend: horovod`
	@scripts/horovod.sh

image: ## build the image of Docker hosts; starts a private Docker engine where none runs
	@$(SUDO) scripts/image.sh

image-horovod: ## build the image of Docker hosts with torch and Horovod
	@wheel=$$(scripts/horovod.sh --wheel) && $(SUDO) scripts/image.sh "$$wheel"

test: ## run all tests (installs Chromium and sshd for those that need them)
	@GIVEWAY_BROWSER=yes GIVEWAY_SSHD=yes scripts/setup.sh
	@scripts/dask.sh
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy
	@$(SUDO) env GIVEWAY_SLOW=$(GIVEWAY_SLOW) scripts/run-tests.sh

test-all: ## set up every part (kernel, Horovod, Docker images) and run all tests
	@scripts/test-all.sh

lint: setup ## formatter, linter, types
	@.venv/bin/ruff format . && .venv/bin/ruff check --fix . && .venv/bin/mypy

bench: setup ## measure what the project promises about speed, as ratios
	@$(SUDO) .venv/bin/python -m bench

agreement: setup ## compare the fluid engine with the virtual one: writes docs/agreement.md
	@.venv/bin/python -m bench.agreement

clean: setup ## remove what killed runs have left
	@$(SUDO) .venv/bin/giveway clean
