# The entry point for builds, tests and checks. Each target builds its prerequisites first.
SHELL := /bin/bash
.DEFAULT_GOAL := help
TOPOLOGY ?= topologies/elevator.yaml
SWIFT ?= swift
# The scripts in tools use it as well.
export SWIFT
# --static-swift-stdlib: a statically linked Swift runtime takes less memory per node than shared libraries.
# --disable-local-rpath: all shared libraries come from the system, so the program's directory is not searched.
# -disable-incremental-imports: the optimizer inlines bodies and layouts across modules. The compiler's incremental
#   builds rebuild the importing files only if names or types have changed, and would keep outdated bodies.
# -fuse-ld=lld: the system's linker warns about unused parts of Foundation.
# pack-relative-relocs (glibc 2.36) and --no-export-dynamic: a program reads 2 MB less at its start, and takes less memory.
# --symbol-ordering-file: places the code that runs at startup together. The kernel maps 64 kB around each page that is
#   touched, so scattered startup code costs memory.
RELEASE_FLAGS := -c release --static-swift-stdlib --disable-local-rpath -Xswiftc -disable-incremental-imports \
  -Xswiftc -Xclang-linker -Xswiftc -fuse-ld=lld \
  -Xlinker -z -Xlinker pack-relative-relocs -Xlinker --no-export-dynamic \
  -Xlinker --symbol-ordering-file=tools/start.order -Xlinker --no-warn-symbol-ordering
# The tests and the programs that they start, without the benchmarks.
TESTS := --product PipeRuntimePackageTests
RELEASE := .build/release
# The programs that 'make build' and 'make test-release' link with RELEASE_FLAGS.
LINKED := nodes orchestrator inspector shop shop-2 TestNodes CrashingTest soak Fuzz
DEBUG := .build/debug

# The library's unit tests. A sanitizer does not see the processes that other tests start.
SANITIZED := PipeSupportTests|PipeSystemTests|PipeMachinesTests|PortableMachinesTests|PipeWireTests|PipeTopologyTests|PipeTransportTests|PipeJournalTests|PipeNodeTests|PipeClientTests|PipeSupervisionTests|PipeModelCheckerSearchTests|PipeDiagramsTests|PipeInspectorTests|PipeKubernetesTests|PipeRuntimeTestKitTests|DocumentationTests|SeedTests
SANITIZERS ?= thread address

.PHONY: help preflight setup build install uninstall deb run shop test test-service test-web pictures test-package test-release test-skew sanitize bench soak fuzz mutants cluster-test \
  docs lint format clean

# The sections that 'make bench' measures. Default: all.
SECTIONS ?=

# The topics of 'make soak', and its seed, number of faults and duration. Default: all topics, a new seed for each
# run, no time limit. The faults: nodes and orchestrators are killed, names are taken, files are removed, and, as
# root, a small disk is filled.
# 'hosts' creates namespaces with Slurm on them. It is last because it needs root and Slurm.
SOAKS ?= pipes composites models instances explored hosts
SEED ?=
FAULTS ?=
TIME ?=

# The topics of 'make fuzz', and the duration of each.
TOPICS ?= topology deployment json frames web
FUZZ_SECONDS ?= 60

help:
	@echo "make setup         Install the missing Debian packages of debian-packages.txt"
	@echo "make run           Build a debug version and run $(TOPOLOGY) in the foreground (TOPOLOGY=FILE for another file)"
	@echo "make shop          Build a debug version of the programs of docs/TUTORIAL.md"
	@echo "make build         Build the release programs"
	@echo "make install       Install what 'make build' has built (PREFIX=/usr/local DESTDIR=); 'make uninstall' removes it"
	@echo "make deb           Create a Debian package in .build"
	@echo "make test          Run the unit tests and the end-to-end tests"
	@echo "make test-package  Create, build and test the package of docs/GETTING-STARTED.md"
	@echo "make test-web      Install Chromium and run the tests of the inspector's page in it"
	@echo "make test-release  Run the end-to-end tests with the release programs"
	@echo "make test-skew     Run programs of the former version (tools/former-version) together with the present ones"
	@echo "make test-service  Run the Debian package as a service of systemd on a bare Debian, with kills (root)"
	@echo "make sanitize      Run the unit tests under Thread Sanitizer and Address Sanitizer"
	@echo "make bench         Measure speed and memory, compared with raw baselines (SECTIONS='oneway start' COMPARE=bench.json)"
	@echo "make soak          Run random topologies with random faults (SOAKS=hosts SEED=N FAULTS=N TIME=10m)"
	@echo "make fuzz          Send random bytes to the parsers of files, frames and requests (TOPICS=json FUZZ_SECONDS=600)"
	@echo "make mutants       Plant known mistakes one by one and check that the tests find each of them"
	@echo "make cluster-test  Run topologies on a Kubernetes cluster of two hosts, which is built first (root; FAULTS=N SEED=N)"
	@echo "make docs          Build the library's documentation in .build/docs"
	@echo "make pictures      Draw the pictures in docs/pictures again"
	@echo "make lint          Check the format of the sources and the language of comments and documents"
	@echo "make format        Format the sources"
	@echo "make clean         Remove the build directory"

# Checks the compiler, the build directory and the disk before a build.
preflight:
	@tools/preflight

setup: preflight
	@tools/setup

# SwiftPM does not track tools/start.order: remove programs that are older than the file, so that they are linked
# again.
build: setup
	@for product in $(LINKED); do \
	  [ ! tools/start.order -nt $(RELEASE)/$$product ] || rm -f $(RELEASE)/$$product; \
	done
	tools/build $(RELEASE_FLAGS) --product nodes
	tools/build $(RELEASE_FLAGS) --product orchestrator
	tools/build $(RELEASE_FLAGS) --product inspector

# Where 'make install' installs. DESTDIR is put before all paths, for packages.
PREFIX ?= /usr/local
DESTDIR ?=

# Builds nothing, because root often has no compiler: run 'make build' first.
install uninstall:
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' tools/install $@

deb: build
	@tools/setup dpkg-dev
	@tools/deb

# A debug build compiles faster, and speed does not matter for a demonstration.
run: setup
	tools/build --product nodes
	tools/build --product orchestrator
	$(DEBUG)/orchestrator run $(TOPOLOGY)

# The programs of docs/TUTORIAL.md.
shop: setup
	tools/build --product shop
	tools/build --product shop-2
	tools/build --product orchestrator

# The validator for Kubernetes manifests is optional: without access to PyPI its tests are skipped.
test: setup
	tools/build $(TESTS)
	@tools/kubernetes-validate
	@tools/test

# Installs Chromium first. Screenshots are in .build/web.
test-web: setup
	tools/build --product nodes
	tools/build --product orchestrator
	tools/build --product inspector
	@tools/test-web

# Draws the terminal pictures with the debug build, and the pictures of the page with Chromium.
pictures: setup
	tools/build --product nodes
	tools/build --product orchestrator
	@tools/pictures
	GOLDENS=write tools/test-web -k goldens

# Follows docs/GETTING-STARTED.md as a new user would, which builds the library once more.
test-package: setup
	tools/build $(TESTS)
	@tools/test package

# Creates the root file system of a bare Debian first, and keeps it for later runs.
test-service: deb
	@Tests/Service/run

# Runs the end-to-end tests with the optimized programs.
test-release: build
	for product in shop shop-2 TestNodes CrashingTest soak Fuzz; do \
	  tools/build $(RELEASE_FLAGS) --product $$product || exit 1; \
	done
	tools/build $(TESTS)
	@PIPERUNTIME_ORCHESTRATOR=$(CURDIR)/$(RELEASE)/orchestrator tools/test processes

# Builds the former version first, and keeps it for later runs.
test-skew: setup
	tools/build $(TESTS)
	@tools/test-skew

# XCTest's own run is disabled: it contains no tests of this package, and leaks memory.
sanitize: setup
	@for sanitizer in $(SANITIZERS); do \
	  command="PIPERUNTIME_UNIT_TESTS=1 $(SWIFT) test --disable-xctest --scratch-path .build/$$sanitizer --sanitize $$sanitizer \
	    $$([ $$sanitizer = thread ] && echo '-Xswiftc -DPIPERUNTIME_TSAN ')--filter '$(SANITIZED)'"; \
	  echo "$$command"; eval "$$command" || exit 1; \
	done

bench: build
	tools/build $(RELEASE_FLAGS) --product benchmarks
	$(RELEASE)/benchmarks --output bench.json $(if $(COMPARE),--compare $(COMPARE)) $(SECTIONS)

fuzz: setup
	@for topic in $(TOPICS); do tools/fuzz $$topic $(FUZZ_SECONDS) || exit 1; done

soak: build
	tools/build $(RELEASE_FLAGS) --product TestNodes
	tools/build $(RELEASE_FLAGS) --product soak
	@for topic in $(SOAKS); do \
	  command="$(RELEASE)/soak --of $$topic $(if $(FAULTS),--faults $(FAULTS)) $(if $(SEED),--seed $(SEED)) \
	    $(if $(TIME),--time $(TIME))"; \
	  echo $$command; $$command || exit 1; \
	done

mutants: setup
	Tests/mutants/run

# The first run builds Kubernetes from Debian's source package, which takes about 15 minutes.
cluster-test: build
	tools/build $(RELEASE_FLAGS) --product TestNodes
	@SEED=$(SEED) FAULTS=$(if $(filter command line environment,$(origin FAULTS)),$(FAULTS)) \
	  Tests/Cluster/run.sh $(RELEASE)

# The targets that PipeRuntime re-exports.
LAYERS := PipeSupport,PipeMachines,PipeWire,PipeTopology,PipeTransport,PipeJournal,PipeNode,PipeClient

# Reads the symbols of both libraries from a debug build. The disabled validation only demands that every parameter is
# documented, including self-explanatory ones.
docs: setup
	tools/build --target PipeRuntimeTestKit
	@rm -rf .build/symbol-graphs && mkdir -p .build/symbol-graphs
	@target=$$($(SWIFT) -print-target-info | sed -n 's/.*"triple": "\(.*\)",/\1/p' | head -n 1); \
	for module in PipeRuntime PipeRuntimeTestKit; do \
	  $(SWIFT) symbolgraph-extract -module-name $$module -target $$target \
	    -I .build/debug/Modules -I Sources/CZMQ -I Sources/CLibraries/CYAML -I Sources/CLibraries/CSQLite \
	    -Xcc -fmodule-map-file=.build/debug/CProcess.build/module.modulemap \
	    -experimental-allowed-reexported-modules=$(LAYERS) \
	    -minimum-access-level public -skip-inherited-docs -skip-synthesized-members \
	    -output-dir .build/symbol-graphs || exit 1; \
	done
	docc convert Sources/PipeRuntime/PipeRuntime.docc \
	  --additional-symbol-graph-dir .build/symbol-graphs --output-dir .build/docs \
	  --fallback-display-name PipeRuntime --fallback-bundle-identifier PipeRuntime \
	  --disable-parameters-and-returns-validation --warnings-as-errors
	@echo "documentation: .build/docs/documentation/piperuntime/index.html"

lint: setup
	$(SWIFT) format lint --strict --recursive --parallel Package.swift Sources Tests Benchmarks
	@tools/setup python3-minimal
	@/usr/bin/python3 tools/check-language.py

format:
	$(SWIFT) format --in-place --recursive --parallel Package.swift Sources Tests Benchmarks

clean:
	rm -rf .build
