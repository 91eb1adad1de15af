//! Arbitrary text as a fio job file and its included files.
#![no_main]

use drumfire_fuzz::read_fio;
use libfuzzer_sys::fuzz_target;

/// Separator between a file and its included file.
const CUT: &str = "\n---\n";

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let (text, included) = text.split_once(CUT).unwrap_or((&text, ""));
    read_fio(text, included);
});
