//! Measurements with known truth: the real workers, pacing, collector and checks in virtual time,
//! on volumes that stall, starve, fail, drift and reconnect by a seeded script.
//!
//! The volumes record when each I/O arrived and completed. The expected result follows from these
//! times alone, by sorting and adding. [`Situation::of_seed`] draws a situation,
//! [`Situation::run`](crate::Case::run) runs it.

mod compare;
mod data;
mod medium;
mod script;
mod situation;
mod spec;
mod truth;
mod verdicts;

use block::Lane;
use load::Simulation;
use stats::live::{About, Action, Live, Snapshot};

use self::compare::Differences;
use self::medium::{Medium, RigLane, Volumes};
use self::script::Script;
pub use self::situation::{Mishap, Situation};
use self::truth::Truth;

/// Summary of a situation with a true result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// I/Os completed in the window.
    pub ios: u64,
    /// I/Os that failed.
    pub errors: u64,
}

/// Interrupts the run after this many seconds; 0 for never.
struct Interrupts(u64);

impl Live for Interrupts {
    fn start(&mut self, _: &About) {}

    fn update(&mut self, _: &Snapshot) -> Action {
        self.0 = self.0.wrapping_sub(1);
        if self.0 == 0 { Action::Stop } else { Action::Continue }
    }

    fn end(&mut self) {}
}

/// Runs a situation; an error describes what is wrong in its result.
pub fn run(situation: &Situation) -> Result<Told, String> {
    let script = Script::new(situation);
    let run = spec::of(situation, &script)?;
    let medium = Medium::new(situation, script);
    let lane = |worker| -> Box<dyn Lane> { Box::new(RigLane { worker, medium: medium.clone() }) };
    let lanes = (0..run.spec.workers.len()).map(lane).collect();
    let (mut storage, mut live) = (Volumes(medium.clone()), Interrupts(situation.stop));
    let told = Simulation::default().run(&run, lanes, &mut storage, &mut live);
    let told = told.map_err(|error| format!("the run was refused: {error}"))?;
    let medium = medium.borrow();
    let truth = Truth::of(situation, &medium);
    let mut found = Differences::default();
    if !truth.unsure {
        compare::compare(&truth, &medium, &told, &mut found);
    }
    verdicts::judge(situation, medium.script(), &truth, &told, &mut found);
    found.into_result()?;
    Ok(Told { ios: told.totals.ios, errors: told.totals.errors })
}
