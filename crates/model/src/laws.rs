//! Operational laws that hold for every system, and the bounds that follow.

mod program;

use crate::check::{is_product_form, unloaded_s};
use crate::{Class, ModelError, Network, Servers, Source, StationId, Step};
use program::maximum;

/// Returns the mean number of requests present, from their rate and their time in the system
/// (Little's law).
pub fn population(throughput_per_s: f64, response_s: f64) -> f64 {
    throughput_per_s * response_s
}

/// Returns the mean time in the system in seconds, from the number of requests present and their
/// rate (Little's law).
pub fn response_s(population: f64, throughput_per_s: f64) -> f64 {
    population / throughput_per_s
}

/// Returns the requests per second, from the number present and the time of each in the system
/// (Little's law).
pub fn throughput_per_s(population: f64, response_s: f64) -> f64 {
    population / response_s
}

/// Returns the requests per second of a device of K banks with `n` random requests in flight: on
/// average, K (1 − (1 − 1/K)^n) banks are busy. K is the rate of all banks times the time of a lone
/// request.
pub fn banks_per_s(rate_per_s: f64, alone_s: f64, n: u32) -> f64 {
    let banks = (rate_per_s * alone_s).max(1.0);
    rate_per_s * (1.0 - (1.0 - 1.0 / banks).powi(n.min(i32::MAX as u32) as i32))
}

/// Returns the delay in seconds, in addition to one server of `server_s`, with which `n` requests
/// reach `throughput_per_s`; 0 if the server alone is slower, and at most the bound by Little's
/// law.
pub fn delay_s(server_s: f64, n: u32, throughput_per_s: f64) -> f64 {
    let (mut low, mut high) = (0.0, f64::from(n) / throughput_per_s);
    let does = |delay_s: f64| {
        let (mut queue, mut rate) = (0.0, 0.0);
        for present in 1..=n {
            let response_s = server_s * (1.0 + queue);
            rate = f64::from(present) / (response_s + delay_s);
            queue = rate * response_s;
        }
        rate
    };
    if does(0.0) <= throughput_per_s {
        return 0.0;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if does(middle) > throughput_per_s { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Upper bounds of the classes, for any distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// Bounds per class, in the order of [`Network::classes`].
    pub classes: Vec<ClassBounds>,
    /// Upper bound on the total requests per second for any mix: the optimum of a linear program
    /// over the stations; beyond 256 classes the sum of the classes' own bounds.
    pub throughput_per_s_high: f64,
}

/// Bounds of one class, as if it had the network to itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassBounds {
    /// Asymptotic upper bound on requests per second: the rate of the slowest station, and for a
    /// closed class also its rate without queueing.
    pub throughput_per_s_high: f64,
    /// Balanced job lower bound on requests per second, for exponential service; 0 for open classes
    /// and for routes that hold or fork.
    pub throughput_per_s_low: f64,
    /// Response time without queueing, in seconds.
    pub response_s_low: f64,
    /// The bottleneck station; `None` if all stations are delays.
    pub bottleneck: Option<StationId>,
    /// Minimum population at which requests must queue: (response + think time) times the rate of
    /// the slowest station. Infinite if all stations are delays.
    pub knee_population: f64,
}

/// Returns asymptotic and balanced job bounds (Lazowska et al. 1984, chapter 5). A held station
/// counts as busy during the inner steps.
///
/// # Errors
///
/// Errors of [`Network::check`].
pub fn bounds(network: &Network) -> Result<Bounds, ModelError> {
    network.check()?;
    let occupied: Vec<Vec<f64>> =
        network.classes.iter().map(|class| occupied_s(network, class)).collect();
    let classes = network.classes.iter().zip(&occupied);
    let classes: Vec<ClassBounds> =
        classes.map(|(class, occupied)| class_bounds(network, class, occupied)).collect();
    let most: Vec<f64> = (network.classes.iter().zip(&classes))
        .map(|(class, bounds)| match &class.source {
            Source::Closed { .. } => bounds.throughput_per_s_high,
            Source::Open { gap } => bounds.throughput_per_s_high.min(1.0 / gap.mean_s),
        })
        .collect();
    let limits: Vec<f64> = network.stations.iter().map(|k| k.servers.speed_max()).collect();
    let throughput_per_s_high = maximum(&occupied, &limits, &most);
    Ok(Bounds { classes, throughput_per_s_high })
}

fn class_bounds(network: &Network, class: &Class, occupied_s: &[f64]) -> ClassBounds {
    let mut slowest = (None, 0.0);
    let (mut alone_s, mut crowd_s, mut worst_s) = (0.0, 0.0_f64, 0.0);
    for (index, (station, occupied)) in network.stations.iter().zip(occupied_s).enumerate() {
        let per_request = occupied / station.servers.speed_max();
        if per_request > slowest.1 {
            slowest = (Some(StationId(index as u32)), per_request);
        }
        let line = Line::above(&station.servers);
        alone_s += occupied * line.first;
        crowd_s = crowd_s.max(occupied * line.each);
        worst_s += occupied * line.first.max(line.each);
    }
    let (bottleneck, slowest_s) = slowest;
    let response_s_low = unloaded_s(network, &class.route);
    let capacity_per_s = 1.0 / slowest_s;
    let mut bounds = ClassBounds {
        throughput_per_s_high: capacity_per_s,
        throughput_per_s_low: 0.0,
        response_s_low,
        bottleneck,
        knee_population: response_s_low * capacity_per_s,
    };
    if let Source::Closed { population, think } = &class.source {
        let (population, think_s) = (f64::from(*population), think.mean_s);
        let round_s = response_s_low + think_s;
        bounds.throughput_per_s_high = capacity_per_s.min(population / round_s);
        bounds.knee_population = round_s * capacity_per_s;
        if is_product_form(&class.route) {
            // Requests ahead: all others that are not thinking, in the worst case at one station.
            let met = match think_s {
                0.0 => population - 1.0,
                _ => (population - 1.0) / (1.0 + think_s / (population * worst_s)),
            };
            bounds.throughput_per_s_low = population / (think_s + alone_s + met * crowd_s);
        }
    }
    bounds
}

/// An upper bound on n / speed(n), the slowdown of service by further requests, as a line: first +
/// each · (n − 1).
struct Line {
    first: f64,
    each: f64,
}

impl Line {
    fn above(servers: &Servers) -> Line {
        match servers {
            Servers::Infinite => Line { first: 1.0, each: 0.0 },
            Servers::Count(count) => Line { first: 1.0, each: 1.0 / f64::from(*count) },
            Servers::Rates(rates) => {
                let first = 1.0 / rates[0];
                let slope = |(n, rate): (u32, &f64)| {
                    let n = f64::from(n);
                    (n / rate - first) / (n - 1.0)
                };
                let each = (1..).zip(rates).skip(1).map(slope).fold(0.0, f64::max);
                Line { first, each: each.max(1.0 / rates[rates.len() - 1]) }
            }
        }
    }
}

/// Returns the time for which a request occupies each station over its whole route, in seconds of
/// one server.
fn occupied_s(network: &Network, class: &Class) -> Vec<f64> {
    let mut occupied = vec![0.0; network.stations.len()];
    occupy(network, &class.route, 1.0, &mut occupied);
    occupied
}

fn occupy(network: &Network, route: &[Step], chance: f64, occupied: &mut [f64]) {
    for step in route {
        let (visit, inner) = match step {
            Step::Visit(visit) => (visit, [].as_slice()),
            Step::Hold(visit, inner) => (visit, inner.as_slice()),
            Step::Fork(branches) => {
                branches.iter().for_each(|route| occupy(network, route, chance, occupied));
                continue;
            }
            Step::Choose(branches) => {
                for (share, route) in branches {
                    occupy(network, route, chance * share, occupied);
                }
                continue;
            }
        };
        let seconds = visit.service.mean_s + unloaded_s(network, inner);
        for at in &visit.at {
            occupied[at.0 as usize] += chance * seconds / visit.at.len() as f64;
        }
        occupy(network, inner, chance, occupied);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn banks_fill_by_chance() {
        // Two banks: one request keeps one bank busy, two requests keep 1.5 banks busy on average.
        assert!((banks_per_s(2.0, 1.0, 1) - 1.0).abs() < 1e-12);
        assert!((banks_per_s(2.0, 1.0, 2) - 1.5).abs() < 1e-12);
        assert!((banks_per_s(2.0, 1.0, 64) - 2.0).abs() < 1e-12);
        // A serial device is a single bank, whatever its latency.
        assert_eq!(banks_per_s(10.0, 0.01, 5), 10.0);
        for n in [1, 2, 7, 32, 300] {
            let wanted = banks_per_s(500e3, 80e-6, n);
            let delay = delay_s(2e-6, n, wanted);
            let mut network = Network::default();
            let server = network.add_station(crate::Station::servers("server", 1));
            let away = network.add_station(crate::Station::delay("away"));
            let class = Class::closed("all", n).visit(server, crate::Service::exponential(2e-6));
            network.add_class(class.visit(away, crate::Service::exponential(delay.max(1e-15))));
            let found = crate::solve(&network, crate::Method::Exact).unwrap();
            assert!((found.throughput_per_s() / wanted - 1.0).abs() < 1e-6, "{n}");
        }
    }

    use crate::{Service, Station, Visit};

    fn visit(at: StationId, mean_s: f64) -> Visit {
        Visit { at: vec![at], service: Service::fixed(mean_s), draws: 0.0 }
    }

    #[test]
    fn bounds_of_the_textbook() {
        // Lazowska et al. 1984, section 5.3.1: demands 2.0, 0.5 and 3.0 s, think time 15 s; from
        // eight terminals on the second disk limits the rate to 1/3.
        let mut network = Network::default();
        let cpu = network.add_station(Station::servers("cpu", 1));
        let fast = network.add_station(Station::servers("fast disk", 1));
        let slow = network.add_station(Station::servers("slow disk", 1));
        let class = Class::closed("terminals", 20)
            .think(Service::exponential(15.0))
            .visit(cpu, Service::exponential(2.0))
            .visit(fast, Service::exponential(0.5))
            .visit(slow, Service::exponential(3.0));
        network.add_class(class);
        let bounds = bounds(&network).unwrap().classes[0];
        assert!((bounds.throughput_per_s_high - 1.0 / 3.0).abs() < 1e-12);
        assert!((bounds.knee_population - 20.5 / 3.0).abs() < 1e-12);
        assert_eq!(bounds.bottleneck, Some(slow));
        assert!(bounds.throughput_per_s_low < 1.0 / 3.0);
    }

    #[test]
    fn a_held_station_is_occupied_meanwhile() {
        let mut network = Network::default();
        let engine = network.add_station(Station::servers("engine", 1));
        let link = network.add_station(Station::servers("link", 1));
        let hold = Step::Hold(visit(engine, 1e-6), vec![Step::Visit(visit(link, 3e-6))]);
        network.add_class(Class::closed("io", 8).step(hold));
        let bounds = bounds(&network).unwrap();
        assert!((bounds.classes[0].throughput_per_s_high - 250_000.0).abs() < 1e-3);
        assert_eq!(bounds.classes[0].bottleneck, Some(engine));
        assert_eq!(bounds.classes[0].throughput_per_s_low, 0.0);
        assert!((bounds.throughput_per_s_high - 250_000.0).abs() < 1e-3);
    }

    #[test]
    fn all_classes_together_share_what_they_share() {
        // Four drives of 100/s on an adapter of 150/s, two drives on an adapter of 1000/s.
        let mut network = Network::default();
        let small = network.add_station(Station::servers("small", 1));
        let large = network.add_station(Station::servers("large", 1));
        for index in 0..6 {
            let drive = network.add_station(Station::servers(format!("drive {index}"), 1));
            let (adapter, mean_s) = if index < 4 { (small, 1.0 / 150.0) } else { (large, 1e-3) };
            let class = Class::closed(format!("class {index}"), 32)
                .visit(adapter, Service::exponential(mean_s))
                .visit(drive, Service::exponential(0.01));
            network.add_class(class);
        }
        let found = bounds(&network).unwrap().throughput_per_s_high;
        assert!((found - 350.0).abs() < 1e-9, "{found}");
    }
}
