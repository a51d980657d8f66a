//! What all steps of one answer share.

use std::net::IpAddr;

use hickory_proto::ProtoError;
use hickory_proto::rr::rdata::{A, AAAA, SOA};
use hickory_proto::rr::{Name, RData, Record};

use crate::origin::{Holder, Missing};
use crate::settings::{MAX_TTL, is_reverse};
use crate::{Answer, Objects, Origin, Outcome, Settings};

/// Longest TTL of a SOA record, as in CoreDNS.
const SOA_TTL: u32 = 300;

/// Objects, settings and the zone around the name that is asked for.
pub(super) struct Scope<'a> {
    pub(super) objects: &'a Objects,
    pub(super) settings: &'a Settings,
    /// In the letter case of the question.
    pub(super) zone: Name,
    pub(super) zone_labels: usize,
    pub(super) is_reverse: bool,
    ttl: u32,
}

impl<'a> Scope<'a> {
    /// `zone_labels`: how many of the name's labels are the zone.
    pub(super) fn new(
        objects: &'a Objects,
        settings: &'a Settings,
        name: &Name,
        zone_labels: usize,
    ) -> Self {
        let mut zone = Name::root();
        for label in name.iter().skip(name.iter().len() - zone_labels) {
            zone = zone.append_label(label).expect("it is the end of a name");
        }
        Self {
            objects,
            settings,
            is_reverse: is_reverse(&zone),
            zone,
            zone_labels,
            ttl: settings.ttl.min(MAX_TTL),
        }
    }

    pub(super) fn is_apex(&self, name: &Name) -> bool {
        name.iter().len() == self.zone_labels
    }

    /// Whether a name of the zone is these labels below it.
    pub(super) fn is_below(&self, name: &Name, labels: &[&[u8]]) -> bool {
        name.iter().len() == self.zone_labels + labels.len()
            && name
                .iter()
                .zip(labels)
                .all(|(a, b)| a.eq_ignore_ascii_case(b))
    }

    /// These labels below the zone.
    ///
    /// # Errors
    /// When they leave no room for the zone.
    pub(super) fn below(&self, labels: &[&[u8]]) -> Result<Name, ProtoError> {
        let mut name = Name::new();
        for label in labels {
            name = name.append_label(*label)?;
        }
        name.append_name(&self.zone)
    }

    pub(super) fn record(&self, owner: Name, data: RData) -> Record {
        Record::from_rdata(owner, self.ttl, data)
    }

    pub(super) fn address(&self, owner: Name, address: IpAddr) -> Record {
        let data = match address.to_canonical() {
            IpAddr::V4(it) => RData::A(A(it)),
            IpAddr::V6(it) => RData::AAAA(AAAA(it)),
        };
        self.record(owner, data)
    }

    pub(super) fn soa(&self) -> Record {
        // A zone so long that its server has no name stands for it.
        let name = |labels: &[&[u8]]| self.below(labels).unwrap_or_else(|_| self.zone.clone());
        let soa = SOA::new(
            name(&[b"ns", b"dns"]),
            name(&[b"hostmaster"]),
            self.objects.serial(),
            7200,
            1800,
            86_400,
            self.ttl,
        );
        let mut record = self.record(self.zone.clone(), RData::SOA(soa));
        record.ttl = record.ttl.min(SOA_TTL);
        record
    }

    /// The records; without any, that the holder has none is the caller's to say.
    pub(super) fn records(
        &self,
        answers: Vec<Record>,
        additionals: Vec<Record>,
        holder: Holder<'a>,
    ) -> Answer<'a> {
        Answer {
            outcome: Outcome::Records {
                answers,
                additionals,
            },
            origin: Origin::From(holder),
        }
    }

    pub(super) fn no_data(&self, origin: Origin<'a>) -> Answer<'a> {
        let soa = Box::new(self.soa());
        Answer {
            outcome: Outcome::NoData { soa },
            origin,
        }
    }

    /// That the name does not exist; as long as objects are missing, that nobody knows.
    pub(super) fn name_error(&self, reason: Missing<'a>) -> Answer<'a> {
        let soa = Box::new(self.soa());
        let outcome = if self.objects.is_synced() {
            Outcome::NameError { soa }
        } else {
            Outcome::NotReady { soa }
        };
        Answer {
            outcome,
            origin: Origin::Missing(reason),
        }
    }
}
