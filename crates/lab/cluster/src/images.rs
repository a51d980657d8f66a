//! Programs of this machine that stand in for those of images. No image is run: a container's root is that of the machine.
//!
//! ```text
//! busybox, alpine:    busybox's applets come before the programs of this machine
//! every other image:  after them, so that nslookup, wget, nc and ping are there
//! ```
//!
//! Programs that the user names come before both ([`StandIns`]).

mod stand_in;

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::entry::{Entry, Mount};
pub(crate) use stand_in::StandIn;
pub use stand_in::StandIns;

/// The folder of busybox's applets, in the lab's own `/run`.
pub(crate) const APPLETS: &str = "/run/sluice-applets";

/// The folder of this program in confined containers.
pub(crate) const PROGRAMS: &str = "/run/sluice-bin";

/// Images whose programs are busybox's.
const OF_BUSYBOX: [&str; 2] = ["busybox", "alpine"];

/// Images that run a shell when nothing else is asked for.
const SHELLS: [(&str, &str); 5] = [
    ("busybox", "sh"),
    ("alpine", "sh"),
    ("bash", "bash"),
    ("debian", "bash"),
    ("ubuntu", "bash"),
];

/// Images whose arguments are those of a program.
const OF_ARGUMENTS: [(&str, &str); 1] = [("curl", "curl")];

/// Where images of web servers have the pages that they serve.
const PAGES: [(&str, &str); 3] = [
    ("nginx", "/usr/share/nginx/html"),
    ("nginx-slim", "/usr/share/nginx/html"),
    ("httpd", "/usr/local/apache2/htdocs"),
];

/// Images whose server listens elsewhere than on port 80 or 8080.
const PORTS: [(&str, u16); 2] = [("serve_hostname", 9376), ("http-echo", 5678)];

/// Where programs are without a PATH of the container's: that of containerd (`defaultUnixEnv` in `oci/spec.go`).
pub(crate) const DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The name of an image, without registry, tag and digest.
pub(crate) fn name(image: &str) -> &str {
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split([':', '@']).next().unwrap_or_default()
}

/// The shell of an image that runs one by default.
pub(crate) fn shell(image: &str) -> Option<&'static str> {
    find(&SHELLS, image)
}

/// The program that the arguments of an image are for.
pub(crate) fn program(image: &str) -> Option<&'static str> {
    find(&OF_ARGUMENTS, image)
}

/// The folder whose files an image serves.
pub(crate) fn pages(image: &str) -> Option<&'static str> {
    find(&PAGES, image)
}

/// A port that the server of an image listens on.
pub(crate) fn port(image: &str) -> Option<u16> {
    find(&PORTS, image)
}

/// Whether an image's server answers with lines about the request, as tutorials of source addresses ask for them.
pub(crate) fn tells_client(image: &str) -> bool {
    name(image) == "echoserver"
}

fn find<T: Copy>(table: &[(&str, T)], image: &str) -> Option<T> {
    let found = table.iter().find(|(it, _)| *it == name(image));
    found.map(|(_, found)| *found)
}

/// The folder of this program on the machine.
pub(crate) fn of_sluice() -> PathBuf {
    let program = std::env::current_exe().ok();
    let folder = program.as_deref().and_then(Path::parent);
    folder.unwrap_or(Path::new("/")).to_owned()
}

/// The PATH of a container with this image; `own` is the value of its environment, `sluice` the folder of this program.
pub(crate) fn path(image: &str, own: Option<&str>, sluice: &Path) -> String {
    let folders = format!("{}:{}", sluice.display(), own.unwrap_or(DEFAULT));
    if OF_BUSYBOX.contains(&name(image)) {
        format!("{APPLETS}:{folders}")
    } else {
        format!("{folders}:{APPLETS}")
    }
}

/// The PATH of a container with this image.
pub(crate) fn path_of(entry: &Entry, image: &str) -> String {
    let own = entry.variables.iter().find(|(name, _)| name == "PATH");
    let sluice = match entry.confined {
        Some(_) => PathBuf::from(PROGRAMS),
        None => of_sluice(),
    };
    path(image, own.map(|(_, value)| value.as_str()), &sluice)
}

/// Makes the folder of applets, if this machine has busybox.
pub(crate) fn install_applets() {
    let busybox = file("busybox", DEFAULT);
    let made = busybox.map_or(Ok(()), |it| link_applets(&it));
    if let Err(error) = made {
        tracing::warn!(%error, "busybox stands in for no image");
    }
}

fn link_applets(busybox: &Path) -> io::Result<()> {
    let listed = Command::new(busybox).arg("--list").output()?;
    fs::create_dir_all(APPLETS)?;
    for applet in String::from_utf8_lossy(&listed.stdout).lines() {
        match symlink(busybox, Path::new(APPLETS).join(applet)) {
            // An earlier server made it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => linked?,
        }
    }
    Ok(())
}

/// Checks that a container can run a program; the error is in the words of container runtimes. Below a mount of the
/// container everything may be.
pub(crate) fn check(program: &str, path: &str, mounts: &[Mount]) -> Result<(), String> {
    let is_mounted = || {
        mounts
            .iter()
            .any(|it| Path::new(program).starts_with(&it.target))
    };
    let why = if !program.contains('/') {
        if file(program, path).is_some() {
            return Ok(());
        }
        "executable file not found in $PATH"
    } else if is_program(Path::new(program)) || is_mounted() {
        return Ok(());
    } else {
        "no such file or directory"
    };
    Err(format!(
        "exec: {program:?}: {why}: no image is run, and this machine has no such program. {}",
        there_is()
    ))
}

/// The sentence that names programs which a container can run.
fn there_is() -> String {
    let all = [
        "bash",
        "curl",
        "dig",
        "nginx",
        "node",
        "perl",
        "psql",
        "python3",
        "redis-cli",
        "ruby",
        "tcpdump",
    ];
    let found: Vec<&str> = all
        .into_iter()
        .filter(|it| file(it, DEFAULT).is_some())
        .collect();
    let found = found.join(", ");
    if Path::new(APPLETS).is_dir() {
        format!(
            "There are busybox's (sh, ls, cat, nslookup, wget, nc, ping, httpd and others) and {found}"
        )
    } else {
        format!("There are {found}, and busybox (sh, nslookup, wget, nc, ping) is not installed")
    }
}

/// The file of a program in the folders of a PATH.
fn file(program: &str, path: &str) -> Option<PathBuf> {
    let mut files = std::env::split_paths(path).map(|it| it.join(program));
    files.find(|it| is_program(it))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_have_names() {
        for (image, expect) in [
            ("busybox", "busybox"),
            ("busybox:1.28", "busybox"),
            ("docker.io/library/alpine@sha256:1", "alpine"),
            ("localhost:5000/a/b", "b"),
            ("", ""),
        ] {
            assert_eq!(name(image), expect, "{image}");
        }
        assert_eq!(shell("registry.k8s.io/busybox:1"), Some("sh"));
        assert_eq!(shell("nginx"), None);
        assert_eq!(program("curlimages/curl:8"), Some("curl"));
    }

    #[test]
    fn applets_come_first_in_images_of_busybox() {
        let own = "/sluice";
        let path = |image: &str, it: &str| path(image, Some(it), Path::new(own));
        assert_eq!(path("busybox:1", "/a"), format!("{APPLETS}:{own}:/a"));
        assert_eq!(path("nginx", "/a"), format!("{own}:/a:{APPLETS}"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let program = folder.path().join("here");
        fs::write(&program, "").unwrap();
        assert!(check("here", path, &[]).is_err());
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(check("here", path, &[]), Ok(()));
        assert_eq!(check(program.to_str().unwrap(), "", &[]), Ok(()));
        let why = check("agnhost", path, &[]).unwrap_err();
        let begin = "exec: \"agnhost\": executable file not found in $PATH: no image is run";
        assert!(why.starts_with(begin), "{why}");
        let why = check("/agnhost", path, &[]).unwrap_err();
        assert!(why.starts_with("exec: \"/agnhost\": no such file"), "{why}");
        let mount = Mount {
            source: "/tmp".into(),
            target: "/scripts".into(),
            read_only: true,
        };
        assert_eq!(check("/scripts/run", path, &[mount]), Ok(()));
    }
}
