# Every target works in a fresh clone; `make` lists them.

FUZZTIME ?= 10m

GOLANGCI_VERSION := v2.15.0
GOLANGCI := .tools/golangci-lint-$(GOLANGCI_VERSION)/golangci-lint
PROMTOOL_VERSION := v0.316.0
PROMTOOL := .tools/promtool-$(PROMTOOL_VERSION)/promtool
GOVULNCHECK_VERSION := v1.9.0
GOVULNCHECK := .tools/govulncheck-$(GOVULNCHECK_VERSION)/govulncheck
SCRIPTS  := $(wildcard .ci/* bench/*.sh deploy/*.sh deploy/*/*.sh e2e/*.sh e2e/install/*.sh) $(wildcard deploy/packages/deb/* deploy/packages/rpm/*)

# Programs in .tools, downloaded because the system's are unsuitable, come first.
export PATH := $(CURDIR)/.tools/bin:$(PATH)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/koalagate
	deploy/build.sh bin/koalagate

.PHONY: run
run: build ## start koalagate with the sample rules and print curl commands
	@deploy/run.sh

.PHONY: demo
demo: tools build ## start Redis, two instances, Envoy, nginx and an application, show counters live, and offer drills
	@go build -o bin/demo ./e2e/demo && exec bin/demo

# Tests of real gateways, a package for each gateway, and for what concerns several.
# The longest come first, so that none is left alone at the end.
GATEWAYS := e2e/operators e2e/hostile e2e/envoy e2e/gateways e2e/nginx e2e/caddy e2e/haproxy e2e/traefik e2e/envoygateway
# Packages that start no goroutines: the race detector finds nothing in them and
# makes their tests several times slower. Those of cmd start the binary; the
# detector watches the same code in internal/service and in the binary of the gateways.
UNRACED := rules cmd/koalagate $(GATEWAYS) e2e/install bench/allocations bench/counts bench/traffic internal/config internal/display \
	internal/doorname internal/envoyapi internal/explain internal/findings internal/jsontext \
	internal/mapping internal/probe internal/replay internal/sandbox internal/topk internal/tree internal/whatif \
	internal/wire internal/wordlist internal/yamldoc
# Tests of the stores and of the admin API that make one call after the other, or that count
# what the detector itself would allocate.
DIALOGUES := AnswersAsTheModel|AnswerAsTheModel|LongLogs|Behavior|PlainTakes|Allocat|Tampered|Leak|Flood|DayEnd|NeverAdmitsOneTooMany|Pause|HostileTexts|TextsAreDescribed|BodiesOfReaders|LeavingFrees
# The race detector waits a second at the end of each program, for races that others may find.
export GORACE ?= atexit_sleep_ms=20

MODULE   := github.com/koalagate/koalagate
MODULES  := e2e/toxic e2e/page examples/gin
PACKAGES := $(ONLY:./%=$(MODULE)/%)
ifndef ONLY
# Listed once, and only for a target that needs it.
PACKAGES  = $(eval PACKAGES := $$(shell go list ./...) $$(addprefix $$(MODULE)/,$$(MODULES)))$(PACKAGES)
endif
OWN       = $(filter $(addprefix $(MODULE)/,$(MODULES)),$(PACKAGES))
ALONE     = $(filter $(PACKAGES),$(addprefix $(MODULE)/,$(GATEWAYS) cmd/koalagate))
DIVIDED   = $(filter $(MODULE)/internal/store% $(MODULE)/internal/adminapi,$(PACKAGES))
# Their tests read the tree from its root, which the cache of results does not see.
FRESH     = $(filter $(MODULE)/internal/tree $(MODULE)/e2e/install,$(PACKAGES))
PLAIN     = $(filter-out $(ALONE) $(FRESH),$(filter $(addprefix $(MODULE)/,$(UNRACED)),$(PACKAGES)))
RACED     = $(filter-out $(addprefix $(MODULE)/,$(UNRACED)) $(DIVIDED) $(OWN),$(PACKAGES))
# `make lint` vets the packages.
GOTEST   := go test -vet=off -timeout 10m

# tests starts go test with arguments (1) for packages (2), if there are any, and end waits for
# what has been started.
tests = $(if $(2),$(GOTEST) $(1) $(2) & runs="$$runs $$!";)
end   = for run in $$runs; do wait $$run || status=1; done; runs=;

# Tests that start no gateway run side by side, twice as many packages as processors: many of
# them mostly wait. Those of gateways and of the commands have the deadlines of real programs,
# so that only two packages at a time run then, and the modules after them. -race needs cgo.
.PHONY: test
test: tools ## run every test against the real programs, with the race detector where it can find something; ONLY="PACKAGE ..." runs only these packages
	@status=0; runs=; \
	$(call tests,-p 2,$(PLAIN)) \
	$(call tests,-count=1,$(FRESH)) \
	$(call tests,-p 2 -run '$(DIALOGUES)',$(DIVIDED)) \
	$(end) \
	$(call tests,-race -p 2 -parallel 4,$(RACED)) \
	$(call tests,-race -p 2 -parallel 4 -skip '$(DIALOGUES)',$(DIVIDED)) \
	$(end) \
	$(call tests,-p 2 -parallel 3,$(ALONE)) \
	$(end) \
	for module in $(OWN:$(MODULE)/%=%); do go -C "$$module" test -vet=all -timeout 10m -count=1 . & runs="$$runs $$!"; done; \
	$(end) \
	exit $$status

.PHONY: verify
verify: tools ## the long form of the tests; keeps the results in docs/reports/verify
	@e2e/verify.sh

# The programs of this target take minutes to build, so that `make tools` leaves them out.
.PHONY: package
package: tools ## build the packages, install and start them, and check their files; needs root
	@e2e/programs.sh packaging
	$(GOTEST) -count=1 -timeout 30m -v ./e2e/install -long

.PHONY: release
release: ## make all files of a release from the tag of the commit; OUT=FOLDER KEY=FILE, an Ed25519 key in PEM
	@deploy/release.sh "$(OUT)" "$(KEY)"

.PHONY: page
page: ## build the page for operators from internal/page/web
	@e2e/programs.sh page
	ln -sfn ../../../.tools/page/node_modules internal/page/web/node_modules
	cd internal/page/web && npm run --silent build

MINUTES ?= 60

.PHONY: soak
soak: tools build ## run two instances for MINUTES (60) under load, reloads, restarts and attacks; writes docs/reports/soak.md
	@go build -o bin/soak ./e2e/soak && exec bin/soak -minutes $(MINUTES) -commit $$(git describe --always --dirty --exclude "*")

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (10m) each; writes docs/reports/fuzz.md
	@e2e/fuzz.sh $(FUZZTIME) docs/reports/fuzz.md

.PHONY: bench
bench: tools ## measure the promised performance; writes docs/reports/bench.md; BENCH=REGEXP runs Go benchmarks instead
ifdef BENCH
	go test -run '^$$' -bench '$(BENCH)' -benchmem ./...
else
	@go run ./bench -keep
endif

.PHONY: house
house: tools ## count the places that one request, and one idea, lives in; writes docs/reports/house.md
	@go run ./bench/house -o docs/reports/house.md

.PHONY: lint
lint: $(GOLANGCI) $(PROMTOOL) ## golangci-lint with gofumpt, shellcheck and promtool
	@e2e/programs.sh shellcheck
	$(GOLANGCI) run ./...
	shellcheck $(SCRIPTS)
	$(PROMTOOL) check rules deploy/observability/alerts.yaml
	$(PROMTOOL) test rules deploy/observability/alerts_test.yaml

# Without service discovery, which a check of rules does not use, it builds in three
# minutes of processor time.
$(PROMTOOL):
	GOBIN=$(CURDIR)/$(@D) go install -tags remove_all_sd github.com/prometheus/prometheus/cmd/promtool@$(PROMTOOL_VERSION)

$(GOLANGCI):
	GOBIN=$(CURDIR)/$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

.PHONY: vulncheck
vulncheck: $(GOVULNCHECK) ## report known vulnerabilities in code that koalagate calls; needs https://vuln.go.dev or GOVULNDB
	@.ci/vulncheck $(CURDIR)/$(GOVULNCHECK)

$(GOVULNCHECK):
	GOBIN=$(CURDIR)/$(@D) go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)

.PHONY: tools
tools: ## find redis-server, nginx, Envoy, Caddy, HAProxy, Traefik and Chromium, or download them into .tools; download Go modules
	@e2e/programs.sh

.PHONY: clean
clean: ## remove build output, but keep .tools
	rm -rf bin
