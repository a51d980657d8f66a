//! Builds the programs of `bpf/programs`, with a toolchain of their own.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's toolchain, whose sources of `core` are a package.
const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const DEBIAN_CORE: &str = "/usr/lib/rustlib/src/rust/library/core";
const TARGET: &str = "bpfel-unknown-none";

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = root
        .join("../../../bpf")
        .canonicalize()
        .expect("bpf/ is part of the repository");
    for part in [
        "programs/src",
        "programs/Cargo.toml",
        "programs/Cargo.lock",
        "abi/src",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(part).display());
    }
    println!("cargo::rerun-if-env-changed=CI");
    println!("cargo::rustc-check-cfg=cfg(has_programs)");
    match build(&root) {
        Ok(object) => {
            println!("cargo::rustc-cfg=has_programs");
            println!("cargo::rustc-env=SLUICE_BPF_OBJECT={}", object.display());
        }
        Err(reason) if env::var_os("CI").is_some() => {
            println!("cargo::error=the eBPF programs were not built: {reason}");
        }
        Err(reason) => {
            // A file that is not there makes cargo ask again each time, so that an installation is noticed.
            println!(
                "cargo::rerun-if-changed={}",
                root.join("no-toolchain").display()
            );
            println!("cargo::warning=without the ebpf mode: {reason}; see README.md, \"Build\"");
        }
    }
}

fn build(root: &Path) -> Result<PathBuf, String> {
    let linker = linker().ok_or("bpf-linker is not installed")?;
    let mut command = toolchain()?;
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    // One folder for all profiles: their programs are the same.
    let target = out
        .ancestors()
        .nth(4)
        .expect("OUT_DIR is deep in the target folder")
        .join("bpf");
    command
        .args([
            "build",
            "--quiet",
            "--release",
            "--locked",
            "-Zbuild-std=core",
            "--target",
            TARGET,
        ])
        .current_dir(root.join("programs"))
        .env("CARGO_TARGET_DIR", &target)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("PATH", path_with(&linker));
    let output = command
        .output()
        .map_err(|error| format!("start cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).replace('\n', " | "));
    }
    Ok(target.join(TARGET).join("release/sluice"))
}

/// The command that builds for the kernel: Debian's cargo, else that of rustup's nightly.
fn toolchain() -> Result<Command, String> {
    // What the outer cargo set is meant for the outer toolchain.
    let is_foreign = |name: &str| {
        let prefixes = ["CARGO", "RUSTC", "RUSTUP", "RUSTFLAGS", "RUSTDOC"];
        prefixes.iter().any(|it| name.starts_with(it))
            && !matches!(name, "CARGO_HOME" | "RUSTUP_HOME")
    };
    let clean = |mut command: Command| {
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(is_foreign) {
                command.env_remove(name);
            }
        }
        command
    };
    if Path::new(DEBIAN_CARGO).exists() && Path::new(DEBIAN_CORE).exists() {
        let mut command = clean(Command::new(DEBIAN_CARGO));
        command.env("RUSTC", "/usr/bin/rustc");
        return Ok(command);
    }
    let mut rustup = clean(Command::new("rustup"));
    let found = rustup
        .args(["component", "list", "--toolchain", "nightly", "--installed"])
        .output();
    let has_core = found.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains("rust-src"));
    if !has_core {
        return Err("no Rust toolchain with the sources of core".to_owned());
    }
    let mut command = clean(Command::new("rustup"));
    command.args(["run", "nightly", "cargo"]);
    Ok(command)
}

/// The folder of bpf-linker.
fn linker() -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&path).chain(home.map(|it| it.join("bin")));
    folders.find(|it| it.join("bpf-linker").is_file())
}

/// The system's programs first: those of rustup in `~/.cargo/bin` would choose another toolchain.
fn path_with(linker: &Path) -> OsString {
    let rest = env::var_os("PATH").unwrap_or_default();
    let folders = [Path::new("/usr/bin"), Path::new("/bin")].map(Path::to_path_buf);
    let all = folders
        .into_iter()
        .chain(env::split_paths(&rest))
        .chain([linker.to_path_buf()]);
    env::join_paths(all).expect("folders of PATH have no colon")
}
