//! Malformed traces.

use std::io::{self, Cursor, Read};

use block::{Geometry, Nanos};
use job::spec::{Replay, Skip, TraceError};

/// Parses a trace with the options in the bits of `how`. It yields at most one I/O per line, ends,
/// and fits a large enough volume but no smaller one. An error names one of its lines.
pub fn read_trace(how: u8, bytes: &[u8]) {
    let mut replay = Replay::new("noise.log".to_owned());
    let bit = |bit: u8| how >> bit & 1 == 1;
    replay.stalls = bit(0);
    replay.speed_percent = if bit(1) { 1 } else { 100 };
    replay.divide_by = if bit(2) { 3 } else { 1 };
    replay.align_bytes = if bit(3) { 4096 } else { 1 };
    replay.skip = if bit(4) { vec![Skip::Read, Skip::Sync] } else { Vec::new() };
    let text = bytes.to_vec();
    let open = |_: &_| -> io::Result<Box<dyn Read>> { Ok(Box::new(Cursor::new(text.clone()))) };
    let lines = bytes.split(|byte| *byte == b'\n').count();
    let trace = match replay.load(&open, bit(5)) {
        Ok(trace) => trace,
        Err(TraceError::Line(error)) => {
            let line = error.at.line as usize;
            assert!((1..=lines + 1).contains(&line), "line {line} of {lines}");
            assert!(!error.text.chars().any(char::is_control), "{:?}", error.text);
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let facts = trace.facts();
    let ios: u64 = facts.ios.iter().sum();
    assert!(ios > 0 && ios < lines as u64, "{ios} I/Os in {lines} lines");
    assert!(facts.length <= Nanos::from_secs(366 * 86_400) && facts.end_bytes() <= i64::MAX as u64);
    assert_eq!(facts.end_bytes() > 0, facts.moves() > 0);
    if facts.moves() > 0 {
        let end = facts.end_bytes();
        assert_eq!(trace.fits(&[Geometry::new(end, 1)]), Ok(()));
        assert!(trace.fits(&[Geometry::new(end - 1, 1)]).is_err());
    }
}
