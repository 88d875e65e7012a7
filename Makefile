MODULE        = github.com/redis-ratelimit/caddy-redis-ratelimit
CADDY_VERSION = $(shell go list -m -f '{{.Version}}' github.com/caddyserver/caddy/v2)

# Empty without a C compiler, which the race detector needs.
RACE    ?= $(if $(shell command -v $${CC:-gcc} 2>/dev/null),-race)
TIMEOUT ?= 20m

GOLANGCI_LINT = .build/golangci-lint
XCADDY        = .build/xcaddy
GOVULNCHECK   = .build/govulncheck
TOXIPROXY     = .build/toxiproxy-server
GORELEASER    = .build/goreleaser
CYCLONEDX     = .build/cyclonedx-gomod
ACTIONLINT    = .build/actionlint
BUILDING      = .build/building

# Separate modules, to keep their dependencies out of the root module.
MODULES = . tools tools/release $(patsubst %/go.mod,%,$(wildcard bench/go.mod deploy/go.mod caddytest/*/go.mod clients/*/go.mod parsers/*/go.mod credentials/*/go.mod))

# All code is Go; only the race detector needs a C compiler.
export CGO_ENABLED = 0

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' \
		$(MAKEFILE_LIST)

# The flags of xcaddy, so that these targets and it use one build cache.
build test clients parsers identity picture clouds fuzz chaos soak stalls waiting vet oldest systems lint: export GOFLAGS += -trimpath -tags=nobadger,nomysql,nopgx

.PHONY: build
build: $(BUILDING) ## build ./caddy, Caddy with the rate limiter (needs only Go; minutes at first)
	@$(BUILDING) -o caddy ./cmd/caddy

# It says how far go build is.
$(BUILDING): tools/building/main.go
	@echo 'building ./caddy, Caddy with the rate limiter: minutes at first, seconds afterwards'
	@go -C tools build -o ../$@ ./building

.PHONY: run
run: build ## build ./caddy and run it with Caddyfile.example
	./caddy run --config Caddyfile.example --adapter caddyfile

# Tests at once in a package. Most of them wait for processes, more than for a core.
PARALLEL ?= 4

# The half of the tests without Caddy processes, in which the race detector would see nothing. The longest go first.
IN_PROCESS = ./internal/failover ./internal/redis $$(go list ./... | grep -v /caddytest/)

TESTS = -parallel $(PARALLEL) -timeout $(TIMEOUT)

# How tests are run; .ci/run notes their times with it.
GOTEST = go test

# Most of these processes end before they need a garbage collection.
test: export GOGC = 400

.PHONY: test
test: ## run all tests but the clouds', with the race detector if there is gcc
	.ci/need redis-server faketime
	@.ci/need lua5.4 || echo 'no lua5.4: testing without it'
	@$(if $(RACE),,echo 'no C compiler: testing without the race detector')
	go -C deploy test -count=1 -timeout $(TIMEOUT) ./... & deploy=$$!; \
	$(GOTEST) $(TESTS) ./caddytest/... & caddys=$$!; \
	$(if $(RACE),CGO_ENABLED=1 GORACE=atexit_sleep_ms=0) $(GOTEST) $(RACE) $(TESTS) $(IN_PROCESS); failed=$$?; \
	wait $$caddys || failed=$$?; wait $$deploy || failed=$$?; exit $$failed

# The time for each target. Failing inputs are written to testdata/fuzz and serve as tests.
FUZZTIME ?= 30s

# The folder of the targets. Those of the root compile all of Caddy anew.
FUZZIN ?= .

.PHONY: fuzz
fuzz: ## fuzz the parsers, keys, replies, headers and decisions
	@grep -rho --include='*_test.go' 'func Fuzz[A-Za-z_]*' $(FUZZIN) | cut -c6- | sort | while read -r target; do \
		package=$$(dirname "$$(grep -rl --include='*_test.go' "func $$target(" $(FUZZIN))"); \
		.ci/fuzz "$$target" "$$package" $(FUZZTIME) </dev/null || exit 1; \
	done

# $(call there_is,TEST,PACKAGE) fails where no test has the name: go test passes then.
there_is = @go test -list '$(1)' $(2) | grep -q '^$(1)' || { echo 'no test of $(2) is called $(1)'; exit 1; }

.PHONY: chaos
chaos: $(TOXIPROXY) ## break Redis in every way under load (15 minutes)
	.ci/need redis-server faketime
	$(call there_is,TestChaos,./caddytest/chaos)
	CHAOS=long go test -count=1 -v -run TestChaos -timeout 30m ./caddytest/chaos

# The packages whose random tests have more rounds in a soak.
SOAKED = $(or $(shell grep -rl --include='*_test.go' 'assert\.\(Rounds\|Seeds\|Plays\)' . | xargs -n 1 dirname | sort -u | grep -v caddytest/chaos),$(error no package has random tests))

.PHONY: soak
soak: $(TOXIPROXY) ## play the random tests for long, then all features under faults (30 minutes)
	.ci/need redis-server faketime
	$(call there_is,TestMemory_full_flood,./internal/memory)
	SOAK=long go test -count=1 -timeout 30m $(SOAKED)
	$(call there_is,TestReplay_decides_a_real_log,./internal/replay/simulate)
	go test -count=1 -v -run TestReplay_decides_a_real_log ./internal/replay/simulate
	$(call there_is,TestSoak,./caddytest/chaos)
	SOAK=long go test -count=1 -v -run TestSoak -timeout 30m ./caddytest/chaos

# The package whose tests stand still at random.
IN ?= ./caddytest/requests

.PHONY: stalls
stalls: ## run the tests of a package, IN, while their processes stand still at random (Linux)
	.ci/need redis-server faketime
	go -C tools build -o ../.build/stalls ./stalls
	go test -count=1 -parallel $(PARALLEL) -timeout 60m -exec '$(CURDIR)/.build/stalls' $(IN)

.PHONY: waiting
waiting: ## measure requests that wait beside their simulation and HAProxy (outside of CI; 12 minutes)
	.ci/need redis-server haproxy
	$(call there_is,TestFairness_nodes,./caddytest/waiting)
	WAITING=long go test -count=1 -v -parallel 8 -timeout 30m ./caddytest/waiting

# The commit that is compared with, the rows as a regular expression, and further flags; see
# go -C bench run ./instructions -help
BASE ?= c1c40a99
ROWS ?=
INSTRUCTIONFLAGS ?=

.PHONY: instructions
instructions: ## count instructions beside those of the commit BASE, write their table into docs/benchmarks.md (outside of CI; 20 minutes)
	.ci/need redis-server valgrind
	go -C bench run ./instructions -base '$(BASE)' -rows '$(ROWS)' -out ../docs $(INSTRUCTIONFLAGS) ..

# Comma-separated contenders and floods, for example CONTENDERS=recipe,nothing FLOODS=C,D, and further flags; see
# go -C bench run ./flood -help
CONTENDERS ?=
FLOODS     ?=
FLOODFLAGS ?=

.PHONY: flood
flood: RUNS = 3
flood: ## measure whether people get into a site that crawlers flood (outside of CI; 25 minutes)
	.ci/need redis-server
	go -C bench run ./flood -runs $(RUNS) -contenders '$(CONTENDERS)' -floods '$(FLOODS)' $(FLOODFLAGS) ..

# The servers, for example 'trixie/valkey-server'; .ci/compat lists them.
SERVERS ?=

.PHONY: compat
compat: ## test with other versions of Redis and with Valkey (20 minutes)
	.ci/compat $(SERVERS)

# With NEWEST=1 the newest versions of what the Go module proxy has.
.PHONY: findings
findings: ## run the findings about other software, of one ground with ONLY=logs (needs a network; outside of CI)
	.ci/need redis-server curl
	ONLY='$(ONLY)' .ci/findings $(if $(NEWEST),latest)

# CLIENTFLAGS, for example '-v curl' or '-write'; see go run ./clients -help
.PHONY: clients
clients: ## run real clients against a limit (needs a network; outside of CI; 3 minutes)
	go run ./clients $(CLIENTFLAGS)

# PARSERFLAGS, for example '-v flask' or '-write'; see go run ./parsers -help
.PHONY: parsers
parsers: ## compare with what frameworks read from bodies (needs a network; outside of CI; 5 minutes)
	go run ./parsers $(PARSERFLAGS)

# IDENTITYFLAGS, for example '-v flask' or '-write'; see go run ./parsers/identity -help
.PHONY: identity
identity: ## compare keys with what frameworks read from requests (needs a network; outside of CI; 10 minutes)
	go run ./parsers/identity $(IDENTITYFLAGS)

# .build/picture holds the page that draws, with its packages of npm.
.PHONY: picture
picture: ## draw the picture of the dashboard, deploy/grafana/*.png (needs a network; outside of CI; 5 minutes)
	.ci/need redis-server chromium npm pngquant
	mkdir -p .build/picture
	cp deploy/picture/* .build/picture
	cd .build/picture && npm ci --ignore-scripts --no-audit --no-fund && npm run build
	PICTURE=$(CURDIR)/.build/picture go -C deploy test -count=1 -v -run TestDashboard_picture .

.PHONY: vet
vet: ## run go vet
	go vet ./...

# The Go and the Caddy of go.mod are the oldest that are promised. GOTOOLCHAIN
# selects this Go, whatever is installed.
.PHONY: oldest
oldest: export GOTOOLCHAIN = go$(shell sed -n 's/^go //p' go.mod)
oldest: ## build and vet with the oldest Go and Caddy, run the limiter's short tests
	go version
	go build -o /dev/null ./cmd/caddy
	go vet ./...
	go test ./limiter ./internal/limiter ./internal/memory ./internal/kernel

# The systems beside Linux that releases are made for.
SYSTEMS ?= darwin freebsd windows

# What a Caddy with the module is made of. go vet would read its tests too, which need Linux.
OURS = $$(go list -deps -f '{{with .Module}}{{if .Main}}{{$$.Dir}}{{end}}{{end}}' ./cmd/caddy)

.PHONY: systems
systems: $(GOLANGCI_LINT) ## build and vet for other systems
	@for system in $(SYSTEMS); do \
		echo "$$system"; \
		GOOS=$$system go build -o /dev/null ./cmd/caddy || exit 1; \
		GOOS=$$system $(GOLANGCI_LINT) run --no-config --tests=false --default=none --enable=govet $(OURS) || exit 1; \
	done

.PHONY: lint
lint: $(GOLANGCI_LINT) $(GOVULNCHECK) ## check Go, Lua, go.mod files, known vulnerabilities
	@test -z "$$(gofmt -l .)" || { echo 'make fmt is due for:'; gofmt -l .; exit 1; }
	.ci/need luacheck:lua-check
	luacheck --no-color --quiet scripts internal/overrides
	@for module in $(MODULES); do \
		echo "go -C $$module mod tidy -diff"; \
		go -C $$module mod tidy -diff || exit 1; \
	done
	$(GOLANGCI_LINT) config verify
	go -C tools run ./structure ..
	@.ci/words README.md 1300
	@.ci/words 'README.md docs/*.md deploy/*.md' 49500 # 48000, and start.md and upgrading.md, which are read instead of others
	go -C tools run ./api ..
	@for module in $(filter-out tools/release,$(MODULES)); do \
		echo "golangci-lint run, in $$module"; \
		(cd $$module && "$(CURDIR)/$(GOLANGCI_LINT)" run --config "$(CURDIR)/.golangci.yml" ./...) || exit 1; \
	done
	.ci/vulncheck $(GOVULNCHECK)

# How often each case is counted; the median counts.
RUNS ?= 11

.PHONY: sitting
sitting: ## count the functions, files and packages that one request runs (2 minutes)
	.ci/need redis-server
	go -C tools run ./sitting -runs $(RUNS) ..

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## format the Go code
	$(GOLANGCI_LINT) fmt ./...

# The version v0.0.0 is arbitrary. With one, Go uses the working tree at once
# instead of looking up the releases first.
.PHONY: xcaddy
xcaddy: $(XCADDY) ## build ./caddy-xcaddy from the working tree by the Dockerfile's line of xcaddy
	$(XCADDY) $$(sed -n 's|^RUN xcaddy \(.*=\)/src \$$PLUGINS$$|\1.|p' Dockerfile) --output caddy-xcaddy

.PHONY: image
image: ## build the container image caddy-redis-ratelimit (needs Docker)
	docker build --tag caddy-redis-ratelimit .
	docker run --rm caddy-redis-ratelimit caddy list-modules | grep -x http.handlers.redis_ratelimit

# The clouds' sources of credentials, each a module of its own.
CLOUDS = $(notdir $(patsubst %/go.mod,%,$(wildcard credentials/*/go.mod)))

.PHONY: clouds
clouds: $(XCADDY) ## test the clouds' sources of credentials, build ./caddy-clouds with them
	@for module in $(CLOUDS:%=credentials/%) caddytest/clouds; do \
		go -C $$module test -timeout $(TIMEOUT) ./... || exit 1; \
	done
	$(XCADDY) build $(CADDY_VERSION) --with $(MODULE)@v0.0.0=. \
		$(foreach cloud,$(CLOUDS),--with $(MODULE)/credentials/$(cloud)@v0.0.0=./credentials/$(cloud)) --output caddy-clouds
	@for cloud in $(CLOUDS); do \
		./caddy-clouds list-modules | grep -x redis_ratelimit.credentials.$$cloud || exit 1; \
	done

.PHONY: release-check
release-check: $(GORELEASER) $(ACTIONLINT) ## check the workflows and what releases are made of
	$(ACTIONLINT)
	$(GORELEASER) check

.PHONY: snapshot
snapshot: $(GORELEASER) $(CYCLONEDX) ## make all files of a release in dist/, publish nothing
	PATH="$(CURDIR)/.build:$$PATH" $(GORELEASER) release --snapshot --clean --skip=publish

# On the commit of a tag, with a token in GITHUB_TOKEN; .github/workflows/release.yml calls it.
.PHONY: release
release: $(GORELEASER) $(CYCLONEDX) ## make a release and publish it
	PATH="$(CURDIR)/.build:$$PATH" $(GORELEASER) release --clean

.PHONY: clean
clean: ## remove the files that the other targets have built
	rm -rf .build dist caddy caddy-xcaddy caddy-clouds coverage*

# $(call tool,PACKAGE) builds a tool in the version of tools/go.mod.
tool = go -C tools build -o ../$@ $(1)

$(GOLANGCI_LINT): tools/go.mod tools/go.sum
	$(call tool,github.com/golangci/golangci-lint/v2/cmd/golangci-lint)

$(XCADDY): tools/go.mod tools/go.sum
	$(call tool,github.com/caddyserver/xcaddy/cmd/xcaddy)

$(GOVULNCHECK): tools/go.mod tools/go.sum
	$(call tool,golang.org/x/vuln/cmd/govulncheck)

$(TOXIPROXY): tools/go.mod tools/go.sum
	$(call tool,github.com/Shopify/toxiproxy/v2/cmd/server)

# The tools of releases have a module of their own.
$(GORELEASER) $(CYCLONEDX) $(ACTIONLINT): tools/release/go.mod tools/release/go.sum
	go -C tools/release build -o ../../.build/ tool

# BENCHFLAGS, for example '-rounds=5 -budget=1m -only=plain'; see go -C bench run . -help
.PHONY: bench
bench: ## compare with others, write docs/benchmarks.md (20 minutes)
	.ci/need redis-server
	go -C bench run . -out ../docs $(BENCHFLAGS)
