//! The words that no name, comment, text or page may use, and how many of them still stand in each crate.

use super::tree::File;

/// Words and phrases that say less than plain English would. Split, so that this file does not use them.
const BANNED: [&[&str]; 9] = [
    &[concat!("who", "ever")],
    &[concat!("some", "body")],
    &[concat!("no", "body")],
    &["for", concat!("ev", "er")],
    &["of", concat!("la", "te")],
    &["in", concat!("va", "in")],
    &["by", concat!("lo", "t")],
    &[concat!("ki", "n")],
    &["see", "the", "module", "s", concat!("wor", "ds")],
];

/// Where banned words stand in a file: the line, counted from zero, and the phrase.
pub fn banned(file: &File) -> Vec<(usize, String)> {
    if !file.is_rust() && !file.is_page() {
        return Vec::new();
    }
    let words = words(&file.text);
    let mut found = Vec::new();
    for at in 0..words.len() {
        let phrase = BANNED.iter().find(|phrase| {
            let rest = &words[at..];
            rest.len() >= phrase.len() && phrase.iter().zip(rest).all(|(banned, (_, word))| banned == word)
        });
        found.extend(phrase.map(|phrase| (words[at].0, phrase.join(" "))));
    }
    found
}

/// The words of a text with their lines. A phrase goes on over the end of a line; a mark of punctuation ends it.
fn words(text: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start().trim_start_matches(['/', '!', '>', '|']);
        let mut word = String::new();
        for letter in line.chars().chain([' ']) {
            if letter.is_alphanumeric() {
                word.extend(letter.to_lowercase());
                continue;
            }
            if !word.is_empty() {
                words.push((number, std::mem::take(&mut word)));
            }
            if !matches!(letter, ' ' | '_' | '\'' | '-' | '*' | '`') {
                words.push((number, String::new()));
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_words_are_found_in_comments_names_and_over_line_ends() {
        let cases: [(&str, &[usize]); 6] = [
            (concat!("// Who", "ever asks.\n"), &[0]),
            (concat!("fn some", "body_waits() {}\n"), &[0]),
            (concat!("/// It waits for\n/// ev", "er.\n"), &[0]),
            (concat!("// See the module's wor", "ds.\n"), &[0]),
            ("// A kind of akin.\n", &[]),
            (concat!("// What it is for. Ev", "er.\n"), &[]),
        ];
        for (text, lines) in cases {
            let found = banned(&File { path: "a.rs".to_owned(), text: text.to_owned() });
            assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), lines, "{text}");
        }
    }
}
