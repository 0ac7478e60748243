//! Secrets that others try to guess.

/// Whether `given` is the secret. Takes the same time however much of it is right.
#[must_use]
pub fn same_secret(given: &[u8], secret: &[u8]) -> bool {
    let differs = |(at, byte): (usize, &u8)| byte ^ secret.get(at).copied().unwrap_or(0);
    let differences = given.iter().enumerate().map(differs).fold(0, |sum, one| sum | one);
    differences == 0 && given.len() == secret.len()
}

#[cfg(test)]
mod tests {
    use super::same_secret;

    #[test]
    fn a_secret_is_all_of_it() {
        for (given, is_right) in [("", false), ("geh", false), ("geheim", true), ("Geheim", false), ("geheim\0", false)]
        {
            assert_eq!(same_secret(given.as_bytes(), b"geheim"), is_right, "{given}");
        }
        assert!(same_secret(b"", b"") && !same_secret(b"\0", b""));
    }
}
