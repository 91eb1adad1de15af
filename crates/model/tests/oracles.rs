//! Theory against closed forms, and theory against simulation.

mod known;

use model::{Class, Method, Network, Run, Servers, Service, Station, simulate, solve};

fn near(found: f64, expected: f64, share: f64) {
    assert!((found - expected).abs() <= share * expected.abs(), "{found}, expected {expected}");
}

fn repairman(population: u32, think_s: f64, service_s: f64) -> Network {
    let mut network = Network::default();
    let repair = network.add_station(Station::servers("repair", 1));
    let class = Class::closed("machine", population)
        .think(Service::exponential(think_s))
        .visit(repair, Service::exponential(service_s));
    network.add_class(class);
    network
}

#[test]
fn exact_analysis_is_the_machine_repairman() {
    for (population, think_s, service_s) in
        [(1, 1.0, 1.0), (24, 8.75e-6, 0.4e-6), (24, 1e-6, 1e-6), (500, 3e-3, 10e-6)]
    {
        let solution = solve(&repairman(population, think_s, service_s), Method::Exact).unwrap();
        let known = known::repairman(population, think_s, service_s);
        near(solution.throughput_per_s(), known, 1e-11);
        assert!(solution.caveats.is_empty());
    }
}

#[test]
fn open_analysis_is_erlangs_formula() {
    // Erlang C of 2 servers at 0.75 each is 9/14; of 1 server it equals the load.
    let (waits, response_s) = known::mmc(1.5, 1.0, 2);
    near(waits, 9.0 / 14.0, 1e-12);
    near(response_s, 1.0 + 9.0 / 14.0 / 0.5, 1e-12);
    near(known::mmc(0.8, 1.0, 1).1, 5.0, 1e-12);
    near(known::mg1(0.8, 1.0, 1.0), 5.0, 1e-12);
    near(known::mg1(0.8, 1.0, 0.0), 3.0, 1e-12);
    for servers in [1, 2, 8, 200] {
        let rate = 0.9 * f64::from(servers) / 1e-3;
        let mut network = Network::default();
        let station = network.add_station(Station::servers("station", servers));
        network.add_class(Class::open("io", rate).visit(station, Service::exponential(1e-3)));
        let solution = solve(&network, Method::Auto).unwrap();
        near(solution.response_s(), known::mmc(rate, 1e-3, servers).1, 1e-12);
        near(solution.stations[0].utilisation, 0.9, 1e-12);
    }
}

#[test]
fn exact_analysis_keeps_its_digits_near_saturation() {
    // Servers and rates describe the same model; think time is zero, and the population far beyond
    // saturation.
    for (servers, population) in [(2, 64), (8, 896), (64, 3000), (500, 4000)] {
        let mut network = Network::default();
        let cores = network.add_station(Station::servers("cores", servers));
        let link = network.add_station(Station::servers("link", 1));
        let class = Class::closed("io", population)
            .visit(cores, Service::exponential(1e-6 * f64::from(servers)))
            .visit(link, Service::exponential(1e-6));
        network.add_class(class);
        let solution = solve(&network, Method::Exact).unwrap();
        // Reference: two stations of equal speed, by Buzen's convolution of positive terms.
        let expected = convolved(servers, population);
        near(solution.throughput_per_s() * 1e-6, expected, 1e-10);
    }
}

/// Returns X = G(N−1)/G(N) of c servers of 1/c each and one server of 1, by convolution.
fn convolved(servers: u32, population: u32) -> f64 {
    let mut terms = vec![1.0_f64];
    for n in 1..=population {
        terms.push(terms[terms.len() - 1] * f64::from(servers) / f64::from(n.min(servers)));
        if terms[terms.len() - 1] > 1e200 {
            terms.iter_mut().for_each(|term| *term *= 1e-200);
        }
    }
    // The terms of the other station are all 1.
    let all: f64 = terms.iter().sum();
    (all - terms[terms.len() - 1]) / all
}

#[test]
fn rates_that_copy_servers_are_servers() {
    let mut network = repairman(40, 4e-3, 1e-3);
    network.stations[0].servers = Servers::Count(3);
    let counted = solve(&network, Method::Exact).unwrap();
    network.stations[0].servers = Servers::Rates(vec![1.0, 2.0, 3.0]);
    let rated = solve(&network, Method::Exact).unwrap();
    near(rated.throughput_per_s(), counted.throughput_per_s(), 1e-12);
    let run = Run { seed: 1, warmup: 2_000, requests: 100_000 };
    for servers in [Servers::Count(3), Servers::Rates(vec![1.0, 2.0, 3.0])] {
        network.stations[0].servers = servers;
        let simulated = simulate(&network, run, |_| ()).unwrap();
        let estimate = simulated.throughput_per_s[0];
        assert!(estimate.holds(counted.throughput_per_s()), "{estimate:?}");
        let utilisation = simulated.solution.stations[0].utilisation;
        near(utilisation, counted.stations[0].utilisation, 0.01);
    }
}

/// Returns `groups` of drives of 35,000 IOPS with their own requests, on adapters of 300,000 IOPS,
/// and shared cores.
fn drives(groups: &[u32], outstanding: u32, cores: u32, core_s: f64) -> Network {
    let mut network = Network::default();
    let cores = network.add_station(Station::servers("cores", cores));
    for (group, count) in groups.iter().enumerate() {
        let adapter = network.add_station(Station::servers(format!("adapter {group}"), 1));
        for index in 0..*count {
            let drive = network.add_station(Station::servers(format!("drive {group} {index}"), 1));
            let class = Class::closed(format!("drive {group} {index}"), outstanding)
                .visit(cores, Service::exponential(core_s))
                .visit(adapter, Service::exponential(1.0 / 300e3))
                .visit(drive, Service::exponential(1.0 / 35e3));
            network.add_class(class);
        }
    }
    network
}

#[test]
fn linearizer_is_near_the_simulation() {
    let run = Run { seed: 1, warmup: 20_000, requests: 150_000 };
    for (groups, outstanding, cores, core_s, allowed) in [
        // 28 drives; the adapters with eight drives are nearly saturated.
        (&[8, 8, 4, 4, 4][..], 32, 8, 6.6e-6, 0.003),
        // Cores as scarce as drives, and few requests: the hardest case.
        (&[8, 8, 4, 4, 4], 4, 8, 8.0e-6, 0.01),
        (&[4, 4], 2, 4, 14.0e-6, 0.02),
        (&[1, 1, 1], 1, 2, 20.0e-6, 0.03),
    ] {
        let network = drives(groups, outstanding, cores, core_s);
        let simulated = simulate(&network, run, |_| ()).unwrap().solution.throughput_per_s();
        let found = solve(&network, Method::Linearizer).unwrap();
        near(found.throughput_per_s(), simulated, allowed);
        assert!(found.caveats.contains(&model::Caveat::Approximate));
    }
}

#[test]
fn classes_of_unequal_service_wait_in_one_line() {
    // Short and long services in an FCFS queue, for which product form is a poor approximation.
    let run = Run { seed: 1, warmup: 20_000, requests: 150_000 };
    for (short_s, long_s) in [(28e-6, 70e-6), (80e-6, 20e-6), (10e-6, 300e-6)] {
        let mut network = Network::default();
        let drive = network.add_station(Station::servers("drive", 1));
        for (name, population, mean_s) in [("read", 16, short_s), ("write", 8, long_s)] {
            let class = Class::closed(name, population).think(Service::exponential(50e-6));
            network.add_class(class.visit(drive, Service::exponential(mean_s)));
        }
        let simulated = simulate(&network, run, |_| ()).unwrap();
        let found = solve(&network, Method::Auto).unwrap();
        for (found, simulated) in found.classes.iter().zip(&simulated.solution.classes) {
            near(found.throughput_per_s, simulated.throughput_per_s, 0.04);
            near(found.response_s, simulated.response_s, 0.04);
        }
        assert!(found.caveats.contains(&model::Caveat::UnequalService(drive)));
    }
}

#[test]
fn a_station_that_chokes_is_solved_to_the_last_digit() {
    // One station and think time: the probability of n present is a product, p(n) ~ Π (N − n) S /
    // (Z α).
    let (population, think_s, service_s) = (30_u32, 1e-3, 1e-4);
    let rates = vec![1.0, 50.0, 1e-3, 1e-5];
    let mut network = repairman(population, think_s, service_s);
    network.stations[0].servers = Servers::Rates(rates.clone());
    let speed = |n: u32| rates[(n as usize).min(rates.len()) - 1];
    let (mut chance, mut sum, mut rate) = (1.0, 1.0, 0.0);
    for n in 1..=population {
        chance *= f64::from(population - n + 1) / think_s * service_s / speed(n);
        sum += chance;
        rate += chance * speed(n) / service_s;
    }
    let solution = solve(&network, Method::Exact).unwrap();
    near(solution.throughput_per_s(), rate / sum, 1e-10);
    assert!(solve(&network, Method::Linearizer).is_err());
}
