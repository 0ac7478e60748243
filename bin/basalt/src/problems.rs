//! What went wrong on the way into a store or out of it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Problems that are told one by one.
const TOLD_MAX: usize = 20;

/// Things that are not as they should be. Of what an import or an export has done they are part, under these names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Problems {
    #[serde(rename = "problems")]
    count: u64,
    /// The first of them.
    #[serde(rename = "first_problems")]
    first: Vec<String>,
}

impl Problems {
    /// Notes that something is not as it should be.
    pub(crate) fn note(&mut self, text: String) {
        self.count += 1;
        if self.first.len() < TOLD_MAX {
            self.first.push(text);
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Takes in those of another part.
    pub(crate) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.first.extend(other.first);
        self.first.truncate(TOLD_MAX);
    }
}

/// A line for each of the first, and one for the others.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.first {
            writeln!(f, "problem: {problem}")?;
        }
        match self.count - self.first.len() as u64 {
            0 => Ok(()),
            untold => writeln!(f, "and {untold} more problems"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// As the outcomes of imports and exports have them.
    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Outcome {
        keys: u64,
        #[serde(flatten)]
        problems: Problems,
    }

    #[test]
    fn the_first_are_told_and_all_are_counted() {
        let mut outcome = Outcome { keys: 7, ..Outcome::default() };
        assert_eq!(serde_json::to_string(&outcome).unwrap(), r#"{"keys":7,"problems":0,"first_problems":[]}"#);
        (0..19).for_each(|n| outcome.problems.note(n.to_string()));
        let others = outcome.problems.clone();
        outcome.problems.add(others);
        outcome.problems.note("last".to_owned());
        let told = outcome.problems.to_string();
        assert_eq!((outcome.problems.count(), told.lines().count()), (39, 21));
        assert!(told.starts_with("problem: 0\n") && told.ends_with("problem: 0\nand 19 more problems\n"), "{told}");
        let text = serde_json::to_string(&outcome).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
        assert_eq!(serde_json::from_str::<Outcome>("{}").unwrap(), Outcome::default());
    }
}
