//! Every object of a folder, of any kind, as it is written.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use sluice_yaml::{self as yaml, Node, SyntaxError};

use crate::error::SourceError;
use crate::folder::Folder;
use crate::manifest::{MAX_BYTES, MAX_LISTS, Problem};
use crate::regular::read_regular;

/// An object of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The file, below the folder.
    pub file: Arc<str>,
    /// Its first line, from 1.
    pub line: u32,
    /// The whole object, with `kind` and `apiVersion`.
    pub value: Value,
}

impl Written {
    /// A problem of this object.
    #[must_use]
    pub fn problem(&self, field: impl Into<String>, message: impl Into<String>) -> Problem {
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let (kind, metadata) = (text(&self.value["kind"]), &self.value["metadata"]);
        let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
        let object = match namespace.as_str() {
            "" => format!("{kind} {name}"),
            _ => format!("{kind} {namespace}/{name}"),
        };
        Problem {
            file: self.file.to_string(),
            line: self.line,
            object,
            field: field.into(),
            message: message.into(),
        }
    }
}

/// Reads every object of a folder and its subfolders, or of one file, ordered by file and line. Everything that
/// cannot be read is a problem.
///
/// # Errors
///
/// [`SourceError::Folder`] when the folder cannot be listed.
pub fn objects(path: &Path) -> Result<(Vec<Written>, Vec<Problem>), SourceError> {
    let (dir, files) = match (path.is_file(), path.parent(), path.file_name()) {
        (true, Some(dir), Some(name)) => {
            let name = name.to_string_lossy();
            (dir, Ok([Arc::from(name)].into()))
        }
        _ => (path, Folder::new(path.to_owned()).list(|_| ())),
    };
    let files = files.map_err(|error| SourceError::Folder {
        path: path.to_owned(),
        error,
    })?;
    let mut reader = Reader::default();
    for file in files {
        reader.file = file;
        match read_regular(&dir.join(&*reader.file), MAX_BYTES) {
            Ok(bytes) => reader.read(&bytes),
            Err(error) => reader.problem(0, format!("cannot be read: {error}")),
        }
    }
    Ok((reader.objects, reader.problems))
}

#[derive(Default)]
struct Reader {
    file: Arc<str>,
    objects: Vec<Written>,
    problems: Vec<Problem>,
}

impl Reader {
    fn problem(&mut self, line: u32, message: String) {
        self.problems.push(Problem {
            file: self.file.to_string(),
            line,
            object: String::new(),
            field: String::new(),
            message,
        });
    }

    fn read(&mut self, bytes: &[u8]) {
        for document in yaml::documents(bytes) {
            let before = document.lines_before;
            match yaml::readable(document.bytes) {
                Ok(text) => {
                    // JSON is YAML.
                    let parsed = yaml::parse_yaml(text, before);
                    parsed.documents.iter().for_each(|it| self.document(it, 0));
                    if let Some(SyntaxError { place, message }) = parsed.error {
                        self.problem(place.line, message);
                    }
                }
                Err(SyntaxError { place, message }) => {
                    self.problem(before.saturating_add(place.line), message);
                }
            }
        }
    }

    fn document(&mut self, node: &Node<'_>, lists: usize) {
        let line = node.place.line;
        if let Some((_, items)) = node.get("items").filter(|_| lists < MAX_LISTS)
            && let yaml::Value::List(items) = items.value()
        {
            return items.iter().for_each(|it| self.document(it, lists + 1));
        }
        for (place, field) in node.repeated_keys() {
            self.problem(place.line, format!("{field}: the key is there twice"));
        }
        let (value, faults) = yaml::decode::<Value>(node);
        for fault in faults {
            let (line, field) = node.find(fault.node);
            self.problem(line, format!("{field}: {}", fault.message));
        }
        match value {
            Some(value) if value["kind"].is_string() => self.objects.push(Written {
                file: self.file.clone(),
                line,
                value,
            }),
            Some(Value::Null) | None => {}
            Some(_) => self.problem(line, "kind: is required".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn objects_of_every_kind_are_read() {
        let temp = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = temp.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "a.yaml",
            "kind: Pod\nmetadata: {name: one, namespace: x}\nspec: {port: 80, on: yes}\n---\n---\nkind: Secret\n",
        );
        write(
            "b/list.json",
            r#"{"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "n"}}]}"#,
        );
        write("c.yaml", "metadata: {}\n---\nkind: [\n");
        write("d.yaml", "kind: Pod\nkind: Node\n");
        write(".hidden.yaml", "kind: Pod\n");
        let (objects, problems) = objects(temp.path()).unwrap();
        let seen: Vec<String> = objects
            .iter()
            .map(|it| format!("{}:{} {}", it.file, it.line, it.value["kind"]))
            .collect();
        assert_eq!(
            seen[..3],
            [
                "a.yaml:1 \"Pod\"".to_owned(),
                "a.yaml:6 \"Secret\"".to_owned(),
                "b/list.json:1 \"Node\"".to_owned(),
            ]
        );
        assert_eq!(objects[0].value["spec"]["port"], 80);
        assert_eq!(
            objects[0].problem("spec.port", "is odd").to_string(),
            "a.yaml:1: Pod x/one: spec.port: is odd"
        );
        let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(
            said[0].starts_with("c.yaml:1: kind: is required"),
            "{said:?}"
        );
        assert!(said.iter().any(|it| it.starts_with("c.yaml:")), "{said:?}");
        assert!(
            said.iter().any(|it| it.contains("the key is there twice")),
            "{said:?}"
        );
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let error = objects(Path::new("/does/not/exist")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("read manifests in /does/not/exist: "),
            "{error}"
        );
    }
}
