# Everything a person types. Each target does its own set-up: Debian packages (as root), .venv, configure, build.
# Details: CONTRIBUTING.md. VERBOSE=1 shows the output of every step, JOBS=n bounds the build's parallel jobs.
SHELL := /bin/bash
SECONDS_EACH ?= 60
ANYMASK := build/release/bin/anymask

.PHONY: help build demo test bench peers docs format lint asan tsan fuzz clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

build: ## the library and the command line: build/release/bin/anymask
	@scripts/setup.sh build
	@scripts/build.sh release anymask_cli

# Without an NVIDIA GPU here its kernels would compile for minutes and never run.
demo: ## real models on real documents, checked, timed and drawn; TEXTS=folder uses your own texts
	@scripts/setup.sh build demo $(if $(TEXTS),,fortunes)
	@CUDA=$$(test -e /dev/nvidiactl && echo AUTO || echo OFF) scripts/build.sh release anymask_cli
	@.venv/bin/python examples/real/demo.py $(if $(TEXTS),--texts "$(TEXTS)")

test: ## everything that must hold: build with both compilers, all tests, sanitizers
	@scripts/test.sh

bench: ## measure this machine: bench/results/cpu.json and the README's table
	@scripts/setup.sh build
	@scripts/build.sh release anymask_cli
	@scripts/bench.sh

peers: ## time other libraries on the same cases: bench/results/peers.json and the README's table
	@scripts/setup.sh build peers
	@scripts/build.sh release anymask_cli
	@scripts/bench.sh --peers

docs: ## the documentation as pages: build/site/index.html
	@scripts/site.sh

format: ## clang-format every C++ file
	@scripts/format.sh

lint: ## clang-tidy, ruff, mypy
	@scripts/setup.sh build lint
	@scripts/lint.sh

asan: ## all tests under the address and undefined-behaviour sanitizers
	@scripts/setup.sh build test
	@scripts/build.sh asan
	@ctest --preset asan --parallel "$$(nproc)"

tsan: ## all tests under the thread sanitizer
	@scripts/setup.sh build test
	@scripts/build.sh tsan
	@ctest --preset tsan --parallel "$$(nproc)"

fuzz: ## four fuzzers, SECONDS_EACH=60 seconds each
	@scripts/setup.sh build test
	@scripts/fuzz.sh $(SECONDS_EACH)

clean: ## removes build/ and demo/, keeps .venv
	@rm -rf build demo
