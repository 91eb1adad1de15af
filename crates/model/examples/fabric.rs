//! A fabric of 80 appliances with 900 disks and 10,000 clients in one run, on one thread and more.
//!
//! `cargo run --release -p drumfire-model --example fabric [requests]`

use std::time::Instant;

use model::{Class, Network, Run, Service, Station, simulate_apart};

/// Appliances, and disks and clients of all.
const APPLIANCES: u32 = 80;
const DISKS: u32 = 900;
const CLIENTS: u32 = 10_000;

fn main() {
    let requests = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(4_000_000);
    let of = |all: u32, one: u32| all / APPLIANCES + u32::from(one < all % APPLIANCES);
    let mut network = Network::default();
    for one in 0..APPLIANCES {
        let port = network.add_station(Station::servers(format!("port {one}"), 1));
        let cores = network.add_station(Station::servers(format!("cores {one}"), 8));
        let disk = |disk| Station::servers(format!("disk {one}.{disk}"), 1);
        let disks: Vec<_> =
            (0..of(DISKS, one)).map(|number| network.add_station(disk(number))).collect();
        network.add_class(
            Class::closed(format!("clients of {one}"), of(CLIENTS, one))
                .think(Service::exponential(20e-3))
                .visit(cores, Service::exponential(10e-6))
                .visit_any(disks, Service::exponential(1.0 / 250.0))
                .visit(port, Service::fixed(4.4e-6)),
        );
    }
    let run = Run { seed: 1, warmup: requests / 10, requests };
    let mut first = None;
    for threads in [1, 2, 4] {
        let started = Instant::now();
        let found = simulate_apart(&network, run, threads).expect("plain stations");
        let seconds = started.elapsed().as_secs_f64();
        let same = first.get_or_insert_with(|| found.clone()) == &found;
        println!(
            "{threads} threads: {seconds:.2} s for {requests} I/Os; {:.0} IOPS, mean {:.2} ms; \
             {}",
            found.solution.throughput_per_s(),
            found.solution.response_s() * 1e3,
            if same { "the same bits" } else { "OTHER BITS" },
        );
    }
}
