//! Flash wear: a drive's own count of the bytes written to its media.

use std::fs::File;
use std::path::Path;

use crate::Device;
use crate::passthrough::log_page;

/// Log page of the OCP Datacenter NVMe SSD Specification, §SMART / Health Information Extended.
const EXTENDED: u8 = 0xC0;
/// Length of the log page in bytes.
const EXTENDED_BYTES: usize = 512;
/// GUID of the log page, AFD514C97C6F4F9CA4F2BFEA2810AFC5h, little-endian: other vendors use the
/// same page number for other pages.
const GUID: [u8; 16] = [
    0xC5, 0xAF, 0x10, 0x28, 0xEA, 0xBF, 0xF2, 0xA4, 0x9C, 0x4F, 0x6F, 0x7C, 0xC9, 0x14, 0xD5, 0xAF,
];

impl Device {
    /// Bytes that its NVMe drive has written to its media in its life; `None` of drives without
    /// that log page, and without the right to read it.
    pub fn media_bytes(&self) -> Option<u64> {
        if !self.is_nvme() {
            return None;
        }
        let disk = File::open(Path::new("/dev").join(&self.disk)).ok()?;
        of_page(&log_page(&disk, EXTENDED, EXTENDED_BYTES).ok()?)
    }
}

fn of_page(page: &[u8]) -> Option<u64> {
    let is_it = page.get(EXTENDED_BYTES - GUID.len()..EXTENDED_BYTES)? == GUID;
    // Physical Media Units Written has 16 bytes; 16 EiB are enough.
    let written = u128::from_le_bytes(page[..16].try_into().ok()?);
    is_it.then(|| u64::try_from(written).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_page_is_known_by_its_guid() {
        let mut page = vec![0; EXTENDED_BYTES];
        page[..8].copy_from_slice(&123_456_789_u64.to_le_bytes());
        assert_eq!(of_page(&page), None, "another vendor's");
        page[EXTENDED_BYTES - 16..].copy_from_slice(&GUID);
        assert_eq!(of_page(&page), Some(123_456_789));
        assert_eq!(of_page(&page[..EXTENDED_BYTES - 1]), None);
        page[..16].fill(0xff);
        assert_eq!(of_page(&page), Some(u64::MAX));
    }
}
