//! What every `--help` says, to the letter: it is written by hand, and read before anything else.
//! `BASALT_TRANSCRIPTS=rewrite` writes down what is said now.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// All sub-commands, but those of the laboratory that measure: their options are its own to test.
const COMMANDS: [&str; 44] = [
    "",
    "start",
    "cluster",
    "cluster up",
    "cluster down",
    "cluster status",
    "cluster kill",
    "cluster restart",
    "ctl",
    "ctl init",
    "ctl ping",
    "ctl status",
    "ctl top",
    "ctl nodes",
    "ctl shards",
    "ctl map",
    "ctl events",
    "ctl verify",
    "ctl plan",
    "ctl plan apply",
    "ctl plan wait",
    "ctl plan unsafe-recover",
    "ctl database",
    "ctl settings",
    "ctl drain-leaders",
    "ctl backup",
    "ctl backup take",
    "ctl backup list",
    "ctl backup verify",
    "ctl backup remove",
    "ctl restore",
    "demo",
    "bench",
    "bench run",
    "bench noop-server",
    "bench suite",
    "export",
    "import",
    "config",
    "config print",
    "config check",
    "inspect",
    "sim",
    "completions",
];

fn basalt(words: &str, last: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
    command.args(words.split_whitespace()).arg(last).env("COLUMNS", "100").stdin(Stdio::null()).output().unwrap()
}

#[test]
fn help_is_as_written_down() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/help.txt");
    let mut said = String::new();
    for command in COMMANDS {
        let output = basalt(command, "--help");
        assert!(output.status.success(), "{command}");
        let help = String::from_utf8(output.stdout).unwrap();
        let title = format!("basalt {command} --help").replace("  ", " ");
        said += &format!("$ {title}\n{help}\n");
    }
    if std::env::var("BASALT_TRANSCRIPTS").is_ok_and(|mode| mode == "rewrite") {
        std::fs::write(&path, said).unwrap();
        return;
    }
    let written = std::fs::read_to_string(&path).unwrap();
    let differs = written.lines().zip(said.lines()).position(|(written, said)| written != said);
    assert!(written == said, "differs from line {:?} of {} on", differs.map(|line| line + 1), path.display());
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = basalt("completions", shell);
        assert!(output.status.success(), "{shell}");
        let script = String::from_utf8(output.stdout).unwrap();
        for word in ["cluster", "restart", "ctl", "init", "demo", "inspect", "replication-factor"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
}

#[test]
fn nonsense_is_refused() {
    for words in ["nosuchcommand", "cluster", "ctl", "ctl status --node", "cluster kill x", "demo --nodes 2"] {
        let (words, last) = words.rsplit_once(' ').unwrap_or(("", words));
        assert_eq!(basalt(words, last).status.code(), Some(2), "{words} {last}");
    }
}
