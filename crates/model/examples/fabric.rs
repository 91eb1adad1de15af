//! Simulates a fabric of 80 appliances with 900 disks and 10,000 clients, on one thread and on
//! several.
//!
//! `cargo run --release -p drumfire-model --example fabric [requests]`

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use model::{Apart, Class, Network, Run, Service, Simulated, Station};

/// Appliances, and total disks and clients.
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
        let found = on_threads(&network, run, threads);
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

/// Runs the parts on this many threads, each of which takes the next part.
fn on_threads(network: &Network, run: Run, threads: usize) -> Simulated {
    let apart = Apart::new(network, run).expect("plain stations");
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= apart.parts() {
                return done;
            }
            done.push((at, apart.run(at).expect("plain stations")));
        }
    };
    let mut found: Vec<(usize, Simulated)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    found.sort_by_key(|(at, _)| *at);
    apart.whole(&found.into_iter().map(|(_, one)| one).collect::<Vec<_>>())
}
