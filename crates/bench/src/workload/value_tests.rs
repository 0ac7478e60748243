#![allow(clippy::unwrap_used)]
use super::*;
use vocab::Prng;

const FORMS: [ValueForm; 4] = [ValueForm::Ycsb, ValueForm::Incompressible, ValueForm::PageLike, ValueForm::Integrity];

fn cell(key: &str, field: u32) -> Cell<'_> {
    let name: &[u8] = if field == 0 { b"field0" } else { b"field1" };
    Cell { key: key.as_bytes(), key_hash: key_hash(key.as_bytes()), field, name }
}

fn value(form: ValueForm, cell: Cell<'_>, tag: u64, length: usize) -> Vec<u8> {
    let mut out = Vec::new();
    form.write(cell, tag, length, &mut out);
    assert_eq!(out.len(), length);
    out
}

#[test]
fn what_is_written_is_right_and_nothing_else_is() {
    let mut scratch = Vec::new();
    for form in FORMS {
        for length in [1, 5, 6, 8, 11, 12, 13, 18, 24, 100, 255, 256, 257, 600, 1000] {
            let written = value(form, cell("user1", 0), 0x0123_4567_89AB_CDEF, length);
            assert_eq!(form.check(cell("user1", 0), &written, &mut scratch), Verdict::Right, "{form:?} {length}");
            if length < 24 {
                continue;
            }
            for (key, field) in [("user1", 1), ("user2", 0)] {
                let verdict = form.check(cell(key, field), &written, &mut scratch);
                assert_eq!(verdict, Verdict::Wrong, "{form:?} {length} {key} {field}");
            }
            for at in 0..length {
                let mut flipped = written.clone();
                flipped[at] ^= 1;
                assert_eq!(form.check(cell("user1", 0), &flipped, &mut scratch), Verdict::Wrong, "{form:?} {at}");
            }
            if form != ValueForm::Integrity {
                let torn = form.check(cell("user1", 0), &written[..length - 1], &mut scratch);
                assert_eq!(torn, Verdict::Wrong, "{form:?} {length}");
                assert_ne!(written, value(form, cell("user1", 0), 7, length), "another tag, another value");
            }
        }
        assert_eq!(form.check(cell("user1", 0), b"", &mut scratch), Verdict::Empty);
    }
}

/// YCSB's own loop over one number's characters.
fn ycsb_characters(x: i32) -> Vec<u8> {
    let masks = [31, 63, 95, 31, 63, 95];
    (0..6).map(|k| (((x >> (5 * k)) & masks[k as usize]) + 32) as u8).collect()
}

#[test]
fn ycsb_values_have_its_alphabet() {
    let mut prng = Prng::new(5);
    for _ in 0..1000 {
        let x = prng.next_u64() as i32;
        assert_eq!(six_characters(x as u32).to_le_bytes()[..6], ycsb_characters(x));
        assert_eq!(number_of(&ycsb_characters(x)), x & TAG_MASK as u32 as i32);
    }
    // Each group of six is some number's, so YCSB could have written the value.
    let written = value(ValueForm::Ycsb, cell("user1", 0), 99, 102);
    for group in written.chunks(6) {
        assert_eq!(ycsb_characters(number_of(group)), group);
    }
}

#[test]
fn forms_compress_as_they_say() {
    let mut prng = Prng::new(9);
    let mut ratios = Vec::new();
    for form in [ValueForm::Ycsb, ValueForm::Incompressible, ValueForm::PageLike] {
        for length in [100, 1000] {
            let mut page = Vec::new();
            while page.len() < 64 * 1024 {
                form.write(cell("user1", 0), prng.next_u64(), length, &mut page);
            }
            let of = |compressed: usize| page.len() as f64 / compressed as f64;
            let lz4 = of(lz4_flex::block::compress(&page).len());
            let zstd = of(zstd::bulk::compress(&page, 3).unwrap().len());
            ratios.push((form, length, lz4, zstd));
        }
    }
    for (form, length, lz4, zstd) in ratios {
        let (low, high) = match form {
            ValueForm::Ycsb => (0.99, 1.30),
            ValueForm::Incompressible => (0.99, 1.01),
            _ => (5.0, 6.4),
        };
        let inside = |ratio: f64| (low..high).contains(&ratio);
        assert!(inside(lz4) && inside(zstd), "{form:?} {length}: lz4 {lz4:.2}, zstd {zstd:.2}");
    }
}
