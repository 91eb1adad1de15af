//! Flushes: the time that a write waits until it survives a power loss.
//!
//! A drive whose cache is protected (`plp = 1`) has nothing to flush, and an adapter with a
//! protected write cache answers flushes itself. Any other drive writes back its cache. Concurrent
//! writers share flushes: three drives without protection, measured with 1 to 10 writers, did 1.4
//! to 2 times as many writes with two of them and 3 times with ten, about the square root of n.

use std::collections::BTreeMap;

use model::{Servers, Station};

use super::{Builder, Level, Load, PlanError, Stop};
use crate::bill::Group;
use crate::evidence::middle;
use catalogue::{Known, Part, is_disk};

/// Prefix of the names of flush stations.
const FLUSHES: &str = "flushes of ";
/// Maximum number of writers that share flushes in the model.
const SHARE_MAX: u32 = 256;
/// Minimum number of drives of the same maker; with fewer, drives of all makers are used.
const MAKER_LEAST: usize = 3;
/// Default rotational speed of an HDD in rpm.
const RPM: f64 = 7200.0;

/// Flushes for each I/O of a drive.
#[derive(Clone, Copy)]
pub(super) struct Flush {
    /// Mean seconds per I/O, over reads, writes and writes without a flush.
    pub(super) seconds: f64,
    /// True if flushes queue in the drive.
    pub(super) queues: bool,
}

impl Flush {
    /// Returns the station of a drive's flushes.
    pub(super) fn stop(self, builder: &mut Builder, drive: &str) -> Stop {
        let name = format!("{FLUSHES}{drive}");
        let shared = |n: u32| f64::from(n).sqrt();
        let servers = Servers::Rates((1..=SHARE_MAX).map(shared).collect());
        let station = Station { name, servers, reserve: None, head: None };
        let at = builder.network.add_station(station);
        Stop { at, seconds: builder.at(Level::Drive, self.seconds) }
    }
}

/// Returns the first word of a part's name.
fn maker(part: &Part) -> &str {
    part.name.split_whitespace().next().unwrap_or_default()
}

/// Returns whether a station of this name is one of flushes.
pub(crate) fn is_flush(station: &str) -> bool {
    station.starts_with(FLUSHES)
}

impl Builder<'_> {
    /// Returns the flushes for each I/O of a drive; `None` if there are none or they take no time.
    pub(super) fn flush(
        &mut self,
        group: &Group,
        drive: &Part,
    ) -> Result<Option<Flush>, PlanError> {
        let writes = self.shares().1;
        // Daemons that store copies acknowledge writes that their drives have made durable, with or
        // without a flush.
        let daemons = self.has_daemons();
        let each = match self.bill.work.flush {
            _ if !self.is_flushed(drive) => return Ok(None),
            Some(every) if !daemons => 1.0 / f64::from(every),
            _ => 1.0,
        };
        if writes == 0.0 {
            return Ok(None);
        }
        if group.write_cache {
            self.remark("the adapter's write cache absorbs flushes: assumed non-volatile");
            return Ok(None);
        }
        let copies = if daemons { self.bill.setup.host_writes().1 } else { 1.0 };
        let (seconds, queues) = self.one_flush(drive)?;
        let seconds = seconds * writes * each * copies;
        Ok((seconds > 0.0 || !queues).then_some(Flush { seconds, queues }))
    }

    /// Returns whether writes to a drive are flushed: by the bill, or by daemons that store copies,
    /// which costs time if the drive is known to have no protection.
    pub(super) fn is_flushed(&self, drive: &Part) -> bool {
        match self.has_daemons() {
            true => drive.value("plp") == Some(0.0),
            false => self.bill.work.flush.is_some(),
        }
    }

    /// Returns the time that a flush adds to a lone write, negative if a write with its flush was
    /// measured to be faster than the rated one; and whether flushes queue in the drive.
    pub(super) fn one_flush(&mut self, drive: &Part) -> Result<(f64, bool), PlanError> {
        if drive.interface == "network" {
            self.remark(&format!(
                "{}: writes are durable on completion: a flush costs nothing",
                drive.id
            ));
            return Ok((0.0, false));
        }
        let plp = self.figure(drive, "plp").map(|plp| plp > 0.5);
        let sync = match (self.figure(drive, "sync_write_latency"), plp) {
            (Some(sync), _) => sync,
            // With random I/O the head moves for each write anyway; with sequential I/O the disk
            // rotates once.
            _ if is_disk(drive) && self.bill.setup.sequential => {
                return Ok((60.0 / self.figure(drive, "rpm").unwrap_or(RPM), true));
            }
            _ if is_disk(drive) => return Ok((0.0, false)),
            (None, Some(plp)) => match self.sync_like(drive, plp) {
                Some(sync) => sync,
                None if plp => return Ok((0.0, false)),
                None => self.need(drive, "sync_write_latency")?,
            },
            (None, None) => {
                return Err(PlanError::Part {
                    line: self.line,
                    reason: format!(
                        "whether {} has power-loss protection is not known, and a flush takes a \
                         hundred times longer without: give plp = 1 or plp = 0 in a [[figure]], \
                         or its sync_write_latency",
                        drive.id
                    ),
                });
            }
        };
        let alone = match self.figure(drive, "write_latency") {
            Some(alone) => alone,
            None => self.latency_like(drive, "write_latency"),
        };
        Ok((sync - alone, plp != Some(true)))
    }

    /// Returns the median of drives with the same interface and the same protection: of the same
    /// maker if a few are known, as firmware of one family flushes alike, or else one vote for each
    /// maker.
    fn sync_like(&mut self, drive: &Part, plp: bool) -> Option<f64> {
        let mut makers: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for part in self.bill.catalogue.parts.values() {
            let protected = part.value("plp").map(|theirs| theirs > 0.5);
            let alike = part.interface == drive.interface && protected == Some(plp);
            if let Some(time) = part.value("sync_write_latency").filter(|_| alike) {
                makers.entry(maker(part)).or_default().push(time);
            }
        }
        let all: Vec<f64> = makers.values().flatten().copied().collect();
        let (low, high) =
            (all.iter().copied().reduce(f64::min)?, all.iter().copied().reduce(f64::max)?);
        let value = match makers.get_mut(maker(drive)) {
            Some(theirs) if theirs.len() >= MAKER_LEAST => middle(theirs),
            _ => {
                middle(&mut makers.values_mut().map(|theirs| middle(theirs)).collect::<Vec<f64>>())
            }
        };
        let with = if plp { "with" } else { "without" };
        self.remark(&format!(
            "{}: sync_write_latency unknown; assumed {:.0} us, of {} drives with {} {with} \
             power-loss protection, {:.0} to {:.0} us",
            drive.id,
            value * 1e6,
            all.len(),
            drive.interface,
            low * 1e6,
            high * 1e6
        ));
        let source = format!("drives with {} {with} protection, catalogue", drive.interface);
        let known = Known::assumed(value, (low, high), source);
        Some(self.supposed(drive, "sync_write_latency", known))
    }

    /// Adds the flushes of all drives of a group, as a resource: the share of the time in which one
    /// is in progress if writers share none.
    pub(super) fn flushes(&mut self, group: &Group, drive: &Part, flush: Option<Flush>) {
        if let Some(flush) = flush {
            let from: &[(&str, &[&str])] = &[(&drive.id, &["sync_write_latency", "rpm"])];
            let name = format!("{FLUSHES}{}", drive.id);
            let seconds = self.at(Level::Drive, flush.seconds) / f64::from(group.devices());
            self.resource(name, Level::Drive, from, Load::PerIo(seconds));
        }
    }
}
