//! Fixed fields of text.

/// The text of a field that is padded with spaces, as in INQUIRY and Identify. What is not
/// printable becomes a dot; words stand one space apart.
pub(crate) fn printable(field: &[u8]) -> String {
    let shown = field.iter().map(|byte| match byte {
        0x20..=0x7e => char::from(*byte),
        // Some pad with NUL.
        0 => ' ',
        _ => '.',
    });
    shown.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
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
