//! LOLWUT: a picture in characters.

use super::ask::{Ask, NOT_INTEGER, Outcome, Row, SYNTAX, is_word};
use crate::session::{Effect, REDIS_VERSION};
use resp::parse_integer;
use vocab::Prng;

pub(super) const ROWS: &[Row] = &[("LOLWUT", lolwut)];

/// Columns and rows of the picture, if the client does not say: as many characters.
const SIZE: (usize, usize) = (66, 12);
/// The largest picture.
const SIZE_MAX: (usize, usize) = (200, 60);

fn lolwut(ask: &mut Ask<'_>) -> Outcome {
    // All versions draw the same.
    let sizes = match &ask.args[1..] {
        [word, version, rest @ ..] if is_word(word, "VERSION") => {
            parse_integer(version).ok_or(NOT_INTEGER)?;
            rest
        }
        [word] if is_word(word, "VERSION") => return Err(SYNTAX),
        rest => rest,
    };
    let sizes: Option<Vec<i64>> = sizes.iter().map(|size| parse_integer(size)).collect();
    let sizes = sizes.ok_or(NOT_INTEGER)?;
    let size = |at: usize, default: usize, most: usize| {
        sizes.get(at).map_or(default, |size| usize::try_from((*size).max(1)).unwrap_or(most).min(most))
    };
    let (columns, rows) = (size(0, SIZE.0, SIZE_MAX.0), size(1, SIZE.1, SIZE_MAX.1));
    let mut text = strata(columns, rows, &mut Prng::new(ask.host.now_us()));
    text += &format!("\nBasalt, as Redis ver. {REDIS_VERSION}\n");
    ask.reply.verbatim(&text);
    Ok(Effect::None)
}

/// Columns of basalt: pillars of random heights, whose neighbours differ by little, before a sky.
fn strata(columns: usize, rows: usize, chance: &mut Prng) -> String {
    let mut heights = Vec::with_capacity(columns);
    let mut height = rows / 2;
    while heights.len() < columns {
        let width = 2 + chance.below(4) as usize;
        height = (height + chance.below(5) as usize).saturating_sub(2).clamp(1, rows);
        heights.extend(std::iter::repeat_n(height, width));
        heights.push(0);
    }
    let mut text = String::with_capacity(rows * (columns * 3 + 1));
    for row in (1..=rows).rev() {
        for (at, height) in heights.iter().take(columns).enumerate() {
            let reaches = |at: usize| heights.get(at).is_some_and(|height| *height >= row);
            text.push(match *height {
                0 if at > 0 && (reaches(at - 1) || reaches(at + 1)) => '|',
                height if height == row => '_',
                height if height > row => '#',
                _ => ' ',
            });
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_size() {
        for (columns, rows) in [(1, 1), (66, 12), SIZE_MAX] {
            let text = strata(columns, rows, &mut Prng::new(7));
            assert_eq!(text.lines().count(), rows);
            assert!(text.lines().all(|line| line.len() <= columns) && text.contains('_'), "{text}");
        }
    }
}
