# Three images of one binary:
#   docker build --target sluice .            the binary and nothing else (nftables)
#   docker build --target sluice-iptables .   with the programs that iptables rules need
#   docker build --target sluice-dns .        the cluster's DNS server, in CoreDNS's place
# The first two name no USER on purpose: Sluice takes the place of kube-proxy in DaemonSets that name no user
# and expect root. Ours (deploy/) set 65532, and the binary carries the one capability it needs.
ARG RUST_IMAGE=rust:1.95-bookworm
ARG DEBIAN_IMAGE=debian:bookworm-slim

FROM ${RUST_IMAGE} AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libcap2-bin \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN scripts/static /out dist agent \
    && deploy/image/rootfs proxy /out/sluice /rootfs \
    && deploy/image/rootfs dns /out/sluice /rootfs-dns

FROM ${DEBIAN_IMAGE} AS sluice-iptables
# What iptables and IPVS rules are written with; the kernel modules are the node's.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends iptables ipset kmod \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /rootfs/usr/local/bin /usr/local/bin
ENTRYPOINT ["/usr/local/bin/sluice"]

# Deployments of CoreDNS name neither a program nor a user.
FROM scratch AS sluice-dns
COPY --from=build /rootfs-dns /
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/coredns"]

# The last stage is what `docker build .` makes.
FROM scratch AS sluice
COPY --from=build /rootfs /
ENTRYPOINT ["/usr/local/bin/sluice"]
