//! Commands that show objects.

use std::sync::Arc;

use anyhow::bail;
use serde_json::{Value, json};
use sluice_cluster::client::{Client, Kind};
use sluice_config::yaml;

use super::objects::named;
use crate::args::{GetArgs, LogsArgs, View};
use sluice_node::output::{Stream, has_reader, write_json};

use crate::output::{put, say, tell};

/// Prints rows of the same number of columns, aligned.
pub(super) fn columns<const N: usize>(rows: &[[String; N]]) {
    let rows: Vec<Vec<String>> = rows.iter().map(|it| it.to_vec()).collect();
    put!("{}", aligned(&rows));
}

pub(super) fn aligned(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|it| it.get(column));
        cells.map(|it| it.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let line: Vec<String> = cells.map(|(it, width)| format!("{it:width$}")).collect();
        text.push_str(line.join("   ").trim_end());
        text.push('\n');
    }
    text
}

pub(super) fn get(client: &Client, args: &GetArgs) -> anyhow::Result<()> {
    let requests = requests(client, args)?;
    if let (true, [(_, path)]) = (args.watch, &requests[..]) {
        return watch(client, args, path);
    }
    if args.watch {
        bail!("--watch: name one kind");
    }
    let several = requests.len() > 1;
    for (position, (kind, path)) in requests.iter().enumerate() {
        match args.output {
            None | Some(View::Wide) => {
                let table = client.table(path)?;
                let rows = rows(&table, Columns::of(args));
                if rows.len() < 2 {
                    tell!("no {} found", kind.plural);
                    continue;
                }
                if several && position > 0 {
                    say!("");
                }
                put!("{}", aligned(&rows));
            }
            Some(view) => print_object(client, &client.get(path)?, view)?,
        }
    }
    Ok(())
}

fn requests(client: &Client, args: &GetArgs) -> anyhow::Result<Vec<(Arc<Kind>, String)>> {
    let namespace = (!args.all_namespaces).then_some(args.at.namespace.as_str());
    let [kinds, names @ ..] = &args.object[..] else {
        bail!("name a kind");
    };
    let objects = if names.is_empty() && !kinds.contains('/') {
        Vec::new()
    } else {
        named(client, &args.object)?
    };
    if !objects.is_empty() {
        let one = |(kind, name): (Arc<Kind>, &str)| {
            let path = kind.path(Some(&args.at.namespace), Some(name));
            (kind, path)
        };
        return Ok(objects.into_iter().map(one).collect());
    }
    let words = if kinds == "all" {
        "pods,services,deployments,replicasets,statefulsets,daemonsets"
    } else {
        kinds
    };
    words
        .split(',')
        .map(|word| {
            let kind = client.kind(word)?;
            let mut path = kind.path(namespace, None);
            if let Some(selector) = &args.selector {
                let query: String = encode(selector);
                path += &format!("?labelSelector={query}");
            }
            Ok((kind, path))
        })
        .collect()
}

/// A value of a query. All but letters, digits and `-._~` is escaped (RFC 3986).
pub(super) fn encode(text: &str) -> String {
    let plain = |it: u8| it.is_ascii_alphanumeric() || b"-._~".contains(&it);
    let escaped = text.bytes().map(|it| {
        if plain(it) {
            char::from(it).to_string()
        } else {
            format!("%{it:02X}")
        }
    });
    escaped.collect()
}

/// Which columns of a table are shown.
#[derive(Clone, Copy, Default)]
pub(super) struct Columns {
    /// Also the columns of `-o wide`.
    pub(super) wide: bool,
    /// The namespace before all others.
    pub(super) namespaces: bool,
}

impl Columns {
    fn of(args: &GetArgs) -> Columns {
        Columns {
            wide: args.output == Some(View::Wide),
            namespaces: args.all_namespaces,
        }
    }
}

/// The rows of a table that the server made, with the header.
pub(super) fn rows(table: &Value, columns: Columns) -> Vec<Vec<String>> {
    let definitions = table["columnDefinitions"].as_array();
    let definitions: Vec<&Value> = definitions.into_iter().flatten().collect();
    let shown = |position: usize| {
        let priority = definitions[position]["priority"].as_u64();
        columns.wide || priority.unwrap_or_default() == 0
    };
    let mut header = Vec::new();
    if columns.namespaces {
        header.push("NAMESPACE".to_owned());
    }
    let names = definitions.iter().enumerate().filter(|(at, _)| shown(*at));
    header.extend(names.map(|(_, it)| it["name"].as_str().unwrap_or_default().to_uppercase()));
    let mut rows = vec![header];
    for row in table["rows"].as_array().into_iter().flatten() {
        let mut cells = Vec::new();
        if columns.namespaces {
            let namespace = row["object"]["metadata"]["namespace"].as_str();
            cells.push(namespace.unwrap_or_default().to_owned());
        }
        let all = row["cells"].as_array().into_iter().flatten().enumerate();
        cells.extend(all.filter(|(at, _)| shown(*at)).map(|(_, it)| cell(it)));
        rows.push(cells);
    }
    rows
}

pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<none>".to_owned(),
        other => other.to_string(),
    }
}

fn watch(client: &Client, args: &GetArgs, path: &str) -> anyhow::Result<()> {
    let as_table = matches!(args.output, None | Some(View::Wide));
    let (path, name) = match path.rsplit_once('/') {
        Some((collection, name)) if args.object.len() > 1 || args.object[0].contains('/') => {
            (collection.to_owned(), Some(name.to_owned()))
        }
        _ => (path.to_owned(), None),
    };
    let mut separator = if path.contains('?') { '&' } else { '?' };
    let mut path = path;
    for parameter in [
        Some("watch=true".to_owned()),
        name.map(|it| format!("fieldSelector=metadata.name={it}")),
    ]
    .into_iter()
    .flatten()
    {
        path = format!("{path}{separator}{parameter}");
        separator = '&';
    }
    let mut widths: Vec<usize> = Vec::new();
    client.lines(&path, as_table, |line| {
        let event: Value = serde_json::from_str(line)?;
        if event["type"] == "BOOKMARK" {
            return Ok(true);
        }
        if !as_table {
            print_object(client, &event["object"], args.output.unwrap_or(View::Json))?;
            return Ok(has_reader());
        }
        let rows = rows(&event["object"], Columns::of(args));
        // Lines that are printed stay as they are: columns only get wider.
        let first = widths.is_empty();
        for row in rows.iter().skip(usize::from(!first)) {
            widths.resize(widths.len().max(row.len()), 0);
            let cells = row.iter().zip(&mut widths).map(|(it, width)| {
                *width = (*width).max(it.chars().count());
                format!("{it:width$}")
            });
            let cells: Vec<String> = cells.collect();
            say!("{}", cells.join("   ").trim_end());
        }
        Ok(has_reader())
    })
}

fn print_object(client: &Client, value: &Value, view: View) -> anyhow::Result<()> {
    match view {
        View::Json => write_json(Stream::Out, &serde_json::to_string_pretty(value)?),
        View::Yaml => put!("{}", yaml(value)),
        View::Name | View::Wide => {
            let items = value["items"].as_array();
            let items = items.map_or(std::slice::from_ref(value), Vec::as_slice);
            for it in items {
                let own = it["kind"].as_str().or(value["kind"].as_str());
                let own = own.unwrap_or_default().trim_end_matches("List");
                let version = it.get("apiVersion").unwrap_or(&value["apiVersion"]);
                let kind = client.kind_of(&json!({"kind": own, "apiVersion": version}));
                let plural = kind.map_or_else(|_| own.to_owned(), |it| it.plural.clone());
                let name = it["metadata"]["name"].as_str().unwrap_or_default();
                say!("{plural}/{name}");
            }
        }
    }
    Ok(())
}

pub(super) fn logs(client: &Client, args: &LogsArgs) -> anyhow::Result<()> {
    let pod = format!("/api/v1/namespaces/{}/pods/{}", args.at.namespace, args.pod);
    let mut query = Vec::new();
    query.extend(
        args.container
            .as_ref()
            .map(|it| format!("container={}", encode(it))),
    );
    query.extend(args.previous.then(|| "previous=true".to_owned()));
    query.extend(args.tail.map(|it| format!("tailLines={it}")));
    if args.follow {
        query.push("follow=true".to_owned());
        let path = format!("{pod}/log?{}", query.join("&"));
        return client.lines(&path, false, |line| {
            say!("{line}");
            Ok(has_reader())
        });
    }
    put!(
        "{}",
        client.text(&format!("{pod}/log?{}", query.join("&")))?
    );
    Ok(())
}
