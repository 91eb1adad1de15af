//! A case: drawn from a seed, it runs independently and holds, or fails with a reason.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use block::Plant;

use crate::rig::{self, Situation, Told};
use crate::{Plan, Report};

/// A world, situation or story: drawn from a seed, printed as one line, and parsed from such a
/// line.
pub trait Case: Clone + PartialEq + Display + FromStr<Err = String> + Send {
    /// Result of a case that holds.
    type Held: Debug;

    /// Name of the kind in the plural.
    const WORD: &'static str;
    /// Flag of the command that repeats the case.
    const FLAG: &'static str;
    /// Planted mistakes that this kind of case must find.
    const PLANTS: &'static [Plant];
    /// Number of seeds within which each planted mistake is found.
    const PLANT_SEEDS: u64;

    /// Draws a case.
    fn of_seed(seed: u64) -> Self;

    /// Seed of the case.
    fn seed(&self) -> u64;

    /// Slightly smaller cases, the largest reductions first.
    fn smaller(&self) -> Vec<Self>;

    /// Runs the case with a planted mistake, or none; `say` gets the log.
    ///
    /// # Errors
    ///
    /// The first violation.
    fn run(&self, plant: Option<Plant>, say: fn(&str)) -> Result<Self::Held, String>;

    /// I/Os measured.
    fn ios(held: &Self::Held) -> u64;

    /// The count of each kind of event.
    fn counts(_: &Self::Held) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

impl Case for Plan {
    type Held = Report;
    const WORD: &'static str = "worlds";
    const FLAG: &'static str = "";
    const PLANTS: &'static [Plant] = &Plant::SERVED;
    const PLANT_SEEDS: u64 = 1000;

    fn of_seed(seed: u64) -> Plan {
        Plan::of_seed(seed)
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn smaller(&self) -> Vec<Plan> {
        crate::shrink::smaller(self)
    }

    fn run(&self, plant: Option<Plant>, say: fn(&str)) -> Result<Report, String> {
        crate::run(self, plant, say)
    }

    fn ios(held: &Report) -> u64 {
        held.ios
    }
}

impl Case for Situation {
    type Held = Told;
    const WORD: &'static str = "situations";
    const FLAG: &'static str = "--rig ";
    const PLANTS: &'static [Plant] = &Plant::MEASURED;
    const PLANT_SEEDS: u64 = 100;

    fn of_seed(seed: u64) -> Situation {
        Situation::of_seed(seed)
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn smaller(&self) -> Vec<Situation> {
        Situation::smaller(self)
    }

    fn run(&self, plant: Option<Plant>, _: fn(&str)) -> Result<Told, String> {
        block::plant(plant);
        let result = rig::run(self);
        block::plant(None);
        result
    }

    fn ios(held: &Told) -> u64 {
        held.ios
    }
}
