//! Several concurrent workloads on one system.
//!
//! Each stream has its own classes with the service times that it would have alone, at the same
//! stations. Stations serve first come, first served, and streams have different service times
//! there: such a network has no product form, and approximate mean value analysis was up to 17 %
//! off at low queue depths. So the network is simulated, with a fixed seed and the same bits each
//! time.

use std::collections::HashMap;

use model::{Class, Method, Network, Run, StationId, Step, simulate, solve};
use serde::Serialize;

use crate::bill::{Bill, Stream};
use crate::predict::{Use, least_sure};
use crate::system::{Load, PlanError, System, Tweak};
use catalogue::Kind;

/// Length of the simulation of concurrent workloads: means are within 1 % if each workload has a
/// hundredth of the I/Os.
const RUN: Run = Run { seed: 1, warmup: 20_000, requests: 500_000 };

/// Results of one workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// Workload of the stream.
    pub stream: Stream,
    /// I/Os per second.
    pub iops: f64,
    /// Payload per second.
    pub bytes_per_s: f64,
    /// Mean time from issue to done, in seconds.
    pub latency_s: f64,
}

/// Results of a system with several concurrent workloads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mixed {
    /// Results of each workload, that of the bill first.
    pub flows: Vec<Flow>,
    /// Utilisation of all resources, the busiest first.
    pub uses: Vec<Use>,
    /// Omissions and assumptions.
    pub remarks: Vec<String>,
    /// Least certain kind of the figures.
    pub kind: Kind,
}

/// Returns all workloads of a bill, that of the bill itself first.
pub fn streams(bill: &Bill) -> Vec<Stream> {
    let first = Stream { work: bill.work, sequential: bill.setup.sequential };
    std::iter::once(first).chain(bill.setup.streams.iter().copied()).collect()
}

/// Returns the bill with only one of its workloads; a write notes that others read concurrently.
fn alone(bill: &Bill, stream: &Stream) -> Bill {
    let mut alone = bill.clone();
    alone.work = stream.work;
    alone.setup.sequential = stream.sequential;
    alone.setup.streams = Vec::new();
    alone.setup.among_reads = streams(bill).iter().any(|other| other.work.read_share > 0.0);
    alone
}

/// Solves a bill with all of its streams.
///
/// # Errors
///
/// Errors of [`predict`](crate::predict::predict); and stations that differ by I/O size.
pub fn mixed(bill: &Bill) -> Result<Mixed, PlanError> {
    let streams = streams(bill);
    let build = |stream: &Stream| System::build(&alone(bill, stream), &Tweak::default());
    let systems: Vec<System> = streams.iter().map(build).collect::<Result<_, _>>()?;
    let (network, of, places) = together(&systems)?;
    let solution = match streams.len() {
        1 => solve(&network, Method::Linearizer)?,
        _ => simulate(&network, RUN, |_| ())?.solution,
    };
    let hosts = bill.host_factor();
    let flow = |(stream, range): (&Stream, &std::ops::Range<usize>)| {
        let classes = &solution.classes[range.clone()];
        let rate: f64 = classes.iter().map(|class| class.throughput_per_s).sum();
        let inside: f64 = classes.iter().map(|class| class.outstanding).sum();
        let (stream, iops) = (*stream, rate * hosts);
        let bytes_per_s = iops * stream.work.size_bytes;
        Flow { stream, iops, bytes_per_s, latency_s: inside / rate }
    };
    let flows: Vec<Flow> = streams.iter().zip(&of).map(flow).collect();
    let mut uses: Vec<Use> = Vec::new();
    for (index, system) in systems.iter().enumerate() {
        for resource in &system.resources {
            let own = match &resource.load {
                Load::Stations(stations) => stations
                    .iter()
                    .map(|at| places[index][at.0 as usize].0 as usize)
                    .map(|at| solution.stations[at].utilisation)
                    .fold(0.0, f64::max),
                Load::PerIo(seconds) => flows[index].iops / hosts * seconds,
            };
            let adds = matches!(resource.load, Load::PerIo(_));
            match uses.iter_mut().find(|known| known.name == resource.name) {
                Some(known) if adds => known.utilisation += own,
                Some(known) => known.utilisation = known.utilisation.max(own),
                None => {
                    let (name, level, kind) =
                        (resource.name.clone(), resource.level, resource.kind);
                    uses.push(Use { name, level, utilisation: own, kind });
                }
            }
        }
    }
    uses.iter_mut().for_each(|used| used.utilisation = used.utilisation.min(1.0));
    uses.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
    let inputs = systems.iter().flat_map(|system| &system.inputs).cloned().collect::<Vec<_>>();
    let mut remarks: Vec<String> = Vec::new();
    for remark in systems.into_iter().flat_map(|system| system.remarks) {
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    Ok(Mixed { flows, uses, remarks, kind: least_sure(&inputs) })
}

/// Network with the classes of all streams, the range of classes of each stream, and the stations
/// of each.
type Together = (Network, Vec<std::ops::Range<usize>>, Vec<Vec<StationId>>);

fn together(systems: &[System]) -> Result<Together, PlanError> {
    let mut network = Network::default();
    let mut known: HashMap<String, StationId> = HashMap::new();
    let (mut of, mut places) = (Vec::new(), Vec::new());
    for system in systems {
        let mut ids: Vec<StationId> = Vec::new();
        for station in &system.network.stations {
            let id = match known.get(&station.name).copied() {
                Some(id) if network.stations[id.0 as usize].servers == station.servers => id,
                Some(_) => {
                    let reason = format!("'{}' differs between the streams", station.name);
                    return Err(PlanError::Part { line: 1, reason });
                }
                None => network.add_station(station.clone()),
            };
            known.insert(station.name.clone(), id);
            ids.push(id);
        }
        let first = network.classes.len();
        for class in &system.network.classes {
            let mut route = class.route.clone();
            renamed(&mut route, &ids);
            // Names are distinguished by their streams.
            let name = format!("{} of stream {}", class.name, of.len());
            network.add_class(Class { route, name, ..class.clone() });
        }
        of.push(first..network.classes.len());
        places.push(ids);
    }
    Ok((network, of, places))
}

fn renamed(route: &mut [Step], ids: &[StationId]) {
    crate::simulate::for_each_stop(route, &mut |at| {
        at.iter_mut().for_each(|at| *at = ids[at.0 as usize]);
    });
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::predict::predict;
    use catalogue::Catalogue;

    fn bill(more: &str) -> Bill {
        let text = format!(
            "name = 'x'\nsize = '4k'\nread = 70\noutstanding = 16\n{more}[[group]]\n\
             drive = 'micron-9550-max-6400'\ncount = 2\n"
        );
        let found = Bill::read("b.toml", &text, &Catalogue::shipped());
        found.unwrap_or_else(|error| panic!("{error}"))
    }

    const LONG: &str = "[[stream]]\nsize = '128k'\noutstanding = 4\nsequential = true\n";

    #[test]
    fn one_stream_is_the_bill() {
        let bill = bill("");
        let (found, alone) = (mixed(&bill).unwrap(), predict(&bill, &Tweak::default()).unwrap());
        assert_eq!(found.flows.len(), 1);
        assert!((found.flows[0].iops / alone.iops - 1.0).abs() < 0.01, "{found:?}");
        assert!((found.flows[0].latency_s / alone.latency_s - 1.0).abs() < 0.01);
    }

    #[test]
    fn streams_take_from_each_other() {
        let (both, alone) = (mixed(&bill(LONG)).unwrap(), mixed(&bill("")).unwrap());
        assert!(both.flows[0].iops < alone.flows[0].iops * 0.9, "{both:?}");
        assert!((0.5..=1.0).contains(&both.uses[0].utilisation), "{:?}", both.uses);
        assert_eq!(both, mixed(&bill(LONG)).unwrap(), "the same bits each time");
    }

    /// Tests random streams on flash drives: the command `simulate` has its own workers, which do
    /// not use this module.
    #[test]
    fn plan_says_of_streams_what_simulate_does() {
        let mut rng = block::Rng::new(7, 0);
        let mut one_of = |of: &[&'static str]| of[rng.next_u64() as usize % of.len()];
        for case in 0..10 {
            let text = format!(
                "name = 'x'\nsize = '{}'\nread = {}\noutstanding = {}\n[[stream]]\nsize = '{}'\n\
                 read = {}\noutstanding = {}\n[[group]]\ndrive = '{}'\ncount = {}\n",
                one_of(&["4k", "16k"]),
                one_of(&["100", "70", "0"]),
                one_of(&["1", "4", "16"]),
                one_of(&["8k", "64k", "128k", "512k"]),
                one_of(&["100", "70", "0"]),
                one_of(&["1", "4", "16"]),
                one_of(&["p5800x-800", "p4800x-375", "micron-9550-max-6400", "cm6-30720", "x25-m"]),
                one_of(&["1", "2"]),
            );
            let bill = Bill::read("b.toml", &text, &Catalogue::shipped()).unwrap();
            let (found, truth) = (mixed(&bill).unwrap(), simulated(&bill));
            for (flow, truth) in found.flows.iter().zip(truth) {
                let off = flow.iops / truth - 1.0;
                assert!(off.abs() < 0.05, "case {case}: {off:+.3} of {truth}\n{text}");
            }
        }
    }

    /// Returns the IOPS of each stream, with separate workers on every drive.
    fn simulated(bill: &Bill) -> Vec<f64> {
        use job::spec::{Access, Workload};
        let streams = streams(bill);
        let workload = |stream: &Stream| {
            let Stream { work, sequential } = stream;
            let random = if *sequential { 0.0 } else { 100.0 };
            let size = work.size_bytes as u32;
            let access = Access::new(size, work.read_share * 100.0, random);
            Workload::new(access, work.outstanding)
        };
        let workloads: Vec<Workload> = streams.iter().map(workload).collect();
        let workers = crate::simulate::test::rates(bill, &workloads, 0.5);
        workers.chunks(workers.len() / streams.len()).map(|each| each.iter().sum()).collect()
    }

    #[test]
    fn a_stream_that_makes_no_sense_is_refused_with_its_line() {
        let text = "name = 'x'\nsize = '4k'\noutstanding = 1\n[[group]]\ndrive = 'x25-m'\n\
            [[stream]]\nsize = '128k'\nread = 170\noutstanding = 4\n";
        let error = Bill::read("b.toml", text, &Catalogue::shipped()).unwrap_err().to_string();
        assert!(error.contains("b.toml:6") && error.contains("170"), "{error}");
    }
}
