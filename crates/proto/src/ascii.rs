//! Text in fixed fields, and in names.

/// Returns the text of a field that is padded with spaces, as in INQUIRY and Identify. Unprintable
/// characters become dots; words are one space apart.
pub(crate) fn printable(field: &[u8]) -> String {
    let shown = field.iter().map(|byte| match byte {
        0x20..=0x7e => char::from(*byte),
        // Some pad with NUL.
        0 => ' ',
        _ => '.',
    });
    shown.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether `text` is `YYYY-MM.reversed.domain`, the authority of an iqn or nqn name.
pub(crate) fn is_authority(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let date = [0, 1, 2, 3, 5, 6].into_iter().all(digit);
    let marks = bytes.get(4) == Some(&b'-') && bytes.get(7) == Some(&b'.');
    if !date || !marks || !matches!(text[5..7].parse(), Ok(1..=12)) {
        return false;
    }
    let domain = &text[8..];
    let plain = domain.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    plain && !domain.split('.').any(str::is_empty)
}

#[cfg(test)]
mod test {
    use super::printable;

    #[test]
    fn fields_become_words() {
        assert_eq!(printable(b"LIO-ORG RAMDISK-MCP     "), "LIO-ORG RAMDISK-MCP");
        assert_eq!(printable(b"IET     VIRTUAL-DISK\0\0"), "IET VIRTUAL-DISK");
        assert_eq!(printable(b"a\x1b[2Jb \xff"), "a.[2Jb .");
        assert_eq!(printable(b"    "), "");
    }
}
