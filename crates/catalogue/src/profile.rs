//! Device profile of a drive of the catalogue: service stages derived from its published figures.
//!
//! The profile reproduces three points: the rated IOPS of 4 KiB at depth, the latency at queue
//! depth 1, and the bandwidth of large I/Os. Reads and writes of a mix share the medium, as in
//! `plan`.

use std::fmt::Write as _;

use model::Head;
use model::device::{Cost, Infinite, Profile, Scatter, Stage, Width};

use crate::{Catalogue, Class, Part, pretty, quantity_named};

/// Figures that the profile of a drive needs.
const NEEDED: [&str; 6] = [
    "read_iops",
    "write_iops",
    "read_latency",
    "write_latency",
    "read_bandwidth",
    "write_bandwidth",
];
/// Figures that are assumed if they are missing: without a rating of reads nothing is known of a
/// drive.
const ASSUMED: &[&str] =
    &["write_iops", "read_latency", "write_latency", "read_bandwidth", "write_bandwidth"];
/// Figures that the profile of a disk needs for its mechanics.
const ARM: [&str; 5] = ["rpm", "average_seek", "full_seek", "track_seek", "read_bandwidth"];
/// Optional figures of a disk.
const BESIDE: [&str; 4] = ["average_write_seek", "command_time", "cache", "queue_depth"];
/// Share of a disk's cache filled by read-ahead; the rest holds data of other offsets.
const AHEAD: f64 = 0.5;
/// I/O size of ratings in IOPS, in bytes.
const RATED: f64 = 4096.0;
/// I/O size of bandwidth ratings if one server handles both command and transfer, in bytes.
const LONG: f64 = 131_072.0;
/// Reads in flight per bank at which all banks are busy.
const FULL: f64 = 4.0;
/// Contention of the stage of the banks, times the number of banks. With this value the stage has
/// the throughput of n random reads by [`model::laws::banks_per_s`], at n = banks / 4, banks and 2
/// × banks, within 6 %.
const COLLISIONS: f64 = 0.6;

/// Reason why a part has no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProfile {
    /// The part is not a drive.
    #[error("{id} is {}: only drives have profiles", class.with_article())]
    Class {
        /// Id of the part.
        id: String,
        /// Class of the part.
        class: Class,
    },
    /// Figures that a profile needs are unpublished.
    #[error(
        "{id} cannot be emulated: the catalogue has no {}; `drumfire plan --drive {id}` predicts \
         it with figures of similar drives",
        .missing.join(", ")
    )]
    Figures {
        /// Id of the drive.
        id: String,
        /// Missing quantities.
        missing: Vec<&'static str>,
    },
    /// Figures of the drive contradict each other.
    #[error("{id} cannot be emulated: {reason}; correct its figures in a file for --parts")]
    Figure {
        /// Id of the drive.
        id: String,
        /// Contradiction found.
        reason: String,
    },
}

impl Part {
    /// Returns the service times of the drive's I/Os by its figures. A missing figure is not 0.
    fn profile(&self) -> Result<Profile, NoProfile> {
        let id = self.id.clone();
        if self.class != Class::Drive {
            return Err(NoProfile::Class { id, class: self.class });
        }
        let arm = self.arm();
        let missing: Vec<&str> =
            NEEDED.into_iter().filter(|quantity| self.value(quantity).is_none()).collect();
        if arm.is_none() && !missing.is_empty() {
            return Err(NoProfile::Figures { id, missing });
        }
        let stages = match arm {
            Some(stage) => self.controller().into_iter().chain([stage]).collect(),
            None => self.flash(),
        };
        let profile = Profile {
            name: id.clone(),
            about: format!("{}, by its figures in the catalogue; not measured here", self.name),
            queue_depth: self.value("queue_depth").map(|depth| depth as u32),
            calibration: None,
            stages,
        };
        profile.check().map_err(|reason| NoProfile::Figure { id, reason })?;
        Ok(profile)
    }

    /// Returns the disk as one stage, if the figures of its mechanics are known.
    fn arm(&self) -> Option<Stage> {
        let [rpm, average_seek_s, full_seek_s, settle_s, bytes_per_s] =
            ARM.map(|quantity| self.value(quantity).map(short));
        let write_seek_s = self.value("average_write_seek").or(average_seek_s);
        let head = Head {
            rpm: rpm?,
            bytes_per_s: bytes_per_s?,
            settle_s: settle_s?,
            average_seek_s: average_seek_s?,
            full_seek_s: full_seek_s?,
            write_settle_s: short((write_seek_s? - average_seek_s?).max(0.0)),
            ahead_bytes: self.value("cache").map_or(0.0, |bytes| bytes * AHEAD),
        };
        Some(Stage { head: Some(head), shape: Scatter::Fixed, ..stage("disk", Width::Count(1)) })
    }

    /// Returns the stage of a disk's controller, which processes commands while the arm moves, if
    /// the command time is published.
    fn controller(&self) -> Option<Stage> {
        let command = Cost { each_s: short(self.value("command_time")?), per_byte_s: 0.0 };
        let shape = Scatter::Fixed;
        Some(Stage { read: command, write: command, shape, ..stage("controller", ONE) })
    }

    /// Returns the stages of a drive without an arm.
    fn flash(&self) -> Vec<Stage> {
        let [read, write] = ["read", "write"].map(|op| {
            let figure = |what: &str| self.value(&format!("{op}_{what}")).unwrap_or(f64::INFINITY);
            Times::new(figure("iops"), figure("latency"), figure("bandwidth"))
        });
        let mut stages =
            vec![Stage { read: read.medium, write: write.medium, ..stage("medium", ONE) }];
        // Reads hit banks at random, so that even a few in flight collide. Writes go to a buffer,
        // and a SATA link is slower than a few banks: these stages have no queue.
        if read.wait_s > 0.0 {
            let banks = (read.wait_s + read.medium.each_s) / read.medium.each_s;
            let read = Cost { each_s: read.wait_s, per_byte_s: 0.0 };
            stages.push(match banks >= 2.0 && self.interface != "sata" {
                true => Stage {
                    read,
                    contention: short(COLLISIONS / banks),
                    ..stage("banks", Width::Count((FULL * banks).ceil() as u32))
                },
                false => Stage { read, ..stage("banks", Width::Word(Infinite::Infinite)) },
            });
        }
        if write.wait_s > 0.0 {
            let write = Cost { each_s: write.wait_s, per_byte_s: 0.0 };
            stages.push(Stage { write, ..stage("buffer", Width::Word(Infinite::Infinite)) });
        }
        let [read, write] =
            [read, write].map(|op| Cost { each_s: 0.0, per_byte_s: op.link_per_byte_s });
        if read.per_byte_s + write.per_byte_s > 0.0 {
            stages.push(Stage { read, write, shape: Scatter::Fixed, ..stage("link", ONE) });
        }
        stages
    }
}

const ONE: Width = Width::Count(1);

/// Returns a stage without service times.
fn stage(name: &str, servers: Width) -> Stage {
    Stage {
        name: name.to_owned(),
        servers,
        shared: false,
        contention: 0.0,
        coherence: 0.0,
        read: Cost::default(),
        write: Cost::default(),
        flush: None,
        shape: Scatter::Exponential,
        reserve: None,
        head: None,
    }
}

/// Service times of an I/O.
struct Times {
    /// Time at the single server that limits the rated IOPS.
    medium: Cost,
    /// Additional latency of an I/O at queue depth 1, in seconds.
    wait_s: f64,
    /// Time on the link, in seconds per byte; 0 if the medium's time includes the transfer.
    link_per_byte_s: f64,
}

impl Times {
    fn new(iops: f64, latency_s: f64, bandwidth: f64) -> Times {
        let (each_s, per_byte_s) = (short(1.0 / iops), short(1.0 / bandwidth));
        let wait_s = short(latency_s - each_s - RATED * per_byte_s);
        if wait_s >= 0.0 {
            let medium = Cost { each_s, per_byte_s: 0.0 };
            return Times { medium, wait_s, link_per_byte_s: per_byte_s };
        }
        // The latency at queue depth 1 is shorter than command plus transfer: one server handles
        // both, with the time of the IOPS rating for small I/Os and of the bandwidth for large
        // ones.
        let of = |bytes: f64| each_s.max(bytes * per_byte_s);
        let slope = (of(LONG) - of(RATED)) / (LONG - RATED);
        let medium = Cost { each_s: short(of(RATED) - RATED * slope), per_byte_s: short(slope) };
        let wait_s = short(latency_s - of(RATED)).max(0.0);
        Times { medium, wait_s, link_per_byte_s: 0.0 }
    }
}

/// Rounds a value to six significant digits, readable in a file.
fn short(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Note in profiles derived from ratings: what the figures leave open.
const OF_RATINGS: &str = "# The IOPS are of 4 KiB at depth, the latencies of one I/O alone. How \
    times scatter is\n# not known: exponential is supposed, so percentiles say nothing about the \
    drive.\n# No source says what a flush takes: it costs as a write of no bytes. A stage \
    with\n# `flush = { each_s = 2e-3 }` changes that.\n";
/// Note in profiles derived from a disk's mechanics: what the figures leave open.
const OF_ARMS: &str = "# Times scatter as the arm and the platters have it, nothing else does. \
    Half of the cache\n# is read ahead into, and writes are not cached. All tracks are as fast as \
    the bandwidth\n# says. Without command_time the controller takes none. A flush waits for no \
    write that was\n# answered; a stage with `flush = { each_s = 2e-3 }` changes that.\n";

impl Catalogue {
    /// Returns the service times of a drive's I/Os by its figures. Missing figures are the middle
    /// of those of drives like it, and the profile says so with their range.
    ///
    /// # Errors
    ///
    /// [`NoProfile`], with the missing quantities.
    pub fn profile(&self, part: &Part) -> Result<Profile, NoProfile> {
        let (drive, assumed) = self.assumed(part, ASSUMED);
        let mut profile = drive.profile()?;
        for words in assumed {
            profile.about = format!("{}; {words}", profile.about);
        }
        Ok(profile)
    }

    /// Returns the profile of a drive as TOML, with the figures used as comments.
    ///
    /// # Errors
    ///
    /// [`NoProfile`], with the missing quantities.
    pub fn profile_text(&self, part: &Part) -> Result<String, NoProfile> {
        let profile = self.profile(part)?;
        let part = &*self.assumed(part, ASSUMED).0;
        let figure = |reason| NoProfile::Figure { id: part.id.clone(), reason };
        let stages = profile.print().map_err(figure)?;
        let mut text = format!("# {}. Made of these figures of the catalogue:\n", part.name);
        let has_arm = profile.stages.iter().any(|stage| stage.head.is_some());
        let used: Vec<&str> = match has_arm {
            true => ARM.into_iter().chain(BESIDE).collect(),
            false => NEEDED.into_iter().chain(["queue_depth"]).collect(),
        };
        for (name, known) in used.into_iter().filter_map(|name| Some((name, part.known(name)?))) {
            let Some(quantity) = quantity_named(name) else { continue };
            let value = pretty(known.value, quantity);
            let title = self.sources.get(&known.source).map_or(&known.source, |of| &of.title);
            let _ = writeln!(text, "#   {name:<18} {value:<12} {}: {title}", known.kind.word());
        }
        text += if has_arm { OF_ARMS } else { OF_RATINGS };
        Ok(text + &stages)
    }
}

#[cfg(test)]
mod disks;
#[cfg(test)]
mod test;
