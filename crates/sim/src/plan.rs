//! Parameters of a world: drawn from a seed, printed as one line, and parsed from it.

use std::fmt;
use std::str::FromStr;

use block::Rng;

/// The parameters of a world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Seed of all choices not listed below.
    pub seed: u64,
    /// Cores of the server, 1 to 3.
    pub cores: u64,
    /// Units served by lanes, and units in the server's memory.
    pub disks: u64,
    /// See `disks`.
    pub memories: u64,
    /// iSCSI and NVMe/TCP clients.
    pub iscsi: u64,
    /// See `iscsi`.
    pub nvme: u64,
    /// Hostile peers.
    pub hostile: u64,
    /// Queue depth of a client.
    pub depth: u64,
    /// Blocks of 512 bytes in the longest I/O.
    pub blocks: u64,
    /// Receive buffers of a core.
    pub buffers: u64,
    /// MiB of memory beyond the server's minimum.
    pub memory: u64,
    /// Maximum segment length; 0: uncut.
    pub cut: u64,
    /// Units of a target, 1 or 2: the others stay when one is removed.
    pub together: u64,
    /// Header and data digests.
    pub digests: bool,
    /// Faults that happen.
    pub faults: Vec<Fault>,
}

/// A fault before the quiet period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Connections are reset.
    Reset,
    /// Peers vanish silently.
    Vanish,
    /// Clients stop for a while.
    Stop,
    /// Clients are killed, and started again.
    Kill,
    /// Volumes complete nothing for a while.
    Stall,
    /// A volume takes very long for some I/Os, and executes them late.
    Late,
    /// I/Os fail.
    Medium,
    /// Lanes break.
    Break,
    /// Volumes refuse new lanes for a while.
    Refuse,
    /// Lanes open slowly.
    SlowOpen,
    /// The server runs out of file descriptors for a while.
    NoFiles,
    /// The whole host is paused for a while.
    Pause,
    /// A core of the server does something else for a while.
    Busy,
    /// All clients leave at once.
    Leave,
    /// The server is killed, and restarted after a while.
    Crash,
    /// The operator removes volumes, and adds them again after a while.
    Operator,
}

impl Fault {
    /// All faults with their names.
    pub const ALL: [(Fault, &str); 16] = [
        (Fault::Reset, "reset"),
        (Fault::Vanish, "vanish"),
        (Fault::Stop, "stop"),
        (Fault::Kill, "kill"),
        (Fault::Stall, "stall"),
        (Fault::Late, "late"),
        (Fault::Medium, "medium"),
        (Fault::Break, "break"),
        (Fault::Refuse, "refuse"),
        (Fault::SlowOpen, "slow-open"),
        (Fault::NoFiles, "no-files"),
        (Fault::Pause, "pause"),
        (Fault::Busy, "busy"),
        (Fault::Leave, "leave"),
        (Fault::Crash, "crash"),
        (Fault::Operator, "operator"),
    ];
    /// Number of the first of them that are drawn together.
    const DRAWN: u64 = 15;
}

impl Plan {
    /// Draws a world. Each seed has only some kinds of faults, so that rare ones combine. Most
    /// worlds are small, since many small ones find more than few large ones; some are large, or a
    /// crowd.
    pub fn of_seed(seed: u64) -> Plan {
        let mut rng = Rng::new(seed, 0);
        let plan = match rng.below(16) {
            0 => Plan::crowd(&mut rng),
            1 => Plan::large(&mut rng),
            _ => Plan::small(&mut rng),
        };
        let digests = rng.below(4) == 0;
        let kinds = rng.below(5);
        let mut faults: Vec<Fault> =
            (0..kinds).map(|_| Fault::ALL[rng.below(Fault::DRAWN) as usize].0).collect();
        // Late writes matter to clients that reconnect.
        if faults.contains(&Fault::Late) {
            faults.push(pick(&mut rng, [Fault::Reset, Fault::Vanish, Fault::Kill]));
        }
        let mut operator = Rng::new(seed, 9);
        if operator.below(8) == 0 {
            faults.push(Fault::Operator);
        }
        let together = pick(&mut operator, [1, 2]);
        Plan { seed, digests, faults, together, ..plan }.made_valid()
    }

    fn small(rng: &mut Rng) -> Plan {
        Plan {
            cores: pick(rng, [1, 1, 1, 2]),
            disks: rng.below(4),
            memories: rng.below(2),
            iscsi: rng.below(3),
            nvme: rng.below(3),
            hostile: pick(rng, [0, 0, 0, 1]),
            depth: pick(rng, [1, 2, 4, 8]),
            blocks: pick(rng, [1, 1, 8, 32]),
            buffers: pick(rng, [2, 4, 8, 64]),
            memory: memory(rng, 2),
            cut: pick(rng, CUTS),
            ..Plan::default()
        }
    }

    fn large(rng: &mut Rng) -> Plan {
        Plan {
            cores: pick(rng, [1, 1, 2, 3]),
            disks: rng.below(6),
            memories: rng.below(3),
            iscsi: rng.below(4),
            nvme: rng.below(4),
            hostile: rng.below(5),
            depth: pick(rng, [1, 2, 4, 16]),
            blocks: pick(rng, [1, 8, 32, 128]),
            buffers: pick(rng, [2, 4, 8, 64]),
            memory: memory(rng, 2),
            cut: pick(rng, CUTS),
            ..Plan::default()
        }
    }

    fn crowd(rng: &mut Rng) -> Plan {
        Plan {
            cores: 1 + rng.below(2),
            disks: rng.below(6),
            memories: rng.below(3),
            iscsi: 2 + rng.below(9),
            nvme: 2 + rng.below(9),
            hostile: if rng.below(2) == 0 { 0 } else { 1 + rng.below(4) },
            depth: pick(rng, [2, 4, 16, 16]),
            blocks: pick(rng, [1, 8, 32, 32]),
            buffers: pick(rng, [2, 2, 4, 64]),
            memory: memory(rng, 4),
            cut: pick(rng, CUTS),
            ..Plan::default()
        }
    }

    /// Without duplicates, with at least one unit and one client.
    pub(crate) fn made_valid(mut self) -> Plan {
        if self.disks + self.memories == 0 {
            self.disks = 1;
        }
        if self.iscsi + self.nvme == 0 {
            self.iscsi = 1;
        }
        self.together = self.together.clamp(1, 2);
        let mut once = Vec::new();
        for fault in self.faults.drain(..) {
            if !once.contains(&fault) {
                once.push(fault);
            }
        }
        self.faults = once;
        self
    }

    /// Whether a kind of fault happens.
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    /// The numbers with their names, in printing order.
    pub(crate) fn numbers(&mut self) -> [(&'static str, &mut u64); 13] {
        [
            ("seed", &mut self.seed),
            ("cores", &mut self.cores),
            ("disks", &mut self.disks),
            ("memories", &mut self.memories),
            ("iscsi", &mut self.iscsi),
            ("nvme", &mut self.nvme),
            ("hostile", &mut self.hostile),
            ("depth", &mut self.depth),
            ("blocks", &mut self.blocks),
            ("buffers", &mut self.buffers),
            ("memory", &mut self.memory),
            ("cut", &mut self.cut),
            ("together", &mut self.together),
        ]
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, number) in self.clone().numbers() {
            write!(f, "{name}={number} ")?;
        }
        let word = |fault: &Fault| Fault::ALL.iter().find(|(known, _)| known == fault).unwrap().1;
        let faults: Vec<&str> = self.faults.iter().map(word).collect();
        write!(f, "digests={} faults={}", u8::from(self.digests), faults.join(","))
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Plan, String> {
        let mut plan = Plan::of_seed(0);
        for word in text.split_whitespace() {
            let (name, value) =
                word.split_once('=').ok_or(format!("'{word}' is not NAME=VALUE"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("'{value}' is not a number"));
            if name == "faults" {
                let known = |word: &str| Fault::ALL.iter().find(|(_, known)| *known == word);
                let fault = |word| known(word).map(|(fault, _)| *fault).ok_or(format!("no {word}"));
                let words = value.split(',').filter(|word| !word.is_empty());
                plan.faults = words.map(fault).collect::<Result<_, _>>()?;
            } else if name == "digests" {
                plan.digests = number()? != 0;
            } else {
                let mut numbers = plan.numbers();
                let place = numbers.iter_mut().find(|(known, _)| *known == name);
                *place.ok_or(format!("no setting is called '{name}'"))?.1 = number()?;
            }
        }
        Ok(plan.made_valid())
    }
}

/// Mostly uncut: small segments are slow.
const CUTS: [u64; 5] = [0, 0, 7, 100, 3000];

fn pick<T: Copy, const N: usize>(rng: &mut Rng, of: [T; N]) -> T {
    of[rng.below(N as u64) as usize]
}

/// Little memory, from twice `least` MiB on, or plenty.
fn memory(rng: &mut Rng, least: u64) -> u64 {
    let little = 2 * (least + rng.below(9 - least));
    pick(rng, [little, 40, 64, 256])
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_is_printed() {
        for seed in 0..1000 {
            let plan = Plan::of_seed(seed);
            assert_eq!(plan.to_string().parse::<Plan>().unwrap(), plan);
        }
    }
}
