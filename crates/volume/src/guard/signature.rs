//! Signatures of partition tables, file systems and array members.

use std::io;

/// `(offset, bytes, name)`, as in the formats' own documentation and headers.
const MARKS: [(u64, &[u8], &str); 22] = [
    (512, b"EFI PART", "a GPT partition table"),
    (4096, b"EFI PART", "a GPT partition table"),
    (1080, &[0x53, 0xef], "an ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (65_600, b"_BHRfS_M", "a btrfs file system"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (54, b"FAT1", "a FAT file system"),
    (82, b"FAT32", "a FAT file system"),
    (1024, &[0x10, 0x20, 0xf5, 0xf2], "an F2FS file system"),
    (1024, &[0xe2, 0xe1, 0xf5, 0xe0], "an EROFS file system"),
    (0, b"hsqs", "a squashfs file system"),
    (32_769, b"CD001", "an ISO 9660 file system"),
    (4086, b"SWAPSPACE2", "swap space"),
    (0, b"LUKS\xba\xbe", "a LUKS volume"),
    (0, &MD_MAGIC, MD),
    (4096, &MD_MAGIC, MD),
    (
        4120,
        &[
            0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba,
            0x6d, 0x81,
        ],
        "a bcache or bcachefs device",
    ),
    (131_072, &[0x0c, 0xb1, 0xba, 0x00], "a ZFS pool"),
    (135_168, &[0x0c, 0xb1, 0xba, 0x00], "a ZFS pool"),
    (0, b"bluestore block device", "a Ceph store"),
    (32_768, b"JFS1", "a JFS file system"),
];
const MD_MAGIC: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];
const MD: &str = "a member of an md array";
/// Sectors that may hold an LVM label.
const LVM_SECTORS: u64 = 4;
const LVM: &str = "an LVM physical volume";

/// The signatures on `bytes` of storage that `read` reads, each once.
pub(super) fn find(
    bytes: u64,
    read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<Vec<&'static str>> {
    let mut found = Vec::new();
    let mut see = |what, is: bool| {
        if is && !found.contains(&what) {
            found.push(what);
        }
    };
    let holds = |at: u64, mark: &[u8]| -> io::Result<bool> {
        if at.saturating_add(mark.len() as u64) > bytes {
            return Ok(false);
        }
        let mut there = [0_u8; 32];
        let there = &mut there[..mark.len()];
        read(at, there)?;
        Ok(there == mark)
    };
    for (at, mark, what) in MARKS {
        see(what, holds(at, mark)?);
    }
    for sector in 0..LVM_SECTORS {
        see(LVM, holds(sector * 512, b"LABELONE")?);
    }
    // Older md superblocks are at the end: version 1.0 in the last 8 to 12 KiB, 0.90 in the last 64
    // to 128 KiB.
    let ends = [bytes.saturating_sub(8192) & !4095, (bytes & !0xffff).saturating_sub(0x1_0000)];
    for at in ends {
        see(MD, holds(at, &MD_MAGIC)?);
    }
    see("a master boot record", holds(510, &[0x55, 0xaa])?);
    Ok(found)
}

#[cfg(test)]
mod test {
    use super::*;

    fn found(bytes: usize, marks: &[(usize, &[u8])]) -> Vec<&'static str> {
        let mut disk = vec![0; bytes];
        for (at, mark) in marks {
            disk[*at..at + mark.len()].copy_from_slice(mark);
        }
        let read = |at: u64, into: &mut [u8]| {
            let at = at as usize;
            into.copy_from_slice(
                disk.get(at..at + into.len()).ok_or(io::ErrorKind::UnexpectedEof)?,
            );
            Ok(())
        };
        find(bytes as u64, read).unwrap()
    }

    #[test]
    fn each_mark_is_seen_at_its_place_only() {
        for (at, mark, what) in MARKS {
            assert_eq!(found(1 << 20, &[(at as usize, mark)]), [what], "{at}");
            assert!(found(1 << 20, &[(500_001, mark)]).is_empty(), "{at}");
        }
        assert_eq!(found(1 << 20, &[(1536, b"LABELONE")]), [LVM]);
        for at in [(1 << 20) - 8192, (1 << 20) - 65_536] {
            assert_eq!(found((1 << 20) + 512, &[(at, &MD_MAGIC)]), [MD]);
        }
        let both = found(1 << 20, &[(510, &[0x55, 0xaa]), (512, b"EFI PART")]);
        assert_eq!(both, ["a GPT partition table", "a master boot record"]);
    }

    #[test]
    fn small_and_empty_devices_hold_nothing() {
        for bytes in [0, 1, 511, 512, 4096, 70_000] {
            assert!(found(bytes, &[]).is_empty(), "{bytes}");
        }
    }
}
