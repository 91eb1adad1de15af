//! Time of a solution, and error of the approximate methods: 28 drives on five adapters and eight
//! cores, as 28 classes; then small random networks.
//!
//! `cargo run --release -p drumfire-model --example solve_speed`

use std::time::Instant;

use block::Rng;
use model::{Class, Method, Network, Run, Service, Station, StationId, simulate, solve};

fn main() {
    let network = drives();
    let run = Run { seed: 1, warmup: 100_000, requests: 2_000_000 };
    let simulated = simulate(&network, run, |_| ()).expect("plain stations");
    println!("simulated: {:.0} per second", simulated.solution.throughput_per_s());
    for method in [Method::Auto, Method::Linearizer, Method::Schweitzer] {
        let mut fastest = f64::INFINITY;
        let mut throughput = 0.0;
        for _ in 0..50 {
            let started = Instant::now();
            let solution = solve(&network, method).expect("plain stations");
            fastest = fastest.min(started.elapsed().as_secs_f64());
            throughput = solution.throughput_per_s();
        }
        println!("{method:?}: {throughput:.0} per second, solved in {:.3} ms", fastest * 1e3);
    }
    for method in [Method::Linearizer, Method::Schweitzer] {
        for servers in [1, 8] {
            let mut errors: Vec<f64> = (0..300).map(|seed| error(seed, servers, method)).collect();
            errors.sort_by(f64::total_cmp);
            println!(
                "{method:?} against exact, {servers} servers: median {:.2} %, p95 {:.2} %, \
                 worst {:.2} %",
                errors[150] * 100.0,
                errors[285] * 100.0,
                errors[299] * 100.0
            );
        }
    }
}

/// Returns drives of 35,000 IOPS in groups of 8, 8, 4, 4 and 4, each group on an adapter of 300,000
/// IOPS; a request also needs 6.6 us of one of eight cores.
fn drives() -> Network {
    let mut network = Network::default();
    let cores = network.add_station(Station::servers("cores", 8));
    for (group, count) in [8, 8, 4, 4, 4].into_iter().enumerate() {
        let adapter = network.add_station(Station::servers(format!("adapter {group}"), 1));
        for index in 0..count {
            let drive = network.add_station(Station::servers(format!("drive {group} {index}"), 1));
            network.add_class(
                Class::closed(format!("drive {group} {index}"), 32)
                    .visit(cores, Service::exponential(6.6e-6))
                    .visit(adapter, Service::exponential(1.0 / 300e3))
                    .visit(drive, Service::exponential(1.0 / 35e3)),
            );
        }
    }
    network
}

/// Returns the maximum relative error of a throughput in a random network of two classes.
fn error(seed: u64, servers: u32, method: Method) -> f64 {
    let mut rng = Rng::new(seed, 1);
    let mut network = Network::default();
    let means: Vec<f64> = (0..3).map(|_| 1e-6 * (1.0 + 9.0 * rng.uniform())).collect();
    for index in 0..3 {
        let count = if index == 0 { servers } else { 1 };
        network.add_station(Station::servers(format!("station {index}"), count));
    }
    for index in 0..2 {
        let population = 1 + rng.below(20) as u32;
        let mut class = Class::closed(format!("class {index}"), population)
            .think(Service::exponential(1e-5 * rng.uniform()));
        for (station, mean_s) in (0..3).zip(&means) {
            let factor = if station == 0 { f64::from(servers) } else { 1.0 };
            if station == 0 || rng.below(3) > 0 {
                class = class.visit(StationId(station), Service::exponential(mean_s * factor));
            }
        }
        network.add_class(class);
    }
    let exact = solve(&network, Method::Exact).expect("small");
    let found = solve(&network, method).expect("small");
    let pairs = exact.classes.iter().zip(&found.classes);
    pairs.map(|(a, b)| (b.throughput_per_s / a.throughput_per_s - 1.0).abs()).fold(0.0, f64::max)
}
