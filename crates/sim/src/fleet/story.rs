//! Parameters of a fleet: drawn from a seed, printed as one line, and parsed from it.

use std::fmt;
use std::str::FromStr;

use block::Rng;

/// The events of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// A rank is killed.
    Kill,
    /// A host with several ranks dies.
    HostDies,
    /// The network between a rank and the leader is cut, for a while or for good.
    Cut,
    /// A rank stands still, for a while or for good.
    Pause,
    /// A rank cannot do the work.
    Refuse,
    /// A rank ends its round without a part.
    Fail,
    /// A rank needs long to get ready.
    Slow,
    /// The leader is killed.
    LeaderDies,
    /// The leader stands still for a while.
    LeaderPauses,
    /// The user asks for an end.
    Stop,
    /// A clock is set during a round.
    SetClock,
    /// A rank sends bytes of its own.
    Hostile,
    /// A rank never starts.
    Absent,
}

impl Mishap {
    /// All with their names.
    pub const ALL: [(Mishap, &str); 13] = [
        (Mishap::Kill, "kill"),
        (Mishap::HostDies, "host-dies"),
        (Mishap::Cut, "cut"),
        (Mishap::Pause, "pause"),
        (Mishap::Refuse, "refuse"),
        (Mishap::Fail, "fail"),
        (Mishap::Slow, "slow"),
        (Mishap::LeaderDies, "leader-dies"),
        (Mishap::LeaderPauses, "leader-pauses"),
        (Mishap::Stop, "stop"),
        (Mishap::SetClock, "set-clock"),
        (Mishap::Hostile, "hostile"),
        (Mishap::Absent, "absent"),
    ];
}

/// The parameters of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetStory {
    /// Seed of all choices not listed below.
    pub seed: u64,
    /// Ranks, with the leader.
    pub ranks: u64,
    /// Number of these ranks that serve the others.
    pub servers: u64,
    /// Rounds.
    pub rounds: u64,
    /// Length of a round in milliseconds.
    pub length_ms: u64,
    /// Time on the way of a message, in microseconds.
    pub way_us: u64,
    /// Additional delay of a message, in microseconds.
    pub jitter_us: u64,
    /// The events.
    pub mishaps: Vec<Mishap>,
}

impl FleetStory {
    /// Draws a fleet: most are small, one of a hundred has up to a thousand ranks.
    pub fn of_seed(seed: u64) -> FleetStory {
        let mut rng = Rng::new(seed, 0);
        let ranks = match rng.below(100) {
            0 => 1 + rng.below(1000),
            1..10 => 1 + rng.below(100),
            _ => 1 + rng.below(8),
        };
        let mut pick = |from: &[u64]| from[rng.below(from.len() as u64) as usize];
        let (rounds, length_ms) = (pick(&[1, 1, 2, 3]), pick(&[500, 2000, 5000, 20_000]));
        let (way_us, jitter_us) = (pick(&[5, 20, 100, 1000, 20_000]), pick(&[0, 10, 200, 5000]));
        let count = rng.below(4);
        let mishaps = (0..count).map(|_| {
            let all = Mishap::ALL;
            all[rng.below(all.len() as u64) as usize].0
        });
        let mishaps = mishaps.collect();
        let mut roles = Rng::new(seed, 2);
        let servers = if roles.below(2) == 0 { 0 } else { roles.below(ranks) };
        FleetStory { seed, ranks, servers, rounds, length_ms, way_us, jitter_us, mishaps }
    }

    /// Slightly smaller fleets.
    pub fn smaller(&self) -> Vec<FleetStory> {
        let mut all = Vec::new();
        for at in 0..self.mishaps.len() {
            let mut less = self.clone();
            less.mishaps.remove(at);
            all.push(less);
        }
        let mut with = |change: &dyn Fn(&mut FleetStory)| {
            let mut less = self.clone();
            change(&mut less);
            if less != *self {
                all.push(less);
            }
        };
        with(&|less| less.ranks = less.ranks.div_ceil(2));
        with(&|less| less.ranks = (less.ranks - 1).max(1));
        with(&|less| less.servers /= 2);
        with(&|less| less.rounds = 1);
        with(&|less| less.length_ms = less.length_ms.min(500));
        with(&|less| less.jitter_us = 0);
        all
    }

    fn numbers(&mut self) -> [(&'static str, &mut u64); 7] {
        [
            ("seed", &mut self.seed),
            ("ranks", &mut self.ranks),
            ("servers", &mut self.servers),
            ("rounds", &mut self.rounds),
            ("length-ms", &mut self.length_ms),
            ("way-us", &mut self.way_us),
            ("jitter-us", &mut self.jitter_us),
        ]
    }
}

impl fmt::Display for FleetStory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, number) in self.clone().numbers() {
            write!(f, "{name}={number} ")?;
        }
        let word = |of: &Mishap| Mishap::ALL.iter().find(|(known, _)| known == of).unwrap().1;
        let words: Vec<&str> = self.mishaps.iter().map(word).collect();
        write!(f, "mishaps={}", words.join(","))
    }
}

impl FromStr for FleetStory {
    type Err = String;

    fn from_str(line: &str) -> Result<FleetStory, String> {
        let mut story = FleetStory::of_seed(0);
        story.mishaps.clear();
        for word in line.split_whitespace() {
            let (name, value) = word.split_once('=').ok_or(format!("'{word}' has no ="))?;
            if name == "mishaps" {
                let known = |word: &str| {
                    let found = Mishap::ALL.iter().find(|(_, name)| *name == word);
                    found.map(|(of, _)| *of).ok_or(format!("no mishap is called '{word}'"))
                };
                let words = value.split(',').filter(|word| !word.is_empty());
                story.mishaps = words.map(known).collect::<Result<_, _>>()?;
                continue;
            }
            let number = value.parse().map_err(|_| format!("{name}: '{value}' is no number"))?;
            let mut numbers = story.numbers();
            let field = numbers.iter_mut().find(|(known, _)| *known == name);
            *field.ok_or(format!("a fleet has no {name}"))?.1 = number;
        }
        story.ranks = story.ranks.max(1);
        Ok(story)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_line_is_read_back() {
        for seed in 0..200 {
            let story = FleetStory::of_seed(seed);
            assert_eq!(story.to_string().parse(), Ok(story));
        }
    }
}
