//! `loadbalance`: the order of addresses.

use std::net::IpAddr;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Record, RecordType};
use rand::seq::SliceRandom;
use sluice_corefile::LoadBalance;

/// Orders all sections: CNAMEs first, in their order, then other records, addresses, MX records. The
/// address of number `turn`, modulo their number, is the first; the others follow at random.
pub(crate) fn balance(settings: &LoadBalance, message: &mut Message, turn: usize) {
    if message.response_code != ResponseCode::NoError {
        return;
    }
    let sections = [
        &mut message.answers,
        &mut message.authorities,
        &mut message.additionals,
    ];
    for section in sections {
        shuffle(section, turn);
        // The sort is stable: networks that are not preferred stay shuffled.
        if !settings.prefer.is_empty() {
            section.sort_by_key(|it| rank(settings, it));
        }
    }
}

/// Number of addresses that [`balance`] orders.
pub(crate) fn addresses(message: &Message) -> usize {
    message.answers.iter().filter(|it| is_address(it)).count()
}

fn is_address(record: &Record) -> bool {
    matches!(record.record_type(), RecordType::A | RecordType::AAAA)
}

fn shuffle(records: &mut [Record], turn: usize) {
    if records.len() < 2 {
        return;
    }
    let place = |it: &Record| match it.record_type() {
        RecordType::CNAME => 0,
        RecordType::A | RecordType::AAAA => 2,
        RecordType::MX => 3,
        _ => 1,
    };
    records.sort_by_key(place);
    for kind in [2, 3] {
        let from = records.partition_point(|it| place(it) < kind);
        let to = records.partition_point(|it| place(it) <= kind);
        let same = &mut records[from..to];
        if let Some(first) = turn.checked_rem(same.len()) {
            same.swap(0, first);
            same[1..].shuffle(&mut rand::rng());
        }
    }
}

/// Records that are no addresses stay in front; preferred networks come in their order.
fn rank(settings: &LoadBalance, record: &Record) -> usize {
    let Some(ip) = record.data.ip_addr() else {
        return 0;
    };
    let preferred = |ip: IpAddr| settings.prefer.iter().position(|it| it.contains(&ip));
    1 + preferred(ip).unwrap_or(settings.prefer.len())
}

#[cfg(test)]
mod tests;
