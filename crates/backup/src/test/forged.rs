//! Forged backups, with right checksums: a restore writes nothing outside its folder, opens no
//! existing file, and reports what is wrong.

use super::*;
use crate::fate::{Fate, Gap, GapKind};
use crate::format::index::{Kept, Kind, put_index};
use crate::format::{ALIGN, FRAME_HEAD_BYTES, FrameHead, Head, checksum, padded};

fn kept(path: &str, kind: Kind) -> Kept {
    let (mode, listed_bytes, fate) = (0o644, 8, Fate::Whole);
    Kept { kind, path: path.into(), mode, uid: 0, gid: 0, listed_bytes, fate, gaps: Vec::new() }
}

/// A backup with this index and these frames: the number of an entry, an offset and data.
fn forge(entries: &[Kept], frames: &[(u32, u64, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; ALIGN];
    for (entry, offset, data) in frames {
        let at = bytes.len();
        let frame = FrameHead {
            id: 7,
            at: at as u64,
            entry: *entry,
            offset: *offset,
            source_bytes: data.len() as u32,
            stored_bytes: data.len() as u32,
            compressed: false,
            crc: checksum(data),
        };
        bytes.resize(at + padded(FRAME_HEAD_BYTES + data.len(), ALIGN), 0);
        frame.put(&mut bytes[at..]);
        bytes[at + FRAME_HEAD_BYTES..][..data.len()].copy_from_slice(data);
    }
    let index = put_index(entries);
    let head = Head {
        id: 7,
        complete: true,
        align: ALIGN as u32,
        transfer_bytes: 1 << 20,
        index_at: bytes.len() as u64,
        index_bytes: index.len() as u64,
        index_crc: checksum(&index),
    };
    head.put(&mut bytes[..ALIGN]);
    bytes.extend(&index);
    bytes.resize(padded(bytes.len(), ALIGN), 0);
    bytes
}

fn restore_of(scratch: &Scratch, backup: &[u8]) -> Result<Checked, BackupError> {
    let path = scratch.file("forged", backup);
    restored(&Target::open(&path).unwrap(), &scratch.at("into"))
}

#[test]
fn frames_are_only_for_files() {
    for kind in [Kind::Absent, Kind::Folder, Kind::Link("victim".into()), Kind::Hard(0)] {
        let scratch = Scratch::new();
        scratch.file("victim", b"original");
        let entries = [kept("first", Kind::File), kept("victim", kind.clone())];
        let backup = forge(&entries, &[(0, 0, b"12345678"), (1, 0, b"EVIL EVI")]);
        let checked = restore_of(&scratch, &backup).unwrap();
        assert_eq!(checked.damaged, 1, "{kind:?}: {:?}", checked.damages);
        assert!(
            checked.damages[0].what.contains("has a frame, but no data"),
            "{:?}",
            checked.damages
        );
        assert_eq!(fs::read(scratch.at("victim")).unwrap(), b"original");
        assert!(!scratch.at("into").exists());
        assert_eq!(fs::read(scratch.at("into.incomplete/first")).unwrap(), b"12345678");
    }
}

#[test]
fn nothing_is_written_through_a_link_of_the_backup() {
    for under in [Kind::Link("../outside".into()), Kind::Hard(0), Kind::Absent] {
        let scratch = Scratch::new();
        fs::create_dir(scratch.at("outside")).unwrap();
        let entries = [kept("first", Kind::File), kept("link", under), kept("link/x", Kind::File)];
        let backup = forge(&entries, &[(0, 0, b"12345678"), (2, 0, b"EVIL EVI")]);
        let error = restore_of(&scratch, &backup).unwrap_err().to_string();
        assert!(error.contains("no folder for link/x"), "{error}");
        assert_eq!(scratch.names(), ["forged", "outside"]);
        assert_eq!(fs::read_dir(scratch.at("outside")).unwrap().count(), 0);
    }
}

#[test]
fn a_folder_that_is_there_is_not_restored_into() {
    let scratch = Scratch::new();
    scratch.file("into/victim", b"original");
    let backup = forge(&[kept("victim", Kind::File)], &[(0, 0, b"EVIL EVI")]);
    let error = restore_of(&scratch, &backup).unwrap_err();
    assert!(matches!(error, BackupError::Place { .. }), "{error}");
    std::os::unix::fs::symlink("into", scratch.at("to-link")).unwrap();
    let target = Target::open(&scratch.at("forged")).unwrap();
    for name in ["into", "to-link", "forged"] {
        let error = restored(&target, &scratch.at(name)).unwrap_err().to_string();
        assert!(error.contains("exists"), "{name}: {error}");
    }
    assert_eq!(fs::read(scratch.at("into/victim")).unwrap(), b"original");
    assert_eq!(scratch.names(), ["forged", "into", "to-link"]);
}

#[test]
fn places_count_and_bytes_do_not() {
    let of = |frames: &[(u32, u64, &[u8])], gaps: Vec<Gap>| {
        let scratch = Scratch::new();
        let entry = Kept { gaps, ..kept("file", Kind::File) };
        let checked = restore_of(&scratch, &forge(&[entry], frames)).unwrap();
        let file = fs::read(checked.in_folder.unwrap().join("file")).unwrap();
        (checked.damaged, checked.damages, file)
    };
    let good: [(u32, u64, &[u8]); 2] = [(0, 4, b"5678"), (0, 0, b"1234")];
    assert_eq!(of(&good, vec![]), (0, vec![], b"12345678".to_vec()));
    let hole = |range| vec![Gap { kind: GapKind::Hole, range }];
    assert_eq!(of(&[(0, 4, b"5678")], hole(0..4)).2, b"\0\0\0\x005678");
    // Equal frames, overlapping ones, one outside, one in a hole: the first of each counts.
    type Frames<'a> = &'a [(u32, u64, &'a [u8])];
    let wrong: [(Frames, Vec<Gap>, u64, &[u8]); 5] = [
        (&[(0, 0, b"1234"), (0, 0, b"1234")], vec![], 2, b"1234\0\0\0\0"),
        (&[(0, 0, b"12345678"), (0, 3, b"xx")], vec![], 1, b"12345678"),
        (&[(0, 0, b"1234"), (0, 4, b"56789")], vec![], 2, b"1234\0\0\0\0"),
        (&[(0, u64::MAX - 1, b"1234")], vec![], 2, b"\0\0\0\0\0\0\0\0"),
        (&[(0, 0, b"12345678")], hole(7..8), 2, b"\0\0\0\0\0\0\0\0"),
    ];
    for (frames, gaps, damaged, file) in wrong {
        let found = of(frames, gaps);
        assert_eq!((found.0, &*found.2), (damaged, file), "{frames:?}: {:?}", found.1);
    }
    let (_, damages, _) = of(&[(0, 0, b"1234"), (0, 0, b"1234")], vec![]);
    assert_eq!(damages[1].ranges, only(4..8));
}

#[test]
fn an_unknown_entry_and_a_longer_file_are_told() {
    let scratch = Scratch::new();
    let backup = forge(&[kept("a", Kind::File)], &[(9, 0, b"12345678"), (0, 0, b"12345678")]);
    let checked = restore_of(&scratch, &backup).unwrap();
    assert!(checked.damages[0].what.contains("unknown file"), "{:?}", checked.damages);
    // A length that no file system has.
    let long = Kept { listed_bytes: i64::MAX as u64, ..kept("a", Kind::File) };
    let error = restore_of(&scratch, &forge(&[long], &[])).unwrap_err();
    assert!(matches!(error, BackupError::Unfinished { .. }), "{error}");
    assert!(error.to_string().contains("restored so far are in "), "{error}");
}

#[test]
fn a_second_try_begins_anew_beside_the_first() {
    let scratch = Scratch::new();
    let entries = [kept("a", Kind::File), kept("b", Kind::Link("x".into()))];
    let path = scratch.file("forged", &forge(&entries, &[(0, 0, b"12345678")]));
    let target = Target::open(&path).unwrap();
    for stops_after in 0_u32..12 {
        let left = std::cell::Cell::new(stops_after);
        let stop = || left.replace(left.get().saturating_sub(1)) == 0;
        let into = scratch.at("into");
        let to = Destination { folder: &into, owners: false };
        match restore(&target, Some(to), &|_| (), &stop) {
            Ok(_) => {
                assert!(stops_after > 3, "{stops_after}");
                assert_eq!(fs::read(into.join("a")).unwrap(), b"12345678");
                return;
            }
            Err(error) => {
                assert!(error.is_stopped(), "{error}");
                assert!(!into.exists());
            }
        }
    }
    panic!("it is stopped for ever");
}
