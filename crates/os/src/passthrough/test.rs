use super::*;

/// Identify Namespace data of `blocks` blocks with this chosen format.
fn namespace(blocks: u64, formats: u8, chosen: u8, format: [u8; 4]) -> Vec<u8> {
    let mut data = vec![0; IDENTIFY_BYTES];
    data[..8].copy_from_slice(&blocks.to_le_bytes());
    (data[25], data[26]) = (formats, chosen);
    let index = if formats < 16 { chosen & 0xf } else { chosen & 0xf | (chosen >> 5 & 3) << 4 };
    data[128 + 4 * usize::from(index)..][..4].copy_from_slice(&format);
    data
}

fn controller(mdts: u8, optional: u16, cache: u8) -> Vec<u8> {
    let mut data = vec![0; IDENTIFY_BYTES];
    data[77] = mdts;
    data[520..522].copy_from_slice(&optional.to_le_bytes());
    data[525] = cache;
    data
}

fn found() -> Namespace {
    let limits = controller(7, 0b1100, 1);
    Namespace::read(3, &namespace(1 << 20, 0, 0, [0, 0, 12, 0]), &limits, 256 << 10).unwrap()
}

fn op(kind: FileOpKind, offset: u64, len: u32) -> FileOp {
    FileOp { tag: 0, kind, offset, len, buf: None }
}

/// Opcode, bytes of data, and dwords 10 to 12 of an operation's command.
fn words(op: &FileOp, sofar: u32) -> (u8, u32, [u32; 3], Range) {
    let mut range = Range::default();
    let command = found().command(op, sofar, 0x1234_5678_9abc, &mut range);
    let word = |at: usize| u32::from_ne_bytes(command[at..at + 4].try_into().unwrap());
    assert_eq!(word(4), 3);
    let data = u64::from_ne_bytes(command[24..32].try_into().unwrap());
    assert_eq!(data, if word(36) > 0 { 0x1234_5678_9abc } else { 0 });
    assert!(command[52..].iter().all(|byte| *byte == 0));
    (command[0], word(36), [word(40), word(44), word(48)], range)
}

#[test]
fn a_namespace_is_what_identify_says() {
    let it = found();
    assert_eq!((it.bytes(), it.block_shift, it.most_bytes), (4 << 30, 12, 256 << 10));
    assert!(it.volatile_cache && it.deallocates && it.writes_zeroes);
    // MDTS is the limit, or there is none; the format index uses its upper bits.
    let data = namespace(8, 20, 0b010_0001, [0, 0, 9, 0]);
    for (mdts, most) in [(0, 300 << 10), (5, 128 << 10), (80, 300 << 10)] {
        let it = Namespace::read(1, &data, &controller(mdts, 0, 0), 300 << 10).unwrap();
        assert_eq!((it.bytes(), it.most_bytes), (4096, most));
        assert!(!it.volatile_cache && !it.deallocates && !it.writes_zeroes);
    }
    // A limit is rounded down to whole blocks; never below one.
    let it = Namespace::read(1, &data, &controller(0, 0, 0), 1000).unwrap();
    assert_eq!(it.most_bytes, 512);
}

#[test]
fn blocks_with_metadata_and_odd_ones_are_refused() {
    for (format, why) in [([8, 0, 12, 0], "8 bytes of metadata"), ([0, 0, 3, 0], "2^3 bytes")] {
        let data = namespace(8, 0, 0, format);
        let error = Namespace::read(1, &data, &controller(0, 0, 0), 4096).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    let error = Namespace::identify(&File::open("/dev/null").unwrap()).unwrap_err();
    assert!(error.to_string().contains("/dev/ngXnY"), "{error}");
    assert_eq!(block_twin(Path::new("/dev/null")), None);
}

#[test]
fn operations_are_commands() {
    let high = 5_u64 << 32;
    let read = op(FileOpKind::Read, high << 12, 300 << 10);
    assert_eq!(words(&read, 0).2, [0, 5, 63]);
    // The rest of an operation longer than a command.
    let (code, bytes, rest, _) = words(&read, 256 << 10);
    assert_eq!((code, bytes, rest), (2, 44 << 10, [64, 5, 10]));
    let write = op(FileOpKind::Write { durable: true }, 4096, 4096);
    let (code, bytes, rest, _) = words(&write, 0);
    assert_eq!((code, bytes, rest), (1, 4096, [1, 0, 1 << 30]));
    let (code, bytes, rest, _) = words(&op(FileOpKind::Sync, 0, 0), 0);
    assert_eq!((code, bytes, rest), (0, 0, [0; 3]));
    let (code, bytes, rest, range) = words(&op(FileOpKind::Discard, 8192, 1 << 20), 0);
    assert_eq!((code, bytes, rest, range.0), (9, 16, [0, 4, 0], [256 << 32, 2]));
    let (code, bytes, rest, _) = words(&op(FileOpKind::Zero, 4096, 1 << 20), 0);
    assert_eq!((code, bytes, rest), (8, 0, [1, 0, 255 | 1 << 25]));
    assert_eq!(found().step(FileOpKind::Zero, 1 << 30), 256 << 20);
}

#[test]
fn a_status_is_an_error_that_can_be_asked_for_it() {
    let error = NvmeStatus(0x4281).error();
    assert_eq!(error.to_string(), "NVMe status 0x2/0x81");
    assert_eq!(NvmeStatus::of(&error), Some(NvmeStatus(0x4281)));
    assert_eq!(NvmeStatus::of(&io::Error::from_raw_os_error(5)), None);
}
