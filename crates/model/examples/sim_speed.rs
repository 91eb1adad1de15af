//! Simulated I/Os per second of host time: CPUs, a device, a link.
//!
//! `cargo run --release -p drumfire-model --example sim_speed [requests]`

use std::time::Instant;

use model::{Class, Network, Run, Service, Shape, Station, simulate};

fn main() {
    let requests = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10_000_000);
    for shape in [Shape::Exponential, Shape::Deterministic, Shape::Erlang(4)] {
        let service = |mean_s| Service { mean_s, shape: shape.clone() };
        let mut network = Network::default();
        let cores = network.add_station(Station::servers("cores", 8));
        let device = network.add_station(Station::servers("device", 64));
        let link = network.add_station(Station::servers("link", 1));
        network.add_class(
            Class::closed("read", 32)
                .visit(cores, service(2e-6))
                .visit(device, service(80e-6))
                .visit(link, service(1.5e-6)),
        );
        let started = Instant::now();
        let (mut slowest, run) = (0, Run { seed: 1, warmup: 1000, requests });
        let result = simulate(&network, run, |done| slowest = slowest.max(done.latency.0));
        let seconds = started.elapsed().as_secs_f64();
        let result = result.expect("three plain stations");
        println!(
            "{shape:?}: {:.2} million simulated I/Os per second of host time; {:.0} IOPS, \
             mean {:.2} us, slowest {:.1} us",
            requests as f64 / seconds / 1e6,
            result.solution.throughput_per_s(),
            result.solution.response_s() * 1e6,
            slowest as f64 / 1e6,
        );
    }
}
