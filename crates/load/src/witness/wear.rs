//! Write amplification, by the counters of the disks: how much of the writes went to their media.

use std::collections::BTreeMap;

use stats::verdict::Amplified;

use super::seen::Seen;

/// Bytes that each disk received, and bytes that it wrote to its media.
pub(super) type Media = BTreeMap<String, [u64; 2]>;

/// Returns the current counters of the disks that report them.
pub(super) fn of(volumes: &[Seen]) -> Media {
    let mut media = Media::new();
    for seen in volumes.iter().filter(|seen| seen.asked.writes) {
        let Some(device) = seen.file().and_then(|file| file.device.as_ref()) else { continue };
        if media.contains_key(&device.disk) {
            continue;
        }
        let sent = device.disk_counters().map(|counters| counters.written_bytes);
        if let Some((sent, wrote)) = sent.zip(device.media_bytes()) {
            media.insert(device.disk.clone(), [sent, wrote]);
        }
    }
    media
}

/// The parts of a window between counts of a disk, in the order of time; counts that are missing
/// make parts longer.
pub(super) fn amplified(disk: &str, counts: &[Option<&Media>]) -> Vec<Amplified> {
    let known = counts.iter().flatten().filter_map(|media| media.get(disk));
    let known: Vec<[u64; 2]> = known.copied().collect();
    let part = |pair: &[[u64; 2]]| Amplified {
        host_bytes: pair[1][0].saturating_sub(pair[0][0]),
        media_bytes: pair[1][1].saturating_sub(pair[0][1]),
    };
    known.windows(2).map(part).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn parts_are_what_came_between() {
        let media = |sent, wrote| Media::from([("nvme0n1".to_owned(), [sent, wrote])]);
        let (first, middle, last) = (media(10, 100), media(20, 130), media(50, 230));
        let of = |counts: &[Option<&Media>]| {
            let parts = amplified("nvme0n1", counts).into_iter();
            parts.map(|part| [part.host_bytes, part.media_bytes]).collect::<Vec<_>>()
        };
        assert_eq!(of(&[Some(&first), Some(&middle), Some(&last)]), [[10, 30], [30, 100]]);
        assert_eq!(of(&[Some(&first), None, Some(&last)]), [[40, 130]]);
        assert_eq!(of(&[Some(&first), None, Some(&Media::new())]), [[0_u64; 2]; 0]);
        assert_eq!(amplified("sda", &[Some(&first), Some(&last)]), []);
    }
}
