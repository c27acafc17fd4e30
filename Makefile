# Everything that this repository can do. `make` alone prints the list.
# Needed: Go and make; for `make test` a C compiler too (the race detector's).

FUZZTIME ?= 30s
export FUZZTIME
ifdef KEEP
export KEEP
endif
ifdef KILLS
export KILLS
endif

GOLANGCI_LINT_VERSION := v2.15.0

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

run: build ## the whole system on this machine's loopback, until Ctrl-C (what it holds stays in .local/data: delete it to start afresh)
	@bin/local up

demo: build ## the fourteen arrows with real processes and a real kill, each printed as it is observed (KEEP=1: leave everything up)
	@bin/local demo

test: ## every test, under the race detector
	@command -v $(firstword $(shell go env CC)) >/dev/null || { \
		echo "make test: the race detector needs a C compiler and '$(firstword $(shell go env CC))' is not installed (Debian: apt-get install gcc libc6-dev)" >&2; exit 1; }
	CGO_ENABLED=1 go test -race -timeout=5m ./...
	@# What clients see does not depend on whether it is kept on disk.
	go test -timeout=5m -skip='^TestEveryRulesBrokenVariantIsCaught$$' ./emulator/servicebus ./emulator/cosmos -kept

check: ## all that CI runs: format, vet, lint, tidy, test, variants, a short simulation, demo, conformance, infra, browser, and the tree left clean
	@.ci/check

conformance: ## the SDKs' own test suites, unmodified, and second clients against the emulators (Linux, with unshare, ip, node, npm)
	@go run ./emulator/conformance

crash: build ## the crash matrix: real processes killed, paused and left without answers, and what they had promised counted (KILLS=100)
	@.ci/crash

sim: ## random histories of the whole story in virtual time, and every promise held against them (SEEDS=1000)
	@go test -c -o bin/sim.test ./internal/sim && cd internal/sim && ../../bin/sim.test -simulate -seeds=$(or $(SEEDS),1000)
evidence: build ## the receipt probes and the webhook transfer, with real kills, as evidence records and a page in evidence/
	@bin/local evidence
bench: build ## side-by-side benchmarks, as a table of ratios
	@go run ./emulator/bench -emulator bin/emulator
	@bin/bench
bench-guard: build ## the ratios of the worker to a loop by hand, and what a task costs, against what is recorded of them
	@bin/bench -run worker,telemetry,cost -repeat 9 -tasks 400 -guard cmd/bench/recorded.json
soak: build ## constant load with workers killed, links dropped and requests throttled, then exact counts (MINUTES=1)
	@bin/local soak -for=$(or $(MINUTES),1)m

variants: ## every promise broken on purpose, and the test that notices
	@cd internal/variants && go test -variants -parallel=2 -timeout=15m
	@go test -count=1 ./internal/model -run=TestEveryBrokenRuleIsCaught -args -deep

sim-variants: ## workers, orchestrators and projectors broken on purpose, and the random history that shows it (REWRITE=1: into docs/guarantees.md; ONLY=C9: of that promise)
	@cd internal/variants && go test -count=1 -run='TestEverySimulatedVariantIsCaught$(if $(ONLY),/all/$(ONLY))' -simulated $(if $(REWRITE),-rewrite) -parallel=2 -timeout=60m

model: ## the claim protocol explored: every state within the bounds (FAULTS=2 DELIVERIES=3)
	@go test -count=1 -timeout=60m ./internal/model -args -deep -faults=$(or $(FAULTS),2) -deliveries=$(or $(DELIVERIES),3)

fuzz: ## every fuzz target, one after the other (FUZZTIME=30s)
	@.ci/fuzz

otel-check: build bin/collector ## a real collector with the Azure Monitor exporter against a fake ingestion endpoint
	@bin/otelcheck

bin/collector: infra/collector/main.go infra/collector/go.mod infra/collector/go.sum
	cd infra/collector && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o ../../bin/collector .

drill: build ## workers scaled from none to eight and back under load, with and without SIGTERM, and takeovers timed
	@bin/local drill

k8s-dryrun: ## the manifests against a real Kubernetes API server (opt-in: the first build takes ten minutes and more)
	@go -C infra/dryrun run .

infra-check: ## Bicep, manifests, Dockerfile, compose and workflow files, alone and together (BICEPCHECK=… checks Bicep)
	@cd infra/check && unformatted=$$(gofmt -l .) && [ -z "$$unformatted" ] || { echo "not formatted: $$unformatted" >&2; exit 1; }
	@cd infra/check && go mod tidy -diff && go vet ./... && go test ./... && go run .

browser: build ## the page in a real browser: the demo's picture, live, operated, attacked, with 100000 executions (chromium)
	@cd e2e && unformatted=$$(gofmt -l .) && [ -z "$$unformatted" ] || { echo "not formatted: $$unformatted" >&2; exit 1; }
	@cd e2e && go mod tidy -diff && go vet ./... && go test -count=1 -timeout=5m -json . | go run ./told

build: ## every program, into bin/
	@go build -o bin/ ./cmd/... ./emulator

fmt: ## format every Go file
	gofmt -w $$(go list -f '{{.Dir}}' ./...)

lint: bin/golangci-lint-$(GOLANGCI_LINT_VERSION) ## golangci-lint, at the pinned version
	bin/golangci-lint-$(GOLANGCI_LINT_VERSION) run ./...

# The version is in the name: another version is another file, and the one that
# is there already is not fetched again.
bin/golangci-lint-$(GOLANGCI_LINT_VERSION):
	CGO_ENABLED=0 GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@mv bin/golangci-lint $@

help:
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: run demo test check conformance crash sim evidence bench bench-guard soak drill variants sim-variants model fuzz infra-check otel-check k8s-dryrun browser build fmt lint help
