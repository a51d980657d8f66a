//! The commands of docs/tutorials.md work.

use std::process::Command;
use std::{env, fs, path::Path};

use sluice_lab::eventually;

use crate::lab::{Lab, SLUICE, WITHIN, kubectl, text};

/// The commands of one column of the tables of a page, row after row.
fn commands(page: &str, column: usize) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = fs::read_to_string(file.join(page)).expect("a page");
    let rows = page.lines().filter(|it| it.starts_with("| "));
    let cells = rows.filter_map(|row| row.split('|').nth(column + 1));
    // Every second part stands between backticks.
    let code = cells.flat_map(|it| it.split('`').skip(1).step_by(2));
    code.map(str::to_owned).collect()
}

#[test]
fn both_languages_have_the_same_commands() {
    for column in 0..4 {
        let english = commands("tutorials.md", column);
        assert_eq!(english, commands("zh/tutorials.md", column));
    }
}

#[test]
fn every_command_works() {
    let (Some(kubectl), Some(lab)) = (kubectl::programs().into_iter().next(), Lab::new()) else {
        return;
    };
    let folder = lab.files.path();
    std::os::unix::fs::symlink(&kubectl, folder.join("kubectl")).expect("a link");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    std::os::unix::fs::symlink(docs, folder.join("docs")).expect("a link");
    let programs =
        [folder, Path::new(SLUICE).parent().expect("a folder")].map(|it| it.display().to_string());
    let path = format!(
        "{}:{}",
        programs.join(":"),
        env::var("PATH").expect("a PATH")
    );
    let run = |command: &str| {
        let kubeconfig = "export KUBECONFIG=$(sluice lab kubeconfig 2>/dev/null)";
        let output = Command::new("bash")
            .args(["-c", &format!("{kubeconfig}\n{command}")])
            .env("SLUICE_LAB", &lab.name)
            .env("PATH", &path)
            .env("HOME", folder)
            .current_dir(folder)
            .output()
            .expect("bash runs");
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        (output.status.success(), said)
    };
    for command in commands("tutorials.md", 1) {
        // Whoever types them one after the other gives the lab the time that it needs.
        let mut said = String::new();
        let worked = eventually(WITHIN, || {
            let (works, output) = run(&command);
            said = output;
            works.then_some(())
        });
        assert!(worked.is_some(), "{command}: {said}{}", lab.log());
    }
    for command in commands("tutorials.md", 2) {
        lab.good(&["exec", "node-a", "--", "bash", "-c", &command]);
    }
}
