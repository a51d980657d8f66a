# The menu. `make test` and `make demo` install what they need.
SHELL := /bin/bash
CARGO ?= cargo
PACKAGES := nftables conntrack iproute2 procps
DEBIAN := $(shell command -v apt-get 2>/dev/null)
ROOT := $(shell [ "$$(id -u)" = 0 ] && echo yes)

.PHONY: help setup demo test check bench bless

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 16

setup: ## install what building, testing and the demo need (Debian packages, cargo-nextest)
	@missing=$$(for it in $(PACKAGES); do dpkg -s $$it >/dev/null 2>&1 || echo $$it; done); \
	if [ -n "$$missing" ]; then \
	  if [ -n "$(DEBIAN)" ] && [ -n "$(ROOT)" ]; then \
	    echo "installing $$missing" && apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	  else echo "please install: $$missing" >&2; exit 1; fi; fi
	@[ -z "$(DEBIAN)" ] || scripts/fetch-trixie-nft target/nft-trixie
	@command -v cargo-nextest >/dev/null || $(CARGO) install cargo-nextest --locked

demo: setup ## a cluster of network namespaces, real connections, drawn on the terminal
	$(CARGO) build --release -p sluice
	target/release/sluice lab demo

test: setup ## everything that proves something: unit, golden, property and packet tests (root)
	$(CARGO) nextest run --workspace --no-fail-fast
	$(CARGO) test --workspace --doc --quiet

check: ## formatting, lints, docs, dependencies, layout of the tree
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet
	$(CARGO) run --quiet -p xtask -- tidy
	@command -v cargo-deny >/dev/null || $(CARGO) install cargo-deny --locked
	$(CARGO) deny --log-level error check licenses bans sources

bench: setup ## the numbers of docs/benchmarks.md, measured here (root)
	$(CARGO) build --release -p sluice
	target/release/sluice bench

bless: ## rewrite the golden files; review the diff
	SLUICE_BLESS=1 $(CARGO) nextest run --workspace golden
