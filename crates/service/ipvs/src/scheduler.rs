//! How virtual servers choose among their real servers, with the schedulers that the kernel has.

use std::collections::BTreeSet;
use std::sync::Arc;

use sluice_plan::{Pool, PortPlan};

use crate::object::{Balancing, Hashing, Server};

/// Chooses the schedulers of the virtual servers of a service port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice<'a> {
    pub(crate) port: &'a PortPlan,
    /// The scheduler of Services that ask for none. The kernel has it.
    pub(crate) usual: &'a Arc<str>,
    /// Schedulers that the kernel is known to lack.
    pub(crate) lacking: &'a BTreeSet<Arc<str>>,
}

impl Choice<'_> {
    /// How this virtual server chooses among these real servers.
    pub(crate) fn balancing(&self, server: &Server, pool: Option<&Pool>) -> Balancing {
        let persistence = self.port.affinity_seconds;
        let by_client = persistence.is_some() && matches!(server, Server::Mark(..));
        let scheduler = if by_client {
            self.by_client()
        } else {
            self.by_connection(pool)
        };
        Balancing {
            hashing: Hashing {
                // Without it, clients whose bucket is a real server that drains are refused
                // (`ip_vs_sh_get`, ip_vs_sh.c; `ip_vs_mh_get`, ip_vs_mh.c, whose buckets follow the
                // last weight that was not 0).
                fallback: matches!(&*scheduler, "sh" | "mh"),
                // kube-proxy's choice: without it `mh` has no chance against clients behind NAT.
                port: &*scheduler == "mh" && !by_client,
            },
            scheduler,
            persistence: persistence.filter(|_| !by_client),
        }
    }

    /// The schedulers of all its virtual servers, with and without a mark.
    pub(crate) fn schedulers(&self, has_mark: bool) -> BTreeSet<Arc<str>> {
        let pools = [self.port.cluster.as_ref(), self.port.local.as_ref(), None];
        let mut schedulers: BTreeSet<_> = pools.map(|it| self.by_connection(it)).into();
        if has_mark && self.port.affinity_seconds.is_some() {
            schedulers.insert(self.by_client());
        }
        schedulers
    }

    /// Schedulers for which another one stands in. Not an `mh` that the Service does not ask for: `sh` does the same.
    pub(crate) fn missed(&self) -> impl Iterator<Item = &Arc<str>> {
        let asks_for_mh = self.port.scheduler.as_deref() == Some("mh");
        let lacking = self.lacking.iter();
        lacking.filter(move |it| asks_for_mh || &***it != "mh")
    }

    /// A persistent virtual server of a mark does not translate ports (`ip_vs_sched_persist`,
    /// ip_vs_core.c), so its clients stay by hash.
    fn by_client(&self) -> Arc<str> {
        self.first(["mh".into(), "sh".into()])
    }

    fn by_connection(&self, pool: Option<&Pool>) -> Arc<str> {
        let weighted = weighted(self.usual, pool);
        match &self.port.scheduler {
            Some(asked) => self.first([asked.clone(), weighted]),
            None => self.first([weighted]),
        }
    }

    fn first<const N: usize>(&self, schedulers: [Arc<str>; N]) -> Arc<str> {
        let mut schedulers = schedulers.into_iter();
        let there = schedulers.find(|it| !self.lacking.contains(it));
        there.unwrap_or_else(|| self.usual.clone())
    }
}

/// The weighted form of a scheduler, if the weights of the pool differ: `rr` and `lc` ignore weights.
fn weighted(scheduler: &Arc<str>, pool: Option<&Pool>) -> Arc<str> {
    let weights = pool.into_iter().flat_map(Pool::endpoints);
    let mut weights = weights.map(|it| it.weight).filter(|it| *it > 0);
    let first = weights.next();
    let differ = weights.any(|it| Some(it) != first);
    match &**scheduler {
        "rr" if differ => "wrr".into(),
        "lc" if differ => "wlc".into(),
        _ => scheduler.clone(),
    }
}

#[cfg(test)]
mod tests {
    use sluice_model::{IpFamily, Protocol};
    use sluice_plan::settings::Settings;
    use sluice_plan::testing::{endpoints, node, planner, service};

    use super::*;

    /// What the virtual servers of a Service have, without and with a mark, where the kernel lacks
    /// some schedulers; and which of these are missed.
    #[track_caller]
    fn check(about: &str, weights: &str, lacking: &[&str], expected: [&str; 2], missed: &[&str]) {
        let mut events = vec![node("node-a 192.168.100.10")];
        events.push(service(&format!("default/web 10.96.0.10 http:80 {about}")));
        events.extend(endpoints("default/web:http", weights));
        let planner = planner(Settings::for_node("node-a"), events);
        let lacking = lacking.iter().map(|it| Arc::from(*it)).collect();
        let choice = Choice {
            port: planner.plan().ports.values().next().unwrap(),
            usual: &"rr".into(),
            lacking: &lacking,
        };
        let pool = choice.port.cluster.as_ref();
        let shown = |mark: bool| {
            let balancing = if mark {
                choice.balancing(&Server::Mark(IpFamily::V4, Protocol::Tcp, 1), pool)
            } else {
                choice.balancing(&server(), pool)
            };
            assert!(choice.schedulers(true).contains(&balancing.scheduler));
            let Hashing { fallback, port } = balancing.hashing;
            let flags = [(fallback, " fallback"), (port, " port")];
            let flags = flags.iter().filter(|it| it.0).map(|it| it.1);
            let flags: String = flags.collect();
            format!("{}{flags}", balancing.scheduler)
        };
        assert_eq!([shown(false), shown(true)], expected, "{about}");
        let all: Vec<&str> = choice.missed().map(|it| &**it).collect();
        assert_eq!(all, missed, "{about}");
    }

    fn server() -> Server {
        Server::Address(crate::object::Triple {
            ip: "10.96.0.10".parse().unwrap(),
            port: 80,
            protocol: Protocol::Tcp,
        })
    }

    #[test]
    fn another_scheduler_stands_in_for_one_that_the_kernel_lacks() {
        let (same, other) = ("10.0.0.1:80 10.0.0.2:80", "10.0.0.1:80%5 10.0.0.2:80");
        check("", same, &[], ["rr", "rr"], &[]);
        check("", other, &[], ["wrr", "wrr"], &[]);
        check("", other, &["wrr"], ["rr", "rr"], &["wrr"]);
        check("scheduler=sh", other, &[], ["sh fallback"; 2], &[]);
        check("scheduler=sed", same, &["sed"], ["rr", "rr"], &["sed"]);
        check("scheduler=sed", other, &["sed"], ["wrr", "wrr"], &["sed"]);
        check(
            "scheduler=sed",
            other,
            &["sed", "wrr"],
            ["rr", "rr"],
            &["sed", "wrr"],
        );
        let affinity = "affinity=60";
        check(affinity, same, &[], ["rr", "mh fallback"], &[]);
        check(affinity, same, &["mh"], ["rr", "sh fallback"], &[]);
        check(affinity, same, &["mh", "sh"], ["rr", "rr"], &["sh"]);
        let asked = "affinity=60 scheduler=mh";
        check(asked, same, &[], ["mh fallback port", "mh fallback"], &[]);
        check(asked, same, &["mh"], ["rr", "sh fallback"], &["mh"]);
    }
}
