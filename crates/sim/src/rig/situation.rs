//! Parameters of a situation: drawn from a seed, printed as one line, and parsed from it.

use std::fmt;
use std::str::FromStr;

use block::Rng;

/// A situation: workers on volumes that follow a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Situation {
    /// Seed of all choices not listed below.
    pub seed: u64,
    /// Volumes, 1 to 4; workers are assigned in turn.
    pub volumes: u64,
    /// Workers, 1 to 8.
    pub workers: u64,
    /// Queue depth of a worker, 1 to 64.
    pub depth: u64,
    /// Approximate I/Os of the run.
    pub ios: u64,
    /// Length of the measured window in milliseconds, 1 and more.
    pub window: u64,
    /// Ramp time in milliseconds.
    pub ramp: u64,
    /// Parallel servers of a volume; 0: unlimited.
    pub units: u64,
    /// Distribution of service times: an index into [`SERVICES`].
    pub service: u64,
    /// Pacing: an index into [`PACES`].
    pub pace: u64,
    /// Planned load of an open loop, in percent of the volumes' capacity.
    pub load: u64,
    /// Share of reads in percent.
    pub reads: u64,
    /// Mixed I/O sizes, 1 to 3.
    pub sizes: u64,
    /// I/Os after which the first worker ends; 0 for none.
    pub limit: u64,
    /// Seconds after which the run is interrupted, ramp included; 0 for never.
    pub stop: u64,
    /// Divisor of every second worker's queue depth.
    pub skew: u64,
    /// Milliseconds after which the last worker starts, its duration (0: to the end), and its
    /// unmeasured part.
    pub delay: u64,
    /// See `delay`.
    pub length: u64,
    /// See `delay`.
    pub warm: u64,
    /// Closed loop: a flush after this many writes; 0 for none.
    pub flush: u64,
    /// Closed loop: low watermark of the queue depth; 0 for none.
    pub refill: u64,
    /// Closed loop: microseconds between bursts of three I/Os; 0 for none.
    pub pause: u64,
    /// 1: reads are verified.
    pub verify: u64,
    /// Mishaps that happen.
    pub mishaps: Vec<Mishap>,
}

/// Distributions of service times.
pub const SERVICES: [&str; 5] = ["fixed", "uniform", "exponential", "two-peaks", "long-tail"];
/// Pacing.
pub const PACES: [&str; 4] = ["closed", "rate", "poisson", "bytes"];

/// A mishap of volumes or lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// All volumes stall for a while.
    StallAll,
    /// One volume stalls for a while.
    StallOne,
    /// One volume stalls for more than a third of the window.
    DeadThird,
    /// One volume stalls from some time in the window on, for good.
    DeadEnd,
    /// A worker gets no completions at all.
    Starve,
    /// A few I/Os never complete.
    Silent,
    /// One I/O times out, and its lane is lost.
    TimeOut,
    /// I/Os fail for a while.
    Errors,
    /// I/Os fail in the ramp only.
    RampErrors,
    /// I/Os fail in the whole window.
    WindowErrors,
    /// Service times grow.
    Drift,
    /// A fast and a slow volume swap speeds.
    Swap,
    /// Service is slow again and again.
    Throttle,
    /// Completions come in bursts.
    Bunch,
    /// Connections of a volume break and are reopened.
    Reconnect,
    /// Lanes accept few I/Os at once.
    Narrow,
    /// Simultaneous completions come in reverse order.
    Reverse,
    /// Reads occasionally return wrong data from some time on.
    Lie,
}

impl Mishap {
    /// All mishaps with their names.
    pub const ALL: [(Mishap, &str); 18] = [
        (Mishap::StallAll, "stall-all"),
        (Mishap::StallOne, "stall-one"),
        (Mishap::DeadThird, "dead-third"),
        (Mishap::DeadEnd, "dead-end"),
        (Mishap::Starve, "starve"),
        (Mishap::Silent, "silent"),
        (Mishap::TimeOut, "time-out"),
        (Mishap::Errors, "errors"),
        (Mishap::RampErrors, "ramp-errors"),
        (Mishap::WindowErrors, "window-errors"),
        (Mishap::Drift, "drift"),
        (Mishap::Swap, "swap"),
        (Mishap::Throttle, "throttle"),
        (Mishap::Bunch, "bunch"),
        (Mishap::Reconnect, "reconnect"),
        (Mishap::Narrow, "narrow"),
        (Mishap::Reverse, "reverse"),
        (Mishap::Lie, "lie"),
    ];
}

impl Situation {
    /// Draws a situation. Each seed has only few kinds of mishaps, so that rare ones combine; a
    /// quarter of all has none.
    pub fn of_seed(seed: u64) -> Situation {
        let mut rng = Rng::new(seed, 1);
        let mut draw = |least: u64, most: u64| least + rng.below(most - least + 1);
        let kinds = [0, 1, 1, 2, 2, 3, 4, 0][draw(0, 7) as usize];
        let short = draw(0, 3) == 0;
        let window = if short { draw(1, 1400) } else { 500 * draw(2, 14) };
        let whole = window + 999;
        let limit = if draw(0, 7) == 0 { draw(1, 2000) } else { 0 };
        Situation {
            seed,
            volumes: draw(1, 3),
            workers: draw(1, 6),
            depth: [1, 1, 2, 4, 8, 16, 64][draw(0, 6) as usize],
            ios: [50, 300, 1500, 3000, 4000, 12_000][draw(0, 5) as usize]
                * if draw(0, 99) == 0 { 12 } else { 1 },
            window,
            ramp: [0, 0, draw(1, 900), 1000, draw(1000, 2600)][draw(0, 4) as usize],
            units: [0, 1, 2, 8][draw(0, 3) as usize],
            service: draw(0, SERVICES.len() as u64 - 1),
            pace: [0, 0, 0, 1, 2, 3][draw(0, 5) as usize],
            load: [20, 60, 90, 110, 250][draw(0, 4) as usize],
            reads: [100, 100, 0, draw(1, 99)][draw(0, 3) as usize],
            sizes: [1, 1, 2, 3][draw(0, 3) as usize],
            limit,
            stop: if draw(0, 9) == 0 { draw(1, 1 + whole / 1000) } else { 0 },
            skew: [1, 1, 1, 4][draw(0, 3) as usize],
            delay: if draw(0, 9) == 0 { draw(0, whole) } else { 0 },
            length: if draw(0, 9) == 0 { draw(1, window) } else { 0 },
            warm: if draw(0, 14) == 0 { draw(1, window) } else { 0 },
            flush: if draw(0, 9) == 0 { draw(1, 20) } else { 0 },
            refill: if draw(0, 9) == 0 { draw(0, 8) } else { 0 },
            pause: if draw(0, 9) == 0 { draw(1, 20_000) } else { 0 },
            mishaps: (0..kinds)
                .map(|_| Mishap::ALL[draw(0, Mishap::ALL.len() as u64 - 1) as usize].0)
                .collect(),
            verify: u64::from(draw(0, 4) == 0),
        }
        .made_valid()
    }

    /// Without duplicates, and with all numbers in their ranges.
    pub(crate) fn made_valid(mut self) -> Situation {
        for (_, number, least, most) in self.numbers() {
            *number = (*number).clamp(least, most);
        }
        if self.pace > 0 {
            (self.flush, self.refill, self.pause) = (0, 0, 0);
        }
        // A ramp is either of the run or of one worker.
        self.warm = if self.ramp > 0 { 0 } else { self.warm };
        let mut once = Vec::new();
        for mishap in self.mishaps.drain(..) {
            if !once.contains(&mishap) {
                once.push(mishap);
            }
        }
        self.mishaps = once;
        // Corrupted reads need verification.
        self.verify |= u64::from(self.has(Mishap::Lie));
        self
    }

    /// Whether a kind of mishap happens.
    pub(crate) fn has(&self, mishap: Mishap) -> bool {
        self.mishaps.contains(&mishap)
    }

    /// Queue depth of a worker.
    pub(crate) fn depth_of(&self, worker: usize) -> u64 {
        (self.depth / if worker % 2 == 1 { self.skew } else { 1 }).max(1)
    }

    /// I/Os after which a worker ends, if limited. Flushes do not count.
    pub(crate) fn limit_of(&self, worker: usize) -> Option<u64> {
        (worker == 0 && self.limit > 0).then_some(self.limit)
    }

    /// A worker's start, unmeasured time, and duration if limited, in milliseconds.
    pub(crate) fn times_of(&self, worker: usize) -> (u64, u64, Option<u64>) {
        match worker + 1 == self.workers as usize {
            true => (self.delay, self.warm, (self.length > 0).then_some(self.length)),
            false => (0, 0, None),
        }
    }

    /// The volume of a worker.
    pub(crate) fn volume_of(&self, worker: usize) -> usize {
        worker % self.volumes as usize
    }

    /// The numbers with their names and ranges, in printing order.
    fn numbers(&mut self) -> [(&'static str, &mut u64, u64, u64); 23] {
        [
            ("seed", &mut self.seed, 0, u64::MAX),
            ("volumes", &mut self.volumes, 1, 4),
            ("workers", &mut self.workers, 1, 8),
            ("depth", &mut self.depth, 1, 64),
            ("ios", &mut self.ios, 1, 1_000_000),
            ("window", &mut self.window, 1, 3_600_000),
            ("ramp", &mut self.ramp, 0, 3_600_000),
            ("units", &mut self.units, 0, 64),
            ("service", &mut self.service, 0, SERVICES.len() as u64 - 1),
            ("pace", &mut self.pace, 0, PACES.len() as u64 - 1),
            ("load", &mut self.load, 1, 1000),
            ("reads", &mut self.reads, 0, 100),
            ("sizes", &mut self.sizes, 1, 3),
            ("limit", &mut self.limit, 0, 1_000_000),
            ("stop", &mut self.stop, 0, 3600),
            ("skew", &mut self.skew, 1, 64),
            ("delay", &mut self.delay, 0, 3_600_000),
            ("length", &mut self.length, 0, 3_600_000),
            ("warm", &mut self.warm, 0, 3_600_000),
            ("flush", &mut self.flush, 0, 1000),
            ("refill", &mut self.refill, 0, 63),
            ("pause", &mut self.pause, 0, 1_000_000),
            ("verify", &mut self.verify, 0, 1),
        ]
    }

    /// Slightly smaller situations, the largest reductions first.
    pub(crate) fn smaller(&self) -> Vec<Situation> {
        let mut all = Vec::new();
        for at in 0..self.mishaps.len() {
            let mut less = self.clone();
            less.mishaps.remove(at);
            all.push(less);
        }
        for index in 1..self.clone().numbers().len() {
            let mut copy = self.clone();
            let (_, number, least, _) = &copy.numbers()[index];
            let (now, least) = (**number, *least);
            for next in [least, now / 2, now.saturating_sub(1)] {
                let next = next.max(least);
                if next < now {
                    let mut less = self.clone();
                    *less.numbers()[index].1 = next;
                    all.push(less.made_valid());
                }
            }
        }
        all.retain(|less| less != self);
        all
    }
}

/// Names of a number's values, if it is a choice.
fn words(name: &str) -> Option<&'static [&'static str]> {
    match name {
        "service" => Some(&SERVICES),
        "pace" => Some(&PACES),
        _ => None,
    }
}

impl fmt::Display for Situation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, number, ..) in self.clone().numbers() {
            match words(name) {
                Some(words) => write!(f, "{name}={} ", words[*number as usize])?,
                None => write!(f, "{name}={number} ")?,
            }
        }
        let word = |mishap: &Mishap| Mishap::ALL.iter().find(|(known, _)| known == mishap);
        let mishaps: Vec<&str> = self.mishaps.iter().filter_map(word).map(|(_, w)| *w).collect();
        write!(f, "mishaps={}", mishaps.join(","))
    }
}

impl FromStr for Situation {
    type Err = String;

    fn from_str(text: &str) -> Result<Situation, String> {
        let mut situation = Situation::of_seed(0);
        for (_, number, least, _) in situation.numbers() {
            *number = least;
        }
        for word in text.split_whitespace() {
            let (name, value) =
                word.split_once('=').ok_or(format!("'{word}' is not NAME=VALUE"))?;
            if name == "mishaps" {
                let known = |word: &str| Mishap::ALL.iter().find(|(_, known)| *known == word);
                let mishap = |word| known(word).map(|(kind, _)| *kind).ok_or(format!("no {word}"));
                let all = value.split(',').filter(|word| !word.is_empty());
                situation.mishaps = all.map(mishap).collect::<Result<_, _>>()?;
                continue;
            }
            let number = match words(name) {
                Some(words) => words.iter().position(|word| *word == value).map(|at| at as u64),
                None => value.parse().ok(),
            };
            let number = number.ok_or(format!("{name} cannot be '{value}'"))?;
            let mut numbers = situation.numbers();
            let place = numbers.iter_mut().find(|(known, ..)| *known == name);
            *place.ok_or(format!("no setting is called '{name}'"))?.1 = number;
        }
        Ok(situation.made_valid())
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_situation_is_read_as_it_is_printed() {
        for seed in 0..1000 {
            let situation = Situation::of_seed(seed);
            assert_eq!(situation.to_string().parse::<Situation>().unwrap(), situation);
        }
        assert!("pace=fast".parse::<Situation>().is_err());
        assert!("mishaps=flood".parse::<Situation>().is_err());
    }
}
