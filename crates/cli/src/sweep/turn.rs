//! A sweep of one cell whose runs alternate with those of another one, each in a separate process.

use std::path::{Path, PathBuf};

use anyhow::Result;
use job::spec::JobSpec;
use job::sweep::Sweep;
use load::Stop;
use stats::RunResult;
use stats::sweep::{RepeatAs, SweepPlan};

use super::kept::{Index, lock};
use super::{Runs, bench_of, journal, write_text};
use crate::args::{Color, Drive};
use crate::bench::Allowed;
use crate::exit::{Exit, UsageError};
use crate::folder::Place;
use crate::{report as results, show};

/// Side of a comparison.
#[derive(Clone, Debug)]
pub struct Side {
    /// Job to run.
    pub job: JobSpec,
    /// Flags of the run.
    pub drive: Drive,
    /// Permissions.
    pub allowed: Allowed,
    /// Program that runs the job, if not this one.
    pub program: Option<PathBuf>,
}

/// A sweep that is made run by run.
pub struct Turn<'a> {
    sweep: Sweep,
    runs: Runs<'a>,
}

impl Side {
    /// Plans the sweep with the given number of runs. A refused sweep leaves no files.
    pub fn sweep(&self, repeats: u32) -> Result<Sweep> {
        let (seed, repeat_as) = (self.job.seed, RepeatAs::Process);
        let plan = SweepPlan { repeats, seed, repeat_as, ..SweepPlan::default() };
        let sweep = Sweep::new(self.job.clone(), plan);
        let mut sweep = sweep.map_err(|error| UsageError(error.to_string()))?;
        sweep.set_tool(show::tool());
        bench_of(&sweep, self.allowed.clone())?;
        Ok(sweep)
    }
}

impl<'a> Turn<'a> {
    /// Starts a sweep in its place.
    pub fn begin(
        side: &'a Side,
        mut sweep: Sweep,
        place: &'a Place,
        stop: &Stop,
        color: Color,
    ) -> Result<Turn<'a>> {
        let mut bench = bench_of(&sweep, side.allowed.clone())?;
        bench.stop = stop.clone();
        let lock = lock(&place.now)?;
        let mut index = Index::new(&place.now);
        index.write(&mut sweep)?;
        let journal = journal::Kept::open(&place.now, &place.home, &sweep)?;
        let (drive, program) = (&side.drive, side.program.as_deref());
        let has_measured = false;
        let runs = Runs { bench, drive, color, place, lock, index, journal, has_measured, program };
        Ok(Turn { sweep, runs })
    }

    /// Makes the next run.
    pub fn next(&mut self) -> Result<Exit> {
        match self.sweep.next_run() {
            Some(ticket) => self.runs.make(&mut self.sweep, &ticket),
            None => Ok(Exit::Good),
        }
    }

    /// Reads the runs that went through, with their repeats.
    pub fn results(&mut self) -> Result<Vec<(u32, RunResult)>> {
        let folder: &Path = &self.runs.place.now;
        let cells = &self.sweep.document().cells;
        let whole = cells.iter().flat_map(|cell| cell.whole_runs());
        let read = |path: &Path| results::read_document(&path.join("result.json"));
        whole.map(|run| Ok((run.repeat, read(&folder.join(&run.folder))?))).collect()
    }

    /// Records the figures that differed between identical runs.
    pub fn set_unkept(&mut self, unkept: Vec<String>) -> Result<()> {
        self.sweep.set_unkept(unkept);
        self.runs.index.write(&mut self.sweep)
    }

    /// Keeps the sweep.
    pub fn end(mut self) -> Result<()> {
        self.runs.index.write(&mut self.sweep)?;
        write_text(self.sweep.document(), &self.runs.place.now)
    }
}
