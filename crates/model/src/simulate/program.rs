//! Routes compiled to flat programs, one per class.

use block::Rng;

use crate::dist::Sampler;
use crate::{Class, Service, Source, Step, Visit};

/// An instruction of a program.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// Wait without a station.
    Think(Timer),
    /// Issue the request: its latency starts here.
    Issue,
    /// Queue at a station and be served; keep the server if `hold`.
    Visit { at: Vec<u32>, timer: Timer, draws: f64, hold: bool },
    /// Leave the station that was held last.
    Release,
    /// Start tokens at these addresses, and continue at `then` when all of them have joined.
    Fork { branches: Vec<u32>, then: u32 },
    /// End a token of a fork.
    Join,
    /// Jump to one of these addresses, the first one whose limit exceeds a 64-bit draw.
    Choose { limits: Vec<u64>, branches: Vec<u32>, rng: Rng },
    /// Jump to this address.
    Jump(u32),
    /// Complete the request.
    Done,
}

/// A distribution with its own random stream: the draws of a class at a step do not depend on the
/// order in which other classes draw.
#[derive(Clone, Debug)]
pub(super) struct Timer {
    sampler: Sampler,
    rng: Rng,
}

impl Timer {
    pub fn new(service: &Service, seed: u64, stream: u64) -> Timer {
        Timer { sampler: service.sampler(), rng: Rng::new(seed, stream) }
    }

    #[inline]
    pub fn draw(&mut self) -> crate::Picos {
        self.sampler.draw(&mut self.rng)
    }

    /// Returns a random number below `count`, from the same stream.
    pub fn below(&mut self, count: usize) -> usize {
        self.rng.below(count as u64) as usize
    }
}

/// Programs of all classes, concatenated.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub ops: Vec<Op>,
    seed: u64,
}

impl Program {
    pub fn new(seed: u64) -> Program {
        Program { ops: Vec::new(), seed }
    }

    /// Appends the program of `class`; returns its start address.
    pub fn add(&mut self, class: &Class) -> u32 {
        let entry = self.here();
        if let Source::Closed { think, .. } = &class.source
            && think.mean_s > 0.0
        {
            let timer = self.timer(think);
            self.ops.push(Op::Think(timer));
        }
        self.ops.push(Op::Issue);
        self.route(&class.route);
        self.ops.push(Op::Done);
        entry
    }

    /// Returns a timer whose stream is derived from its address.
    pub fn timer(&self, service: &Service) -> Timer {
        Timer::new(service, self.seed, self.ops.len() as u64)
    }

    fn here(&self) -> u32 {
        self.ops.len() as u32
    }

    fn route(&mut self, route: &[Step]) {
        for step in route {
            match step {
                Step::Visit(visit) => self.visit(visit, false),
                Step::Hold(visit, inner) => {
                    self.visit(visit, true);
                    self.route(inner);
                    self.ops.push(Op::Release);
                }
                Step::Fork(branches) => {
                    let fork = self.ops.len();
                    self.ops.push(Op::Join);
                    let branches = self.branches(branches.iter(), Op::Join).0;
                    self.ops[fork] = Op::Fork { branches, then: self.here() };
                }
                Step::Choose(branches) => {
                    let choose = self.ops.len();
                    let rng = Rng::new(self.seed, choose as u64);
                    self.ops.push(Op::Join);
                    let limits = limits(branches.iter().map(|(chance, _)| *chance));
                    let (branches, ends) = self.branches(branches.iter().map(|b| &b.1), Op::Join);
                    let then = self.here();
                    ends.iter().for_each(|end| self.ops[*end] = Op::Jump(then));
                    self.ops[choose] = Op::Choose { limits, branches, rng };
                }
            }
        }
    }

    fn visit(&mut self, visit: &Visit, hold: bool) {
        let at = visit.at.iter().map(|station| station.0).collect();
        let timer = self.timer(&visit.service);
        self.ops.push(Op::Visit { at, timer, draws: visit.draws, hold });
    }

    /// Appends routes that each end with `end`; returns their start addresses and end addresses.
    fn branches<'a>(
        &mut self,
        routes: impl Iterator<Item = &'a Vec<Step>>,
        end: Op,
    ) -> (Vec<u32>, Vec<usize>) {
        let (mut begins, mut ends) = (Vec::new(), Vec::new());
        for route in routes {
            begins.push(self.here());
            self.route(route);
            ends.push(self.ops.len());
            self.ops.push(end.clone());
        }
        (begins, ends)
    }
}

/// Returns the cumulative sums of probabilities, scaled to 64 bits.
fn limits(chances: impl Iterator<Item = f64>) -> Vec<u64> {
    let mut sum = 0.0;
    let scaled = |chance: f64| {
        sum += chance;
        // Factor 2⁶⁴; the conversion saturates.
        (sum * 18_446_744_073_709_551_616.0) as u64
    };
    chances.map(scaled).collect()
}
