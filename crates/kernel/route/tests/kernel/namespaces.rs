//! Tests namespaces by path, process and file, and code in them.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::{fs, panic, process};

use sluice_route::{Connection, Kind, Namespace, Settings, namespaces};

use crate::netns;

fn inode(namespace: &Namespace) -> u64 {
    let file = fs::File::from(namespace.as_fd().try_clone_to_owned().unwrap());
    file.metadata().unwrap().ino()
}

#[test]
fn a_namespace_is_the_same_by_path_process_and_file() {
    netns::run(|| {
        let made = Namespace::create().unwrap();
        assert_ne!(inode(&made), inode(&Namespace::current().unwrap()));
        let mut sleep = made
            .run(|| Command::new("sleep").arg("60").spawn().unwrap())
            .unwrap();
        let by_process = Namespace::of_process(sleep.id()).unwrap();
        let path = format!("/proc/{}/ns/net", sleep.id());
        let by_path = Namespace::open(path.as_ref()).unwrap();
        let by_file = Namespace::from(made.as_fd().try_clone_to_owned().unwrap());
        for other in [by_process, by_path, by_file, made.try_clone().unwrap()] {
            assert_eq!(inode(&other), inode(&made));
        }
        let listed = namespaces();
        let numbers = listed.iter().filter_map(|it| fs::metadata(it).ok());
        let numbers: Vec<u64> = numbers.map(|it| it.ino()).collect();
        assert_eq!(numbers[0], inode(&Namespace::current().unwrap()));
        let count = |wanted| numbers.iter().filter(|it| **it == wanted).count();
        assert_eq!(count(inode(&made)), 1);
        sleep.kill().unwrap();
        sleep.wait().unwrap();
        let gone = Namespace::of_process(sleep.id()).unwrap_err().to_string();
        let wanted = format!("open network namespace {path}: No such file or directory");
        assert!(gone.starts_with(&wanted), "{gone}");
    });
}

#[test]
fn a_thread_comes_back_also_after_a_panic() {
    netns::run(|| {
        let home = inode(&Namespace::current().unwrap());
        let other = Namespace::create().unwrap();
        let here = || inode(&Namespace::current().unwrap());
        {
            let _inside = other.enter().unwrap();
            assert_eq!(here(), inode(&other));
        }
        assert_eq!(here(), home);
        assert_eq!(other.run(here).unwrap(), inode(&other));
        let panicked = panic::catch_unwind(|| {
            let _inside = other.enter().unwrap();
            panic!("inside");
        });
        assert!(panicked.is_err());
        assert_eq!(here(), home);
        let panicked = panic::catch_unwind(|| other.run(|| panic!("on a thread")));
        let payload = panicked.unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"on a thread"));
    });
}

#[test]
fn what_is_no_namespace_cannot_be_entered() {
    let file = Namespace::open("/dev/null".as_ref()).unwrap();
    let error = file.enter().unwrap_err().to_string();
    assert_eq!(
        error,
        "enter network namespace /dev/null: Invalid argument (os error 22)"
    );
    let error = Connection::open_in(&file).unwrap_err();
    assert!(
        error.to_string().starts_with("connect to rtnetlink"),
        "{error}"
    );
}

/// The interfaces of a namespace go with its last handle, wherever their other ends are.
#[test]
fn a_namespace_ends_with_its_last_handle() {
    netns::run(|| {
        let other = Namespace::create().unwrap();
        let mut connection = Connection::open().unwrap();
        let kind = Kind::Veth {
            peer: "eth0",
            settings: Settings {
                namespace: Some(&other),
                ..Settings::default()
            },
        };
        connection.create("x", &kind, &Settings::default()).unwrap();
        let panicked = panic::catch_unwind(move || {
            let _held = &other;
            let _inside = other.enter().unwrap();
            panic!("{}", process::id());
        });
        assert!(panicked.is_err());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        // A work queue of the kernel removes it.
        while connection.link("x").unwrap().is_some() {
            assert!(std::time::Instant::now() < deadline, "it is still there");
            std::thread::yield_now();
        }
    });
}
