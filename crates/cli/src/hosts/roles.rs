//! Roles, as rank 0 hands them out: which ranks serve what to the others.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use block::{Nanos, Text};
use fleet::{Event, Fate, Outcome};
use job::spec::{JobSpec, Serving};

use super::order::{Handed, Order, Serve, named};
use super::served::{self, Served, WHOLE};
use super::{Ranks, ranks};
use crate::bench::Allowed;
use crate::exit::UsageError;
use crate::output;

/// Servers that ranks were ordered to start, and those that run.
#[derive(Debug, Default)]
pub(super) struct Roles {
    told: Vec<Serving>,
    served: Option<Vec<Served>>,
}

/// Starts the ranks that serve in a job, unless they serve the same already; stops those that do
/// not serve in it.
pub fn serve(job: &JobSpec) -> Result<()> {
    match ranks() {
        Some(ranks) => ranks.served(&job.serve).map(drop),
        None => Ok(super::refuse_hosts(job)?),
    }
}

/// Roles of the ranks in each step of a job; nothing is opened.
pub fn lines(job: &JobSpec) -> Result<Text> {
    let names = match ranks() {
        Some(ranks) => ranks.names()?.to_vec(),
        None => {
            super::refuse_hosts(job)?;
            vec![crate::part::host_name()]
        }
    };
    let serve = Serve { names: names.clone(), serve: job.serve.clone() };
    let serving = serve.ranks()?;
    let mut order = Order::new(job, &Allowed::default(), &names);
    order.served = serving.iter().map(|rank| Served::of(*rank, &names[*rank as usize])).collect();
    let mut lines = Vec::new();
    for (rank, name) in (0..).zip(&names) {
        lines.push(format!("rank {rank} on {name}"));
        for of in serve.of(rank) {
            let args: Vec<String> = of.args.iter().map(|word| serve.named(word, rank)).collect();
            lines.push(format!("  serves: {}", args.join(" ")));
        }
        let before = lines.len();
        for (number, step) in (1..).zip(&job.steps) {
            let step_of =
                if job.steps.len() > 1 { format!("step {number}: ") } else { String::new() };
            for group in step.groups.iter().filter(|group| order.has(group, rank)) {
                let volumes = group.volumes.iter().map(|volume| named(volume, rank, name));
                let volumes: Vec<_> = volumes.collect();
                let shown = volumes[..volumes.len().min(SHOWN_MAX)].join(", ");
                let more = match volumes.len().saturating_sub(SHOWN_MAX) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let workers = group.workers;
                let each =
                    if workers == 1 { "a worker".to_owned() } else { format!("{workers} workers") };
                lines.push(format!("  {step_of}drives with {each} on each of: {shown}{more}"));
            }
        }
        if lines.len() == before && !serving.contains(&rank) {
            lines.push("  nothing".to_owned());
        }
    }
    Ok(lines.into_iter().collect())
}

/// Volumes that a line shows.
const SHOWN_MAX: usize = 4;

impl Ranks {
    /// Whether a rank serves on this machine.
    pub fn serve_here(&self) -> bool {
        let roles = self.roles();
        let here = os::wall::machine().unwrap_or_default();
        roles.served.iter().flatten().any(|one| one.whereabouts.is_on(&here))
    }

    /// Stops the ranks that serve.
    pub fn rest(&self) -> Result<()> {
        self.served(&[]).map(drop)
    }

    fn roles(&self) -> MutexGuard<'_, Roles> {
        self.roles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A volume as rank 0 names it.
    pub(super) fn here(&self, volume: &str) -> Result<Vec<String>> {
        let volume = named(volume, 0, &self.names()?[0]);
        let roles = self.roles();
        match roles.served.as_ref().filter(|served| !served.is_empty()) {
            Some(served) => Ok(served::resolved(&volume, &served::reached(served)?, WHOLE)?),
            None if Serving::is_served(&volume) || served::is_placeholder(&volume) => {
                Ok(Vec::new())
            }
            None => Ok(vec![volume.into_owned()]),
        }
    }

    /// Volumes that ranks of a job serve, by rank. Starts the ranks unless they serve these.
    pub(super) fn served(&self, serve: &[Serving]) -> Result<Vec<Served>> {
        let mut roles = self.roles();
        if serve == roles.told && (serve.is_empty() || roles.served.is_some()) {
            return Ok(roles.served.clone().unwrap_or_default());
        }
        let order = Serve { names: self.names()?.to_vec(), serve: serve.to_vec() };
        let ranks = order.ranks()?;
        *roles = Roles::default();
        let outcomes = self.round(&order)?;
        let mut served = Vec::new();
        for Outcome { rank, fate, .. } in outcomes.into_iter().filter(|of| ranks.contains(&of.rank))
        {
            let name = &order.names[rank as usize];
            match fate {
                Fate::Part(body) => match serde_json::from_slice::<Served>(&body) {
                    Ok(one) if one.rank == rank => served.push(one),
                    _ => bail!("{name} (rank {rank}) says nothing of what it serves"),
                },
                Fate::Lost { why, .. } => bail!("{name} (rank {rank}) is lost: {why}"),
            }
        }
        *roles = Roles { told: order.serve, served: Some(served.clone()) };
        Ok(served)
    }

    /// A round in which ranks take their roles.
    fn round(&self, order: &Serve) -> Result<Vec<Outcome>> {
        let waits = output::Wait::says("starting the ranks that serve");
        let lead = self.lead();
        let body = serde_json::to_vec(&Handed::Serve(order.clone()))?;
        lead.order(body, Nanos(0), Vec::new());
        lead.ready();
        let outcomes = loop {
            match lead.next(Duration::from_millis(100)) {
                Some(Event::Began(_)) => lead.done(),
                Some(Event::Over(outcomes)) => break outcomes,
                Some(Event::Refused { rank, why }) => {
                    let name = order.names.get(rank as usize).map_or("?", |name| name);
                    return Err(UsageError(format!("{name} (rank {rank}): {why}")).into());
                }
                _ if crate::signal::is_asked() => bail!("interrupted"),
                _ if lead.is_stuck() => bail!("{}", fleet::STUCK),
                _ => {}
            }
        };
        drop(waits);
        Ok(outcomes)
    }
}
