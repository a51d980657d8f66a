use super::*;
use crate::flows::testing::{CLIENT, ENDPOINT, FRONTEND, connection, tuple};
use sluice_bpf_abi::{FlowKind, TCP, UDP};

/// A table that changes while it is listed.
struct Changing {
    listed: HashMap<Tuple, Flow>,
    entries: HashMap<Tuple, Flow>,
    /// A packet of this key comes when its entry is about to be removed.
    used_late: Option<Tuple>,
}

impl Changing {
    /// A flow of UDP that nobody has used for ages.
    fn idle() -> Self {
        let listed = connection(UDP, [0; 4], [flow_flags::ESTABLISHED; 4]);
        let entries = listed.clone();
        Self {
            listed,
            entries,
            used_late: None,
        }
    }

    fn sweep(&mut self) -> Swept {
        sweep(self, &Timeouts::default()).expect("nothing fails")
    }
}

impl Table for Changing {
    fn each(&self, mut entry: impl FnMut(Tuple, Flow)) -> Result<(), BpfError> {
        self.listed.iter().for_each(|(key, it)| entry(*key, *it));
        Ok(())
    }

    fn get(&self, key: &Tuple) -> Result<Option<Flow>, BpfError> {
        Ok(self.entries.get(key).copied())
    }

    fn take(&mut self, key: &Tuple) -> Result<Option<Flow>, BpfError> {
        if self.used_late.as_ref() == Some(key) {
            let used = self.entries.get_mut(key).expect("it is an entry");
            used.seen_seconds = now();
        }
        Ok(self.entries.remove(key))
    }

    fn put_back(&mut self, key: &Tuple, flow: &Flow) -> Result<bool, BpfError> {
        Ok(self.entries.insert(*key, *flow).is_none())
    }
}

#[test]
fn what_is_idle_goes() {
    let mut table = Changing::idle();
    let swept = table.sweep();
    assert_eq!((swept.removed, swept.left), (4, 0));
    assert!(table.entries.is_empty());
}

/// A sweep of what was never open leaves open connections alone, and what has another one beside it.
#[test]
fn a_brief_sweep_is_of_what_was_never_open() {
    let open = flow_flags::ESTABLISHED;
    let swept = |protocol, flags: [u8; 4], age: u32, change: &dyn Fn(&mut Changing)| {
        let mut table = Changing::idle();
        table.entries = connection(protocol, [now().saturating_sub(age); 4], flags);
        change(&mut table);
        table.listed = table.entries.clone();
        let size = table.entries.len();
        let swept = sweep_brief(&mut table, &Timeouts::default().pressed()).expect("nothing fails");
        assert_eq!(swept.left, table.entries.len());
        assert_eq!(swept.removed + swept.left, size);
        swept.removed
    };
    let none: &dyn Fn(&mut Changing) = &|_| {};
    assert_eq!(swept(TCP, [0; 4], 5, none), 4);
    assert_eq!(swept(TCP, [0; 4], 4, none), 0);
    assert_eq!(swept(TCP, [open; 4], 50_000, none), 0);
    assert_eq!(swept(TCP, [open | flow_flags::FIN; 4], 1, none), 4);
    let half = [open | flow_flags::FIN, open, open, open];
    assert_eq!(swept(TCP, half, 1_000, none), 0);
    assert_eq!(swept(UDP, [0, open, open, open], 5, none), 4);
    assert_eq!(swept(UDP, [open; 4], 60, none), 0);
    let answered: &dyn Fn(&mut Changing) = &|table| {
        let reply = table.entries.get_mut(&tuple(UDP, ENDPOINT, CLIENT));
        reply.expect("it is an entry").seen_seconds = now();
    };
    assert_eq!(swept(UDP, [0, open, open, open], 5, answered), 0);
    let beside: &dyn Fn(&mut Changing) = &|table| {
        let mut key = tuple(TCP, CLIENT, ENDPOINT);
        key.protocol |= Tuple::BESIDE;
        let flow = Flow {
            kind: FlowKind::Direct as u8,
            flags: open,
            seen_seconds: now(),
            ..Flow::default()
        };
        table.entries.insert(key, flow);
    };
    assert_eq!(swept(TCP, [0; 4], 5, beside), 0);
}

/// Who has too many loses what is not assured, and no more than that.
#[test]
fn what_a_client_has_too_much_is_cut() {
    let open = flow_flags::ESTABLISHED;
    let cut = |protocol, flags: [u8; 4], client, surplus| {
        let mut table = Changing::idle();
        table.entries = connection(protocol, [now(); 4], flags);
        table.listed = table.entries.clone();
        let surplus = HashMap::from([(Addr::v4(client), surplus)]);
        let removed = super::cut(&mut table, &surplus).expect("nothing fails");
        assert_eq!(removed + table.entries.len(), 4);
        removed
    };
    let (client, another) = (CLIENT.0, CLIENT.0 + 9);
    for protocol in [UDP, TCP] {
        assert_eq!(cut(protocol, [0; 4], client, 1), 4);
        assert_eq!(cut(protocol, [0, open, open, open], client, 1), 4);
        assert_eq!(cut(protocol, [open; 4], client, 1), 0);
        assert_eq!(cut(protocol, [0; 4], client, 0), 0);
        assert_eq!(cut(protocol, [0; 4], another, 1), 0);
    }
}

/// A packet that goes through the tunnel changes the entry of the request alone.
#[test]
fn who_goes_on_during_the_sweep_keeps_all_entries() {
    for key in [
        tuple(UDP, CLIENT, FRONTEND),
        tuple(UDP, CLIENT, ENDPOINT),
        tuple(UDP, ENDPOINT, CLIENT),
    ] {
        let mut table = Changing::idle();
        let touched = table.entries.get_mut(&key).expect("it is an entry");
        touched.seen_seconds = now();
        assert_eq!(table.sweep().removed, 0);
        assert_eq!(table.entries.len(), 4);
    }
}

#[test]
fn who_goes_on_at_the_last_moment_keeps_all_entries() {
    let mut table = Changing::idle();
    table.used_late = Some(tuple(UDP, CLIENT, FRONTEND));
    assert_eq!(table.sweep().removed, 0);
    assert_eq!(table.entries.len(), 4);
}

#[test]
fn who_begins_during_the_listing_keeps_all_entries() {
    let entries = connection(UDP, [now(); 4], [flow_flags::ESTABLISHED; 4]);
    for key in [tuple(UDP, CLIENT, ENDPOINT), tuple(UDP, ENDPOINT, CLIENT)] {
        let mut table = Changing {
            listed: entries.clone(),
            entries: entries.clone(),
            used_late: None,
        };
        table.listed.remove(&key);
        assert_eq!(table.sweep().removed, 0);
        assert_eq!(table.entries.len(), 4);
    }
}

/// One that another connection took, or that the kernel refused.
#[test]
fn who_lost_an_entry_begins_anew() {
    let mut table = Changing::idle();
    let request = tuple(UDP, CLIENT, FRONTEND);
    for entries in [&mut table.listed, &mut table.entries] {
        entries.values_mut().for_each(|it| it.seen_seconds = now());
        entries.remove(&tuple(UDP, CLIENT, ENDPOINT));
    }
    table.sweep();
    assert!(!table.entries.contains_key(&request));
}
