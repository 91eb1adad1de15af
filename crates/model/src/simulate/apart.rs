//! Splits a network into parts that share no station, and simulates them on all cores.
//!
//! Each part has its own time, random streams and request count, so the thread and order do not
//! matter: one thread or many, the same bits.

use super::{REQUESTS_MIN, Run, Simulated, simulate};
use crate::{
    Class, ClassResult, Estimate, ModelError, Network, Picos, Solution, Source, StationResult, Step,
};

/// Classes and stations of a part, by their indices in the whole, in order.
#[derive(Debug)]
struct Part {
    classes: Vec<usize>,
    stations: Vec<usize>,
}

/// A network in parts that share no station.
#[derive(Debug)]
pub struct Apart<'a> {
    network: &'a Network,
    parts: Vec<Part>,
    run: Run,
}

impl<'a> Apart<'a> {
    /// Splits a network for a run. Each part simulates its share of the requests, in proportion to
    /// those in flight.
    ///
    /// # Errors
    ///
    /// What [`Network::check`] says.
    pub fn new(network: &'a Network, run: Run) -> Result<Apart<'a>, ModelError> {
        network.check()?;
        Ok(Apart { network, parts: parts(network), run })
    }

    /// Number of parts.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Runs one of [`Apart::parts`]: on any thread, in any order, to the same bits.
    ///
    /// # Errors
    ///
    /// As [`simulate`].
    pub fn run(&self, at: usize) -> Result<Simulated, ModelError> {
        let Apart { network, parts, run } = self;
        let all: f64 = parts.iter().map(|part| weight(network, part)).sum();
        let own = weight(network, &parts[at]);
        let share = |requests: u64| (requests as f64 * own / all).ceil() as u64;
        let own = Run {
            // A seed of its own: equal parts differ.
            seed: run.seed.wrapping_add((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            warmup: share(run.warmup),
            requests: share(run.requests).max(REQUESTS_MIN),
        };
        simulate(&only(network, &parts[at]), own, |_| ())
    }

    /// Combines the results of all parts, in order, at the indices of the whole. Residence times
    /// are left out: for a thousand classes at four thousand stations they would take most of the
    /// memory.
    pub fn whole(&self, found: &[Simulated]) -> Simulated {
        whole(self.network, &self.parts, found)
    }
}

/// Requests in flight in a part; an open class counts as one.
fn weight(network: &Network, part: &Part) -> f64 {
    let of = |class: &usize| match network.classes[*class].source {
        Source::Closed { population, .. } => f64::from(population),
        Source::Open { .. } => 1.0,
    };
    part.classes.iter().map(of).sum::<f64>().max(1.0)
}

/// The parts, in the order of their first classes.
fn parts(network: &Network) -> Vec<Part> {
    // Union-find: the representative of each station's part, with path halving.
    let mut of: Vec<usize> = (0..network.stations.len()).collect();
    fn root(of: &mut [usize], mut at: usize) -> usize {
        while of[at] != at {
            of[at] = of[of[at]];
            at = of[at];
        }
        at
    }
    let mut visited = vec![false; network.stations.len()];
    let mut first = Vec::new();
    for class in &network.classes {
        let mut stations = Vec::new();
        visits(&class.route, &mut stations);
        for pair in stations.windows(2) {
            let (a, b) = (root(&mut of, pair[0]), root(&mut of, pair[1]));
            of[a.max(b)] = a.min(b);
        }
        stations.iter().for_each(|at| visited[*at] = true);
        first.push(stations.first().copied());
    }
    let mut place = vec![usize::MAX; network.stations.len()];
    let mut parts: Vec<Part> = Vec::new();
    for (class, station) in first.into_iter().enumerate() {
        // A class without a station is a part by itself.
        let Some(station) = station else {
            parts.push(Part { classes: vec![class], stations: Vec::new() });
            continue;
        };
        let root = root(&mut of, station);
        if place[root] == usize::MAX {
            place[root] = parts.len();
            parts.push(Part { classes: Vec::new(), stations: Vec::new() });
        }
        parts[place[root]].classes.push(class);
    }
    for station in (0..network.stations.len()).filter(|at| visited[*at]) {
        let root = root(&mut of, station);
        parts[place[root]].stations.push(station);
    }
    parts
}

/// All stations of a route.
fn visits(route: &[Step], to: &mut Vec<usize>) {
    for step in route {
        match step {
            Step::Visit(visit) => to.extend(visit.at.iter().map(|at| at.0 as usize)),
            Step::Hold(visit, inner) => {
                to.extend(visit.at.iter().map(|at| at.0 as usize));
                visits(inner, to);
            }
            Step::Fork(branches) => branches.iter().for_each(|branch| visits(branch, to)),
            Step::Choose(ways) => ways.iter().for_each(|(_, way)| visits(way, to)),
        }
    }
}

/// A part as a network.
fn only(network: &Network, part: &Part) -> Network {
    let stations = part.stations.iter().map(|at| network.stations[*at].clone()).collect();
    let class = |at: &usize| {
        let class = &network.classes[*at];
        let mut route = class.route.clone();
        renamed(&mut route, &part.stations);
        Class { route, ..class.clone() }
    };
    Network { stations, classes: part.classes.iter().map(class).collect() }
}

/// Renumbers stations to their indices in the part.
fn renamed(route: &mut [Step], stations: &[usize]) {
    let visit = |visit: &mut crate::Visit| {
        for at in &mut visit.at {
            let place = stations.binary_search(&(at.0 as usize));
            at.0 = place.unwrap_or_default() as u32;
        }
    };
    for step in route {
        match step {
            Step::Visit(one) => visit(one),
            Step::Hold(one, inner) => {
                visit(one);
                renamed(inner, stations);
            }
            Step::Fork(branches) => branches.iter_mut().for_each(|b| renamed(b, stations)),
            Step::Choose(ways) => ways.iter_mut().for_each(|(_, way)| renamed(way, stations)),
        }
    }
}

/// The results of the parts, at the indices of the whole.
fn whole(network: &Network, parts: &[Part], found: &[Simulated]) -> Simulated {
    let idle = |_: &crate::Station| StationResult {
        utilisation: 0.0,
        present: 0.0,
        throughput_per_s: 0.0,
        residence_s: Vec::new(),
    };
    let none = ClassResult { throughput_per_s: 0.0, response_s: 0.0, outstanding: 0.0 };
    let nothing = Estimate { mean: 0.0, half_width: 0.0 };
    let count = network.classes.len();
    let mut all = Simulated {
        solution: Solution {
            method: None,
            classes: vec![none; count],
            stations: network.stations.iter().map(idle).collect(),
            caveats: Vec::new(),
        },
        span: found.iter().map(|one| one.span).min().unwrap_or(Picos(0)),
        requests: vec![0; count],
        throughput_per_s: vec![nothing; count],
        response_s: vec![nothing; count],
    };
    for (part, one) in parts.iter().zip(found) {
        for (own, at) in part.classes.iter().enumerate() {
            all.solution.classes[*at] = one.solution.classes[own];
            all.requests[*at] = one.requests[own];
            all.throughput_per_s[*at] = one.throughput_per_s[own];
            all.response_s[*at] = one.response_s[own];
        }
        for (own, at) in part.stations.iter().enumerate() {
            let found = &one.solution.stations[own];
            all.solution.stations[*at] = StationResult { residence_s: Vec::new(), ..found.clone() };
        }
    }
    all
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::{Method, Service, Station, solve};

    /// Appliances of eleven disks behind a port each, with their clients.
    fn fabric(appliances: u32, clients: u32) -> Network {
        let mut network = Network::default();
        for appliance in 0..appliances {
            let port = network.add_station(Station::servers(format!("port {appliance}"), 1));
            let disks: Vec<_> = (0..11)
                .map(|disk| {
                    network.add_station(Station::servers(format!("disk {appliance}.{disk}"), 1))
                })
                .collect();
            network.add_class(
                Class::closed(format!("clients of {appliance}"), clients)
                    .visit_any(disks, Service::exponential(5e-3))
                    .visit(port, Service::exponential(4e-6 * f64::from(1 + appliance % 3))),
            );
        }
        network
    }

    /// On this many threads.
    fn simulate_apart(network: &Network, run: Run, threads: usize) -> Simulated {
        let apart = Apart::new(network, run).unwrap();
        let mine = |first: usize| -> Vec<(usize, Simulated)> {
            let mine = (first..apart.parts()).step_by(threads);
            mine.map(|at| (at, apart.run(at).unwrap())).collect()
        };
        let mut found: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads)
                .map(|first| {
                    scope.spawn({
                        let mine = &mine;
                        move || mine(first)
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        found.sort_by_key(|(at, _)| *at);
        apart.whole(&found.into_iter().map(|(_, one)| one).collect::<Vec<_>>())
    }

    #[test]
    fn one_thread_and_many_give_the_same_bits() {
        let network = fabric(7, 40);
        let run = Run { seed: 3, warmup: 700, requests: 7_000 };
        let one = simulate_apart(&network, run, 1);
        for threads in [2, 5] {
            assert_eq!(simulate_apart(&network, run, threads), one, "{threads}");
        }
        let other = simulate_apart(&network, Run { seed: 4, ..run }, 2);
        assert_ne!(other, one, "the seed decides");
        assert_eq!(one.requests.len(), 7);
        // Equal appliances have different random streams.
        assert_ne!(one.throughput_per_s[0], one.throughput_per_s[3]);
    }

    #[test]
    fn parts_are_what_the_whole_is() {
        let network = fabric(4, 30);
        let run = Run { seed: 1, warmup: 4_000, requests: 400_000 };
        let (apart, theory) =
            (simulate_apart(&network, run, 2), solve(&network, Method::Auto).unwrap());
        let (found, means) = (apart.solution.throughput_per_s(), theory.throughput_per_s());
        assert!((found / means - 1.0).abs() < 0.01, "{found} for {means}");
        // Classes that share a station are one part: the result is that of one run.
        let mut shared = Network::default();
        let disk = shared.add_station(Station::servers("disk", 1));
        let unused = shared.add_station(Station::servers("unused", 1));
        for name in ["a", "b"] {
            shared.add_class(Class::closed(name, 2).visit(disk, Service::exponential(1e-3)));
        }
        let run = Run { seed: 1, warmup: 0, requests: 1_000 };
        let apart = simulate_apart(&shared, run, 2);
        let whole = simulate(&shared, run, |_| ()).unwrap();
        assert_eq!(apart.throughput_per_s, whole.throughput_per_s);
        assert_eq!(apart.solution.stations[unused.0 as usize].throughput_per_s, 0.0);
    }
}
