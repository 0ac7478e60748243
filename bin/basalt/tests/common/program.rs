//! Programs that run to their end, and signals to those that do not.

use super::eventually;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

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

/// Sends a signal, such as `-KILL`. After `-STOP` no thread of the program runs any more when this returns: the kernel
/// tells one of them only, and the others run on until that one has had its turn.
pub fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
    if name == "-STOP" {
        eventually("all of its threads stand", Duration::from_secs(30), || threads_stand(pid).then_some(()));
    }
}

/// True when all threads of a program are stopped.
fn threads_stand(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.flatten().all(|thread| {
        // A thread that has ended meanwhile has no state. The state follows the name, which is in parentheses.
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.is_empty() || rest.starts_with(" T"))
    })
}
