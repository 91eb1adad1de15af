//! Random damage to partial results of several hosts and to results of other tools: the fuzz target
//! with its corpus and seeds, in every test run.

#[path = "../../../fuzz/src/part_file.rs"]
mod part_file;

use std::path::Path;

/// Numbers of chance.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

/// Words that claim much, or are no numbers.
const CLAIMS: [&str; 8] = ["18446744073709551615", "1e308", "-1", "NaN", "null", "[]", "{}", "0"];

/// Damages a text: digits, claims in place of numbers, cuts, doubled stretches.
fn damaged(text: &[u8], state: &mut u64) -> Vec<u8> {
    let mut text = text.to_vec();
    for _ in 0..=next(state) % 3 {
        let at = (next(state) % text.len().max(1) as u64) as usize;
        match next(state) % 4 {
            0 => {
                let digit = text[at..].iter().position(u8::is_ascii_digit);
                if let Some(digit) = digit {
                    text[at + digit] = b'0' + (next(state) % 10) as u8;
                }
            }
            1 => {
                let begin = text[at..].iter().position(u8::is_ascii_digit).map(|by| at + by);
                if let Some(begin) = begin {
                    let numeric = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
                    let end = text[begin..].iter().position(|byte| !numeric(byte));
                    let end = end.map_or(text.len(), |by| begin + by);
                    let claim = CLAIMS[(next(state) % CLAIMS.len() as u64) as usize];
                    text.splice(begin..end, claim.bytes());
                }
            }
            2 if next(state).is_multiple_of(8) => text.truncate(at.max(1)),
            _ => {
                let byte = next(state) as u8;
                text[at] = if byte.is_ascii_graphic() { byte } else { b'9' };
            }
        }
    }
    text
}

#[test]
fn damaged_files_are_refused_or_merge_to_what_is_sound() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/part_file");
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 2, "{files:?}");
    for file in files {
        let text = std::fs::read(&file).unwrap();
        for seed in 0..3000_u64 {
            let mut state = seed;
            let text = if seed == 0 { text.clone() } else { damaged(&text, &mut state) };
            match &text[..] {
                [b'f', bytes @ ..] => part_file::merge_fio(bytes),
                _ => part_file::merge_parts(&text),
            }
        }
    }
}
