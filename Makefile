# The menu. `make test` and `make demo` install what they need.
SHELL := /bin/bash
CARGO ?= cargo
# python3-venv: scripts/fetch-cargo-tool and scripts/test.
PACKAGES := nftables conntrack iproute2 procps iptables ipset busybox-static python3-venv
# Builds eBPF programs: a Rust with the sources of core, and what bpf-linker is built with.
BPF_PACKAGES := rustc-web cargo-web rust-web-src llvm-22-dev libpolly-22-dev libzstd-dev zlib1g-dev
# For the tests that boot a virtual machine, for scripts/vm itself, and to build modules of a kernel.
VM_PACKAGES := ipvsadm busybox-static cpio kmod xz-utils bc bison flex gcc libc6-dev make
# For the tests of the web page.
WEB_PACKAGES := chromium chromium-driver fonts-dejavu-core
# For the numbers of the DNS server.
BENCH_PACKAGES := dnsperf
# For packages and for the tests of deploy/.
DEPLOY_PACKAGES := binutils init-system-helpers libcap2-bin man-db strace systemd
# What Kubernetes' tests run in pods, beside agnhost.
E2E_PACKAGES := bind9-dnsutils curl netcat-openbsd
DEBIAN := $(shell command -v apt-get 2>/dev/null)
ROOT := $(shell [ "$$(id -u)" = 0 ] && echo yes)

# Most tests wait for packets, programs or timeouts, so there are more of them than processors.
NEXTEST := scripts/test --test-threads $(shell expr 3 \* $$(nproc))

# A tool that runs for a moment need not be fast.
INSTALL_TOOL := CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
  $(CARGO) install --locked

# What the tests of deploy/ build; `make package` is always a release.
PROFILE ?= dev

.PHONY: help setup setup-bpf setup-vm demo test test-fast test-vm test-deploy check bench bless schema book static package setup-deploy setup-web setup-bench setup-e2e conformance

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 20

define install_packages
	@missing=$$(for it in $(1); do dpkg -s $$it >/dev/null 2>&1 || echo $$it; done); \
	if [ -n "$$missing" ]; then \
	  if [ -n "$(DEBIAN)" ] && [ -n "$(ROOT)" ]; then \
	    echo "installing $$missing" && apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	  else echo "please install: $$missing" >&2; exit 1; fi; fi
endef

setup: setup-bpf ## install what building, testing and the demo need (Debian packages, cargo-nextest, bpf-linker)
	$(call install_packages,$(PACKAGES))
	@[ -z "$(DEBIAN)" ] || scripts/fetch-trixie-nft target/nft-trixie
	@[ -z "$(DEBIAN)" ] || scripts/fetch-kubectl target/kubectl-bookworm
	@scripts/fetch-cargo-tool cargo-nextest 0.9.148

# Without it Sluice builds as well, but has no ebpf mode.
ifeq ($(if $(DEBIAN),$(ROOT)),yes)
setup-bpf:
	$(call install_packages,$(BPF_PACKAGES))
	@command -v bpf-linker >/dev/null || \
	  LLVM_PREFIX=/usr/lib/llvm-22 $(INSTALL_TOOL) bpf-linker --no-default-features --features llvm-22
else
setup-bpf:
endif

demo: setup ## a cluster of network namespaces, real connections, drawn on the terminal
	$(CARGO) build --release -p sluice
	target/release/sluice lab demo $(ARGS)

test: setup setup-vm setup-web test-deploy ## everything that proves something: unit, golden, property and packet tests (root)
	$(NEXTEST)
	$(CARGO) test --workspace --all-features --doc --quiet

test-fast: setup setup-web ## of these, the ones that need no virtual machine and no package: what one change needs (root)
	$(NEXTEST) -E 'not test(/vm_/)'

test-vm: setup setup-vm ## of these, the ones that boot a virtual machine: kernel modules that hosts may lack
	$(NEXTEST) -E 'test(/vm_/)'

ifeq ($(if $(DEBIAN),$(ROOT)),yes)
setup-vm: setup ## what scripts/vm needs: Debian's kernels and qemu, in target/vm (root)
	$(call install_packages,$(VM_PACKAGES))
	@scripts/fetch-vm target/vm
else
setup-vm:
	@echo "SKIP: a virtual machine needs root and Debian's packages"
endif

ifeq ($(if $(DEBIAN),$(ROOT)),yes)
setup-web: setup
	$(call install_packages,$(WEB_PACKAGES))
else
setup-web:
	@echo "SKIP: the tests of the web page need root and Debian's $(WEB_PACKAGES)"
endif

ifeq ($(if $(DEBIAN),$(ROOT)),yes)
setup-bench: setup
	$(call install_packages,$(BENCH_PACKAGES))
else
setup-bench:
	@echo "install dnsperf for the numbers of DNS"
endif

setup-deploy: setup
	$(call install_packages,$(DEPLOY_PACKAGES))
	@command -v cargo-deb >/dev/null || $(INSTALL_TOOL) cargo-deb
	@deploy/tests/fetch-tools target/deploy-tools

test-deploy: setup-deploy ## manifests, chart, image, package, alerts and dashboard (root)
	scripts/package $(PROFILE)
	PYTHONDONTWRITEBYTECODE=1 target/deploy-tools/venv/bin/python -m pytest -p no:cacheprovider --quiet deploy/tests

static: ## target/static/sluice: one file that needs no other
	scripts/static target/static

package: setup-deploy ## target/package/sluice.deb
	scripts/package dist

conformance: setup setup-e2e ## programs on client-go, Helm, and Kubernetes' own tests of its network, against a lab (root)
	$(CARGO) build -p sluice
	conformance/run client-go
	conformance/run helm
	conformance/run network-policy
	conformance/run e2e-network

ifeq ($(if $(DEBIAN),$(ROOT)),yes)
setup-e2e:
	$(call install_packages,$(E2E_PACKAGES))
else
setup-e2e:
	@echo "install curl, dig and OpenBSD's nc for Kubernetes' tests"
endif

check: ## formatting, lints, docs, dependencies, layout of the tree
	$(CARGO) fmt --all --check
	cd bpf/programs && $(CARGO) fmt --check
	cd bpf/programs && $(CARGO) clippy --quiet --target-dir ../../target/bpf-clippy -- -D warnings
	$(CARGO) clippy --workspace --all-targets --all-features --quiet -- -D warnings
	$(CARGO) clippy -p sluice --no-default-features --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --all-features --no-deps --quiet
	$(CARGO) run --quiet -p xtask -- tidy
	@scripts/fetch-cargo-tool cargo-deny 0.20.2
	$(CARGO) deny --log-level error check licenses bans sources
	@if reason=$$($(CARGO) deny --log-level error --color never fetch db 2>&1); \
	then $(CARGO) deny --log-level error check advisories; \
	else echo "SKIP advisories: their database cannot be had: $$(tail -n 1 <<<"$$reason")"; fi

bench: setup setup-bench ## the numbers of docs/benchmarks.md, measured here (root)
	$(CARGO) build --release -p sluice -p sluice-bench
	target/release/sluice-bench
	target/release/sluice-bench --proxy-mode iptables
	target/release/sluice-bench --proxy-mode ipvs
	target/release/sluice-bench --proxy-mode ebpf
	target/release/sluice-bench folder
	target/release/sluice-bench hostile
	target/release/sluice-bench policy
	target/release/sluice-bench dns

bless: setup-web ## rewrite the golden files and the pictures of the docs; review the diff
	SLUICE_BLESS=1 $(CARGO) nextest run --workspace golden

SCHEMA := crates/lab/api/src/schema/kubernetes.txt

schema: ## rewrite the facts of Kubernetes' types, from its Go modules (Go 1.26); review the diff
	cd xtask/schema && go mod download k8s.io/kubernetes@v1.36.2 && go run . >$(CURDIR)/$(SCHEMA).new
	mv $(SCHEMA).new $(SCHEMA)

# mdBook (MPL-2.0) is a program that runs here: nothing of it is linked into Sluice. The pages have its styles and scripts.
MDBOOK_VERSION := 0.5.4
MDBOOK := target/tools/bin/mdbook

book: ## target/book/index.html: the documents as a book
	@[ "$$($(MDBOOK) --version 2>/dev/null)" = "mdbook v$(MDBOOK_VERSION)" ] || \
	  $(INSTALL_TOOL) mdbook@$(MDBOOK_VERSION) --no-default-features --features search --root target/tools
	$(CARGO) run --quiet -p xtask -- book target/book-src
	$(MDBOOK) build --dest-dir $(CURDIR)/target/book target/book-src
