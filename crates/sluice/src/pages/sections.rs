//! The sections of a manual page that mangen does not make: exit status, files, examples, notes.

use clap::Command;
use clap_mangen::roff::{Roff, bold, roman};

use super::{SECTION, shown, title};

/// Term and meaning, with `: ` between them.
type Entry = &'static str;

/// The term and the meaning of an entry.
pub(super) fn parts(entry: Entry) -> (&'static str, &'static str) {
    entry.split_once(": ").unwrap_or((entry, ""))
}

/// The exit codes of every command.
const EXIT: [Entry; 3] = [
    "0: Success.",
    "1: Failure: the last line on standard error says what failed and why.",
    "2: Wrong usage: each line on standard error names a flag and what is wrong with it.",
];

const SOCKET_FILE: Entry = "/run/sluice/sluice.sock: The agent's status socket (--socket). Only the agent's user and root may connect.";
const LOCK: Entry =
    "/run/sluice/sluice.lock: Lock of the agent, beside its socket, with its process id.";
const SYSCTLS: Entry = "/run/sluice/sluice.sysctls: The sysctls that the agent changed, beside its socket: path, old \
     value, new value. `sluice cleanup --restore-sysctls` reads it.";
const MANIFESTS: Entry =
    "DIR/*.yaml, DIR/*.yml, DIR/*.json: Manifests, in the folder of --manifests.";

const LABS: Entry = "/var/lib/sluice/labs/LAB/, ~/.local/state/sluice/labs/LAB/: All that a lab of root, or \
     of another user, keeps: kubeconfig, objects, logs. SLUICE_LABS names another folder.";

/// What the definition of a command does not say.
#[derive(Default)]
pub(super) struct Extra {
    /// Exit codes that mean more than [`EXIT`] says.
    pub(super) exit: &'static [Entry],
    files: &'static [Entry],
}

/// What the page with this title has beyond the definition.
pub(super) fn extra(page: &str) -> Extra {
    match page {
        "sluice-proxy" => Extra {
            exit: &[
                "0: SIGTERM or SIGINT ended the agent. Its rules stay.",
                "1: The agent could not start, or its configuration file changed in a field that is \
                 read at start alone. A service manager starts it again; the rules stay.",
            ],
            files: &[
                LOCK,
                SYSCTLS,
                "/var/run/secrets/kubernetes.io/serviceaccount/: Token and certificate of the API server, in a pod \
                 without --kubeconfig.",
                "/etc/default/sluice, /etc/sluice/manifests/: Flags and manifests of the service, from the Debian package.",
            ],
        },
        "sluice-render" => Extra {
            exit: &["1: Failure. With --strict also any problem of the manifests."],
            ..Extra::default()
        },
        "sluice-doctor" => Extra {
            exit: &[
                "0: Nothing is wrong.",
                "1: Something is wrong, or could not be looked at.",
            ],
            ..Extra::default()
        },
        "sluice-cleanup" => Extra {
            exit: &[
                "0: Everything is removed but what is printed as left.",
                "1: An agent is running, or something could not be removed or restored. Everything \
                 else was.",
            ],
            files: &[LOCK, SYSCTLS],
        },
        "sluice-lab-exec" | "sluice-lab-pcap" => Extra {
            exit: &["0 to 255: That of the command, or 128 and the signal that ended it."],
            files: &[LABS],
        },
        "sluice-lab-probe" => Extra {
            exit: &[
                "0: Every request was answered.",
                "1: Some request was not answered, or none could be sent.",
            ],
            files: &[LABS],
        },
        "sluice-lab-demo" => Extra {
            files: &["/run/netns/: Names of the network namespaces, while the lab runs."],
            ..Extra::default()
        },
        "sluice-policy" => Extra {
            files: &[SOCKET_FILE],
            ..Extra::default()
        },
        "sluice-policy-wait" => Extra {
            exit: &[
                "0: The policy is in force on every node that was asked.",
                "1: It was not in time on one of them, which is named with the reason.",
            ],
            ..Extra::default()
        },
        page if page.starts_with("sluice-lab") => Extra {
            files: &[LABS],
            ..Extra::default()
        },
        "sluice-completions" => Extra {
            files: &[
                "/usr/share/bash-completion/completions/sluice: Of the Debian package, for bash.",
                "/usr/share/zsh/vendor-completions/_sluice: For zsh.",
                "/usr/share/fish/vendor_completions.d/sluice.fish: For fish.",
            ],
            ..Extra::default()
        },
        "sluice" | "sluice-man" => Extra {
            files: &["/usr/share/man/man8/sluice*.8: The manual pages."],
            ..Extra::default()
        },
        _ => Extra::default(),
    }
}

/// The sections of a built command.
pub(super) fn of(command: &Command) -> Roff {
    let mut roff = Roff::new();
    let extra = extra(title(command));
    let exit = EXIT.map(|general| {
        let same = |it: &&Entry| parts(it).0 == parts(general).0;
        *extra.exit.iter().find(same).unwrap_or(&general)
    });
    entries(&mut roff, "EXIT STATUS", &exit);
    let has = |id: &str| command.get_arguments().any(|it| it.get_id() == id);
    let of_flags = [("socket", SOCKET_FILE), ("manifests", MANIFESTS)];
    let of_flags = of_flags.into_iter().filter(|it| has(it.0)).map(|it| it.1);
    let files: Vec<Entry> = of_flags.chain(extra.files.iter().copied()).collect();
    if !files.is_empty() {
        entries(&mut roff, "FILES", &files);
    }
    let after = command.get_after_long_help().or(command.get_after_help());
    after_help(
        &mut roff,
        &after.map(ToString::to_string).unwrap_or_default(),
    );
    roff.control("SH", ["SEE ALSO"]);
    let parent = title(command).rsplit_once('-').map(|it| it.0);
    let below = shown(command).map(title);
    let pages = parent.into_iter().chain(below);
    let mut pages: Vec<String> = pages.map(|it| format!("{it}({SECTION})")).collect();
    pages.sort();
    roff.text([roman(pages.join(", "))]);
    roff
}

fn entries(roff: &mut Roff, heading: &str, entries: &[Entry]) {
    roff.control("SH", [heading]);
    for (term, meaning) in entries.iter().map(|it| parts(it)) {
        roff.control("TP", []);
        roff.text([bold(term)]);
        roff.text([roman(meaning)]);
    }
}

/// A paragraph with a heading, `Examples:`, and indented lines is a section. Others are notes.
fn after_help(roff: &mut Roff, text: &str) {
    let mut notes = Vec::new();
    for paragraph in text.split("\n\n") {
        let Some((heading, lines)) = paragraph.split_once(":\n") else {
            notes.extend(Some(paragraph).filter(|it| !it.is_empty()));
            continue;
        };
        let heading = match heading {
            "Example" => "EXAMPLES".to_owned(),
            heading => heading.to_uppercase(),
        };
        roff.control("SH", [&*heading]);
        roff.control("nf", []);
        for line in lines.lines() {
            roff.text([roman(line.trim_start())]);
        }
        roff.control("fi", []);
    }
    if !notes.is_empty() {
        roff.control("SH", ["NOTES"]);
        for note in notes {
            roff.control("PP", []);
            roff.text([roman(note.replace('\n', " "))]);
        }
    }
}
