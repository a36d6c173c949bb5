# The chores of this repository. "make help" lists them.

GOLANGCI := v2.14.0
LINTER   := bin/golangci-lint-$(GOLANGCI)

SOAK         ?= 10m # how long each soak test runs
SOAK_TIMEOUT ?= 6h  # for all soak tests of one package together
SIM          ?= 10m # how long make sim runs
SEED         ?=     # or the one episode that it replays
MUTANTS      ?= all # or a part of the name of one
TRUST        ?= 2m  # how long make trust verifies each store
PARTS        ?= verify,selftest,sim,mutants
BENCH        ?=
PREFIX       ?= /usr/local

# The modules beside this one, and those of them that users import.
MODULES   := e2e bench observe/prom observe/otel
EXPORTERS := observe/prom observe/otel

# Each is a target of its own; make test runs them in this order. Those that measure
# come last.
STEPS   := deps fmt vet race e2e cross norace
SYSTEMS := darwin/arm64 windows/amd64 linux/386
VETTED  := windows/amd64 # the one for which tests are vetted too
ROUGH   := -gcflags='all=-N -l' # not optimised, which takes half as long to build

# Tests wait for half of their time, so three packages are tested at a time on two
# processors: those that take longest first, and beside those that compute some that
# mostly wait. The rest follow in the order of the alphabet.
FIRST := ./etcdlock ./natslock ./redlock ./cmd/pawl ./redislock/rueidis ./zklock ./sqllock \
	./redislock ./sqllock/mysql ./redislock/goredis ./engines ./sqllock/postgres \
	./sqllock/sqlite ./once ./quorum ./election . ./internal/testserver
AT_A_TIME := $(shell expr 3 '*' $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) / 2)

# SQLite is translated to Go and keeps its data in memory of its own, at which the race
# detector does not look: to instrument it would find nothing, and take ten times as
# long. Tests are vetted by make vet.
RACE := -race -count=1 -vet=off -gcflags=github.com/ncruces/go-sqlite3-wasm/v6/...=-race=false

# Tests are run by scripts/testreport, which leaves the times of packages and the names
# of unstable tests here.
RESULTS := $(CURDIR)/bin/test
export TESTREPORT := $(RESULTS)
REPORT  := "$(RESULTS)/report"

.PHONY: help test $(STEPS) report unstable lint soak sim mutants trust bench scale model build install clean
.NOTPARALLEL:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## install what is missing, then run every check
	@rm -rf "$(RESULTS)"; begin=$$(date +%s); took=; \
	for step in $(STEPS); do \
		echo "== $$step"; from=$$(date +%s); \
		$(MAKE) --no-print-directory $$step || { \
			$(MAKE) --no-print-directory unstable; \
			echo "make test: FAILED at \"make $$step\", $$(($$(date +%s) - begin)) s; passed before it:$${took:- nothing}" >&2; exit 1; }; \
		took="$$took $$step $$(($$(date +%s) - from))s"; \
	done; \
	echo "the slowest packages, in seconds:"; sort -rn "$(RESULTS)/times.txt" | head -n 10; \
	$(MAKE) --no-print-directory unstable; \
	echo "make test: ok, $$(($$(date +%s) - begin)) s:$$took"

unstable: ## tests that failed and then passed twice alone, in the last run
	@if [ -s "$(RESULTS)/unstable.txt" ]; then cat "$(RESULTS)/unstable.txt"; else echo "no test was unstable"; fi

report:
	@mkdir -p "$(RESULTS)" && go build -o "$(RESULTS)/report" ./scripts/testreport

deps: ## install what the tests need (Debian), or say what it is
	@scripts/deps

fmt: ## fail if gofmt would change a file
	@bad=$$(gofmt -l .) || exit 1; \
	if [ -n "$$bad" ]; then echo "gofmt would change:"; echo "$$bad"; exit 1; fi

vet: ## go vet
	@go vet ./...

# At its end a program waits for races of goroutines that are still there, by default
# for a second.
race e2e: export GORACE := atexit_sleep_ms=200

race: report ## every test but TestSoak…, with the race detector
	@CGO_ENABLED=1 "$(CURDIR)/scripts/inmemory" $(REPORT) $(RACE) -p=$(AT_A_TIME) -skip='^TestSoak' $(FIRST) ./...

norace: report ## TestNoRace…: ratios, heap and allocations, which -race would falsify
	@for module in . $(MODULES); do \
		(cd $$module && folders=$$(grep -rl '^func TestNoRace' --include='*_test.go' $(addprefix --exclude-dir=,$(notdir $(MODULES))) . | xargs -r -n 1 dirname | sort -u) && \
		{ [ -z "$$folders" ] || $(REPORT) -count=1 -vet=off -p=1 -run='^TestNoRace' $$folders; }) || exit 1; \
	done # one at a time: they measure

e2e: report ## tests of the other modules, which need other people's clients
	@for module in $(MODULES); do \
		(cd $$module && go vet ./... && CGO_ENABLED=1 "$(CURDIR)/scripts/inmemory" $(REPORT) $(RACE) ./...) || exit 1; \
	done

cross: ## build for other systems, and vet the tests for one of them
	@for system in $(SYSTEMS); do \
		export CGO_ENABLED=0 GOOS=$${system%/*} GOARCH=$${system#*/}; \
		go build $(ROUGH) ./... && for module in $(EXPORTERS); do go build -C $$module $(ROUGH) ./... || exit 1; done && { [ $$system != $(VETTED) ] || go vet $(ROUGH) ./...; } || { echo "cross: $$system fails"; exit 1; }; \
	done

lint: $(LINTER) ## golangci-lint, built here on first use
	@$(LINTER) run ./...

$(LINTER):
	GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
	mv bin/golangci-lint $@

soak: report ## TestSoak…: long tests, each for SOAK (10m)
	PAWL_SOAK=$(SOAK) CGO_ENABLED=1 scripts/inmemory $(REPORT) $(RACE) -p=1 -timeout=$(SOAK_TIMEOUT) -run='^TestSoak' ./...

# In simulated time nothing is gained by the race detector, which costs most of the speed.
sim: ## years of simulated time with faults, for SIM (10m); SEED=n replays one episode
	@PAWL_SIM=$(SIM) PAWL_SIM_SEED=$(SEED) go test -count=1 -timeout=0 -v -run='^TestSoakSimulation$$' ./internal/sim

mutants: ## plant bugs into the core one by one; the simulation must find each within a minute
	@PAWL_MUTANTS="$(strip $(MUTANTS))" go test -count=1 -timeout=0 -v -run='^TestSoakEveryMutantIsFound$$' ./internal/sim

trust: ## verify every store, plant bugs, simulate; writes docs/trust.md
	@scripts/deps
	@scripts/inmemory go run ./scripts/trust -parts "$(strip $(PARTS))" -for $(TRUST) -sim $(SIM)

bench: ## pawl beside its peers on the same servers; BENCH are flags, as -parts redis; writes bench/RESULTS.md
	@scripts/deps
	@go -C bench run . $(BENCH)

scale: ## how many leases, waiters and names each store bears; writes docs/scale.md
	@scripts/scale

model: ## check the protocols with Spin; QUICK=1 for the small ones
	@scripts/deps spin
	@scripts/model

build: ## bin/pawl, static
	@if [ -d cmd/pawl ]; then CGO_ENABLED=0 go build -trimpath -o bin/pawl ./cmd/pawl; else CGO_ENABLED=0 go build -trimpath ./...; fi

install: build ## bin/pawl, manual pages and shell completions into DESTDIR and PREFIX
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	install -m 755 bin/pawl $(DESTDIR)$(PREFIX)/bin/pawl
	bin/pawl man $(DESTDIR)$(PREFIX)/share/man/man1
	bin/pawl completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/pawl
	bin/pawl completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_pawl
	bin/pawl completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/pawl.fish

clean: ## remove what the other targets made
	rm -rf bin dist
