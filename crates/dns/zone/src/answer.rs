//! Questions, and what the objects say about them.

use hickory_proto::rr::{Name, Record, RecordType};

use crate::Origin;

/// What is asked, of class IN. Zone transfers (AXFR, IXFR) are the caller's to refuse.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The name in the letter case of the client, which the answer keeps.
    pub name: &'a Name,
    pub record_type: RecordType,
}

/// What is answered, and why.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    /// What to send.
    pub outcome: Outcome,
    /// What it comes from, for people.
    pub origin: Origin<'a>,
}

/// What to send. All but [`NotOurs`](Outcome::NotOurs) is authoritative.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// No zone of the settings is around the name: another server may know.
    NotOurs,
    /// The name is not found, and the objects are not complete: SERVFAIL, with the SOA as authority. Nobody
    /// may conclude that the name does not exist.
    NotReady {
        /// SOA of the zone.
        soa: Box<Record>,
    },
    /// NOERROR.
    Records {
        /// At least one. Records of one owner and type are in an order that does not change with the order of
        /// events; a CNAME precedes the records of its target.
        answers: Vec<Record>,
        /// Addresses of the names in the answers.
        additionals: Vec<Record>,
    },
    /// The name stands for a name outside its zone (an ExternalName Service): the caller asks for that one's
    /// records of the same type. NOERROR: these answers, then those about `target`, even when there are none.
    Alias {
        /// One CNAME, or more when the alias leads to other aliases of the zone.
        answers: Vec<Record>,
        /// What the last CNAME points to.
        target: Name,
    },
    /// NOERROR without answers, with the SOA as authority: the name has no records of the type.
    NoData {
        /// SOA of the zone.
        soa: Box<Record>,
    },
    /// NXDOMAIN, with the SOA as authority: the name does not exist.
    NameError {
        /// SOA of the zone.
        soa: Box<Record>,
    },
}
