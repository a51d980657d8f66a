//! Programs of this machine that the user lets stand in for images.
//!
//! ```text
//! sluice lab up --image agnhost=build/agnhost
//! registry.k8s.io/e2e-test-images/agnhost:2.59 ─▶ build/agnhost, which its containers have as /agnhost
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sluice_yaml as yaml;

use super::{file, is_program, name};
use crate::entry::Mount;

/// What images have as CMD, where programs of their name need one: `test/images/agnhost/Dockerfile` of Kubernetes.
const ARGS: [(&str, &str); 1] = [("agnhost", "pause")];

/// A program in the place of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StandIn {
    /// The program first, then other files of the image.
    mounts: Vec<Mount>,
    /// What a container without `command` runs: the image's ENTRYPOINT.
    pub(crate) command: Vec<String>,
    /// The arguments of a container with neither `command` nor `args`: the image's CMD.
    pub(crate) args: Vec<String>,
}

impl StandIn {
    /// What puts the program and the files into a container.
    pub(crate) fn mounts(&self) -> Vec<Mount> {
        self.mounts.clone()
    }
}

/// The programs in the place of images, by the names that the user gave.
///
/// A name matches an image whose repository ends with the name's, in whole words between slashes, whatever tag and digest it
/// has; a name with a tag or digest matches that one alone. Of several names the longest counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StandIns(BTreeMap<String, StandIn>);

/// A row of the table in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    program: String,
    path: Option<PathBuf>,
    command: Option<Vec<String>>,
    args: Option<Vec<String>>,
    /// Files and folders of this machine by their paths in containers.
    #[serde(default)]
    files: BTreeMap<PathBuf, PathBuf>,
}

impl StandIns {
    /// Reads the flags `--image NAME=PROGRAM` and the files of `--images`. Where a name is in several, the flag counts, then
    /// the later file.
    ///
    /// # Errors
    ///
    /// Every problem, with its flag.
    pub fn read(flags: &[String], files: &[PathBuf]) -> Result<Self, Vec<String>> {
        let (mut all, mut problems) = (BTreeMap::new(), Vec::new());
        for path in files {
            let (rows, wrong) = rows(path);
            let at = |it| format!("--images {}: {it}", path.display());
            problems.extend(wrong.into_iter().map(at));
            let folder = path.parent().unwrap_or(Path::new(""));
            for (name, row) in rows {
                match stand_in(&name, row, folder) {
                    Ok(it) => drop(all.insert(name, it)),
                    Err(why) => problems.push(at(format!("{name}: {why}"))),
                }
            }
        }
        for flag in flags {
            let (name, program) = flag.split_once('=').unwrap_or((flag, ""));
            let row = Row {
                program: program.to_owned(),
                path: None,
                command: None,
                args: None,
                files: BTreeMap::new(),
            };
            match stand_in(name, row, Path::new("")) {
                Ok(it) => drop(all.insert(name.to_owned(), it)),
                Err(why) => problems.push(format!("--image {flag}: {why}")),
            }
        }
        if problems.is_empty() {
            Ok(Self(all))
        } else {
            Err(problems)
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What stands in for an image.
    pub(crate) fn of(&self, image: &str) -> Option<&StandIn> {
        let named = self.0.iter().filter(|(it, _)| names(it, image));
        named.max_by_key(|(it, _)| it.len()).map(|(_, it)| it)
    }
}

/// Whether a name of the table matches an image.
fn names(name: &str, image: &str) -> bool {
    let ((name, tag), (image, has)) = (split(name), split(image));
    let before = image.strip_suffix(name);
    before.is_some_and(|it| it.is_empty() || it.ends_with('/')) && (tag.is_empty() || tag == has)
}

/// The repository of an image, and its tag and digest with their signs.
fn split(image: &str) -> (&str, &str) {
    let last = image.rfind('/').map_or(0, |it| it + 1);
    let end = image[last..].find([':', '@']);
    image.split_at(end.map_or(image.len(), |it| last + it))
}

/// The rows of a file by name, and what is wrong in it.
fn rows(path: &Path) -> (BTreeMap<String, Row>, Vec<String>) {
    let none = |why: String| (BTreeMap::new(), vec![why]);
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return none(error.to_string()),
    };
    let unreadable =
        |it: yaml::SyntaxError| none(format!("line {}: {}", it.place.line, it.message));
    let parsed = match yaml::readable(&bytes) {
        Ok(text) => yaml::parse_yaml(text, 0),
        Err(error) => return unreadable(error),
    };
    if let Some(error) = parsed.error {
        return unreadable(error);
    }
    let [document] = &parsed.documents[..] else {
        return none("one document with a table: `NAME: {program: PROGRAM}`".to_owned());
    };
    let (rows, faults) = yaml::decode(document);
    let faults = faults.into_iter().map(|it| {
        let (line, field) = document.find(it.node);
        format!("line {line}: {field}: {}", it.message)
    });
    let repeated = document.repeated_keys().into_iter();
    let repeated = repeated.map(|(at, key)| format!("line {}: {key} is there twice", at.line));
    (rows.unwrap_or_default(), faults.chain(repeated).collect())
}

/// Completes a row. A program that is a path begins in `folder`; one that is a name is found in PATH.
fn stand_in(image: &str, row: Row, folder: &Path) -> Result<StandIn, String> {
    let last = name(image);
    if last.is_empty() {
        return Err("NAME=PROGRAM: the name of an image, such as agnhost".to_owned());
    }
    let program = if row.program.contains('/') {
        let path = std::path::absolute(folder.join(&row.program));
        path.ok().filter(|it| is_program(it))
    } else {
        file(&row.program, &std::env::var("PATH").unwrap_or_default())
    };
    let program = program.ok_or_else(|| {
        format!(
            "program {:?}: this machine has no such program",
            row.program
        )
    })?;
    let path = row.path.unwrap_or_else(|| Path::new("/").join(last));
    let mut mounts = vec![Mount {
        source: program,
        target: path.clone(),
        read_only: true,
    }];
    for (target, file) in row.files {
        let source = fs::canonicalize(folder.join(&file));
        mounts.push(Mount {
            source: source.map_err(|it| format!("files: {}: {it}", file.display()))?,
            target,
            read_only: true,
        });
    }
    if let Some(it) = mounts.iter().find(|it| !it.target.is_absolute()) {
        let path = it.target.display();
        return Err(format!("path {path}: it begins with / in containers"));
    }
    let command = || vec![path.display().to_string()];
    let args = || {
        let known = ARGS.iter().filter(|(it, _)| *it == last);
        known.map(|(_, it)| (*it).to_owned()).collect()
    };
    Ok(StandIn {
        command: row.command.unwrap_or_else(command),
        args: row.args.unwrap_or_else(args),
        mounts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_end_of_a_repository() {
        for (name, image, expect) in [
            ("agnhost", "agnhost", true),
            (
                "agnhost",
                "registry.k8s.io/e2e-test-images/agnhost:2.59",
                true,
            ),
            ("agnhost", "localhost:5000/agnhost@sha256:1", true),
            ("agnhost", "a/my-agnhost", false),
            ("agnhost", "agnhost/server", false),
            ("images/agnhost", "a/images/agnhost:1", true),
            ("images/agnhost", "a/test-images/agnhost:1", false),
            ("a/agnhost", "agnhost", false),
            ("agnhost:1", "a/agnhost:1", true),
            ("agnhost:1", "a/agnhost:1.2", false),
            ("agnhost:1", "a/agnhost", false),
            ("localhost:5000/b", "localhost:5000/b:2", true),
        ] {
            assert_eq!(names(name, image), expect, "{name} {image}");
        }
    }

    #[test]
    fn the_longest_name_counts() {
        let flags = ["b=sh", "a/b=true", "b:1=false"].map(str::to_owned);
        let all = StandIns::read(&flags, &[]).unwrap();
        let program = |image: &str| {
            let found = all.of(image)?.mounts[0].source.file_name()?;
            Some(found.to_str()?.to_owned())
        };
        assert_eq!(program("x/b:2").as_deref(), Some("sh"));
        assert_eq!(program("x/b:1").as_deref(), Some("false"));
        assert_eq!(program("a/b:2").as_deref(), Some("true"));
        assert_eq!(program("c"), None);
    }

    #[test]
    fn a_table_says_path_and_command() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("table.yaml");
        std::os::unix::fs::symlink("/bin/sh", folder.path().join("agnhost")).unwrap();
        let text = "agnhost: {program: ./agnhost}\n\
                    web:1: {program: sh, path: /bin/web, command: [web, -x], args: [serve], files: {/page: table.yaml}}\n";
        fs::write(&table, text).unwrap();
        let all = StandIns::read(&[], std::slice::from_ref(&table)).unwrap();
        let agnhost = all.of("e2e/agnhost:2.59").unwrap();
        let [mount] = &agnhost.mounts[..] else {
            panic!("{agnhost:?}");
        };
        assert_eq!(mount.source, folder.path().join("./agnhost"));
        assert_eq!(mount.target, Path::new("/agnhost"));
        assert_eq!(
            (&agnhost.command[..], &agnhost.args[..]),
            (&["/agnhost".to_owned()][..], &["pause".to_owned()][..])
        );
        let web = all.of("web:1").unwrap();
        let targets = web.mounts.iter().map(|it| it.target.to_str().unwrap());
        assert_eq!(targets.collect::<Vec<_>>(), ["/bin/web", "/page"]);
        assert_eq!(
            (&web.command[1], &web.args[0]),
            (&"-x".to_owned(), &"serve".to_owned())
        );
        // A flag counts more than a file, and the lab remembers all.
        let flags = StandIns::read(&["agnhost=true".to_owned()], &[table]).unwrap();
        assert_ne!(flags, all);
        let text = serde_json::to_string(&flags).unwrap();
        assert_eq!(serde_json::from_str::<StandIns>(&text).unwrap(), flags);
    }

    #[test]
    fn every_problem_has_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("table.yaml");
        let problems = |text: &str| {
            fs::write(&table, text).unwrap();
            let found = StandIns::read(&[], std::slice::from_ref(&table)).unwrap_err();
            let begin = format!("--images {}: ", table.display());
            let found = found
                .iter()
                .map(|it| it.strip_prefix(&begin).unwrap().to_owned());
            found.collect::<Vec<_>>().join("; ")
        };
        for (text, expect) in [
            (
                "a: {program: /no/such}",
                "a: program \"/no/such\": this machine has no such program",
            ),
            (
                "a: {program: sh, path: bin/a}",
                "a: path bin/a: it begins with / in containers",
            ),
            (
                "a: {program: sh, files: {/b: no-such}}",
                "a: files: no-such: No such file or directory (os error 2)",
            ),
            (
                "a: {program: sh}\na: {program: sh}",
                "line 2: a is there twice",
            ),
            ("", "one document with a table: `NAME: {program: PROGRAM}`"),
        ] {
            assert_eq!(problems(text), expect, "{text}");
        }
        for text in [
            "a: {program: sh, programm: sh}",
            "a: sh",
            "- a",
            "a: [",
            "a: {path: /a}",
        ] {
            assert!(problems(text).starts_with("line "), "{}", problems(text));
        }
        let flags = ["a", "=sh", "a=/no/such"].map(str::to_owned);
        let found = StandIns::read(&flags, &["/no/such".into()]).unwrap_err();
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(
            found[0].starts_with("--images /no/such: No such file"),
            "{found:?}"
        );
        assert!(found[1].starts_with("--image a: program \"\""), "{found:?}");
    }
}
