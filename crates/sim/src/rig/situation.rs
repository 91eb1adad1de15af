//! What a situation is made of: drawn from a seed, printed as one line, and read from it again.

use std::fmt;
use std::str::FromStr;

use block::Rng;

/// The situation of a seed: workers on volumes that answer by a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Situation {
    /// Decides everything that does not stand below.
    pub seed: u64,
    /// Volumes, 1 to 4; workers are dealt out to them in turn.
    pub volumes: u64,
    /// Workers, 1 to 8.
    pub workers: u64,
    /// Most I/Os that a worker has in flight, 1 to 64.
    pub depth: u64,
    /// I/Os of the whole run, roughly.
    pub ios: u64,
    /// Length of the measured window in milliseconds, 1 and more.
    pub window: u64,
    /// Time before it in milliseconds.
    pub ramp: u64,
    /// I/Os that a volume works on at a time; 0: all that it has.
    pub units: u64,
    /// How service times are spread: an index into [`SERVICES`].
    pub service: u64,
    /// When I/Os begin: an index into [`PACES`].
    pub pace: u64,
    /// Of an open loop the planned share of what the volumes could do, in percent.
    pub load: u64,
    /// Share of reads in percent.
    pub reads: u64,
    /// Sizes that are mixed, 1 to 3.
    pub sizes: u64,
    /// I/Os after which the first worker ends; 0 for no limit.
    pub limit: u64,
    /// Seconds after which the run is interrupted, the ramp's among them; 0 for never.
    pub stop: u64,
    /// Depth of every second worker, as a part of that of the others: 1 is all of it, 4 a quarter.
    pub skew: u64,
    /// Milliseconds after which the last worker begins, how long it goes on (0: to the end), and
    /// how much of that is not measured.
    pub delay: u64,
    /// See `delay`.
    pub length: u64,
    /// See `delay`.
    pub warm: u64,
    /// Of a closed loop: a flush after so many writes; 0 for none.
    pub flush: u64,
    /// Of a closed loop: no I/O begins while more than so many are in flight; 0 for no such rule.
    pub refill: u64,
    /// Of a closed loop: microseconds between bursts of three I/Os; 0 for none.
    pub pause: u64,
    /// 1: reads are compared with what was written.
    pub verify: u64,
    /// What happens, and nothing else.
    pub mishaps: Vec<Mishap>,
}

/// How service times are spread around their mean.
pub const SERVICES: [&str; 5] = ["fixed", "uniform", "exponential", "two-peaks", "long-tail"];
/// When I/Os begin.
pub const PACES: [&str; 4] = ["closed", "rate", "poisson", "bytes"];

/// What happens to the volumes or to the ways there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// No volume answers for a while.
    StallAll,
    /// One volume does not answer for a while.
    StallOne,
    /// One volume does not answer for more than a third of the window.
    DeadThird,
    /// One volume answers nothing from some time in the window on.
    DeadEnd,
    /// A worker gets no answer, from its first I/O on.
    Starve,
    /// A few I/Os are never answered.
    Silent,
    /// One I/O is given up by a time-out, and the way with it.
    TimeOut,
    /// I/Os fail for a while.
    Errors,
    /// The same in the ramp only.
    RampErrors,
    /// I/Os fail in the whole window.
    WindowErrors,
    /// Service takes longer and longer.
    Drift,
    /// Two volumes swap their speeds, one of which is slow.
    Swap,
    /// Service is slow for a while, again and again.
    Throttle,
    /// What is done is told in bunches.
    Bunch,
    /// The connections of a volume break and are made again.
    Reconnect,
    /// Ways take a few I/Os at a time.
    Narrow,
    /// What is done together is told in reverse.
    Reverse,
    /// From some time on reads return other data than were written, now and then.
    Lie,
}

impl Mishap {
    /// All of them, with the words for them.
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
    /// Draws a situation. Each seed has few kinds of mishaps, so that rare ones meet; a quarter of
    /// all have none.
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
        // A ramp is that of all or of one.
        self.warm = if self.ramp > 0 { 0 } else { self.warm };
        let mut once = Vec::new();
        for mishap in self.mishaps.drain(..) {
            if !once.contains(&mishap) {
                once.push(mishap);
            }
        }
        self.mishaps = once;
        // A lie that nobody looks for is none.
        self.verify |= u64::from(self.has(Mishap::Lie));
        self
    }

    /// Whether a kind of mishap happens.
    pub(crate) fn has(&self, mishap: Mishap) -> bool {
        self.mishaps.contains(&mishap)
    }

    /// Most I/Os that a worker has in flight.
    pub(crate) fn depth_of(&self, worker: usize) -> u64 {
        (self.depth / if worker % 2 == 1 { self.skew } else { 1 }).max(1)
    }

    /// After how many I/Os a worker ends, if it does. Flushes do not count.
    pub(crate) fn limit_of(&self, worker: usize) -> Option<u64> {
        (worker == 0 && self.limit > 0).then_some(self.limit)
    }

    /// When a worker begins, how much of its time is not measured, and how long it goes on, if not
    /// to the end, in milliseconds.
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

    /// The numbers, with their names and ranges, in the order in which they are printed.
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

    /// Situations that are a little smaller, the boldest first.
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

/// The names of the choices that a number stands for, if it stands for any.
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
