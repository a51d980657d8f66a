//! Bounds on what clients make the server hold, in total and for each client.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus::{IntCounter, IntGauge};

/// One kind of thing that is bounded.
#[derive(Debug)]
pub(crate) struct Bound {
    most: usize,
    most_per_client: usize,
    held: Mutex<Held>,
    gauge: IntGauge,
    /// What was refused, by the limit that was reached: in total, and of one client.
    shed: [IntCounter; 2],
}

#[derive(Debug, Default)]
struct Held {
    total: usize,
    clients: HashMap<IpAddr, usize>,
}

impl Bound {
    /// A bound whose level `gauge` shows.
    pub(crate) fn new(
        most: usize,
        most_per_client: usize,
        gauge: IntGauge,
        shed: [IntCounter; 2],
    ) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_per_client,
            held: Mutex::default(),
            gauge,
            shed,
        })
    }

    /// A permit for one more, until it is dropped. `None`, and counted, when a limit is reached.
    pub(crate) fn admit(self: &Arc<Self>, client: IpAddr) -> Option<Permit> {
        let client = source(client);
        let mut held = self.lock();
        let own = held.clients.get(&client).copied().unwrap_or(0);
        let [total, per_client] = &self.shed;
        let reached = match () {
            () if held.total >= self.most => Some(total),
            () if own >= self.most_per_client => Some(per_client),
            () => None,
        };
        if let Some(shed) = reached {
            shed.inc();
            return None;
        }
        held.total += 1;
        *held.clients.entry(client).or_default() += 1;
        self.gauge.inc();
        Some(Permit {
            bound: self.clone(),
            client,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thing that is held.
#[derive(Debug)]
pub(crate) struct Permit {
    bound: Arc<Bound>,
    client: IpAddr,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut held = self.bound.lock();
        held.total -= 1;
        if let Some(own) = held.clients.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                held.clients.remove(&self.client);
            }
        }
        self.bound.gauge.dec();
    }
}

/// What counts as one client: an IPv4 address, or an IPv6 /64, all of which one machine may use (RFC
/// 4291, section 2.5.4).
fn source(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) & !u128::from(u64::MAX)).into(),
        ip @ IpAddr::V4(_) => ip,
    }
}

#[cfg(test)]
mod tests;
