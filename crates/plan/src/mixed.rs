//! Several kinds of work at once on one system.
//!
//! Each kind takes at every part what it takes there by itself, and waits there for all others: the
//! stations are the same, and each kind has its own classes. Where it is simulated, nothing else is
//! supposed than that parts serve what came first.

use std::collections::HashMap;

use model::{Class, Method, Network, StationId, Step, solve};
use serde::Serialize;

use crate::bill::{Bill, Stream};
use crate::predict::{Use, least_sure};
use crate::system::{Load, PlanError, System, Tweak};
use catalogue::Kind;

/// What one kind of work gets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// What is asked.
    pub stream: Stream,
    /// I/Os per second.
    pub iops: f64,
    /// Payload per second.
    pub bytes_per_s: f64,
    /// Mean time from issue to done, in seconds.
    pub latency_s: f64,
}

/// What a system does with several kinds of work at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mixed {
    /// Each kind, that of the bill first.
    pub flows: Vec<Flow>,
    /// How busy everything is, the busiest first.
    pub uses: Vec<Use>,
    /// What was left out or taken for granted.
    pub remarks: Vec<String>,
    /// The least sure kind of the figures that it rests on.
    pub kind: Kind,
}

/// All work of a bill, that of the bill itself first.
pub fn streams(bill: &Bill) -> Vec<Stream> {
    let first = Stream { work: bill.work, sequential: bill.setup.sequential };
    std::iter::once(first).chain(bill.setup.streams.iter().copied()).collect()
}

/// The bill with one of its kinds of work alone; a write knows that others read beside it.
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
/// As [`predict`](crate::predict::predict); and where stations differ by the length of an I/O.
pub fn mixed(bill: &Bill) -> Result<Mixed, PlanError> {
    let streams = streams(bill);
    let build = |stream: &Stream| System::build(&alone(bill, stream), &Tweak::default());
    let systems: Vec<System> = streams.iter().map(build).collect::<Result<_, _>>()?;
    let (network, of, places) = together(&systems)?;
    // Kinds of work differ in what they take, which the exact recursion does not know.
    let solution = solve(&network, Method::Linearizer)?;
    let hosts = f64::from(bill.setup.up());
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

/// The network with the classes of all, which are whose, and where the stations of each are.
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
            // Names are told apart by their streams.
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
    use model::{Run, simulate};

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
    fn streams_take_from_each_other_what_a_simulation_says() {
        let both = bill(LONG);
        let found = mixed(&both).unwrap();
        let alone = mixed(&bill("")).unwrap();
        assert!(found.flows[0].iops < alone.flows[0].iops * 0.9, "{found:?}");
        assert!((0.5..=1.0).contains(&found.uses[0].utilisation), "{:?}", found.uses);
        let build = |stream: &Stream| {
            System::build(&super::alone(&both, stream), &Tweak::default()).unwrap()
        };
        let systems: Vec<System> = streams(&both).iter().map(build).collect();
        let (network, of, _) = together(&systems).unwrap();
        let run = Run { seed: 2, warmup: 20_000, requests: 400_000 };
        let truth = simulate(&network, run, |_| ()).unwrap();
        for (flow, range) in found.flows.iter().zip(of) {
            let rate: f64 = range.map(|k| truth.throughput_per_s[k].mean).sum();
            assert!((flow.iops / rate - 1.0).abs() < 0.08, "{} for {rate}", flow.iops);
        }
    }

    #[test]
    fn a_stream_that_makes_no_sense_is_refused_with_its_line() {
        let text = "name = 'x'\nsize = '4k'\noutstanding = 1\n[[group]]\ndrive = 'x25-m'\n\
            [[stream]]\nsize = '128k'\nread = 170\noutstanding = 4\n";
        let error = Bill::read("b.toml", text, &Catalogue::shipped()).unwrap_err().to_string();
        assert!(error.contains("b.toml:6") && error.contains("170"), "{error}");
    }
}
