//! Programs that run to their end, and signals to those that do not.

use std::process::{Command, Output, Stdio};

/// Runs a program without input.
pub fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs the binary of this commit.
pub fn basalt(arguments: &[&str]) -> Output {
    run(env!("CARGO_BIN_EXE_basalt"), arguments)
}

/// What a program has said: its standard output, then its errors.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Sends a signal, such as `-KILL`.
pub fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}
