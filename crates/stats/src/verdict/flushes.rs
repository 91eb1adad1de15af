//! H18: flushes, and writes that skip caches, take as long as a medium takes to write. A volatile
//! cache whose flush takes less was not flushed.

use super::cache::{TURN_NS, time};
use super::together::{Finding, together};
use super::{Check, Verdict};

/// A volume with a volatile cache, and the time of its flushes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// Name of the volume.
    pub name: String,
    /// Medium below the cache.
    pub to: FlushedTo,
    /// Time that half of the flushes that follow writes, or of the writes with FUA, take at most,
    /// in nanoseconds; `None` if too few flushes follow a write.
    pub took_ns: Option<u64>,
}

/// A medium below a volatile cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushedTo {
    /// A rotational disk of this host.
    Turns,
    /// A solid-state disk of this host.
    Solid,
    /// A disk of a hypervisor.
    Hidden,
    /// The unknown medium of a remote target.
    Remote {
        /// Shortest round trip of the connection, in nanoseconds.
        wire_ns: u64,
    },
}

/// Minimum time in which flash writes a page, in nanoseconds: the fastest, with one bit per cell,
/// takes 100 µs, and others 200 µs to 2 ms.
const PROGRAM_NS: u64 = 50_000;

impl Flushed {
    fn judge(&self) -> Option<Finding> {
        let Flushed { name, to, took_ns } = self;
        let Some(took_ns) = took_ns else {
            let words = format!(
                "{name}: its write cache is volatile, and too few flushes follow a write to tell \
                whether a flush writes: write more between flushes, or run longer"
            );
            return Some((Verdict::Unknown, words));
        };
        let (least, verdict, why) = match to {
            FlushedTo::Turns => (TURN_NS, Verdict::Warn, "no HDD writes in less than"),
            FlushedTo::Solid => (
                PROGRAM_NS,
                Verdict::Unknown,
                "its cache survives a power cut, or a flush does nothing: flash takes at least",
            ),
            FlushedTo::Hidden => (
                PROGRAM_NS,
                Verdict::Unknown,
                "its host caches writes, or ignores flushes: flash takes at least",
            ),
            FlushedTo::Remote { wire_ns } => (
                wire_ns + PROGRAM_NS,
                Verdict::Unknown,
                "its target has a durable cache, or ignores flushes: the connection and flash \
                take at least",
            ),
        };
        (*took_ns < least).then(|| {
            let words = format!(
                "{name}: its write cache is volatile, and half of the flushes and FUA writes \
                took at most {}: {why} {}",
                time(*took_ns),
                time(least)
            );
            (verdict, words)
        })
    }
}

/// H18 for volumes whose volatile caches are flushed sooner than any medium writes; `None` if there
/// is no such volume.
pub fn flushed(volumes: &[Flushed]) -> Option<Check> {
    let found: Vec<Finding> = volumes.iter().filter_map(Flushed::judge).collect();
    (!found.is_empty()).then(|| together("H18", "block-layer", found.into_iter(), ""))
}

#[cfg(test)]
mod test {
    use super::*;

    /// H18 detects: a volatile cache flushed in 20 µs, of HDD, flash, hypervisor or remote volume.
    /// H18 accepts: flushes that take the time of the medium.
    #[test]
    fn flushes_that_no_medium_can_follow_are_told() {
        let of = |to, took_ns| {
            let check = flushed(&[Flushed { name: "sda".into(), to, took_ns }]);
            check.map(|check| (check.verdict, check.evidence))
        };
        let (verdict, words) = of(FlushedTo::Turns, Some(20_000)).unwrap();
        assert_eq!(verdict, Verdict::Warn);
        assert!(words.contains("at most 20 µs: no HDD writes in less than 1000 µs"));
        let far = FlushedTo::Remote { wire_ns: 30_000 };
        for (to, lie, honest) in [
            (FlushedTo::Turns, 900_000, 4_000_000),
            (FlushedTo::Solid, 20_000, 300_000),
            (FlushedTo::Hidden, 20_000, 300_000),
            (far, 60_000, 300_000),
        ] {
            let verdict = if to == FlushedTo::Turns { Verdict::Warn } else { Verdict::Unknown };
            assert_eq!(of(to, Some(lie)).map(|(verdict, _)| verdict), Some(verdict), "{to:?}");
            assert_eq!(of(to, Some(honest)), None, "{to:?}");
            let (verdict, words) = of(to, None).unwrap();
            assert!(verdict == Verdict::Unknown && words.contains("too few flushes"), "{words}");
        }
        assert_eq!(flushed(&[]), None);
    }
}
