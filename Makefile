# Culvert: `make demo` shows the main job, `make test` passes all tests.
# Each target first installs what this machine lacks for it (tools/bootstrap), and says so.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PREFIX  ?= /usr/local
DESTDIR ?=
PODS    ?= 20
CNI     ?= flannel

# More arguments of the programs that demo, lab, bench, vuln, image, deb, rpm and release run. The tests of
# test/promises run the targets in a short form with them.
DEMO    :=
LAB     :=
BENCH   :=
VULN    :=
IMAGE   :=
DEB     :=
RELEASE :=
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
REVISION = $(shell git rev-parse HEAD 2>/dev/null)

GO  := tools/go
BIN := build/bin

include tools/versions # IMAGE_GO

GOBUILD = CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $(BIN)/ ./cmd/...

# Called as root, without what `make build` would do.
INSTALLER = test -x $(BIN)/culvert || { echo 'run `make build` first' >&2; exit 1; }; $(BIN)/culvert host

# The runs of `make bench-lab`: presets between two nodes, presets with three senders, one
# between two VFs of a PF, flags of all, and where the results go.
BENCH_LAB     := m1 m2 m3 m4 m5 m6 m9 m10 m17 m18
BENCH_SENDERS := m11 m16
BENCH_ONE_PF  := m8
BENCH_RUN     := --seconds 2 --max-time 2h
BENCH_OUT     := build/bench

help: ## list the targets (the default)
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: bootstrap-demo build ## two lab nodes, VFs made, given to containers, measured, taken back
	@$(BIN)/culvert lab demo --out build/demo $(DEMO)

demo-k8s: bootstrap-demo-k8s build ## the same on a Kubernetes cluster, built once (15 min); PODS (20) pods with a VF and without; CNI=calico
	@$(BIN)/culvert lab demo --kubernetes --cni '$(CNI)' --attachments $(PODS) --out build/demo $(DEMO)

demo-vm: bootstrap-demo-vm build ## guests of libvirt with VFs beside containers, on nodes that run guests of their own
	@$(BIN)/culvert lab demo --guests --out build/demo $(DEMO)

test: bootstrap-test ## the tests, from the linter to the lab, but those that make soak runs; build/log has each job's output
	@tools/run levels

check: bootstrap-check ## build, lint (with vet) and unit tests of the packages changed since main (BASE) and their importers
	@BASE='$(BASE)' tools/watch check tools/check

lab: bootstrap-lab build ## boot two nodes with emulated SR-IOV NICs
	@$(BIN)/culvert lab up $(LAB)

bench: bootstrap-bench build ## the benchmarks, compared with their last figures, which KEEP=1 replaces
	@tools/watch bench tools/bench $(if $(KEEP),--keep) $(BENCH)

bench-lab: bootstrap-bench-lab build ## measurements of culvert bench in a lab, to build/bench: lab.json, lab.html; half an hour
	@mkdir -p '$(BENCH_OUT)' && rm -f '$(BENCH_OUT)'/lab*
	@status=0; \
	$(BIN)/culvert bench run $(BENCH_LAB) --lab $(BENCH_RUN) --out '$(BENCH_OUT)/lab.json' || status=1; \
	$(BIN)/culvert bench report '$(BENCH_OUT)/lab.json' --html '$(BENCH_OUT)/lab.html' || status=1; \
	$(BIN)/culvert bench run $(BENCH_SENDERS) --lab --senders 3 $(BENCH_RUN) --out '$(BENCH_OUT)/lab-senders.json' || status=1; \
	$(BIN)/culvert bench report '$(BENCH_OUT)/lab-senders.json' --html '$(BENCH_OUT)/lab-senders.html' || status=1; \
	$(BIN)/culvert bench run $(BENCH_ONE_PF) --lab $(BENCH_RUN) --out '$(BENCH_OUT)/lab-one-pf.json' || status=1; \
	$(BIN)/culvert bench report '$(BENCH_OUT)/lab-one-pf.json' --html '$(BENCH_OUT)/lab-one-pf.html' || status=1; \
	exit $$status

soak: bootstrap-soak build ## every test, also those that take minutes; then 200 kills of culvertd, 1,000 attachments, 20 pods, 60 wires pulled; three hours
	@tools/run levels -full
	@tools/watch soak $(GO) test -count=1 -timeout 1h ./test/failure -run Histories -v -rapid.seed=0
	@tools/watch soak tools/test-lab ./test/torture -run 'Kill|Cycles' -v -timeout 3h -args -kills 200 -cycles 1000
	@tools/watch soak $(GO) test -tags kubernetes -count=1 -timeout 1h -run 'Many|Outage' -v ./test/kubernetes -args -pods 20 -outage 5m
	@tools/watch soak $(GO) test -tags kubernetes -count=1 -timeout 40m -run MigrationKeepsTraffic -v ./test/kubernetes -args -migration
	@tools/watch soak $(GO) test -tags lab -count=1 -timeout 1h -run SmokePods -v ./test/bench -args -pods
	@tools/watch soak $(GO) test -tags lab -count=1 -timeout 1h -run FailOver -v ./test/failover -args -pulls 20 -events

lint: bootstrap-lint ## the linter alone
	@tools/watch lint tools/lint

fuzz: bootstrap-fuzz ## every fuzz target for FUZZTIME (10m), one on each core, with a table
	@tools/watch fuzz tools/fuzz

vuln: bootstrap-vuln ## govulncheck; it needs to reach vuln.go.dev, or GOVULNDB
	@tools/watch vuln tools/vuln $(VULN)

build: bootstrap-build ## the programs, to build/bin
	@echo "building $(notdir $(wildcard cmd/*)) $(VERSION) into $(BIN)"
	@tools/watch build $(MAKE) --no-print-directory -s test-build

image: bootstrap-image ## the container image for amd64 and arm64, to build/image/culvert.tar
	@tools/watch image env GOTOOLCHAIN=$(IMAGE_GO) $(GO) run ./tools/image -version $(VERSION) -revision '$(REVISION)' $(IMAGE)

unexport GOARCH # it is for the programs in the package: make builds and runs its own beside them
deb rpm: bootstrap-deb build
	@tools/watch $@ $(GO) run ./tools/packages -version $(VERSION) $(if $(GOARCH),-arch $(GOARCH)) $(DEB) $@

deb: ## Debian packages for hosts, to build/deb (GOARCH)
rpm: ## RPM packages for hosts, to build/rpm (GOARCH); not run on an RPM distribution

release: bootstrap-release build ## all that a publisher uploads, to build/release (VERSION=v0.1.0, GOVULNDB, RELEASE)
	@tools/watch release env GOTOOLCHAIN=$(IMAGE_GO) $(GO) run ./tools/release -version $(VERSION) $(RELEASE)

install: ## install the programs of `make build` (DESTDIR, PREFIX)
	@$(INSTALLER) install --from $(BIN) --root '$(DESTDIR)' --prefix '$(PREFIX)'

uninstall: ## remove the files of `make install`
	@$(INSTALLER) uninstall --root '$(DESTDIR)' --prefix '$(PREFIX)'

# The levels of make test, one a target: `make test-unit` runs one alone, with the
# levels that it needs. The jobs of the levels are in tools/levels/jobs.go.

test-build:
	mkdir -p $(BIN)
	$(GOBUILD)

test-lint test-unit test-lab test-kubernetes: test-%: bootstrap-test-%
	@tools/run levels $*

# What a target needs of this machine: packages, memory, disk, time.
bootstrap-%:
	@tools/bootstrap -for $*

bootstrap:
	@tools/bootstrap

.PHONY: help demo demo-k8s demo-vm test check lab bench bench-lab soak lint fuzz vuln build image deb rpm release install uninstall bootstrap test-build test-lint test-unit test-lab test-kubernetes
