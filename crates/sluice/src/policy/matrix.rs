//! `sluice policy matrix`: who may talk to whom.

use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;
use sluice_model::NamespacedName;
use sluice_policy_plan::Planner;
use sluice_policy_plan::reach::{Matrix, Reach, reach};

use super::texts;
use crate::cli::MatrixArgs;
use crate::output::{format, print};
use crate::planned;
use crate::status::columns;

/// What some pods may send to others, as text.
#[derive(Serialize)]
struct Shown {
    from: Vec<String>,
    to: Vec<String>,
    allowed: Vec<String>,
}

/// Prints the table of namespaces, or the pods of one.
pub(crate) fn run(args: &MatrixArgs) -> anyhow::Result<ExitCode> {
    let mut planner = Planner::of_cluster();
    let objects = planned::read_policies(&args.node)?;
    objects.iter().for_each(|it| planner.absorb(it));
    let mut all = reach(&planner);
    if let Some(namespace) = &args.namespace {
        let is_in = |it: &NamespacedName| *it.namespace == **namespace;
        all.retain(|it| it.from.iter().chain(&it.to).any(is_in));
    }
    let shown: Vec<Shown> = all.iter().map(Shown::of).collect();
    print(format(args.output, &shown, |shown| match args.namespace {
        Some(_) => all
            .iter()
            .zip(shown)
            .map(|(it, shown)| shown.line(it))
            .collect(),
        None => table(&all),
    })?)?;
    Ok(ExitCode::SUCCESS)
}

impl Shown {
    fn of(reach: &Reach) -> Self {
        Self {
            from: texts(&reach.from),
            to: texts(&reach.to),
            allowed: texts(&reach.allowed),
        }
    }

    fn line(&self, reach: &Reach) -> String {
        let allowed = match &self.allowed[..] {
            [] => "nothing".to_owned(),
            _ if reach.is_everything() => "everything".to_owned(),
            some => some.join(", "),
        };
        format!(
            "{} to {}: {allowed}\n",
            self.from.join(", "),
            self.to.join(", ")
        )
    }
}

/// Namespaces to namespaces.
fn table(all: &[Reach]) -> String {
    let matrix = Matrix::of(all);
    let names = &matrix.namespaces;
    if names.is_empty() {
        return "there are no two pods\n".to_owned();
    }
    let head = ["FROM".to_owned()].into_iter();
    let head = head.chain(names.iter().map(ToString::to_string)).collect();
    let row = |from: &Arc<str>| {
        [from.to_string()]
            .into_iter()
            .chain(matrix.row(from))
            .collect()
    };
    let rows: Vec<Vec<String>> = [head].into_iter().chain(names.iter().map(row)).collect();
    columns(&rows, 0)
}

#[cfg(test)]
mod tests {
    use sluice_policy_plan::testing::{events, parse};

    use super::*;

    #[test]
    fn namespaces_in_a_table() {
        let mut planner = Planner::of_cluster();
        let world = parse(
            "ns a team=red
            ns b team=blue
            ns c team=blue
            pod a/web-0 n1 10.0.0.1 app=web
            pod a/web-1 n2 10.0.0.2 app=web
            pod a/db n2 10.0.0.3 app=db
            pod b/web n1 10.0.0.4 app=web
            pod c/web n1 10.0.0.5 app=web
            np a/db ingress pods=app=db from=team=red/
            np c/deny ingress",
        );
        events(&world).iter().for_each(|it| planner.absorb(it));
        let expected = "\
FROM  a     b    c
a     all   all  none
b     some  -    none
c     some  all  -
";
        assert_eq!(table(&reach(&planner)), expected);
        assert_eq!(table(&[]), "there are no two pods\n");
    }
}
