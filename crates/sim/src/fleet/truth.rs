//! Invariants of a fleet, whatever happens to it.

use block::Nanos;
use fleet::{Began, Fate, Outcome, Relation, SILENCE};

use super::host::{Host, Work};
use super::world::{FleetReport, Head};

/// Time in which the living notice something, beyond the silence itself.
const NOTICE: Nanos = Nanos::from_secs(2);

/// The truth about a story, apart from the fleet's own report.
pub(super) struct Truth {
    pub report: FleetReport,
    /// Time at which each rank from 1 was killed.
    killed: Vec<Option<Nanos>>,
    /// Ranks to which something happened that may make them late or lost; 0 is the leader.
    unsettled: Vec<bool>,
    began: Option<Began>,
}

impl Truth {
    pub fn new(others: usize) -> Truth {
        let killed = vec![None; others];
        let unsettled = vec![false; others + 1];
        Truth { report: FleetReport::default(), killed, unsettled, began: None }
    }

    pub fn killed(&mut self, at: usize, now: Nanos) {
        self.killed[at].get_or_insert(now);
        self.unsettled[at + 1] = true;
    }

    pub fn unsettled(&mut self, rank: usize) {
        self.unsettled[rank] = true;
    }

    /// A clock that is set forward may end a silence early, or begin the work early.
    pub fn set(&mut self, at: usize) {
        self.unsettled[at + 1] = true;
    }

    pub fn began(&mut self, began: Began) {
        self.began = Some(began);
    }

    /// A refusal has a cause.
    pub fn refused(
        &mut self,
        rank: u32,
        why: &str,
        head: &Head,
        hosts: &[Host],
    ) -> Result<(), String> {
        self.report.refused += 1;
        let host = &hosts[rank as usize - 1];
        let caused = host.refuses || self.unsettled[rank as usize] || self.unsettled[0];
        // A round after one in which a rank was lost, or failed.
        if caused || host.fails || head.is_stopped {
            return Ok(());
        }
        Err(format!("round {} was refused by rank {rank} without a cause: {why}", head.round))
    }

    /// A rank is lost because something happened to it, and is so in time.
    pub fn lost(&self, rank: u32, hosts: &[Host], head: &Head, now: Nanos) -> Result<(), String> {
        let at = rank as usize - 1;
        if !self.unsettled[at + 1] && !self.unsettled[0] {
            return Err(format!("rank {rank} was lost, and nothing happened to it"));
        }
        let Some(killed) = self.killed[at].filter(|_| !self.unsettled[0]) else { return Ok(()) };
        let gathers = hosts[at].starts.0 == u64::MAX || head.round == 0;
        let late = now.since(killed);
        // Messages that a cut way held back arrive late, also from a rank that is gone by then.
        let cut = hosts[at].cut_until > Nanos(0);
        if !gathers && !cut && late > SILENCE + NOTICE {
            return Err(format!("rank {rank} was missed {:.1} s late", late.as_secs_f64()));
        }
        Ok(())
    }

    /// Checks that no rank still drives when a serving rank is released, as the leader knows it.
    pub fn released(&mut self, rank: u32, head: &Head, hosts: &[Host]) -> Result<(), String> {
        self.report.released += 1;
        if head.is_stopped || head.is_gone || self.unsettled[0] {
            return Ok(());
        }
        let drives = |work: Work| matches!(work, Work::Running { .. } | Work::Due(_));
        let others = hosts.iter().enumerate().filter(|(_, host)| !host.serves);
        let known = others.filter(|(at, host)| !self.unsettled[at + 1] && !host.is_gone);
        let busy = known.filter(|(_, host)| drives(host.work)).map(|(at, _)| at + 1).next();
        match busy.or(drives(head.own).then_some(0)) {
            Some(busy) => Err(format!("rank {rank} was told to end, and rank {busy} still drives")),
            None => Ok(()),
        }
    }

    /// Checks that the round's report of each rank is true.
    pub fn over(
        &mut self,
        outcomes: &[Outcome],
        head: &Head,
        hosts: &[Host],
    ) -> Result<(), String> {
        let expected: Vec<u32> = (1..=hosts.len() as u32).collect();
        let told: Vec<u32> = outcomes.iter().map(|outcome| outcome.rank).collect();
        if told != expected {
            return Err(format!("a result of ranks {told:?}"));
        }
        self.report.rounds += 1;
        let lost = outcomes.iter().any(|outcome| matches!(outcome.fate, Fate::Lost { .. }));
        self.report.partial += u64::from(lost);
        for outcome in outcomes {
            self.outcome(outcome, head, &hosts[outcome.rank as usize - 1])?;
        }
        self.began = None;
        Ok(())
    }

    fn outcome(&mut self, outcome: &Outcome, head: &Head, host: &Host) -> Result<(), String> {
        let (rank, round) = (outcome.rank, head.round as u32);
        let is_settled = !self.unsettled[rank as usize] && !self.unsettled[0];
        match &outcome.fate {
            Fate::Part(body) if *body != round.to_le_bytes() => {
                return Err(format!("rank {rank} has the part of another round: {body:?}"));
            }
            Fate::Part(_) => self.window(outcome, head, host)?,
            Fate::Lost { why, .. } if is_settled && !host.fails && !head.is_stopped => {
                return Err(format!("rank {rank} has no part, and nothing happened to it: {why}"));
            }
            Fate::Lost { draft, .. } => {
                let held = draft.as_ref().map_or(0, |bytes| {
                    bytes.first_chunk().map_or(u32::MAX, |bytes| u32::from_le_bytes(*bytes))
                });
                // A rank that was killed, on a way that was never cut: all that it told is there,
                // unless it was lost before, as it stood still.
                let killed = self.killed[rank as usize - 1].is_some() && host.round == round;
                let cut = host.cut_until.max(host.paused_until) > Nanos(0);
                let cut = cut || host.is_hostile || head.is_stopped;
                if killed && !cut && !self.unsettled[0] && held != host.told {
                    return Err(format!(
                        "rank {rank} told {} seconds before it was killed, and {held} are kept",
                        host.told
                    ));
                }
                if held > host.told {
                    return Err(format!("rank {rank} told {} seconds, not {held}", host.told));
                }
            }
        }
        Ok(())
    }

    /// The beginning of a rank, by the leader's clock, is within its bound; a rank to which nothing
    /// happened began when it should.
    fn window(&mut self, outcome: &Outcome, head: &Head, host: &Host) -> Result<(), String> {
        let Some((from, _)) = outcome.window else {
            return Err(format!("rank {} has a part without a window", outcome.rank));
        };
        let truth = head.clock.read(host.began);
        let error_ns = truth.0.abs_diff(from.at.0);
        // After a round that was stopped no clock is read: one that was set is not noticed.
        let unread = outcome.relation.is_none_or(|relation| relation.after.is_none());
        let is_set = host.clock.set.is_some();
        let drift = outcome.relation.map_or(Nanos(0), |of| drift_of(&of));
        match error_ns <= from.bound.0 + 2 {
            true => self.report.bounds_held += 1,
            // Two looks do not tell a small step from drift.
            false if is_set && (unread || !host.clock.is_set_beyond(drift)) => {
                self.report.bounds_missed += 1;
            }
            false => {
                self.report.bounds_missed += 1;
                return Err(format!(
                    "rank {}: the bound of {} ns does not hold the error of {error_ns} ns",
                    outcome.rank, from.bound.0
                ));
            }
        }
        let Some(began) = self.began else { return Err("a result without a start".to_owned()) };
        let is_settled = !self.unsettled[outcome.rank as usize] && !self.unsettled[0];
        let skew_ns = truth.0.abs_diff(began.at.0);
        if is_settled && skew_ns > began.bound.0 + 2 {
            return Err(format!(
                "rank {} began {skew_ns} ns off, and the bound is {} ns",
                outcome.rank, began.bound.0
            ));
        }
        Ok(())
    }

    /// No rank hangs: the leader has left or is gone, and each rank was told or missed it.
    pub fn end(&self, head: &Head, hosts: &[Host], now: Nanos) -> Result<(), String> {
        if !head.is_gone && head.left.is_none() {
            return Err(format!("the leader hangs at {:.1} s", now.as_secs_f64()));
        }
        for (at, host) in hosts.iter().enumerate() {
            if !host.is_gone && host.ended.is_none() {
                return Err(format!("rank {} hangs at {:.1} s", at + 1, now.as_secs_f64()));
            }
        }
        Ok(())
    }
}

/// Most by which clocks are apart after the time between two looks, if none is set: 1000 ppm, the
/// drift of the simulated ones, and the bounds of both looks.
fn drift_of(relation: &Relation) -> Nanos {
    let Some(after) = relation.after else { return Nanos(0) };
    let between = after.at.since(relation.before.at);
    Nanos(between.0 / 1000 + between.0 / 2500 + after.bound.0 + relation.before.bound.0)
}
