# Every target works in a fresh clone; `make` lists them.

FUZZTIME ?= 10m

GOLANGCI_VERSION := v2.15.0
GOLANGCI := .tools/golangci-lint-$(GOLANGCI_VERSION)/golangci-lint
SCRIPTS  := .ci/run $(wildcard bench/*.sh deploy/*.sh e2e/*.sh)
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# Programs in .tools, downloaded because the system's are unsuitable, come first.
export PATH := $(CURDIR)/.tools/bin:$(PATH)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/koalagate
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/koalagate ./cmd/koalagate

.PHONY: run
run: build ## start koalagate with the sample rules and print curl commands
	@deploy/run.sh

.PHONY: demo
demo: tools build ## start Redis, two instances, Envoy, nginx and an application, and print curl commands
	@go build -o bin/demo ./e2e/demo && exec bin/demo

# -race needs cgo; -vet=all vets in the build that the tests need anyway.
.PHONY: test
# Allocations are counted without the race detector, which allocates itself. The
# tests of e2e and of the commands have the deadlines of real gateways, so they run
# alone.
test: tools ## vet, and run every test with the race detector against the real programs
	@status=0; \
	go test -race -vet=all -timeout 10m $$(go list ./... | grep -vE '/(e2e|cmd/koalagate)$$') || status=1; \
	go test -race -vet=all -timeout 10m -p 1 ./cmd/koalagate ./e2e || status=1; \
	go -C e2e/toxic test -vet=all -timeout 10m . || status=1; \
	go test -vet=all ./bench/allocations || status=1; \
	exit $$status

.PHONY: verify
verify: tools ## the long form of the tests; keeps the results in docs/verify
	@e2e/verify.sh

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (10m) each; writes docs/fuzz.md
	@e2e/fuzz.sh $(FUZZTIME) docs/fuzz.md

.PHONY: bench
bench: tools ## measure the promised performance and write it to docs; BENCH=REGEXP runs Go benchmarks instead
ifdef BENCH
	go test -run '^$$' -bench '$(BENCH)' -benchmem ./...
else
	@bench/run.sh
endif

.PHONY: lint
lint: $(GOLANGCI) ## golangci-lint with gofumpt and the import rules, and shellcheck
	@e2e/programs.sh shellcheck
	$(GOLANGCI) run ./...
	shellcheck $(SCRIPTS)

$(GOLANGCI):
	GOBIN=$(CURDIR)/$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

.PHONY: tools
tools: ## find redis-server, nginx, Envoy, Caddy and HAProxy, or download them into .tools; download Go modules
	@e2e/programs.sh

.PHONY: clean
clean: ## remove build output, but keep .tools
	rm -rf bin
