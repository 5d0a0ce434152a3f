# Everything a newcomer calls. Each target makes what it needs first.
SHELL := /bin/bash
.DEFAULT_GOAL := help
TOPOLOGY ?= topologies/elevator.yaml
SWIFT ?= swift
# The scripts in tools call it, too.
export SWIFT
# Linked in, the Swift runtime takes less memory of each node than as shared libraries.
# The toolchain's own linker: the system's warns about parts of Foundation that are not used.
# Packed relocations (glibc 2.36), and no names of what nobody else links to: a program reads 2 MB less
# at its start, and holds less. Libraries are the system's: none is looked for beside the program.
# What a start runs lies together: else a page of it here and there has 64 kB around it in memory.
# The optimizer takes bodies and layouts across modules: who has them in is compiled anew at each change of them,
# which the compiler by itself does only where names or types have changed.
RELEASE_FLAGS := -c release --static-swift-stdlib --disable-local-rpath -Xswiftc -disable-incremental-imports \
  -Xswiftc -Xclang-linker -Xswiftc -fuse-ld=lld \
  -Xlinker -z -Xlinker pack-relative-relocs -Xlinker --no-export-dynamic \
  -Xlinker --symbol-ordering-file=tools/start.order -Xlinker --no-warn-symbol-ordering
# The tests, and the programs that they start; not the benchmarks.
TESTS := --product PipeRuntimePackageTests
RELEASE := .build/release
# What is linked with RELEASE_FLAGS, by 'make build' and by 'make test-release'.
LINKED := nodes orchestrator inspector TestNodes CrashingTest soak Fuzz
DEBUG := .build/debug

# The unit tests of the library; what starts processes is out of a sanitizer's sight.
SANITIZED := PipeSupportTests|PipeSystemTests|PipeMachinesTests|PortableMachinesTests|PipeWireTests|PipeTopologyTests|PipeTransportTests|PipeJournalTests|PipeNodeTests|PipeClientTests|PipeSupervisionTests|PipeModelCheckerSearchTests|PipeDiagramsTests|PipeInspectorTests|PipeKubernetesTests|PipeRuntimeTestKitTests|DocumentationTests|SeedTests
SANITIZERS ?= thread address

.PHONY: help preflight setup build run test test-web pictures test-package test-release sanitize bench soak fuzz mutants cluster-test \
  docs lint format clean

# What 'make bench' measures: by default everything.
SECTIONS ?=

# What 'make soak' is about and injects: by default all topics, each with a new seed each time and
# no limit of time. It kills nodes and orchestrators, takes names, removes files and, as root, fills a
# small disk.
# What is of 'hosts' makes namespaces, and Slurm on them; it is last, since not everybody has that.
SOAKS ?= pipes composites models explored hosts
SEED ?=
FAULTS ?=
TIME ?=

# What 'make fuzz' gives bytes to, and for how long each.
TOPICS ?= topology deployment json frames web
FUZZ_SECONDS ?= 60

help:
	@echo "make setup   install the missing Debian packages of debian-packages.txt"
	@echo "make run     build quickly, and run $(TOPOLOGY) in the foreground (TOPOLOGY=FILE for another)"
	@echo "make test    build, and run every test but the next"
	@echo "make test-package  write, build and test the package of docs/GETTING-STARTED.md"
	@echo "make test-web   run the tests of the inspector's page in Chromium, which it installs"
	@echo "make pictures  draw the pictures of docs/pictures again"
	@echo "make test-release  run the tests with nodes on the programs of 'make build'"
	@echo "make build   build the programs that run fast"
	@echo "make sanitize  run the unit tests under Thread Sanitizer and Address Sanitizer"
	@echo "make bench   measure speed and memory beside raw baselines (SECTIONS='oneway start' COMPARE=bench.json)"
	@echo "make soak    run random topologies under random faults (SOAKS=hosts SEED=N FAULTS=N TIME=10m)"
	@echo "make fuzz    give random bytes to what reads files, frames and requests (TOPICS=json FUZZ_SECONDS=600)"
	@echo "make mutants plant known mistakes one by one, and see that tests find each"
	@echo "make cluster-test  run topologies on a real Kubernetes of two hosts, which it builds (root; FAULTS=N SEED=N)"
	@echo "make docs    build the library's documentation in .build/docs"
	@echo "make lint    check the format of the sources"
	@echo "make format  format the sources"
	@echo "make clean   remove what was built"

# Says what would keep a build from succeeding.
preflight:
	@tools/preflight

setup: preflight
	@tools/setup

# The order of functions is no input that a build knows of: a program from before it is linked anew.
build: setup
	@for product in $(LINKED); do \
	  [ ! tools/start.order -nt $(RELEASE)/$$product ] || rm -f $(RELEASE)/$$product; \
	done
	tools/build $(RELEASE_FLAGS) --product nodes
	tools/build $(RELEASE_FLAGS) --product orchestrator
	tools/build $(RELEASE_FLAGS) --product inspector

# A debug build: it is there sooner, and what people look at is not fast.
run: setup
	tools/build --product nodes
	tools/build --product orchestrator
	$(DEBUG)/orchestrator run $(TOPOLOGY)

# What validates manifests is fetched where that is possible.
test: setup
	tools/build $(TESTS)
	@tools/kubernetes-validate
	@tools/test

# The inspector's page in Chromium, which is installed first. Its pictures are in .build/web.
test-web: setup
	tools/build --product nodes
	tools/build --product orchestrator
	tools/build --product inspector
	@tools/test-web

# What the documents show: of the terminal by the debug build, of the page by Chromium.
pictures: setup
	tools/build --product nodes
	tools/build --product orchestrator
	@tools/pictures
	GOLDENS=write tools/test-web -k goldens

# What a new user's package takes: it builds the library once more.
test-package: setup
	tools/build $(TESTS)
	@tools/test package

# The nodes of the optimized build, driven by the same tests.
test-release: build
	for product in TestNodes CrashingTest soak Fuzz; do \
	  tools/build $(RELEASE_FLAGS) --product $$product || exit 1; \
	done
	tools/build $(TESTS)
	@PIPERUNTIME_ORCHESTRATOR=$(CURDIR)/$(RELEASE)/orchestrator tools/test processes

# Without XCTest's own run, which has no test of ours and leaks.
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

# Kubernetes is built of Debian's source package the first time, which takes about 15 minutes.
cluster-test: build
	tools/build $(RELEASE_FLAGS) --product TestNodes
	@SEED=$(SEED) FAULTS=$(if $(filter command line environment,$(origin FAULTS)),$(FAULTS)) \
	  Tests/Cluster/run.sh $(RELEASE)

# The targets whose symbols an author gets by importing PipeRuntime.
LAYERS := PipeSupport,PipeMachines,PipeWire,PipeTopology,PipeTransport,PipeJournal,PipeNode,PipeClient

# The symbols of both libraries are read from a debug build. Parameters that explain themselves are
# not documented one by one, which is all that the validation that is turned off asks for.
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
