//! H25: detects a cache that served the job by the latency of reads, not by names: reads at random
//! offsets outside of the measured window, each offset twice before the run, others once after it.
//!
//! If second reads are faster than first ones, a cache below holds recently read data. Every cache
//! does that; the decisive figure is the share of the job's offsets that are as fast at their first
//! read. If both are equally fast, only the latency distinguishes a fast medium from a cache of all
//! of it: a medium as fast as memory is unknown.
//!
//! The noise of a host comes in bursts, and changes between before and after the run. So a cache is
//! reported only if both halves of the offsets show it, and second reads at the same time.

use super::together::{Finding, mib, together};
use super::{Check, Verdict};
use split::{Held, Split, are_faster, is_slower, is_uneven, lower, median, quarter, upper};

mod split;

/// Minimum number of offsets; fewer show nothing.
pub const PLACES_LEAST: usize = 16;

/// Latencies of reads outside of the measured window in nanoseconds, one read at a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Probed {
    /// First reads before the run, at random offsets that the job may use.
    pub first_ns: Vec<u64>,
    /// Second reads at the same offsets in the same order, each right after its first read.
    pub again_ns: Vec<u64>,
    /// Reads before the run, at offsets that the job does not use; `None` if the job may use all.
    pub unused_ns: Option<Vec<u64>>,
    /// Reads after the run, at other offsets that the job may use.
    pub after_ns: Vec<u64>,
    /// Second reads at the offsets of `after_ns`, in the same order, each right after the first
    /// one.
    pub after_again_ns: Vec<u64>,
}

/// Medium below a volume, which determines the minimum read latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// A rotational disk of this host.
    Turns,
    /// A solid-state disk of this host.
    Solid,
    /// A disk of a hypervisor, or a disk below layers that hide it.
    Hidden,
    /// The unknown medium of a remote target.
    Remote {
        /// Shortest round trip of the connection between the kernels of both ends, in nanoseconds.
        wire_ns: Option<u64>,
        /// Median round trip to a program of this host that answers from memory, in nanoseconds.
        program_ns: Option<u64>,
    },
}

/// The job's own reads, for comparison with those outside of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobReads {
    /// No comparable reads: none, or sequential ones, where read-ahead is no cache, or shorter
    /// ones.
    Unlike,
    /// Random reads of the same size.
    Like {
        /// Median latency in nanoseconds; `None` if unknown.
        p50_ns: Option<u64>,
    },
    /// Random reads of several sizes, at least a fifth of them as long or longer: nine of ten of
    /// them are quicker than half of the long ones only if a cache holds these.
    Mixed {
        /// Latency that nine of ten reads take at most, in nanoseconds; `None` if unknown.
        p90_ns: Option<u64>,
    },
}

impl JobReads {
    /// Returns the time that a share of the reads takes at most, and that share.
    fn at_most(self) -> Option<(u64, &'static str)> {
        match self {
            JobReads::Like { p50_ns } => Some((p50_ns?, "half")),
            JobReads::Mixed { p90_ns } => Some((p90_ns?, "nine of ten")),
            JobReads::Unlike => None,
        }
    }

    /// Returns whether there are comparable reads whose latency is not known.
    fn is_unknown(self) -> bool {
        self != JobReads::Unlike && self.at_most().is_none()
    }
}

/// Input of H25 for one volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Cached {
    /// Name of the volume.
    pub name: String,
    /// Bytes of the volume that the job may use.
    pub used_bytes: u64,
    /// Medium below the volume.
    pub below: Below,
    /// The job's reads.
    pub job: JobReads,
    /// Latencies of reads outside of the window, or the reason why there are none.
    pub probed: Result<Probed, String>,
}

/// Minimum latency of random reads of an HDD, in nanoseconds: the fastest make 250 rotations a
/// second, and half a rotation is 2 ms.
pub(super) const TURN_NS: u64 = 1_000_000;
/// Minimum read latency of a solid-state disk behind a PCIe link, in nanoseconds: the fastest
/// non-volatile memory (3D XPoint) takes 6 to 10 µs.
const SOLID_NS: u64 = 5_000;
/// Minimum read latency of flash below a hypervisor that hides it, in nanoseconds; such a disk of
/// the tests' hosts takes 45 µs.
const HIDDEN_NS: u64 = 20_000;
/// Minimum read latency of flash, in nanoseconds: reading a page of NAND takes 40 to 100 µs, and
/// faster kinds are as fast as memory behind a program.
const FLASH_NS: u64 = 40_000;
/// Memory behind a program on another host takes up to this many times its latency on this host,
/// which is at least `PROGRAM_LEAST_NS` nanoseconds: on this host both ends may share a CPU, and
/// wake no thread.
const PROGRAMS: f64 = 1.5;
const PROGRAM_LEAST_NS: u64 = 40_000;
/// Maximum share of the used range in a cache before the cache serves the job: if second reads are
/// at least four times as fast, and if they are so little faster that first ones may look like
/// them.
const HELD_MOST: [f64; 2] = [1.0 / 3.0, 0.5];
/// Ratio from which on first and second reads are clearly distinguishable.
const WELL_APART: f64 = 4.0;
/// Ratio below which some first reads look like second ones by chance, and the share of such reads
/// that is certain all the same.
const HARDLY_APART: f64 = 1.8;
const HELD_CERTAIN: f64 = 0.75;
/// Minimum ratio of unused to used offsets: unused offsets are farther from each other, and HDDs
/// take up to twice the time for them.
const UNUSED_TIMES: u64 = 4;
/// Ratio by which a single read may take longer than the same read of a busy job, because of
/// queues, CPU wake-ups and interrupts that wait.
const ALONE_TIMES: u64 = 4;

impl Cached {
    /// Returns the verdict on this volume from the latencies of the probe.
    pub fn judge(&self) -> Finding {
        let (verdict, words) = match &self.probed {
            Ok(probed) => self.probed(probed),
            Err(why) => (Verdict::Unknown, why.clone()),
        };
        (verdict, format!("{}: {words}", self.name))
    }

    fn probed(&self, probed: &Probed) -> Finding {
        let Probed { first_ns: first, again_ns: again, .. } = probed;
        let unused = probed.unused_ns.as_ref().map_or(PLACES_LEAST, Vec::len);
        let after = probed.after_ns.len().min(probed.after_again_ns.len());
        if first.len().min(again.len()).min(after).min(unused) < PLACES_LEAST {
            let words = format!(
                "sample reads in time: {} before the run, {} of them twice, {after} after it, \
                and {} outside the range of the job (at least {PLACES_LEAST} of each)",
                first.len(),
                again.len(),
                probed.unused_ns.as_ref().map_or(0, Vec::len),
            );
            return (Verdict::Unknown, words);
        }
        let (verdict, words) = match Split::of(first, again) {
            Some(split) => self.held(probed, &split),
            None => self.alike(probed),
        };
        let unknown = self.job.is_unknown();
        match (verdict, self.job_is_too_fast()) {
            (Verdict::Pass, Some(finding)) => finding,
            (Verdict::Pass, None) if unknown => {
                (Verdict::Unknown, format!("{words}; the latency of the job's reads is not known"))
            }
            _ => (verdict, words),
        }
    }

    /// Returns the finding if the job's own reads are faster than a medium of this host allows, and
    /// single reads show nothing: a queue makes reads slower, never faster than the medium.
    fn job_is_too_fast(&self) -> Option<Finding> {
        let (least, verdict, what) = match self.below {
            Below::Turns => (TURN_NS, Verdict::Warn, "no HDD completes a read in less than"),
            Below::Solid => (SOLID_NS, Verdict::Unknown, "no disk completes a read in less than"),
            Below::Hidden => {
                (HIDDEN_NS, Verdict::Unknown, "only memory, hardly a disk, completes a read within")
            }
            Below::Remote { .. } => return None,
        };
        let (took, share) = self.job.at_most().filter(|(took, _)| *took < least)?;
        let reads = format!("{share} of the job's reads took at most {}", time(took));
        Some((verdict, format!("{reads}: {what} {}", time(least))))
    }

    /// Returns the finding if a cache holds recently read data: the share of the used range that it
    /// holds.
    fn held(&self, probed: &Probed, split: &Split) -> Finding {
        let Split { cold_ns, again_ns, .. } = *split;
        let places = probed.first_ns.len();
        let twice = format!(
            "of {places} random offsets, the first read took {}, the second {}",
            time(cold_ns),
            time(again_ns)
        );
        let Some([before, after]) = parts_held(probed, split) else {
            let words = format!("{twice}, too irregular to distinguish a cache from the medium");
            return (Verdict::Unknown, words);
        };
        let held = before.part.max(after.part);
        let [most, certain] = match split.apart() {
            apart if apart >= WELL_APART => [HELD_MOST[0]; 2],
            apart if apart >= HARDLY_APART => [HELD_MOST[1]; 2],
            _ => [HELD_MOST[1], HELD_CERTAIN],
        };
        let words = format!(
            "{twice}: a cache holds about {:.0} % of the used range before the run, {:.0} % \
            after it ({} of {}; at most {:.0} %)",
            before.part * 100.0,
            after.part * 100.0,
            mib((self.used_bytes as f64 * held) as u64),
            mib(self.used_bytes),
            most * 100.0,
        );
        let agree = split.is_in_both_halves(&probed.first_ns, &probed.again_ns);
        if agree && [before, after].iter().any(|part| part.least > certain) {
            return (Verdict::Warn, words);
        }
        if held > most {
            let noise = "the first and second half of these reads disagree, or all took longer \
                after the run: a busy host has the same effect";
            return (Verdict::Unknown, format!("{words}; {noise}"));
        }
        match self.job.at_most() {
            Some((took, share)) if took <= before.limit_ns.min(after.limit_ns) => {
                let reads = format!("{share} of the job's reads took at most {}", time(took));
                let (verdict, like) = match agree && took < alone_least(probed) / ALONE_TIMES {
                    true => (Verdict::Warn, "like reads from a cache"),
                    false => (
                        Verdict::Unknown,
                        "like reads from a cache, or on a host without \
                        idle states",
                    ),
                };
                (verdict, format!("{reads}, {like}; {words}"))
            }
            _ => self.beyond_memory(cold_ns, words),
        }
    }

    /// Returns the finding if second reads are no faster: either no cache holds them, or a cache
    /// held all of the range before.
    fn alike(&self, probed: &Probed) -> Finding {
        let Probed { first_ns: first, unused_ns: unused, after_ns: after, .. } = probed;
        let [once, later] = [first, after].map(|all| median(all));
        if let Some(finding) = unused.as_ref().and_then(|unused| others_are_slower(first, unused)) {
            return finding;
        }
        if once >= 2 * later && are_faster(after, first) {
            let words = format!(
                "reads of random offsets take {} before the run, of others {} after it",
                time(once),
                time(later)
            );
            let [slow, fast] = [lower(first), upper(after)];
            return match slow as f64 >= WELL_APART * fast as f64 {
                true => (Verdict::Warn, format!("{words}: a cache now holds them")),
                false => (
                    Verdict::Unknown,
                    format!("{words}: a cache now holds them, or the host was busier before"),
                ),
            };
        }
        if let Some((took, share)) =
            self.job.at_most().filter(|(took, _)| *took < once / ALONE_TIMES)
        {
            let words = format!(
                "{share} of the job's reads took at most {}, a read of a random offset takes {}: a \
                cache serves the job's reads",
                time(took),
                time(once)
            );
            return match took < alone_least(probed) / ALONE_TIMES {
                true => (Verdict::Warn, words),
                false => (Verdict::Unknown, format!("{words}, or single reads were delayed")),
            };
        }
        let again = median(&probed.again_ns);
        let words = format!(
            "of {} random offsets, the first read took {}, the second {}, others after the run \
            {}: no sign of a cache",
            first.len(),
            time(once),
            time(again),
            time(later)
        );
        // Noise makes reads slower: the faster reads show what memory could not do.
        let (verdict, words) = self.beyond_memory(quarter(first).min(quarter(after)), words);
        let is_hidden = [first, &probed.again_ns, after].iter().any(|all| is_uneven(all));
        match verdict {
            Verdict::Pass if is_hidden => {
                let noise = "reads of the same kind differ more than the effect of a cache: the \
                    host is too busy to tell";
                (Verdict::Unknown, format!("{words}; {noise}"))
            }
            _ => (verdict, words),
        }
    }

    /// Returns a pass if the medium takes longer than memory would.
    fn beyond_memory(&self, medium_ns: u64, words: String) -> Finding {
        let faster = |than: &str| (Verdict::Unknown, format!("{words}; {than}"));
        match self.below {
            Below::Turns if medium_ns < TURN_NS => {
                let least = time(TURN_NS);
                (Verdict::Warn, format!("{words}; no HDD completes a read within {least}"))
            }
            Below::Solid if medium_ns < SOLID_NS => faster(&format!(
                "only memory completes a read within {}, not a disk",
                time(SOLID_NS)
            )),
            Below::Hidden if medium_ns < HIDDEN_NS => faster(&format!(
                "memory may complete a read within {}: only the host of this disk knows its medium",
                time(HIDDEN_NS)
            )),
            Below::Remote { wire_ns: Some(wire), program_ns: Some(program) } => {
                let slow = program.max(PROGRAM_LEAST_NS) as f64 * PROGRAMS;
                let memory = wire + slow as u64 + FLASH_NS;
                let parts = format!(
                    "memory of a target may complete a read within {} over this connection \
                    (round trip {}, a program of this host replies in {})",
                    time(memory),
                    time(wire),
                    time(program)
                );
                match medium_ns < memory {
                    true => faster(&format!(
                        "{parts}: a fast array looks like a cache; test a slower medium, or a \
                        volume larger than the memory of the target"
                    )),
                    false => (Verdict::Pass, format!("{words}; {parts}")),
                }
            }
            Below::Remote { .. } => faster("the round-trip time of its connection is not known"),
            Below::Turns | Below::Solid | Below::Hidden => (Verdict::Pass, words),
        }
    }
}

/// Returns the shares of the used range that a cache held before and after the run; `None` if too
/// few of the second reads are as fast as a cache.
fn parts_held(probed: &Probed, split: &Split) -> Option<[Held; 2]> {
    let Probed { first_ns, again_ns, after_ns, after_again_ns, .. } = probed;
    let before = Held::of(first_ns, again_ns, split.apart())?;
    // The pace of a host changes: reads after a run are compared with second reads after it. If
    // these take longer than before, a delay may hide the difference.
    let own = match is_slower(median(after_again_ns), split.again_ns) {
        true => Split::of(after_ns, after_again_ns),
        false => Some(*split),
    };
    let after = Held::of(after_ns, after_again_ns, own.unwrap_or(*split).apart())?;
    Some([before, if own.is_none() { Held { least: 0.0, ..after } } else { after }])
}

/// Returns a warning if offsets that the job does not use take longer than those it uses, all the
/// time.
fn others_are_slower(used: &[u64], unused: &[u64]) -> Option<Finding> {
    let is_so = |used: &[u64], unused: &[u64]| median(unused) >= UNUSED_TIMES * median(used);
    let (half, other) = (used.len() / 2, unused.len() / 2);
    let both = is_so(&used[..half], &unused[..other]) && is_so(&used[half..], &unused[other..]);
    if !(both && is_so(used, unused) && are_faster(used, unused)) {
        return None;
    }
    let words = format!(
        "reads of offsets that the job uses take {}, of others {}: a cache holds the former",
        time(median(used)),
        time(median(unused))
    );
    Some((Verdict::Warn, words))
}

/// Returns a latency that hardly any first read was below, before the run or after it.
fn alone_least(probed: &Probed) -> u64 {
    lower(&probed.first_ns).min(lower(&probed.after_ns))
}

/// Formats a time with its unit.
pub(super) fn time(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{:.1} µs", ns as f64 / 1e3),
        10_000..10_000_000 => format!("{:.0} µs", ns as f64 / 1e3),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

/// H25: no cache served the job. `others` are findings for volumes that nothing reads except the
/// job.
pub fn cache(volumes: &[Cached], others: Vec<Finding>) -> Check {
    let judged = volumes.iter().map(Cached::judge).chain(others);
    let check = together("H25", "cache", judged, "no volume was examined");
    match check.verdict {
        Verdict::Warn => check.mend("a larger volume or range: five times the size of the cache"),
        _ => check,
    }
}

#[cfg(test)]
mod test;
