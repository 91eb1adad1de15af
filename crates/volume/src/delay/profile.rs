//! Profiles: what a drive takes for an I/O, stage by stage.
//!
//! ```toml
//! name = "a drive on a shared link"
//! queue_depth = 32                 # more I/Os wait in front; without it there is no such limit
//!
//! [[stage]]
//! name = "medium"
//! servers = 10                     # or "infinite": nobody waits
//! read = { each_s = 65e-6 }
//! write = { each_s = 85e-6, per_byte_s = 1e-9 }
//! shape = { erlang = 4 }           # or "fixed", or "exponential", which is the default
//!
//! [[stage]]
//! name = "link"
//! servers = 1
//! shared = true                    # one for all drives; otherwise each drive has its own
//! read = { per_byte_s = 4e-9 }
//! write = { per_byte_s = 4e-9 }
//! ```
//!
//! A stage may charge for a flush (`flush = { each_s = 2e-3 }`; otherwise it takes as long as a
//! write of no bytes), and have a reserve of bytes that writes use up: fresh flash is fast until
//! its erased blocks run out, and slow while it makes new ones.
//!
//! ```toml
//! reserve = { capacity = 8e9, low = 1e9, high = 2e9, refill_per_s = 50e6, slowdown = 3 }
//! ```
//!
//! A stage with one server may be a disk. What it takes for a read or a write depends then on where
//! the last one ended, beside what the stage charges anyway, and of several that wait the one comes
//! first that the head can begin with soonest. The whole volume is the whole disk.
//!
//! ```toml
//! [stage.head]
//! rpm = 15000
//! bytes_per_s = 100e6              # under the head
//! settle_s = 0.2e-3                # to the next track
//! average_seek_s = 2.9e-3
//! full_seek_s = 6e-3               # from one end to the other
//! write_settle_s = 0.4e-3          # more for a seek before a write
//! ahead_bytes = 8e6                # what an idle head reads on into its buffer
//! ```
//!
//! A stage may lose by the universal scalability law: `contention = 0.02, coherence = 0.0`. The
//! table `[calibration]` stands in profiles that were fitted to measurements and says to which.
//! Percentiles mean something with `scatter = true` in it, and nothing without.

use std::path::Path;

use block::Op;
use model::usl::Scalability;
use model::{
    Class, Head, Network, Reserve, Servers, Service, Shape, Station, StationId, Step, Visit,
};
use serde::{Deserialize, Serialize};

use crate::watch::read_short;

/// Longest text that is read, in bytes.
pub(super) const TEXT_BYTES_MAX: u64 = 1 << 16;
/// Most stages.
const STAGES_MAX: usize = 16;
/// Most servers of a stage.
const SERVERS_MAX: u32 = 4096;
/// Most I/Os in a drive at once.
const DEPTH_MAX: u32 = 65_536;
/// Depth beyond which an arm is taken to gain nothing more.
const ARM_DEPTH_MAX: u32 = 512;
/// Longest time that a command or a byte takes: what longer takes is a mistake in units.
const TIME_S_MAX: f64 = 1000.0;
/// Least time of an I/O over all stages: without any, a simulation would not get on.
const TOTAL_S_MIN: f64 = 1e-9;

/// Profiles that come along, by name.
const SHIPPED: [(&str, &str); 3] = [
    ("x25-m", include_str!("../../profiles/x25-m.toml")),
    ("sas-15k", include_str!("../../profiles/sas-15k.toml")),
    ("disk-15k", include_str!("../../profiles/disk-15k.toml")),
];

/// What a drive takes for an I/O.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What it is called.
    pub name: String,
    /// Where its figures come from, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Most I/Os in the drive at once, 1 to 65536; further ones wait in front.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
    /// What it was fitted to; absent in what nobody has measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// The way of an I/O, 1 to 16.
    #[serde(rename = "stage")]
    pub stages: Vec<Stage>,
}

/// Median error on held-out runs beyond which a fit predicts nothing, in percent.
pub const HELD_OUT_ERROR_PERCENT_MAX: f64 = 15.0;

/// How a profile was fitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The runs.
    pub source: String,
    /// Points that it was fitted to.
    pub fitted: u32,
    /// Their median error, in percent.
    pub fit_error_percent: f64,
    /// Points that were held out.
    pub held_out: u32,
    /// Their median error, in percent.
    pub held_out_error_percent: f64,
    /// How times scatter was measured too, and percentiles mean something.
    pub scatter: bool,
}

/// A station on the way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Unique within the profile.
    pub name: String,
    /// I/Os that it serves at once.
    pub servers: Width,
    /// One for all drives; otherwise each has its own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared: bool,
    /// Share of its work that its servers do one after the other, 0 to 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub contention: f64,
    /// What each server costs each other one, 0 to 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub coherence: f64,
    /// What a read takes.
    #[serde(default)]
    pub read: Cost,
    /// What a write takes.
    #[serde(default)]
    pub write: Cost,
    /// What a flush takes; without it, as much as a write of no bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush: Option<Cost>,
    /// How times scatter around their mean.
    #[serde(default)]
    pub shape: Scatter,
    /// Bytes that writes use up and that the stage makes anew, at the cost of its speed. Theory
    /// does not see it: `plan` is of the fresh drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve: Option<Reserve>,
    /// It is a disk with an arm. Theory sees accesses at random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
}

/// How many I/Os a stage serves at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number of servers, or \"infinite\"")]
pub enum Width {
    /// So many, 1 to 4096.
    Count(u32),
    /// All.
    Word(Infinite),
}

/// The word for a stage without a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Infinite {
    /// Nobody waits.
    Infinite,
}

/// Time of an I/O at a stage: a part for the command, and one for each byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Seconds, whatever the length.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub each_s: f64,
    /// Seconds for each byte.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub per_byte_s: f64,
}

/// A distribution by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scatter {
    /// Always the mean.
    Fixed,
    /// Without memory.
    #[default]
    Exponential,
    /// Sum of so many exponential parts, 1 to 1000.
    Erlang(u32),
}

/// Why a profile was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("profile {name}: {reason}")]
pub struct ProfileError {
    /// As it was named.
    pub name: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl Profile {
    /// The profile that comes along under this name, or that of a file.
    ///
    /// # Errors
    ///
    /// With the remedy, when there is none or it makes no sense.
    pub fn load(name: &str) -> Result<Profile, ProfileError> {
        let refuse = |reason: String| ProfileError { name: name.to_owned(), reason };
        if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            return Profile::parse(text).map_err(refuse);
        }
        let text = read_short(Path::new(name), TEXT_BYTES_MAX).map_err(|error| {
            let known: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
            refuse(format!("{error}; name a file, or one of {}", known.join(", ")))
        })?;
        Profile::parse(&text).map_err(refuse)
    }

    /// Whether it comes along, so that no file of it can change.
    pub fn is_shipped(name: &str) -> bool {
        SHIPPED.iter().any(|(shipped, _)| *shipped == name)
    }

    /// Whether a fit is good enough to answer with: its own held-out runs say.
    ///
    /// # Errors
    ///
    /// Why not, beyond [`HELD_OUT_ERROR_PERCENT_MAX`].
    pub fn usable(&self) -> Result<(), String> {
        match &self.calibration {
            Some(fitted) if fitted.held_out_error_percent > HELD_OUT_ERROR_PERCENT_MAX => {
                Err(format!(
                    "profile {} is not usable: its fit is off by {:.0} % on runs that it did not \
                     see, {HELD_OUT_ERROR_PERCENT_MAX:.0} % at most are allowed; sweep again on a \
                     quiet host, longer and with more sizes",
                    self.name, fitted.held_out_error_percent
                ))
            }
            _ => Ok(()),
        }
    }

    /// What its percentiles rest on; `None` if on nothing that was measured.
    pub fn scatter_is_known(&self) -> Option<&str> {
        self.calibration.as_ref().filter(|fitted| fitted.scatter).map(|fitted| &*fitted.source)
    }

    /// Reads a profile.
    ///
    /// # Errors
    ///
    /// The reason, with line or key.
    pub fn parse(text: &str) -> Result<Profile, String> {
        let profile: Profile = toml::from_str(text).map_err(|error| error.to_string())?;
        profile.check()?;
        Ok(profile)
    }

    /// Writes it so that [`parse`](Self::parse) reads the same one.
    ///
    /// # Errors
    ///
    /// The reason, when [`check`](Self::check) refuses it.
    pub fn print(&self) -> Result<String, String> {
        self.check()?;
        toml::to_string(self).map_err(|error| error.to_string())
    }

    /// Checks every value.
    ///
    /// # Errors
    ///
    /// Key and range.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=STAGES_MAX).contains(&self.stages.len()) {
            return Err(format!("{} stages: 1 to {STAGES_MAX}", self.stages.len()));
        }
        if self.queue_depth.is_some_and(|depth| !(1..=DEPTH_MAX).contains(&depth)) {
            return Err(format!("queue_depth: 1 to {DEPTH_MAX}"));
        }
        let names = self.stages.iter().map(|stage| &stage.name).chain([&self.name]);
        if names.into_iter().any(|name| name.chars().any(char::is_control)) {
            return Err("a name with letters that steer a terminal: name it in words".to_owned());
        }
        for (index, stage) in self.stages.iter().enumerate() {
            stage.check().map_err(|reason| format!("stage '{}': {reason}", stage.name))?;
            if self.stages[..index].iter().any(|other| other.name == stage.name) {
                return Err(format!("two stages are called '{}'", stage.name));
            }
        }
        for op in [Op::Read, Op::Write] {
            let total: f64 = self.stages.iter().map(|stage| stage.random_s(op, 512)).sum();
            if total < TOTAL_S_MIN {
                let word = if op == Op::Read { "read" } else { "write" };
                return Err(format!("a {word} takes {total} s: {TOTAL_S_MIN} is the least"));
            }
        }
        let first = Class::closed("a write", 1);
        let mut network = self.network(1);
        network.add_class(Class { route: self.route(1, 0, Op::Write, 512), ..first });
        network.check().map_err(|error| error.to_string())
    }

    /// The stations of so many drives, without classes.
    pub fn network(&self, drives: u32) -> Network {
        let mut network = Network::default();
        for stage in &self.stages {
            let copies = if stage.shared { 1 } else { drives };
            for copy in 0..copies {
                let name = match stage.shared {
                    true => stage.name.clone(),
                    false => format!("{} {copy}", stage.name),
                };
                network.add_station(Station {
                    name,
                    servers: stage.station(),
                    reserve: stage.reserve.clone(),
                    head: stage.head.clone(),
                });
            }
        }
        network
    }

    /// The way of an I/O of one of `drives` drives through the stations of their
    /// [`network`](Self::network). What moves no data takes as long as a write of no bytes.
    pub fn route(&self, drives: u32, drive: u32, op: Op, len_bytes: u32) -> Vec<Step> {
        let mut first = 0;
        let mut route = Vec::new();
        for stage in &self.stages {
            let at = if stage.shared { first } else { first + drive };
            first += if stage.shared { 1 } else { drives };
            let len_bytes = if matches!(op, Op::Read | Op::Write) { len_bytes } else { 0 };
            let moves = stage.head.is_some() && len_bytes > 0;
            let own_s = stage.cost(op).seconds(len_bytes);
            // The arm adds its part when it knows where it is.
            let mean_s = if moves { own_s.max(TOTAL_S_MIN) } else { own_s };
            if mean_s > 0.0 {
                let service = Service { mean_s, shape: stage.shape.shape() };
                let draws = stage.draws(op, len_bytes);
                route.push(Step::Visit(Visit { at: vec![StationId(at)], service, draws }));
            }
        }
        if route.is_empty() {
            // What takes no time goes through all the same.
            let service = Service { mean_s: TOTAL_S_MIN, shape: Shape::Deterministic };
            route.push(Step::Visit(Visit { at: vec![StationId(0)], service, draws: 0.0 }));
        }
        route
    }

    /// The network of `drives` drives with so many I/Os outstanding on each, `read_share` of them
    /// reads, all of one length. A disk serves them at random places, as fast as its arm does with
    /// so many to choose from.
    pub fn closed(
        &self,
        drives: u32,
        outstanding: u32,
        read_share: f64,
        len_bytes: u32,
    ) -> Network {
        let stages = self.stages.iter().map(|stage| stage.still(len_bytes)).collect();
        let still = Profile { stages, ..self.clone() };
        let mut network = still.network(drives);
        let inside = self.queue_depth.map_or(outstanding, |depth| depth.min(outstanding));
        let mut first = 0;
        for stage in &self.stages {
            let count = if stage.shared { 1 } else { drives };
            if let Some(speeds) = stage.speeds(inside, read_share, len_bytes) {
                for station in &mut network.stations[first..first + count as usize] {
                    station.servers = Servers::Rates(speeds.clone());
                }
            }
            first += count as usize;
        }
        for drive in 0..drives {
            let mut class = Class::closed(format!("drive {drive}"), inside);
            let way = |op| still.route(drives, drive, op, len_bytes);
            class.route = match read_share {
                1.0 => way(Op::Read),
                0.0 => way(Op::Write),
                share => {
                    let ways = vec![(share, way(Op::Read)), (1.0 - share, way(Op::Write))];
                    vec![Step::Choose(ways)]
                }
            };
            network.add_class(class);
        }
        network
    }
}

impl Stage {
    /// What an operation takes; trims and zeroing are paid for as a write.
    pub fn cost(&self, op: Op) -> Cost {
        match op {
            Op::Read => self.read,
            Op::Flush => self.flush.unwrap_or(self.write),
            Op::Write | Op::Trim | Op::WriteZeroes => self.write,
        }
    }

    /// Mean seconds of an I/O of this length, at a random place of a disk.
    fn random_s(&self, op: Op, len_bytes: u32) -> f64 {
        let arm_s = match (&self.head, op) {
            (Some(head), Op::Read | Op::Write) => head.random_s(len_bytes, op == Op::Write),
            _ => 0.0,
        };
        self.cost(op).seconds(len_bytes) + arm_s
    }

    /// The same stage for I/Os of one length at random places, without an arm.
    fn still(&self, len_bytes: u32) -> Stage {
        if self.head.is_none() {
            return self.clone();
        }
        let mean = |op| Cost { each_s: self.random_s(op, len_bytes), per_byte_s: 0.0 };
        let (read, write, flush) = (mean(Op::Read), mean(Op::Write), Some(self.cost(Op::Flush)));
        Stage { read, write, flush, head: None, ..self.clone() }
    }

    /// How much faster a disk is with 1, 2, … `outstanding` I/Os to choose from.
    fn speeds(&self, outstanding: u32, read_share: f64, len_bytes: u32) -> Option<Vec<f64>> {
        let head = self.head.as_ref()?;
        let of = |op| self.cost(op).seconds(len_bytes);
        let besides_s = read_share * of(Op::Read) + (1.0 - read_share) * of(Op::Write);
        let depth = outstanding.clamp(1, ARM_DEPTH_MAX);
        Some(head.speeds(len_bytes, 1.0 - read_share, besides_s, depth))
    }

    /// Bytes of its reserve that an I/O uses up: at most all.
    fn draws(&self, op: Op, len_bytes: u32) -> f64 {
        match &self.reserve {
            Some(reserve) if op == Op::Write => f64::from(len_bytes).min(reserve.capacity),
            _ => 0.0,
        }
    }

    fn station(&self) -> Servers {
        let Width::Count(count) = self.servers else { return Servers::Infinite };
        if self.contention == 0.0 && self.coherence == 0.0 {
            return Servers::Count(count);
        }
        let (contention, coherence) = (self.contention, self.coherence);
        let law = Scalability { single_per_s: 1.0, contention, coherence };
        Servers::Rates((1..=count).map(|n| law.throughput_per_s(f64::from(n))).collect())
    }

    fn check(&self) -> Result<(), String> {
        if matches!(self.servers, Width::Count(count) if !(1..=SERVERS_MAX).contains(&count)) {
            return Err(format!("servers: 1 to {SERVERS_MAX}, or \"infinite\""));
        }
        for (key, value) in [("contention", self.contention), ("coherence", self.coherence)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(format!("{key} = {value}: 0 to 1"));
            }
        }
        let flush = self.flush.unwrap_or_default();
        for (key, cost) in [("read", self.read), ("write", self.write), ("flush", flush)] {
            for (part, value) in [("each_s", cost.each_s), ("per_byte_s", cost.per_byte_s)] {
                if !(0.0..=TIME_S_MAX).contains(&value) {
                    return Err(format!("{key}.{part} = {value}: 0 to {TIME_S_MAX} s"));
                }
            }
        }
        let is_alone = self.servers == Width::Count(1)
            && (self.contention, self.coherence) == (0.0, 0.0)
            && !self.shared;
        if self.head.is_some() && !is_alone {
            return Err("head: with servers = 1, not shared, no contention".to_owned());
        }
        match self.shape {
            Scatter::Erlang(stages) if !(1..=1000).contains(&stages) => {
                Err(format!("erlang = {stages}: 1 to 1000"))
            }
            _ => Ok(()),
        }
    }
}

impl Cost {
    /// Mean time of an I/O of this length, at most what a service may take.
    pub fn seconds(&self, len_bytes: u32) -> f64 {
        (self.each_s + self.per_byte_s * f64::from(len_bytes)).min(TIME_S_MAX)
    }
}

impl Scatter {
    fn shape(self) -> Shape {
        match self {
            Scatter::Fixed => Shape::Deterministic,
            Scatter::Exponential => Shape::Exponential,
            Scatter::Erlang(stages) => Shape::Erlang(stages),
        }
    }
}

fn is_false(value: &bool) -> bool {
    !*value
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "name = 'x'\nqueue_depth = 32\n[[stage]]\nname = 'medium'\nservers = 4\n\
        read = { each_s = 80e-6 }\nwrite = { each_s = 20e-6, per_byte_s = 1e-9 }\n\
        shape = { erlang = 4 }\n[[stage]]\nname = 'link'\nservers = 1\nshared = true\n\
        read = { per_byte_s = 4e-9 }\nwrite = { per_byte_s = 4e-9 }\nshape = 'fixed'\n";

    #[test]
    fn what_comes_along_is_right_and_what_is_written_is_read_again() {
        for (name, _) in SHIPPED {
            let profile = Profile::load(name).unwrap();
            assert_eq!(profile.name, name);
            assert_eq!(Profile::parse(&profile.print().unwrap()), Ok(profile));
        }
        let profile = Profile::parse(TEXT).unwrap();
        assert_eq!(Profile::parse(&profile.print().unwrap()), Ok(profile));
    }

    #[test]
    fn drives_share_what_is_shared() {
        let profile = Profile::parse(TEXT).unwrap();
        let network = profile.closed(3, 64, 0.7, 4096);
        network.check().unwrap();
        let names: Vec<&str> = network.stations.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["medium 0", "medium 1", "medium 2", "link"]);
        let [Step::Visit(medium), Step::Visit(link)] = &profile.route(3, 2, Op::Write, 4096)[..]
        else {
            panic!("another way")
        };
        assert_eq!((medium.at[0], link.at[0]), (StationId(2), StationId(3)));
        assert!((medium.service.mean_s - 24.096e-6).abs() < 1e-15);
        // What moves no data waits for the command only, and not for the link.
        assert_eq!(profile.route(3, 0, Op::Trim, 1 << 30).len(), 1);
    }

    #[test]
    fn nonsense_is_refused_with_its_key() {
        let says = |from: &str, to: &str| Profile::parse(&TEXT.replace(from, to)).unwrap_err();
        assert!(says("80e-6", "nan").contains("read.each_s"));
        assert!(says("80e-6", "-1.0").contains("stage 'medium': read.each_s = -1"));
        assert!(says("servers = 4", "servers = 0").contains("1 to 4096"));
        assert!(says("'link'", "'medium'").contains("two stages"));
        assert!(says("shared", "sharing").contains("sharing"));
        assert!(says("= 32", "= 0").contains("queue_depth"));
        assert!(says("'link'", "\"a\\u001b\"").contains("steer a terminal"));
        assert!(says("erlang = 4", "erlang = 0").contains("1 to 1000"));
        let nothing = "name = 'x'\n[[stage]]\nname = 'a'\nservers = 1\n";
        assert!(Profile::parse(nothing).unwrap_err().contains("a read takes 0 s"));
        let error = Profile::load("/nowhere").unwrap_err().to_string();
        assert!(error.contains("/nowhere") && error.contains("x25-m"), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(name|stage|read|servers|\\[\\[|\\]\\]|[={}'0-9e.\n-])*") {
            let _ = Profile::parse(&text);
        }
    }
}
