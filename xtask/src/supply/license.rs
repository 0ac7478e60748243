//! License expressions: SPDX's, and the older form with `/` for OR.

/// Whether one way through an expression has allowed licenses only. An expression that cannot be read has none.
pub fn is_allowed(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, is_allowed };
    parser.any() == Some(true) && parser.words.is_empty()
}

struct Parser<'a> {
    words: &'a [&'a str],
    is_allowed: &'a dyn Fn(&str) -> bool,
}

impl Parser<'_> {
    fn takes(&mut self, word: &str) -> bool {
        let found = self.words.split_first().filter(|(first, _)| **first == word);
        if let Some((_, rest)) = found {
            self.words = rest;
        }
        found.is_some()
    }

    /// `all OR all …`
    fn any(&mut self) -> Option<bool> {
        let mut holds = self.all()?;
        while self.takes("OR") {
            holds |= self.all()?;
        }
        Some(holds)
    }

    /// `one AND one …`
    fn all(&mut self) -> Option<bool> {
        let mut holds = self.one()?;
        while self.takes("AND") {
            holds &= self.one()?;
        }
        Some(holds)
    }

    /// `( any )`, `NAME` or `NAME WITH EXCEPTION`
    fn one(&mut self) -> Option<bool> {
        if self.takes("(") {
            let holds = self.any()?;
            return self.takes(")").then_some(holds);
        }
        let (name, rest) = self.words.split_first()?;
        if ["OR", "AND", "WITH", ")"].contains(name) {
            return None;
        }
        self.words = rest;
        if !self.takes("WITH") {
            return Some((self.is_allowed)(name));
        }
        let (exception, rest) = self.words.split_first()?;
        self.words = rest;
        Some((self.is_allowed)(&format!("{name} WITH {exception}")))
    }
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn one_way_must_be_allowed() {
        let allowed = |name: &str| ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].contains(&name);
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0/MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("ISC AND MIT OR GPL-3.0", true),
            ("ISC AND (GPL-3.0 OR MIT)", true),
            ("(ISC OR MIT) AND GPL-3.0", false),
            ("Apache-2.0", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("", false),
            ("MIT MIT", false),
            ("MIT OR", false),
            ("(MIT", false),
            ("AND", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
        }
    }
}
