//! Files that are no manifests, or that cost much to read.

use std::any::Any;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use nix::sys::stat::Mode as Permissions;
use nix::unistd::mkfifo;
use serde_json::json;

use crate::hostile::attack::Attack;
use crate::hostile::objects::{port_80, service};
use crate::hostile::world::{Mode, World};

/// The largest object that an API server takes, in bytes.
const LARGEST: usize = 1_500_000;

pub(crate) fn attacks(_: Mode) -> Vec<Attack> {
    let plain = service("plain", 1, &port_80(), json!({})).to_string();
    let mut config_maps = String::new();
    for number in 0..10_000 {
        config_maps += &format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map-{number}, namespace: a}}\n"
        );
    }
    let utf_16: Vec<u8> = plain.encode_utf16().flat_map(u16::to_le_bytes).collect();
    vec![
        Attack::new("a billion laughs")
            .file("hostile-laughs.yaml", laughs())
            .said("hostile-laughs.yaml"),
        Attack::new("merge keys of merge keys")
            .file("hostile-merge.yaml", merges())
            .said("hostile-merge.yaml"),
        Attack::new("100,000 open brackets")
            .file("hostile-deep.yaml", "[".repeat(100_000))
            .file("hostile-maps.yaml", "{a: ".repeat(100_000))
            .file("hostile-lists.yaml", "- ".repeat(100_000))
            .said("hostile-deep.yaml")
            .said("hostile-maps.yaml")
            .said("hostile-lists.yaml"),
        Attack::new("one scalar of 1.5 MB")
            .file("hostile-scalar.yaml", "x".repeat(LARGEST))
            .said("hostile-scalar.yaml"),
        Attack::new("a number of a million digits")
            .file(
                "hostile-number.yaml",
                format!("kind: {}", "9".repeat(1_000_000)),
            )
            .said("hostile-number.yaml"),
        Attack::new("a file whose name steers a terminal")
            .file("hostile-\u{1b}[31m\u{202e}.yaml", "kind: [\n")
            .said(r"hostile-\u{1b}[31m\u{202e}.yaml:"),
        Attack::new("1.5 MB of anchors").file("hostile-anchors.yaml", anchors()),
        Attack::new("10,000 objects that no proxy needs").file("hostile-maps.yaml", config_maps),
        Attack::new("zeros, half an object, another encoding")
            .file("hostile-zeros.yaml", vec![0; LARGEST])
            .file("hostile-half.json", &plain.as_bytes()[..plain.len() / 2])
            .file("hostile-utf-16.json", utf_16)
            .said("hostile-zeros.yaml")
            .said("hostile-half.json")
            .said("hostile-utf-16.json"),
        Attack::new("one object in two files")
            .file("hostile-a.json", plain.clone())
            .file("hostile-b.json", plain)
            .said("hostile-b.json"),
        Attack::new("a FIFO, links to everything, folders")
            .begin(odd_files)
            .said("hostile-fifo.yaml: is no regular file")
            .said("hostile-zero.yaml: is no regular file")
            .said("hostile-loop.yaml: cannot be read"),
        Attack::new("a node with 10,000 ranges of pods")
            .file("hostile-node.json", node())
            .said("spec.podCIDRs: more than one range of a family"),
    ]
}

/// Nine levels of nine aliases each.
fn laughs() -> String {
    let mut text = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..=9 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        text += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    text
}

fn merges() -> String {
    let mut text = "a0: &a0 {k0: v, k1: v, k2: v}\n".to_owned();
    for level in 1..=30 {
        let before = level - 1;
        text += &format!(
            "a{level}: &a{level} {{<<: [*a{before}, *a{before}], m{level}: *a{before}}}\n"
        );
    }
    text
}

fn anchors() -> String {
    let service = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a, namespace: a}\ndata:\n";
    let mut text = service.to_owned();
    for number in 0.. {
        text += &format!("  k{number}: &anchor{number} v\n");
        if text.len() > LARGEST {
            break;
        }
    }
    text
}

fn node() -> String {
    let cidr = |it: usize| format!("10.{}.{}.0/24", 128 + it / 256, it % 256);
    let cidrs: Vec<String> = (0..10_000).map(cidr).collect();
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "hostile"},
        "spec": {"podCIDR": cidrs[0], "podCIDRs": cidrs},
    });
    node.to_string()
}

/// Files that are removed at the end.
struct Odd(Vec<PathBuf>);

impl Drop for Odd {
    fn drop(&mut self) {
        for path in &self.0 {
            // One of them is a folder.
            let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
        }
    }
}

fn odd_files(world: &World) -> Box<dyn Any> {
    let paths = [
        "fifo", "zero", "memory", "loop", "nowhere", "folder", "self",
    ];
    let paths = paths.map(|it| world.manifests().join(format!("hostile-{it}.yaml")));
    let [fifo, zero, memory, circle, nowhere, folder, itself] = &paths;
    mkfifo(fifo, Permissions::S_IRUSR).expect("root");
    symlink("/dev/zero", zero).expect("writable");
    symlink("/proc/self/mem", memory).expect("writable");
    symlink(circle, circle).expect("writable");
    symlink("/nowhere", nowhere).expect("writable");
    fs::create_dir(folder).expect("writable");
    symlink(world.manifests(), itself).expect("writable");
    Box::new(Odd(paths.into()))
}
