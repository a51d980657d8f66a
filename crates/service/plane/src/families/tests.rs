use IpFamily::{V4, V6};

use super::*;

fn both() -> Families {
    Families::open(IpFamily::ALL.to_vec(), |_| Ok::<_, &str>(())).unwrap()
}

fn unserved(families: &Families) -> String {
    families
        .unserved()
        .map_or_else(String::new, ToString::to_string)
}

#[test]
fn either_family_may_be_lost_and_both_may_not() {
    for (lost, other) in [(V4, V6), (V6, V4)] {
        let expected =
            format!("{lost} is not written until this works, what is there stays: no room");
        let probe = |family| {
            if family == lost {
                Err("no room")
            } else {
                Ok(())
            }
        };
        let families = Families::open(IpFamily::ALL.to_vec(), probe).unwrap();
        assert_eq!(unserved(&families), expected);

        let mut families = both();
        let listed = families.list(|family, _| probe(family)).unwrap();
        assert_eq!(listed, [(other, ())]);
        assert_eq!(unserved(&families), expected);
        assert_eq!(families.served(), [other]);
        assert!(families.serves(other) && !families.serves(lost));

        assert_eq!(families.lose(other, "too"), Err("too"));
        assert_eq!(families.served(), IpFamily::ALL, "the next sync tries both");
    }
    let none = Families::open(IpFamily::ALL.to_vec(), |_| Err("no iptables"));
    assert_eq!(none.err(), Some("no iptables"));
    let mut alone = Families::open(vec![V4], |_| Ok::<_, &str>(())).unwrap();
    assert_eq!(alone.lose(V4, "no room"), Err("no room"));
    assert_eq!(alone.served(), [V4]);
}

#[test]
fn a_listing_has_ten_times_the_longest_before_it() {
    let mut families = both();
    let mut timeouts = Vec::new();
    let mut list = |families: &mut Families| {
        let listed = families.list(|_, timeout| {
            timeouts.push(timeout.as_secs());
            Ok::<_, &str>(())
        });
        listed.unwrap();
    };
    list(&mut families);
    families.listing = Some(Duration::from_secs(240));
    list(&mut families);
    assert_eq!(timeouts, [1800, 60, 2400, 2400]);
}

fn now<T>(families: &mut Families, result: Result<(), T>) -> Upkeep
where
    T: Display,
{
    families.backoff.hasten(Instant::now());
    families.upkeep(|_, _| result)
}

#[track_caller]
fn left(families: &Families) -> f32 {
    let left = families.backoff.left(Instant::now());
    left.unwrap().as_secs_f32().ceil()
}

#[test]
fn an_unserved_family_is_tried_again_after_a_backoff() {
    let mut families = both();
    assert_eq!(families.upkeep(|_, _| Err("no")), Upkeep::Nothing);
    let listed = families.list(|family, _| match family {
        V4 => Ok(()),
        V6 => Err("no room"),
    });
    assert_eq!(listed, Ok(vec![(V4, ())]));
    let waits = families.upkeep(|_, _| Err("not yet due"));
    assert!(matches!(waits, Upkeep::After(_)), "{waits:?}");
    assert_eq!(left(&families), 1.0);
    for wait in [2.0, 4.0, 8.0, 16.0, 30.0, 30.0] {
        let tried = now(&mut families, Err("no memory"));
        assert!(matches!(tried, Upkeep::After(_)), "{tried:?}");
        assert!(unserved(&families).ends_with("no memory"));
        assert_eq!(left(&families), wait);
    }
    let works = now(&mut families, Ok::<_, &str>(()));
    assert_eq!(works, Upkeep::Resync("IPv6 can be served now".to_owned()));
    assert_eq!(families.served(), IpFamily::ALL);
}

/// A family that can be listed and not be written costs ever fewer syncs.
#[test]
fn an_unwritable_family_is_tried_ever_more_seldom() {
    let mut families = both();
    for exponent in 0..13 {
        let wait = f32::min(3600.0, f32::powi(2.0, exponent));
        families.lose(V4, "no room").unwrap();
        families.written();
        assert_eq!(left(&families), wait);
        now(&mut families, Ok::<_, &str>(()));
    }
    families.written();
    for (listing, wait) in [(0, 1.0), (10, 500.0), (240, 3600.0)] {
        families.listing = Some(Duration::from_secs(listing));
        families.lose(V4, "no room").unwrap();
        assert_eq!(left(&families), wait);
        now(&mut families, Ok::<_, &str>(()));
    }
}

/// It may hang for its whole timeout once more: the other one does not wait for it.
#[test]
fn a_family_whose_write_failed_is_last_until_both_are_written() {
    let mut families = both();
    families.lose(V4, "no room").unwrap();
    families.written();
    assert!(matches!(
        now::<&str>(&mut families, Ok(())),
        Upkeep::Resync(_)
    ));
    assert!(families.has_failed(V4) && !families.has_failed(V6));
    families.written();
    assert!(!families.has_failed(V4));
}
