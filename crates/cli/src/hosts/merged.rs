//! The result of all ranks: parts of those that drove, lost ones, and rows of those that served.

use block::Nanos;
use fleet::{Began, Bounded, Fate, Outcome};
use load::RunError;
use os::{Clock, wall};
use stats::merge::Merge;
use stats::{Part, RunResult, ServerResult, WallClock};

use super::lead::Round;

/// Lost ranks that a line names.
pub(super) const NAMED: usize = 3;

impl Round {
    /// The parts of all ranks as one result; windows are in the time of this host.
    pub(super) fn merged(
        &self,
        base_seed: u64,
        own: Option<RunResult>,
        began: Option<Began>,
        outcomes: Vec<Outcome>,
    ) -> Result<RunResult, RunError> {
        let common = wall::beside(Clock::get());
        let planned_ns = began.map(|began| on_wall(common, began.at));
        let signing = Signing { names: &self.names, base_seed, planned_ns, common };
        let stopped = own.as_ref().and_then(|own| own.partial.clone());
        let refused = |why: stats::merge::Refused| RunError::Open(why.0);
        let mut merge = Merge::default();
        if let Some(own) = own {
            merge.add(signing.own(own)).map_err(refused)?;
        }
        let (mut lost, mut servers) = (Vec::new(), Vec::new());
        for mut outcome in outcomes {
            let name = &self.names[outcome.rank as usize];
            if self.serving.contains(&outcome.rank) {
                let row = server_row(name, outcome.fate);
                lost.extend(row.lost.as_ref().map(|why| format!("{name}, which serves, {why}")));
                servers.push(row);
                continue;
            }
            let (bytes, why) = match std::mem::replace(&mut outcome.fate, Fate::Part(Vec::new())) {
                // A rank without a group of the step has no part.
                Fate::Part(bytes) if bytes.is_empty() => continue,
                Fate::Part(bytes) => (Some(bytes), None),
                Fate::Lost { draft, why } => (draft, Some(why)),
            };
            let read = bytes.and_then(|bytes| serde_json::from_slice::<RunResult>(&bytes).ok());
            let Some((mut result, window)) = read.zip(outcome.window) else {
                lost.push(format!("{name} is lost: {}", why.unwrap_or("no part of it".to_owned())));
                continue;
            };
            if let Some(why) = why {
                let seconds = result.totals.seconds;
                lost.push(format!("{name} is lost: {why}, with its first {seconds:.1} s kept"));
                result.partial = Some(format!("lost after {seconds:.1} s: {why}"));
            }
            result.spec = self.document.clone();
            signing.other(&mut result, &outcome, window);
            merge.add(result).map_err(refused)?;
        }
        let mut result = merge.finish(None).map_err(refused)?;
        result.tool = crate::show::tool();
        if let Some(words) = lost_words(&lost, stopped) {
            result.partial = Some(words);
        }
        served_by(&mut result, servers);
        if let Some(check) = self.state().one_volume.clone() {
            result.set_check(check);
        }
        Ok(result)
    }
}

/// The row of a rank that serves.
fn server_row(name: &str, fate: Fate) -> ServerResult {
    let lost = |why: String| ServerResult {
        name: name.to_owned(),
        lost: Some(format!("is lost: {why}")),
        ..ServerResult::default()
    };
    match fate {
        Fate::Part(bytes) => match serde_json::from_slice::<ServerResult>(&bytes) {
            Ok(row) => ServerResult { name: name.to_owned(), ..row },
            Err(_) => lost("no part of it".to_owned()),
        },
        Fate::Lost { why, .. } => lost(why),
    }
}

/// Adds the hosts that served, and what they cost.
fn served_by(result: &mut RunResult, servers: Vec<ServerResult>) {
    if servers.is_empty() {
        return;
    }
    let cores: Option<f64> = servers.iter().map(|server| server.target_cores).sum();
    result.cpu.target_cores = cores.filter(|cores| (0.0..1e6).contains(cores));
    result.cpu = result.cpu.derive(result.totals.iops);
    result.servers = servers;
}

/// Properties that make a result the part of a host.
struct Signing<'a> {
    names: &'a [String],
    base_seed: u64,
    planned_ns: Option<u64>,
    /// An instant of the wall clock and of the clock of the cores.
    common: (u64, Nanos),
}

impl Signing<'_> {
    fn sign(&self, part: &mut Part, rank: u32) {
        self.names[rank as usize].clone_into(&mut part.host);
        (part.base_seed, part.planned_ns) = (self.base_seed, self.planned_ns);
        env!("DRUMFIRE_VERSION").clone_into(&mut part.build);
    }

    /// The part of rank 0.
    fn own(&self, mut own: RunResult) -> RunResult {
        if let Some(part) = &mut own.part {
            self.sign(part, 0);
            if let Some((from, to)) = part.window {
                part.started_ns = on_wall(self.common, Nanos(from));
                part.ended_ns = on_wall(self.common, Nanos(to));
            }
            let source = std::mem::take(&mut part.clock.source);
            part.clock = clock(source, 0, None);
        }
        own.tool = crate::show::tool();
        own
    }

    /// The part of another rank.
    fn other(&self, result: &mut RunResult, outcome: &Outcome, (from, to): (Bounded, Bounded)) {
        let Some(part) = &mut result.part else { return };
        self.sign(part, outcome.rank);
        part.started_ns = on_wall(self.common, from.at);
        part.ended_ns = on_wall(self.common, to.at);
        let source = std::mem::take(&mut part.clock.source);
        let drift = outcome.relation.and_then(|relation| relation.drift_ppm());
        part.clock = clock(source, from.bound.0, drift);
    }
}

/// Why the result of all is partial, if ranks were lost: their names first.
fn lost_words(lost: &[String], stopped: Option<String>) -> Option<String> {
    let more = match lost.len() {
        0 => return None,
        count if count <= NAMED => (count, String::new()),
        count => (NAMED, format!("; {} more ranks are lost", count - NAMED)),
    };
    let stopped = stopped.map(|why| format!("; {why}")).unwrap_or_default();
    Some(format!("{}{}{stopped}", lost[..more.0].join("; "), more.1))
}

/// A clock whose instants were converted by round trips.
fn clock(source: String, bound_ns: u64, drift_ppm: Option<f64>) -> WallClock {
    let error_ns = Some(bound_ns);
    WallClock { source, synchronised: Some(true), error_ns, by_round_trips: true, drift_ppm }
}

/// An instant of the clock of the cores on the wall clock.
fn on_wall((wall_ns, at): (u64, Nanos), instant: Nanos) -> u64 {
    match instant >= at {
        true => wall_ns.saturating_add(instant.since(at).0),
        false => wall_ns.saturating_sub(at.since(instant).0),
    }
}
