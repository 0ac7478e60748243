//! Long suites take turns: the number of commits decides whose turn it is in the gate.

use std::path::Path;
use std::process::Command;

/// How many commits there are; 0 outside of a repository.
pub fn commits(root: &Path) -> usize {
    let output = Command::new("git").args(["rev-list", "--count", "HEAD"]).current_dir(root).output();
    let count = output.ok().and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse().ok());
    count.unwrap_or(0)
}

/// Whose turn it is of so many, from 0 on.
pub fn turn(of: usize, commits: usize) -> usize {
    commits % of.max(1)
}

/// Those of `all` whose turn it is not.
pub fn others<T: Copy>(all: &[T], commits: usize) -> Vec<T> {
    let turn = turn(all.len(), commits);
    all.iter().enumerate().filter(|(at, _)| *at != turn).map(|(_, one)| *one).collect()
}

#[cfg(test)]
mod tests {
    use super::others;

    #[test]
    fn each_has_its_turn() {
        let all = ["a", "b", "c"];
        let turns: Vec<String> = (0..4).map(|commits| others(&all, commits).concat()).collect();
        assert_eq!(turns, ["bc", "ac", "ab", "bc"]);
        assert!(others::<u8>(&[], 5).is_empty() && others(&[1], 5).is_empty());
    }
}
