//! Long suites take turns: the number of commits decides whose turn it is in the gate.

use std::path::Path;
use std::process::Command;

/// Whose turn it is.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    /// How many commits there are; none if nothing waits for its turn.
    commits: Option<usize>,
}

impl Turns {
    /// By the commits of a repository: as for its first one outside of a repository.
    pub fn of(root: &Path) -> Self {
        let output = Command::new("git").args(["rev-list", "--count", "HEAD"]).current_dir(root).output();
        let count = output.ok().and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse().ok());
        Self::after(count.unwrap_or(0))
    }

    /// After so many commits.
    pub fn after(commits: usize) -> Self {
        Self { commits: Some(commits) }
    }

    /// Nothing waits for its turn.
    pub fn all() -> Self {
        Self { commits: None }
    }

    /// Whether it is the turn of the one at this place, from 0 on, of so many.
    pub fn has(self, place: usize, of: usize) -> bool {
        self.commits.is_none_or(|commits| commits % of.max(1) == place)
    }

    /// How often each of so many has had its turn.
    pub fn rounds(self, of: usize) -> usize {
        self.commits.unwrap_or(0) / of.max(1)
    }

    /// The turns of those within one of so many, which come up only when that one has its turn.
    pub fn of_rounds(self, of: usize) -> Self {
        Self { commits: self.commits.map(|_| self.rounds(of)) }
    }

    /// Those of `all` whose turn it is.
    pub fn chosen<T: Copy>(self, all: &[T]) -> Vec<T> {
        self.those(all, true)
    }

    /// Those of `all` whose turn it is not.
    pub fn others<T: Copy>(self, all: &[T]) -> Vec<T> {
        self.those(all, false)
    }

    fn those<T: Copy>(self, all: &[T], whose_turn: bool) -> Vec<T> {
        let places = all.iter().enumerate().filter(|(place, _)| self.has(*place, all.len()) == whose_turn);
        places.map(|(_, one)| *one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Turns;

    #[test]
    fn each_has_its_turn() {
        let all = ["a", "b", "c"];
        let turns = (0..4).map(Turns::after);
        let parts: Vec<String> =
            turns.map(|turns| format!("{}-{}", turns.chosen(&all).concat(), turns.others(&all).concat())).collect();
        assert_eq!(parts, ["a-bc", "b-ac", "c-ab", "a-bc"]);
        // All within `c`, one after the other.
        let within = [2, 5, 8].map(|commits| Turns::after(commits).of_rounds(3).chosen(&all).concat());
        assert_eq!(within, all);
        let first = Turns::after(5);
        assert!(first.others::<u8>(&[]).is_empty() && first.others(&[1]).is_empty());
        assert_eq!((Turns::all().chosen(&all).concat(), Turns::all().others(&all).len()), ("abc".to_owned(), 0));
    }
}
