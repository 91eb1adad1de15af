//! A story of an array: its steps, as one line of text.

use std::fmt;
use std::str::FromStr;

use block::{Plant, Rng};

use super::Kept;
use crate::Case;

mod far;
mod patterns;

use self::patterns::grow;

/// Blocks to write: the first and the last of a region, and the first of two others.
pub(super) const BLOCKS: usize = 4;
/// Blocks of the original array and two in the grown part; without a growth these two map to some
/// of the first.
pub(super) const BLOCKS_GROWN: usize = 6;

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write a block, or two adjacent ones in two regions.
    Write {
        /// The block, from 0.
        block: usize,
        /// The operation covers both blocks.
        long: bool,
        /// The write has FUA.
        fua: bool,
    },
    /// Trim a block.
    Trim(usize),
    /// Zero a block.
    Zero(usize),
    /// Read a block.
    Read(usize),
    /// Flush.
    Flush,
    /// Compare the legs during client I/O.
    Check {
        /// Repair differences.
        repairs: bool,
    },
    /// A leg dies.
    Fail(usize),
    /// A leg dies and loses its cache.
    Lose(usize),
    /// Some writes of a leg fail.
    Sicken(usize),
    /// A page of a leg cannot be read.
    Spoil(usize),
    /// A leg is full: no room for superblocks, maps and data never written before.
    Fill(usize),
    /// A leg refuses some I/Os: read-only, out of range, unsupported or aborted.
    Refuse(usize),
    /// A leg hangs: it completes nothing.
    Hang(usize),
    /// Some writes of a leg are executed long after they were submitted.
    Slow(usize),
    /// Take a snapshot of a leg.
    Snap(usize),
    /// A leg dies and reverts to its snapshot, if another leg has all data. The only leg's own data
    /// return before the process ends.
    Roll(usize),
    /// A leg is good again.
    Return(usize),
    /// The process dies and is restarted.
    Crash,
    /// This many events happen.
    Go(u32),
    /// All client I/Os complete.
    Rest,
    /// Wait until the legs are equal and the map is clean, or for a minute.
    Sync,
    /// Wait until a resync begins, or for a minute.
    Coming,
    /// Like the previous step, and on until a superblock that records the leg as in is written.
    Entering,
    /// Wait until the legs are equal, or for a minute.
    Whole,
    /// Time passes: the given number of tenths of a second.
    Wait(u32),
    /// Kill the process, and grow the array with at most this many writes, after which the growth
    /// is killed, too, unless complete; then restart the process.
    Grow(u32),
}

/// Transport between an array and its legs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Over {
    /// None: the legs are in the process itself.
    #[default]
    Nothing,
    /// Over iSCSI.
    Iscsi,
    /// Over NBD.
    Nbd,
    /// iSCSI and NBD alternately.
    Both,
    /// Over NVMe/TCP.
    Nvme,
    /// All three protocols in turn.
    Mixed,
}

impl Over {
    const ALL: [(Over, &'static str); 6] = [
        (Over::Nothing, "no"),
        (Over::Iscsi, "iscsi"),
        (Over::Nbd, "nbd"),
        (Over::Both, "both"),
        (Over::Nvme, "nvme"),
        (Over::Mixed, "mixed"),
    ];

    fn words() -> String {
        Over::ALL.map(|(_, word)| word).join(", ")
    }
}

/// A run of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// Seed of every choice.
    pub seed: u64,
    /// Legs that are in at the beginning, 1 to 4.
    pub legs: usize,
    /// Spares, 0 or 1.
    pub spares: usize,
    /// Lanes of clients, 1 to 3.
    pub lanes: usize,
    /// The network between the array and its legs.
    pub over: Over,
    /// Whether the legs are an array; without one the first leg is used alone, and reconnects.
    pub array: bool,
    /// The steps.
    pub steps: Vec<Step>,
}

impl Step {
    /// Weight of each kind of step. Some stories have none of a kind, and some many: one fault may
    /// mask another.
    fn weights(rng: &mut Rng) -> [u64; KINDS] {
        let mut weights = USUAL;
        // Events always stay, so that things happen between the steps.
        for weight in &mut weights[..KINDS - 1] {
            *weight *= [0, 1, 1, 1, 3][rng.below(5) as usize];
        }
        weights
    }

    fn draw(rng: &mut Rng, weights: &[u64; KINDS], legs: u64) -> Step {
        let block = rng.below(BLOCKS as u64) as usize;
        let leg = rng.below(legs) as usize;
        let long = block == 1 && rng.below(2) == 0;
        let mut at = rng.below(weights.iter().sum());
        let kind = weights.iter().position(|weight| match at < *weight {
            true => true,
            false => {
                at -= weight;
                false
            }
        });
        match kind.unwrap_or(KINDS) {
            0 => Step::Write { block, long, fua: false },
            1 => Step::Write { block, long, fua: true },
            2 => Step::Trim(block),
            3 => Step::Read(block),
            4 => Step::Flush,
            5 => Step::Fail(leg),
            6 => Step::Lose(leg),
            7 => Step::Sicken(leg),
            8 => Step::Spoil(leg),
            9 => Step::Fill(leg),
            10 => Step::Return(leg),
            11 => Step::Crash,
            12 => Step::Sync,
            13 => Step::Rest,
            14 => Step::Coming,
            15 => Step::Whole,
            16 => Step::Zero(block),
            17 => Step::Refuse(leg),
            18 => Step::Hang(leg),
            19 => Step::Snap(leg),
            20 => Step::Roll(leg),
            21 => Step::Check { repairs: rng.below(2) == 0 },
            22 => Step::Slow(leg),
            _ => Step::Go(1 + rng.below(40) as u32),
        }
    }
}

/// Number of kinds of steps.
const KINDS: usize = 24;
/// Write, FUA, trim, read, flush, fail, lose, sick, bad, full, return, crash, sync, rest, coming,
/// whole, zero, refuse, hang, snap, roll, check, slow, go.
const USUAL: [u64; KINDS] =
    [6, 3, 1, 3, 3, 2, 1, 1, 1, 1, 3, 2, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, 8];

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Write { block, long, fua } => {
                let word = if *fua { "fua" } else { "write" };
                write!(f, "{word}{}{block}", if *long { "-long" } else { "" })
            }
            Step::Trim(block) => write!(f, "trim{block}"),
            Step::Zero(block) => write!(f, "zero{block}"),
            Step::Read(block) => write!(f, "read{block}"),
            Step::Flush => f.write_str("flush"),
            Step::Check { repairs: false } => f.write_str("check"),
            Step::Check { repairs: true } => f.write_str("repair"),
            Step::Fail(leg) => write!(f, "fail{leg}"),
            Step::Lose(leg) => write!(f, "lose{leg}"),
            Step::Sicken(leg) => write!(f, "sick{leg}"),
            Step::Spoil(leg) => write!(f, "bad{leg}"),
            Step::Fill(leg) => write!(f, "full{leg}"),
            Step::Refuse(leg) => write!(f, "refuse{leg}"),
            Step::Hang(leg) => write!(f, "hang{leg}"),
            Step::Slow(leg) => write!(f, "slow{leg}"),
            Step::Snap(leg) => write!(f, "snap{leg}"),
            Step::Roll(leg) => write!(f, "roll{leg}"),
            Step::Return(leg) => write!(f, "return{leg}"),
            Step::Crash => f.write_str("crash"),
            Step::Go(events) => write!(f, "go{events}"),
            Step::Rest => f.write_str("rest"),
            Step::Sync => f.write_str("sync"),
            Step::Coming => f.write_str("coming"),
            Step::Entering => f.write_str("entering"),
            Step::Whole => f.write_str("whole"),
            Step::Wait(tenths) => write!(f, "wait{tenths}"),
            Step::Grow(writes) => write!(f, "grow{writes}"),
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Step, String> {
        let word = text.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let number = text[word.len()..].parse::<u32>().unwrap_or(0);
        let (block, leg) = (number as usize % BLOCKS_GROWN, number as usize);
        Ok(match word {
            "write" => Step::Write { block, long: false, fua: false },
            "write-long" => Step::Write { block, long: true, fua: false },
            "fua" => Step::Write { block, long: false, fua: true },
            "fua-long" => Step::Write { block, long: true, fua: true },
            "trim" => Step::Trim(block),
            "zero" => Step::Zero(block),
            "read" => Step::Read(block),
            "flush" => Step::Flush,
            "fail" => Step::Fail(leg),
            "lose" => Step::Lose(leg),
            "sick" => Step::Sicken(leg),
            "bad" => Step::Spoil(leg),
            "return" => Step::Return(leg),
            "crash" => Step::Crash,
            "check" => Step::Check { repairs: false },
            "repair" => Step::Check { repairs: true },
            "go" => Step::Go(number),
            "rest" => Step::Rest,
            "sync" => Step::Sync,
            "coming" => Step::Coming,
            "entering" => Step::Entering,
            "whole" => Step::Whole,
            "wait" => Step::Wait(number),
            "grow" => Step::Grow(number),
            "full" => Step::Fill(leg),
            "refuse" => Step::Refuse(leg),
            "hang" => Step::Hang(leg),
            "slow" => Step::Slow(leg),
            "snap" => Step::Snap(leg),
            "roll" => Step::Roll(leg),
            other => return Err(format!("no step is called '{other}'")),
        })
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Story { seed, legs, spares, lanes, over, array, steps } = self;
        write!(f, "seed={seed} legs={legs} spares={spares} lanes={lanes} ")?;
        if *over != Over::Nothing {
            let (_, word) = Over::ALL[*over as usize];
            write!(f, "over={word} ")?;
        }
        if !array {
            f.write_str("array=no ")?;
        }
        let steps: Vec<String> = steps.iter().map(Step::to_string).collect();
        write!(f, "steps={}", steps.join(","))
    }
}

impl FromStr for Story {
    type Err = String;

    fn from_str(text: &str) -> Result<Story, String> {
        let (seed, steps, over, array) = (0, Vec::new(), Over::Nothing, true);
        let mut story = Story { seed, legs: 2, spares: 0, lanes: 1, over, array, steps };
        for word in text.split_whitespace() {
            let (name, value) = word.split_once('=').ok_or(format!("{word}: write NAME=VALUE"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("{word}: not a number"));
            match name {
                "seed" => story.seed = number()?,
                "legs" => story.legs = number()?.clamp(1, 4) as usize,
                "spares" => story.spares = number()?.min(1) as usize,
                "lanes" => story.lanes = number()?.clamp(1, 3) as usize,
                "over" => {
                    let known = Over::ALL.iter().find(|(_, word)| *word == value);
                    story.over = known.ok_or(format!("{word}: {}", Over::words()))?.0;
                }
                "array" => story.array = value != "no",
                "steps" => {
                    let steps = value.split(',').filter(|step| !step.is_empty());
                    story.steps = steps.map(str::parse).collect::<Result<_, _>>()?;
                }
                other => return Err(format!("a story has no '{other}'")),
            }
        }
        Ok(story)
    }
}

impl Case for Story {
    type Held = Kept;
    const WORD: &'static str = "stories";
    const FLAG: &'static str = "--array ";
    const PLANTS: &'static [Plant] = &Plant::KEPT;
    const PLANT_SEEDS: u64 = 1000;

    fn of_seed(seed: u64) -> Story {
        let mut rng = Rng::new(seed, 21);
        let legs = [2, 2, 2, 3, 3, 1, 4][rng.below(7) as usize];
        let (spares, lanes) = (u64::from(rng.below(4) == 0), 1 + rng.below(3));
        let count = 3 + rng.below(40);
        let weights = Step::weights(&mut rng);
        let mut steps: Vec<Step> =
            (0..count).map(|_| Step::draw(&mut rng, &weights, legs + spares)).collect();
        let at = rng.below(count + 1) as usize;
        let known = match rng.below(12) {
            0 | 1 => Step::back(&mut rng, legs),
            2 => Step::last(&mut rng, legs),
            3 | 7 if legs > 1 => Step::older(&mut rng, legs),
            4 => Step::silent(&mut rng, legs),
            5 if legs > 1 => Step::unequal(&mut rng),
            6 if legs > 1 => Step::compared(&mut rng),
            8 | 9 if legs > 1 => Step::late(&mut rng, legs),
            _ => Vec::new(),
        };
        steps.splice(at..at, known);
        if seed % 8 == 1 {
            steps.splice(0..0, Step::enter(&mut Rng::new(seed, 23), legs));
        }
        if seed % 4 == 3 {
            grow(&mut steps, &mut Rng::new(seed, 22));
        }
        let (legs, spares, lanes) = (legs as usize, spares as usize, lanes as usize);
        Story { seed, legs, spares, lanes, over: Over::Nothing, array: true, steps }
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn smaller(&self) -> Vec<Story> {
        let mut all = Vec::new();
        let half = self.steps.len() / 2;
        if half > 0 {
            let (first, second) = self.steps.split_at(half);
            all.extend(
                [first, second].map(|steps| Story { steps: steps.to_vec(), ..self.clone() }),
            );
        }
        for at in 0..self.steps.len() {
            let mut less = self.clone();
            less.steps.remove(at);
            all.push(less);
        }
        if self.lanes > 1 {
            all.push(Story { lanes: 1, ..self.clone() });
        }
        if self.spares > 0 {
            all.push(Story { spares: 0, ..self.clone() });
        }
        if self.legs > 2 {
            all.push(Story { legs: self.legs - 1, ..self.clone() });
        }
        for at in 0..self.steps.len() {
            let shorter = match self.steps[at] {
                Step::Go(events) if events > 1 => Step::Go(events / 2),
                Step::Wait(tenths) if tenths > 1 => Step::Wait(tenths / 2),
                _ => continue,
            };
            let mut less = self.clone();
            less.steps[at] = shorter;
            all.push(less);
        }
        all
    }

    fn run(&self, plant: Option<Plant>, _: fn(&str)) -> Result<Kept, String> {
        block::plant(plant);
        let result = super::run(self);
        block::plant(None);
        result
    }

    fn ios(held: &Kept) -> u64 {
        held.ios
    }

    fn counts(held: &Kept) -> Vec<(&'static str, u64)> {
        held.counts()
    }
}

/// A story of an array whose legs are on other hosts, or of a lone remote volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteStory(pub Story);

impl fmt::Display for RemoteStory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RemoteStory {
    type Err = String;

    fn from_str(text: &str) -> Result<RemoteStory, String> {
        text.parse().map(RemoteStory)
    }
}

impl Case for RemoteStory {
    type Held = Kept;
    const WORD: &'static str = "remote stories";
    const FLAG: &'static str = "--remote ";
    const PLANTS: &'static [Plant] = &Plant::PARTED;
    const PLANT_SEEDS: u64 = 1000;

    fn of_seed(seed: u64) -> RemoteStory {
        let mut rng = Rng::new(seed, 24);
        let (over, _) = Over::ALL[1 + rng.below(Over::ALL.len() as u64 - 1) as usize];
        let story = Story { over, ..Story::of_seed(seed) };
        RemoteStory(match rng.below(6) {
            0 | 1 => {
                Story { legs: 1, spares: 0, array: false, steps: far::lone(&mut rng), ..story }
            }
            2 | 3 => Story { steps: far::short(&mut rng, story.legs as u64), ..story },
            _ => story,
        })
    }

    fn seed(&self) -> u64 {
        self.0.seed
    }

    fn smaller(&self) -> Vec<RemoteStory> {
        self.0.smaller().into_iter().map(RemoteStory).collect()
    }

    fn run(&self, plant: Option<Plant>, say: fn(&str)) -> Result<Kept, String> {
        self.0.run(plant, say)
    }

    fn ios(held: &Kept) -> u64 {
        held.ios
    }

    fn counts(held: &Kept) -> Vec<(&'static str, u64)> {
        held.counts()
    }
}
