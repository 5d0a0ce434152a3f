# Everything a newcomer calls. Each target makes what it needs first.
SHELL := /bin/bash
.DEFAULT_GOAL := help
TOPOLOGY ?= topologies/elevator.yaml
# SwiftPM runs its tests in parallel; end-to-end tests start processes, so two at a time are plenty.
SWIFT ?= swift
RELEASE := .build/release

# The unit tests of the library; what starts processes is out of a sanitizer's sight.
SANITIZED := PipeRuntimeTests|SeedTests

.PHONY: help setup build run test sanitize bench lint format clean

help:
	@echo "make setup   install the missing Debian packages of debian-packages.txt"
	@echo "make run     build, and run $(TOPOLOGY) in the foreground (TOPOLOGY=FILE for another)"
	@echo "make test    build, and run every test"
	@echo "make sanitize  run the unit tests under Thread Sanitizer and Address Sanitizer"
	@echo "make bench   measure speed and memory beside a raw libzmq pair"
	@echo "make lint    check the format of the sources and that they build without warnings"
	@echo "make format  format the sources"
	@echo "make clean   remove what was built"

setup:
	@command -v $(SWIFT) >/dev/null || { \
	  echo "error: no '$(SWIFT)' on the PATH. Install the Swift 6.2 toolchain or a newer one" >&2; \
	  echo "       for Debian 12 from https://www.swift.org/install/linux/ and try again." >&2; \
	  exit 1; }
	@missing=$$(for package in $$(cat debian-packages.txt); do \
	    dpkg-query -W -f '$${Status}\n' $$package 2>/dev/null | grep -q 'ok installed' \
	      || echo $$package; \
	  done); \
	if [ -n "$$missing" ]; then \
	  echo "installing" $$missing; \
	  sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  $$sudo apt-get update -q && $$sudo apt-get install -q -y --no-install-recommends $$missing \
	    || { echo "error: could not install" $$missing >&2; exit 1; }; \
	fi

build: setup
	$(SWIFT) build -c release --product nodes
	$(SWIFT) build -c release --product orchestrator

run: build
	$(RELEASE)/orchestrator run $(TOPOLOGY)

test: setup
	$(SWIFT) build --build-tests
	$(SWIFT) test --skip-build

# Without XCTest's own run, which has no test of ours and leaks.
sanitize: setup
	$(SWIFT) test --disable-xctest --scratch-path .build/thread --sanitize thread \
	  -Xswiftc -DPIPERUNTIME_TSAN --filter '$(SANITIZED)'
	$(SWIFT) test --disable-xctest --scratch-path .build/address --sanitize address \
	  --filter '$(SANITIZED)'

bench: build
	$(SWIFT) build -c release --product benchmarks
	$(RELEASE)/benchmarks

lint: setup
	$(SWIFT) format lint --strict --recursive --parallel Package.swift Sources Tests

format:
	$(SWIFT) format --in-place --recursive --parallel Package.swift Sources Tests

clean:
	rm -rf .build
