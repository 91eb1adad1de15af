//! Networks from the literature with published results, within 0.1 % or half a unit of the last
//! digit given.

use model::{Class, Method, Network, Servers, Service, Shape, Solution, Source, Station, solve};

/// Returns a network of demands, class by class; every class visits every station once.
fn network(servers: &[Servers], classes: Vec<(Source, &[f64])>) -> Network {
    let mut network = Network::default();
    let stations: Vec<_> = (0..)
        .zip(servers)
        .map(|(index, servers)| {
            let mut station = Station::servers(format!("station {index}"), 1);
            station.servers = servers.clone();
            network.add_station(station)
        })
        .collect();
    for (index, (source, demands)) in (0..).zip(classes) {
        let mut class = Class::closed(format!("class {index}"), 1);
        class.source = source;
        for (station, demand_s) in stations.iter().zip(demands) {
            class = class.visit(*station, Service::exponential(*demand_s));
        }
        network.add_class(class);
    }
    network
}

fn closed(population: u32, think_s: f64) -> Source {
    Source::Closed { population, think: Service::exponential(think_s) }
}

fn open(rate_per_s: f64) -> Source {
    Source::Open { gap: Service { mean_s: 1.0 / rate_per_s, shape: Shape::Exponential } }
}

fn one(count: usize) -> Vec<Servers> {
    vec![Servers::Count(1); count]
}

#[track_caller]
fn near(found: f64, published: f64, digit: f64) {
    let allowed = (1e-3 * published.abs()).max(digit / 2.0);
    assert!((found - published).abs() <= allowed, "{found}, published {published}");
}

fn throughputs(solution: &Solution) -> Vec<f64> {
    solution.classes.iter().map(|class| class.throughput_per_s).collect()
}

fn queue(solution: &Solution, class: usize, station: usize) -> f64 {
    solution.classes[class].throughput_per_s * solution.stations[station].residence_s[class]
}

#[test]
fn lazowska_closed_two_classes() {
    // Lazowska et al. 1984, page 142: demands 1, 3 and 2, 4; one request each.
    let classes = vec![(closed(1, 0.0), &[1.0, 3.0][..]), (closed(1, 0.0), &[2.0, 4.0][..])];
    let solution = solve(&network(&one(2), classes), Method::Exact).unwrap();
    let found = throughputs(&solution);
    near(found[0], 3.0 / 19.0, 0.0);
    near(found[1], 2.0 / 19.0, 0.0);
    let published = [[4.0 / 3.0, 5.0], [5.0 / 2.0, 7.0]];
    for (class, row) in published.iter().enumerate() {
        for (station, residence_s) in row.iter().enumerate() {
            near(solution.stations[station].residence_s[class], *residence_s, 0.0);
        }
    }
}

#[test]
fn lazowska_mixed() {
    // Lazowska et al. 1984, page 148: two open classes, which leave half of the first station and a
    // third of the second idle, make the closed network of page 142 slower.
    let classes = vec![
        (open(1.0), &[0.25, 1.0 / 6.0][..]),
        (open(0.5), &[0.5, 1.0][..]),
        (closed(1, 0.0), &[0.5, 1.0][..]),
        (closed(1, 0.0), &[1.0, 4.0 / 3.0][..]),
    ];
    let solution = solve(&network(&one(2), classes), Method::Exact).unwrap();
    let published = [[4.0, 15.0], [5.0, 14.0]];
    for (class, row) in published.iter().enumerate() {
        for (station, queue_19) in row.iter().enumerate() {
            near(queue(&solution, class + 2, station), queue_19 / 19.0, 0.0);
        }
    }
}

#[test]
fn bolch_single_class() {
    // Bolch et al. 2006, example 8.3.
    let demands = [0.02, 0.2 * 0.4, 0.4 * 0.2, 0.6 * 0.1];
    let network = network(&one(4), vec![(closed(6, 0.0), &demands)]);
    let solution = solve(&network, Method::Exact).unwrap();
    near(solution.throughput_per_s(), 9.920, 1e-3);
    for (station, published) in [0.244, 2.261, 2.261, 1.234].iter().enumerate() {
        near(solution.stations[station].present, *published, 1e-3);
    }
    for (station, published) in [0.198, 0.794, 0.794, 0.595].iter().enumerate() {
        near(solution.stations[station].utilisation, *published, 1e-3);
    }
}

#[test]
fn bolch_several_servers_and_rates() {
    // Bolch et al. 2006, example 8.4; the same network with rates is example 8.7.
    let two = [Servers::Count(2), Servers::Rates(vec![1.0, 2.0])];
    for first in two {
        let servers = [first, Servers::Count(1), Servers::Count(1), Servers::Infinite];
        let demands = [0.5, 0.6 * 0.5, 0.8 * 0.5, 1.0];
        let network = network(&servers, vec![(closed(3, 0.0), &demands)]);
        let solution = solve(&network, Method::Exact).unwrap();
        near(solution.throughput_per_s(), 1.218, 1e-3);
        for (station, published) in [0.624, 0.473, 0.686, 1.217].iter().enumerate() {
            near(solution.stations[station].present, *published, 1e-3);
        }
        near(solution.stations[0].residence_s[0], 0.512, 1e-3);
    }
}

#[test]
fn bolch_two_classes_and_two_servers() {
    // Bolch et al. 2006, example 8.5.
    let servers = [Servers::Count(2), Servers::Count(1), Servers::Infinite];
    let classes = vec![
        (closed(2, 0.0), &[0.2, 0.4 * 0.6, 0.4][..]),
        (closed(1, 0.0), &[0.2, 0.6 * 0.3, 2.0 * 0.7][..]),
    ];
    let solution = solve(&network(&servers, classes), Method::Exact).unwrap();
    let found = throughputs(&solution);
    near(found[0], 2.113, 1e-3);
    near(found[1], 0.524, 1e-3);
    let published = [[0.428, 0.726, 0.845], [0.108, 0.158, 0.734]];
    for (class, row) in published.iter().enumerate() {
        for (station, present) in row.iter().enumerate() {
            near(queue(&solution, class, station), *present, 1e-3);
        }
    }
}

#[test]
fn bolch_mixed() {
    // Bolch et al. 2006, example 8.6; the published times are per visit, with V visits.
    let visits = [[2.0, 1.0], [2.5, 1.5], [1.0, 0.5], [1.0, 0.4]];
    let service_s = [[0.4, 0.6], [0.8, 1.6], [0.3, 0.5], [0.5, 0.8]];
    let demand = |class: usize| [0, 1].map(|k| visits[class][k] * service_s[class][k]);
    let (a, b, c, d) = (demand(0), demand(1), demand(2), demand(3));
    let classes =
        vec![(open(0.5), &a[..]), (open(0.25), &b), (closed(1, 0.0), &c), (closed(1, 0.0), &d)];
    let solution = solve(&network(&one(2), classes), Method::Exact).unwrap();
    let published = [[8.822, 10.766], [17.645, 28.710], [4.829, 6.951], [7.727, 11.636]];
    for (class, row) in published.iter().enumerate() {
        for (station, response_s) in row.iter().enumerate() {
            let found = solution.stations[station].residence_s[class] / visits[class][station];
            near(found, *response_s, 1e-3);
        }
    }
}

#[test]
fn jain_timesharing() {
    // Jain 1991, example 34.2: 20 users with a think time of 4 s, a processor and two disks.
    let demands = [16.0 * 0.125, 10.0 * 0.3, 5.0 * 0.2];
    let network = network(&one(3), vec![(closed(20, 4.0), &demands)]);
    let solution = solve(&network, Method::Exact).unwrap();
    let published = [(16.0, 0.373, 1.991), (10.0, 4.854, 16.177), (5.0, 0.300, 0.500)];
    for (station, (visits, response_s, present)) in published.iter().enumerate() {
        near(solution.stations[station].residence_s[0] / visits, *response_s, 1e-3);
        near(solution.stations[station].present, *present, 1e-3);
    }
}

#[test]
fn schwetman_terminals() {
    // Schwetman 1982, CSD-TR-355, table 5: two types of terminals share a processor.
    let classes = vec![(closed(15, 1.0), &[0.025][..]), (closed(5, 15.0), &[0.5][..])];
    let solution = solve(&network(&one(1), classes), Method::Exact).unwrap();
    let found = throughputs(&solution);
    near(found[0], 14.323, 1e-3);
    near(found[1], 0.314, 1e-3);
    near(queue(&solution, 0, 0), 0.677, 1e-3);
    near(queue(&solution, 1, 0), 0.293, 1e-3);
}

#[test]
fn schwetman_central_server_as_jmt_solves_it() {
    // Schwetman, CSD-TR 330, figure 6, with the results of JMVA (Java Modelling Tools), which the
    // Octave queueing package uses because those of the report are wrong.
    let first = [0.010 / 0.9, 0.035 / 3.6, 0.035 / 3.6, 0.035 / 3.6, 0.035 / 3.6];
    let second = [0.100 * 20.0, 0.035 * 5.0, 0.035 * 5.0, 0.035 * 5.0, 0.035 * 5.0];
    let classes = vec![(closed(40, 5.0), &first[..]), (closed(4, 10.0), &second[..])];
    let network = network(&one(5), classes);
    let solution = solve(&network, Method::Exact).unwrap();
    let found = throughputs(&solution);
    near(found[0], 7.891_588, 0.0);
    near(found[1], 0.277_270, 0.0);
    near(solution.stations[0].residence_s[0], 0.024_363, 0.0);
    near(solution.stations[0].residence_s[1], 3.636_155, 0.0);
    near(solution.stations[4].residence_s[0], 0.011_081, 0.0);
    near(solution.stations[4].residence_s[1], 0.197_549, 0.0);
}
