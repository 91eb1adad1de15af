//! The questions of a measurement, a file each.

mod after_idle;
mod bare;
mod crossed;
mod generator;
mod idle;
mod initiator;
mod local;
mod many;
mod memory;
mod nvme;
mod open_loop;
mod predict;
mod processes;
mod race;
mod ready_made;
mod servers;
mod target;

use anyhow::Result;

use super::{Bench, Sample};

/// A question and its contenders.
pub struct Row {
    /// Name on the command line.
    pub name: &'static str,
    /// Heading on the page.
    pub title: &'static str,
    /// Unit of its figures.
    pub unit: &'static str,
    /// Contenders, measured in turn.
    pub contenders: &'static [Contender],
}

/// A contender.
pub struct Contender {
    /// Name in the table.
    pub name: &'static str,
    /// Performs one run.
    pub run: fn(&Bench) -> Result<Sample>,
}

/// CPUs of the target and the initiator, if they are separate.
const TARGET_CORE: Option<usize> = Some(0);
const INITIATOR_CORE: Option<usize> = Some(1);

/// All rows, in the order of the page.
pub const ROWS: &[Row] = &[
    race::DEFAULT,
    race::PAGES,
    race::MIXED,
    race::ONE_SESSION,
    race::DEPTH_ONE,
    race::RINGS,
    processes::ROW,
    target::ROW,
    initiator::ROW,
    generator::ROW,
    local::TMPFS,
    local::ZRAM,
    local::DISK,
    local::LOOP,
    open_loop::ROW,
    idle::ROW,
    memory::ROW,
    many::ROW,
    nvme::SESSION_PAGES,
    nvme::MANY_PAGES,
    nvme::SESSION,
    nvme::MANY,
    nvme::WRITES,
    nvme::MIXED,
    nvme::DEPTH_ONE,
    crossed::SESSION_PAGES,
    crossed::MANY_PAGES,
    crossed::SESSION,
    crossed::MANY,
    crossed::WRITES,
    crossed::MIXED,
    crossed::DEPTH_ONE,
    idle::NVME,
    after_idle::ROW,
    predict::SOLVE,
    predict::DRAW,
    predict::SIMULATE,
];
