//! A bill for all accesses of a run: the stations, and the route of each operation and size.

use std::collections::HashMap;

use block::Op;
use job::spec::Access;
use model::device::Way;
use model::{ModelError, Network, Servers, Source, Station, StationId, Step};

use super::{Cores, Drive, for_each_stop};
use crate::bill::{Bill, Work};
use crate::system::{Input, PlanError, System, Tweak, is_flush};

/// Queue depth above any queue: the number of I/Os of a class in flight is then its drive's
/// maximum.
const DEEP: u32 = 65_536;
/// Station for all visits without a queue.
const DELAY: StationId = StationId(0);

/// A bill, prepared for the times of single I/Os.
pub(super) struct Parts {
    bill: Bill,
    stations: Network,
    names: HashMap<String, StationId>,
    /// Routes of all classes for an operation and size, over the stations above.
    routes: HashMap<(bool, u32), Vec<Vec<Step>>>,
    /// Routes of all classes for a flush.
    flushes: Vec<Vec<Step>>,
    /// Number of I/Os of an operation and size in flight on a drive.
    depths: HashMap<(bool, u32), u32>,
    /// Figures of all routes, each once.
    pub inputs: Vec<Input>,
    pub remarks: Vec<String>,
}

impl Parts {
    /// Builds the routes of all accesses at once, so that a missing figure is found before the run.
    pub fn new(bill: &Bill, accesses: &[(&Access, u32)]) -> Result<Parts, PlanError> {
        let mean = |of: &dyn Fn(&Access) -> f64| {
            accesses.iter().map(|(access, _)| of(access)).sum::<f64>()
                / accesses.len().max(1) as f64
        };
        let size_bytes = mean(&Access::mean_bytes).max(1.0);
        let read_share = mean(&Access::read_percent) / 100.0;
        let mut bill = bill.clone();
        bill.work = Work { size_bytes, read_share, outstanding: 1, flush: None };
        bill.setup.in_flight = None;
        let mut parts = Parts {
            remarks: drives(&bill)?.1,
            stations: Network { stations: vec![Station::delay("delay")], classes: Vec::new() },
            names: HashMap::new(),
            routes: HashMap::new(),
            flushes: Vec::new(),
            depths: depths(accesses),
            inputs: Vec::new(),
            bill,
        };
        for (access, _) in accesses {
            let read_percent = access.read_percent();
            for line in &access.lines {
                let mut lengths = vec![line.size_bytes];
                lengths.extend(Some(line.reply_bytes).filter(|bytes| *bytes > 0));
                for length in lengths {
                    if read_percent > 0.0 {
                        parts.routes(Op::Read, length)?;
                    }
                    if read_percent < 100.0 {
                        parts.routes(Op::Write, length)?;
                    }
                }
            }
        }
        if accesses.iter().any(|(access, _)| flushes(access)) {
            parts.flushes = parts.flush_routes()?;
        }
        Ok(parts)
    }

    /// Returns the routes of a flush on each drive; the writes of the flush are separate.
    fn flush_routes(&mut self) -> Result<Vec<Vec<Step>>, PlanError> {
        let mut bill = self.bill.clone();
        bill.work = Work { flush: Some(1), outstanding: 1, ..bill.work };
        let tweak = Tweak { only: Some(Op::Write), ..Tweak::default() };
        let System { network, inputs, remarks, .. } = System::build(&bill, &tweak)?;
        self.rest_on(inputs);
        for remark in remarks {
            if !self.remarks.contains(&remark) {
                self.remarks.push(remark);
            }
        }
        let stations = network.stations.clone();
        let ids = self.places(&stations)?;
        let routes = network.classes.into_iter().map(|class| {
            let mut route = class.route;
            let name = |at: StationId| stations[at.0 as usize].name.as_str();
            route.retain(|step| matches!(step, Step::Visit(v) if is_flush(name(v.at[0]))));
            for_each_stop(&mut route, &mut |at| {
                at.iter_mut().for_each(|at| *at = ids[at.0 as usize]);
            });
            route
        });
        Ok(routes.collect())
    }

    /// Returns the routes of all drives for an operation and size.
    fn routes(&mut self, op: Op, len_bytes: u32) -> Result<&[Vec<Step>], PlanError> {
        let key = (op == Op::Read, len_bytes);
        if !self.routes.contains_key(&key) {
            let size_bytes = f64::from(len_bytes.max(1));
            // A drive accepts as many I/Os as its workers have in flight, at most 65,536.
            let outstanding = self.depths.get(&key).copied().unwrap_or(1).clamp(1, DEEP);
            self.bill.work = Work { size_bytes, outstanding, ..self.bill.work };
            let tweak = Tweak { only: Some(op), ..Tweak::default() };
            let System { network, inputs, .. } = System::build(&self.bill, &tweak)?;
            self.rest_on(inputs);
            let ids = self.places(&network.stations)?;
            let routes = network.classes.into_iter().map(|class| {
                let mut route = class.route;
                // A visit without time, as where the other direction is the busier one, waits for
                // no other.
                route.retain(|step| !matches!(step, Step::Visit(v) if v.service.mean_s == 0.0));
                for_each_stop(&mut route, &mut |at| {
                    at.iter_mut().for_each(|at| *at = ids[at.0 as usize]);
                });
                route
            });
            let routes = routes.collect();
            self.routes.insert(key, routes);
        }
        Ok(&self.routes[&key])
    }

    fn rest_on(&mut self, inputs: Vec<Input>) {
        for input in inputs {
            if !self.inputs.contains(&input) {
                self.inputs.push(input);
            }
        }
    }

    /// Returns the ids here of stations from another build of the bill.
    fn places(&mut self, stations: &[Station]) -> Result<Vec<StationId>, PlanError> {
        let mut ids = Vec::new();
        for station in stations {
            if station.servers == Servers::Infinite {
                ids.push(DELAY);
                continue;
            }
            let known = self.names.get(&station.name).copied();
            if let Some(known) = known {
                if self.stations.stations[known.0 as usize].servers != station.servers {
                    let reason = "ports whose engines wait for the fabric are simulated with one \
                                  length and direction at a time"
                        .to_owned();
                    return Err(PlanError::Part { line: 1, reason });
                }
                ids.push(known);
                continue;
            }
            let id = self.stations.add_station(station.clone());
            self.names.insert(station.name.clone(), id);
            ids.push(id);
        }
        Ok(ids)
    }

    /// Returns the CPU time of I/Os of mean size; exact for a single size.
    pub fn cores(&self, accesses: &[(&Access, u32)]) -> Cores {
        let Some(processor) = self.names.get("processor") else {
            return Cores { count: 0, read: (0.0, 0.0), write: (0.0, 0.0) };
        };
        let count = match self.stations.stations[processor.0 as usize].servers {
            Servers::Count(count) => count,
            _ => 0,
        };
        let mean = |op: Op| {
            let mut sum = (0.0, 0.0);
            for line in accesses.iter().flat_map(|(access, _)| &access.lines) {
                let routes = self.routes.get(&(op == Op::Read, line.size_bytes));
                let first = routes.and_then(|routes| routes.first());
                let steps = first.into_iter().flatten().filter_map(|step| match step {
                    Step::Visit(visit) if visit.at == [*processor] => Some(visit.service.mean_s),
                    _ => None,
                });
                let share = line.share_percent;
                sum = (sum.0 + share * steps.sum::<f64>(), sum.1 + share);
            }
            (if sum.1 > 0.0 { sum.0 / sum.1 } else { 0.0 }, 0.0)
        };
        Cores { count, read: mean(Op::Read), write: mean(Op::Write) }
    }

    /// Returns the stations of a host.
    pub fn stations(&self) -> Network {
        self.stations.clone()
    }

    /// Returns the route of an I/O through the stations.
    pub fn way(&mut self, way: Way) -> Result<Vec<Step>, ModelError> {
        let Way { drive, op, len_bytes } = way;
        if let Some(route) = self.flushes.get(drive as usize).filter(|_| op == Op::Flush) {
            return Ok(route.clone());
        }
        let op = if op == Op::Read { Op::Read } else { Op::Write };
        let before = self.stations.stations.len();
        let routes = self.routes(op, len_bytes).map_err(as_model)?;
        let route = routes[drive as usize].clone();
        // Stations follow from the bill, not from sizes: all existed at the start.
        debug_assert_eq!(before, self.stations.stations.len());
        Ok(route)
    }
}

/// Returns whether some of its I/Os are flushes.
fn flushes(access: &Access) -> bool {
    access.flush_every > 0 || access.lines.iter().any(|line| line.flush_percent > 0.0)
}

/// Returns the maximum number of I/Os of each operation and size in flight on a drive.
fn depths(accesses: &[(&Access, u32)]) -> HashMap<(bool, u32), u32> {
    let mut depths: HashMap<(bool, u32), u32> = HashMap::new();
    for (access, depth) in accesses {
        for line in &access.lines {
            for length in [line.size_bytes, line.reply_bytes] {
                for reads in [true, false] {
                    let known = depths.entry((reads, length)).or_default();
                    *known = (*known).max(*depth);
                }
            }
        }
    }
    depths
}

/// Returns the drives that workers can use, with the omissions and assumptions.
pub(super) fn drives(bill: &Bill) -> Result<(Vec<Drive>, Vec<String>), PlanError> {
    let mut bill = bill.clone();
    (bill.work.outstanding, bill.setup.in_flight) = (DEEP, None);
    let first = System::build(&bill, &Tweak::default())?;
    bill.work.outstanding = 1;
    let copies = System::build(&bill, &Tweak::default())?;
    let drives = first.network.classes.iter().zip(&copies.network.classes).zip(0..);
    let drives = drives.flat_map(|((deep, one), at)| {
        let (deep, copies) = (population(&deep.source), population(&one.source));
        let name = |copy: u32| match copies {
            1 => one.name.clone(),
            _ => format!("{} {copy}", one.name),
        };
        let drive = |copy| Drive { name: name(copy), host: 0, at, depth: deep / copies };
        (0..copies).map(drive).collect::<Vec<_>>()
    });
    let drives = drives.collect();
    Ok((drives, first.remarks))
}

fn population(source: &Source) -> u32 {
    match source {
        Source::Closed { population, .. } => (*population).max(1),
        Source::Open { .. } => 1,
    }
}

fn as_model(error: PlanError) -> ModelError {
    match error {
        PlanError::Model(error) => error,
        other => ModelError::Invalid { place: "bill".to_owned(), problem: other.to_string() },
    }
}
