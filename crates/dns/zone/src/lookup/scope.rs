//! What all steps of one answer share.

use std::net::IpAddr;

use hickory_proto::ProtoError;
use hickory_proto::rr::rdata::{A, AAAA, SOA};
use hickory_proto::rr::{Name, RData, Record};

use crate::origin::{Holder, Missing};
use crate::settings::{MAX_TTL, Zone, soa_names};
use crate::{Answer, Objects, Origin, Outcome, Settings};

/// Longest TTL of a SOA record, as in CoreDNS.
const SOA_TTL: u32 = 300;

/// Objects, settings and the zone around the name that is asked for.
pub(super) struct Scope<'a> {
    pub(super) objects: &'a Objects,
    pub(super) settings: &'a Settings,
    /// As it is configured: in lower case.
    pub(super) zone: &'a Zone,
    pub(super) zone_labels: usize,
    /// The name that is asked for.
    name: &'a Name,
    ttl: u32,
}

impl<'a> Scope<'a> {
    /// `zone`: the one around the name.
    pub(super) fn new(
        objects: &'a Objects,
        settings: &'a Settings,
        name: &'a Name,
        zone: &'a Zone,
    ) -> Self {
        Self {
            objects,
            settings,
            zone,
            zone_labels: zone.name.iter().len(),
            name,
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

    /// The zone in the letter case of the question.
    fn spelled(&self) -> Name {
        if self.zone.name.zone_of_case(self.name) {
            return self.zone.name.clone();
        }
        let mut zone = Name::root();
        for label in self
            .name
            .iter()
            .skip(self.name.iter().len() - self.zone_labels)
        {
            zone = zone.append_label(label).expect("it is the end of a name");
        }
        zone
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
        name.append_name(&self.spelled())
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
        let zone = self.spelled();
        let names = if zone.eq_case(&self.zone.name) {
            self.zone.soa.clone()
        } else {
            soa_names(&zone)
        };
        let [server, mailbox] = names;
        let serial = self.objects.serial(self.settings.pods);
        let soa = SOA::new(server, mailbox, serial, 7200, 1800, 86_400, self.ttl);
        let mut record = self.record(zone, RData::SOA(soa));
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
