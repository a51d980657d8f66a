//! The kernel's part of the node's own DNS server: its addresses, and the rules that bring queries to it.
//!
//! ```text
//! query of a pod or of the node to 169.254.20.10:53
//!    │
//!    ├─ the table `sluice-dns` exists ─▶ untracked, not translated ─▶ loopback ─▶ socket of this process
//!    │    (prerouting, output, -300)
//!    └─ else ─▶ conntrack ─▶ a frontend of the plan ─▶ DNAT ─▶ endpoint of the cluster's DNS Service
//! ```
//!
//! In the ebpf mode programs translate packets before netfilter sees them. They leave queries alone while they find the
//! socket of UDP on [`DNS_OWNER_PORT`] of the address, which this process has as long as the table.
//!
//! The addresses are on `lo` and stay when this process ends, however it ends: they are frontends of the
//! cluster's DNS Service in every data plane ([`NodeDns`]). The table belongs to
//! a netlink socket of this process. The kernel deletes it with the socket, also after `kill -9`
//! (`nft_rcv_nl_event`, `nf_tables_api.c`, Linux 5.12), and the next packet takes the other way. A second
//! table, for replies, stays as the addresses do ([`clean_up`]).
//!
//! ```no_run
//! # fn start(dns: &sluice_model::NodeDns, detector: &sluice_model::LocalDetector) -> Result<(), Box<dyn std::error::Error>> {
//! use sluice_dns_agent::local_dns::{DNS_PORT, LocalDns};
//! let mut local = LocalDns::open(dns, detector, DNS_PORT)?; // needs CAP_NET_ADMIN
//! for address in local.sockets() { /* bind UDP and TCP: port 53 needs CAP_NET_BIND_SERVICE */ }
//! // The names are known and the rules are in:
//! local.take()?;
//! // Not ready any more, or about to stop:
//! local.give_back(); // queries go to the cluster's DNS; answer those that the sockets still have
//! # Ok(())
//! # }
//! ```

mod addresses;
mod table;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use nix::sys::resource::{Resource, getrlimit};
use sluice_model::{DNS_OWNER_PORT, LocalDetector, NodeDns};
use sluice_netlink::duplicate_from;
use sluice_nft::{Connection, Kernel as _};
use sluice_node::{NodeError, failed};
use tracing::debug;

pub use sluice_model::DNS_PORT;

use table::Table;

/// The least descriptor of the sockets of an [`Owner`], or half of the limit of this process. It is above the
/// descriptors of the server's sockets and connections, so that a killed process closes it before them: the queries
/// go to the cluster's DNS before the server's sockets are closed.
const OWNER_DESCRIPTOR: i32 = 8000;

/// Removes the addresses and tables that stay on this machine when the process of a [`LocalDns`] ends, and returns
/// their names.
///
/// # Errors
/// [`NodeError`]: something could not be listed or removed.
pub fn clean_up() -> Result<Vec<String>, NodeError> {
    let operation = "remove table sluice-dns-replies";
    let mut connection = Connection::open().map_err(failed(operation))?;
    let tables = table::delete_replies(&mut connection)?;
    connection.commit(&tables).map_err(failed(operation))?;
    let mut removed: Vec<String> = if tables.is_empty() {
        Vec::new()
    } else {
        vec!["tables sluice-dns-replies".to_owned()]
    };
    let addresses = addresses::clean_up()?.into_iter();
    removed.extend(addresses.map(|it| format!("address {it} of the DNS server on lo")));
    Ok(removed)
}

/// The addresses of a DNS server that a Sluice added to this machine, whether its process runs or not. They are added
/// before the table for replies and removed after it.
///
/// # Errors
/// [`NodeError`]: the addresses could not be listed.
pub fn addresses() -> Result<Vec<IpAddr>, NodeError> {
    addresses::ours("list the addresses of the DNS server on lo")
}

/// Whether a process on this machine gets the queries to these addresses.
///
/// # Errors
/// [`NodeError`]: the tables could not be listed.
pub fn is_taken() -> Result<bool, NodeError> {
    let operation = "list the tables of nftables";
    let mut connection = Connection::open().map_err(failed(operation))?;
    table::has_queries(&mut connection)
}

/// The addresses of the node's DNS server, and the queries to them. Dropping the value gives the queries
/// to the cluster's DNS.
#[derive(Debug)]
pub struct LocalDns {
    table: Table,
    /// `None` while the queries go to the cluster's DNS.
    owner: Option<Owner>,
}

/// The table and sockets that bring the queries to this process. They go when it ends.
#[derive(Debug)]
struct Owner {
    /// Owns the table.
    _table: Connection,
    /// On [`DNS_OWNER_PORT`] of each address: the programs of the ebpf mode look for them.
    _sockets: Vec<OwnedFd>,
}

impl Owner {
    fn of(table: &Table) -> Result<Self, NodeError> {
        let operation = "take DNS queries of this node: write table sluice-dns";
        let mut connection = Connection::open().map_err(failed(operation))?;
        let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
        let half = i32::try_from(limit / 2).unwrap_or(i32::MAX);
        let descriptor = OWNER_DESCRIPTOR.min(half);
        if let Err(error) = connection.renumber(descriptor) {
            debug!(%error, "a few queries may be refused when this process is killed");
        }
        let tables = connection.commit(&table.queries());
        tables.map_err(failed(operation))?;
        let sockets = table.addresses.iter().map(|ip| {
            let address = SocketAddr::new(*ip, DNS_OWNER_PORT);
            let operation = format!("take DNS queries of this node: bind UDP socket {address}");
            let socket = UdpSocket::bind(address).map_err(failed(&operation))?;
            let high = duplicate_from(socket.as_fd(), descriptor);
            Ok(high.unwrap_or_else(|_| socket.into()))
        });
        Ok(Self {
            _sockets: sockets.collect::<Result<_, NodeError>>()?,
            _table: connection,
        })
    }
}

impl LocalDns {
    /// Adds the addresses to `lo`, and removes those of an earlier configuration. Replies from these addresses are
    /// untracked from now on. Queries go to the cluster's DNS until [`take`](Self::take). `pods`: how the node
    /// recognises its pods. `port`: of the server's sockets. It is [`DNS_PORT`], except in the IPVS mode: there a
    /// virtual server on port 53 of the address would get the packets before any socket. The table then changes the
    /// port of queries, and that of replies back.
    ///
    /// # Errors
    /// [`NodeError`]: the kernel refused an address or the table for replies. It is no error when the machine has no IPv6 and an
    /// address is of IPv6: see [`sockets`](Self::sockets).
    pub fn open(dns: &NodeDns, pods: &LocalDetector, port: u16) -> Result<Self, NodeError> {
        let wanted: Vec<IpAddr> = dns.served().collect();
        let present = addresses::provide(&wanted)?;
        let table = Table::new(dns, pods, port, &present);
        let operation = "write table sluice-dns-replies";
        let mut connection = Connection::open().map_err(failed(operation))?;
        let replies = table.replies(&mut connection)?;
        connection.commit(&replies).map_err(failed(operation))?;
        Ok(Self { table, owner: None })
    }

    /// The addresses to listen on, over UDP and TCP: each address that the machine has now. Bind exactly these
    /// addresses: a socket on all addresses replies from another one. `SO_REUSEPORT` is allowed.
    pub fn sockets(&self) -> impl Iterator<Item = SocketAddr> {
        let port = self.port();
        let addresses = self.table.addresses.iter();
        addresses.map(move |it| SocketAddr::new(*it, port))
    }

    /// The port of the sockets.
    pub fn port(&self) -> u16 {
        self.table.port
    }

    /// Brings the queries to the sockets from now on, all at once: those of pods of this node and of the node itself.
    /// Queries of other machines to a ClusterIP still go to the cluster's DNS, where pods are recognised by addresses
    /// or interfaces known at start; other machines send no queries to the other addresses, which mean something on
    /// this machine alone. Call it when the server answers. A second call changes nothing.
    ///
    /// A TCP connection that a client has to the cluster's DNS through these addresses is reset; in the ebpf mode it goes on.
    ///
    /// # Errors
    /// [`NodeError`]: the kernel refused the table or a socket; the queries go where they went before.
    pub fn take(&mut self) -> Result<(), NodeError> {
        if self.owner.is_some() {
            return Ok(());
        }
        self.owner = Some(Owner::of(&self.table)?);
        Ok(())
    }

    /// Sends the queries to the cluster's DNS from now on. Some may be in the sockets already: answer those before
    /// the sockets are closed.
    pub fn give_back(&mut self) {
        self.owner = None;
    }
}
