//! Whether a cache served the job, told by what reads take, not by names: reads of random places
//! outside of the measured window, each place twice before the run, others once after it.
//!
//! Where second reads are faster than first ones, a cache below holds what was just read. By itself
//! that is what every cache does: what counts is how many of the places that the job uses answer as
//! fast at their first read. Where both take the same, only its time tells a fast medium from a
//! cache that has all of it: what answers as fast as memory is not known.
//!
//! The noise of a host comes in bursts, and changes from before the run to after it. So a cache is
//! told only by what both halves of the places say, and by second reads of the same moments.

use super::together::{Finding, mib, together};
use super::{Check, Verdict};
use split::{Held, Split, are_faster, is_slower, is_uneven, lower, median, quarter, upper};

mod split;

/// Fewer places tell nothing.
pub const PLACES_LEAST: usize = 16;

/// Latencies of reads outside of the measured window in nanoseconds, one read at a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Probed {
    /// Before the run, of random places that the job may use, each for the first time.
    pub first_ns: Vec<u64>,
    /// Of the same places in the same order, each right after its first read.
    pub again_ns: Vec<u64>,
    /// Before the run, of places that the job does not use; `None` where it may use all.
    pub unused_ns: Option<Vec<u64>>,
    /// After the run, of other places that the job may use.
    pub after_ns: Vec<u64>,
    /// Second reads of the places in `after_ns`, in the same order, each right after the first one.
    pub after_again_ns: Vec<u64>,
}

/// What the least time of a read is known of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// A rotating disk of this host.
    Turns,
    /// A solid-state disk of this host.
    Solid,
    /// A disk of a hypervisor, or one below layers that hide it.
    Hidden,
    /// Whatever a target has, behind a connection.
    Remote {
        /// Shortest round trip of the connection between the kernels of both ends, in nanoseconds.
        wire_ns: Option<u64>,
        /// Median round trip to a program of this host that answers from memory, in nanoseconds.
        program_ns: Option<u64>,
    },
}

/// The job's own reads, held against those outside of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobReads {
    /// None, or in sequence, where read-ahead is no cache, or of another length.
    Unlike,
    /// Of random places, and as long.
    Like {
        /// Half of them took no longer, in nanoseconds; `None` where that is not known.
        p50_ns: Option<u64>,
    },
}

/// A volume before H25.
#[derive(Clone, Debug, PartialEq)]
pub struct Cached {
    /// Its name.
    pub name: String,
    /// Bytes of it that the job may use.
    pub used_bytes: u64,
    /// What is below it.
    pub below: Below,
    /// What the job's reads took.
    pub job: JobReads,
    /// What reads outside of the window took, or why nobody knows.
    pub probed: Result<Probed, String>,
}

/// No disk that turns answers random reads in less, in nanoseconds: the fastest make 250 turns a
/// second, and half a turn is 2 ms.
pub(super) const TURN_NS: u64 = 1_000_000;
/// No solid-state disk behind a PCIe link does, in nanoseconds: the fastest memory that keeps its
/// data (3D XPoint) takes 6 to 10 µs.
const SOLID_NS: u64 = 5_000;
/// Nor does flash below a hypervisor that hides it, in nanoseconds; a disk of the tests' hosts that
/// is one takes 45 µs.
const HIDDEN_NS: u64 = 20_000;
/// Nor does flash, in nanoseconds: a page of NAND is read in 40 to 100 µs, and faster kinds are as
/// fast as memory behind a program.
const FLASH_NS: u64 = 40_000;
/// Memory behind a program of another host takes up to so many times what it takes on this one, and
/// that is at least so long, in nanoseconds: here both ends may share a processor, and wake nobody.
const PROGRAMS: f64 = 1.5;
const PROGRAM_LEAST_NS: u64 = 40_000;
/// A cache that holds a larger part of what is used serves the job: where second reads are four
/// times as fast and more, and where they are so little faster that first ones may look like them.
const HELD_MOST: [f64; 2] = [1.0 / 3.0, 0.5];
/// From how many times on the two are told apart well.
const WELL_APART: f64 = 4.0;
/// Times below which some first reads look like second ones by chance, and the part of them that is
/// beyond doubt all the same.
const HARDLY_APART: f64 = 1.8;
const HELD_CERTAIN: f64 = 0.75;
/// Places that are not used lie farther from each other, and disks that turn take up to twice the
/// time for them: so many times is no distance.
const UNUSED_TIMES: u64 = 4;
/// Queues, waking processors and interrupts that wait make a single read up to so many times as
/// long as the same read of a busy job.
const ALONE_TIMES: u64 = 4;

impl Cached {
    /// Verdict on this volume by the latencies of the probe.
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
                "{} places were read in time before the run, {} of them twice, {after} after it, \
                 and {} that it does not use (at least {PLACES_LEAST} of each)",
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
        let unknown = matches!(self.job, JobReads::Like { p50_ns: None });
        match (verdict, self.job_is_too_fast()) {
            (Verdict::Pass, Some(finding)) => finding,
            (Verdict::Pass, None) if unknown => {
                (Verdict::Unknown, format!("{words}; what the job's reads took is not known"))
            }
            _ => (verdict, words),
        }
    }

    /// Finding of the job's own reads against a medium of this host, where single reads have none:
    /// a queue makes reads longer, never shorter than the medium.
    fn job_is_too_fast(&self) -> Option<Finding> {
        let (least, verdict, what) = match self.below {
            Below::Turns => (TURN_NS, Verdict::Warn, "no disk that turns answers sooner than"),
            Below::Solid => (SOLID_NS, Verdict::Unknown, "no disk answers sooner than"),
            Below::Hidden => (HIDDEN_NS, Verdict::Unknown, "memory may, and hardly a disk, within"),
            Below::Remote { .. } => return None,
        };
        match self.job {
            JobReads::Like { p50_ns: Some(p50) } if p50 < least => {
                let half = format!("half of the job's reads took at most {}", time(p50));
                Some((verdict, format!("{half}: {what} {}", time(least))))
            }
            _ => None,
        }
    }

    /// A cache holds what was just read: how much of what is used does it hold?
    fn held(&self, probed: &Probed, split: &Split) -> Finding {
        let Split { cold_ns, again_ns, .. } = *split;
        let places = probed.first_ns.len();
        let twice = format!(
            "of {places} random places the first read took {}, the second {}",
            time(cold_ns),
            time(again_ns)
        );
        let Some([before, after]) = parts_held(probed, split) else {
            let words = format!("{twice}, too unevenly to tell a cache from the medium");
            return (Verdict::Unknown, words);
        };
        let held = before.part.max(after.part);
        let [most, certain] = match split.apart() {
            apart if apart >= WELL_APART => [HELD_MOST[0]; 2],
            apart if apart >= HARDLY_APART => [HELD_MOST[1]; 2],
            _ => [HELD_MOST[1], HELD_CERTAIN],
        };
        let words = format!(
            "{twice}: a cache holds about {:.0} % of what is used before the run, {:.0} % after it \
             ({} of {}; at most {:.0} %)",
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
            let noise = "the first and the second half of these places do not agree, or all took \
                         longer after the run: a busy host does the same";
            return (Verdict::Unknown, format!("{words}; {noise}"));
        }
        match self.job {
            JobReads::Like { p50_ns: Some(p50) } if p50 <= before.limit_ns.min(after.limit_ns) => {
                let half = format!("half of the job's reads took at most {}", time(p50));
                let (verdict, like) = match agree && p50 < alone_least(probed) / ALONE_TIMES {
                    true => (Verdict::Warn, "as what a cache holds does"),
                    false => (Verdict::Unknown, "as what a cache holds does, or a host that rests"),
                };
                (verdict, format!("{half}, {like}; {words}"))
            }
            _ => self.beyond_memory(cold_ns, words),
        }
    }

    /// Second reads are no faster: either no cache holds them, or one has had all of it before.
    fn alike(&self, probed: &Probed) -> Finding {
        let Probed { first_ns: first, unused_ns: unused, after_ns: after, .. } = probed;
        let [once, later] = [first, after].map(|all| median(all));
        if let Some(finding) = unused.as_ref().and_then(|unused| others_are_slower(first, unused)) {
            return finding;
        }
        if once >= 2 * later && are_faster(after, first) {
            let words = format!(
                "random places take {} before the run, others {} after it",
                time(once),
                time(later)
            );
            let [slow, fast] = [lower(first), upper(after)];
            return match slow as f64 >= WELL_APART * fast as f64 {
                true => (Verdict::Warn, format!("{words}: a cache holds them now")),
                false => (
                    Verdict::Unknown,
                    format!("{words}: a cache holds them now, or the host was busier before"),
                ),
            };
        }
        match self.job {
            JobReads::Like { p50_ns: Some(p50) } if p50 < once / ALONE_TIMES => {
                let words = format!(
                    "half of the job's reads took at most {}, one of random places takes {}: a \
                     cache holds what the job reads",
                    time(p50),
                    time(once)
                );
                return match p50 < alone_least(probed) / ALONE_TIMES {
                    true => (Verdict::Warn, words),
                    false => (Verdict::Unknown, format!("{words}, or single reads waited")),
                };
            }
            _ => {}
        }
        let again = median(&probed.again_ns);
        let words = format!(
            "of {} random places the first read took {}, the second {}, others after the run {}: \
             no cache shows",
            first.len(),
            time(once),
            time(again),
            time(later)
        );
        // Noise makes reads longer: the faster ones tell what memory could not do.
        let (verdict, words) = self.beyond_memory(quarter(first).min(quarter(after)), words);
        let is_hidden = [first, &probed.again_ns, after].iter().any(|all| is_uneven(all));
        match verdict {
            Verdict::Pass if is_hidden => {
                let noise = "reads of one kind differ by more than a cache makes them: the host is \
                             too busy to tell";
                (Verdict::Unknown, format!("{words}; {noise}"))
            }
            _ => (verdict, words),
        }
    }

    /// Passes where the medium takes longer than memory would.
    fn beyond_memory(&self, medium_ns: u64, words: String) -> Finding {
        let faster = |than: &str| (Verdict::Unknown, format!("{words}; {than}"));
        match self.below {
            Below::Turns if medium_ns < TURN_NS => {
                let least = time(TURN_NS);
                (Verdict::Warn, format!("{words}; no disk that turns answers within {least}"))
            }
            Below::Solid if medium_ns < SOLID_NS => {
                faster(&format!("within {} memory answers, no disk does", time(SOLID_NS)))
            }
            Below::Hidden if medium_ns < HIDDEN_NS => faster(&format!(
                "memory may answer within {}: which medium this is only its host knows",
                time(HIDDEN_NS)
            )),
            Below::Remote { wire_ns: Some(wire), program_ns: Some(program) } => {
                let slow = program.max(PROGRAM_LEAST_NS) as f64 * PROGRAMS;
                let memory = wire + slow as u64 + FLASH_NS;
                let parts = format!(
                    "memory behind this connection may answer within {} (round trip {}, a program \
                     of this host answers in {})",
                    time(memory),
                    time(wire),
                    time(program)
                );
                match medium_ns < memory {
                    true => faster(&format!(
                        "{parts}: a fast array looks like a cache; a slower medium, or a volume \
                         larger than the target's memory, would tell"
                    )),
                    false => (Verdict::Pass, format!("{words}; {parts}")),
                }
            }
            Below::Remote { .. } => faster("the round trip of its connection is not known"),
            Below::Turns | Below::Solid | Below::Hidden => (Verdict::Pass, words),
        }
    }
}

/// The parts of what is used that a cache held before and after the run; `None` where too few of
/// the second reads are as fast as a cache.
fn parts_held(probed: &Probed, split: &Split) -> Option<[Held; 2]> {
    let Probed { first_ns, again_ns, after_ns, after_again_ns, .. } = probed;
    let before = Held::of(first_ns, again_ns, split.apart())?;
    // The pace of a host changes: reads after a run are held against second reads after it. Where
    // these take longer than before, a delay may hide the difference.
    let own = match is_slower(median(after_again_ns), split.again_ns) {
        true => Split::of(after_ns, after_again_ns),
        false => Some(*split),
    };
    let after = Held::of(after_ns, after_again_ns, own.unwrap_or(*split).apart())?;
    Some([before, if own.is_none() { Held { least: 0.0, ..after } } else { after }])
}

/// A warning where places that the job does not use take longer than those it uses, all the time.
fn others_are_slower(used: &[u64], unused: &[u64]) -> Option<Finding> {
    let is_so = |used: &[u64], unused: &[u64]| median(unused) >= UNUSED_TIMES * median(used);
    let (half, other) = (used.len() / 2, unused.len() / 2);
    let both = is_so(&used[..half], &unused[..other]) && is_so(&used[half..], &unused[other..]);
    if !(both && is_so(used, unused) && are_faster(used, unused)) {
        return None;
    }
    let words = format!(
        "places that the job uses take {}, others {}: a cache holds the former",
        time(median(used)),
        time(median(unused))
    );
    Some((Verdict::Warn, words))
}

/// A time below which hardly any first read was, before the run or after it.
fn alone_least(probed: &Probed) -> u64 {
    lower(&probed.first_ns).min(lower(&probed.after_ns))
}

/// A time in words.
pub(super) fn time(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{:.1} µs", ns as f64 / 1e3),
        10_000..10_000_000 => format!("{:.0} µs", ns as f64 / 1e3),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

/// H25: no cache served the job. `others` are what is known of volumes that nobody reads beside the
/// job.
pub fn cache(volumes: &[Cached], others: Vec<Finding>) -> Check {
    let judged = volumes.iter().map(Cached::judge).chain(others);
    let check = together("H25", "cache", judged, "no volume was looked at");
    match check.verdict {
        Verdict::Warn => check.mend("a larger volume or range: five times what the cache holds"),
        _ => check,
    }
}

#[cfg(test)]
mod test;
