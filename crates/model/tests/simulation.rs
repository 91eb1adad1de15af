//! Simulation against exact theory over many seeds, and cases beyond theory.

mod known;

use block::Rng;
use model::{
    Class, Method, ModelError, Network, Reserve, Run, Service, Shape, Station, StationId, Step,
    Visit, simulate, solve,
};

const RUN: Run = Run { seed: 1, warmup: 5_000, requests: 40_000 };

/// Returns a random network of one to three closed classes at one to four stations, exponential,
/// with equal service times at queues.
fn any_network(seed: u64) -> Network {
    let mut rng = Rng::new(seed, 0);
    let mut network = Network::default();
    let stations = 1 + rng.below(4);
    let mut services = Vec::new();
    for index in 0..stations {
        let servers = [1, 1, 2, 8][rng.below(4) as usize];
        network.add_station(Station::servers(format!("station {index}"), servers));
        services.push(1e-6 * (1.0 + rng.uniform() * 9.0) * f64::from(servers).sqrt());
    }
    for index in 0..1 + rng.below(3) {
        let mut class = Class::closed(format!("class {index}"), 1 + rng.below(12) as u32)
            .think(Service::exponential(1e-6 * (1.0 + rng.uniform() * 20.0)));
        for (station, mean_s) in (0..).zip(&services) {
            if rng.below(4) > 0 {
                class = class.visit(StationId(station), Service::exponential(*mean_s));
            }
        }
        network.add_class(class);
    }
    network
}

#[test]
fn simulation_is_exact_theory_in_99_of_100_seeds() {
    let (mut missed, mut widths) = (Vec::new(), Vec::new());
    for seed in 0..100 {
        let network = any_network(seed);
        let theory = solve(&network, Method::Exact).unwrap();
        let simulated = simulate(&network, Run { seed, ..RUN }, |_| ()).unwrap();
        // One figure of each network, alternating, so that there are a hundred tests, not three
        // hundred.
        let class = seed as usize % network.classes.len();
        let (estimate, exact) = if seed % 2 == 0 {
            (simulated.throughput_per_s[class], theory.classes[class].throughput_per_s)
        } else {
            (simulated.response_s[class], theory.classes[class].response_s)
        };
        // A class that only thinks has a response time of zero without variance.
        if !estimate.holds(exact) && (estimate.mean - exact).abs() > 1e-12 * exact {
            missed.push((seed, estimate, exact));
        }
        // An interval that contains every value would prove nothing.
        widths.push(estimate.half_width / exact.max(1e-300));
    }
    widths.sort_by(f64::total_cmp);
    assert!(widths[50] < 0.02 && widths[95] < 0.12, "{widths:?}");
    assert!(missed.len() <= 1, "{missed:#?}");
}

#[test]
fn open_simulation_is_erlangs_and_pollaczeks_formula() {
    for (servers, shape) in [
        (1, Shape::Exponential),
        (4, Shape::Exponential),
        (1, Shape::Deterministic),
        (1, Shape::Erlang(3)),
        (1, Shape::Hyperexponential(4.0)),
    ] {
        let rate = 0.7 * f64::from(servers) / 1e-5;
        let mut network = Network::default();
        let station = network.add_station(Station::servers("station", servers));
        let service = Service { mean_s: 1e-5, shape: shape.clone() };
        network.add_class(Class::open("io", rate).visit(station, service));
        let simulated = simulate(&network, Run { requests: 200_000, ..RUN }, |_| ()).unwrap();
        let expected_s = match servers {
            1 => known::mg1(rate, 1e-5, shape.scv()),
            _ => known::mmc(rate, 1e-5, servers).1,
        };
        assert!(simulated.response_s[0].holds(expected_s), "{shape:?}: {simulated:?}");
        let theory = solve(&network, Method::Auto).unwrap();
        assert!((theory.response_s() / expected_s - 1.0).abs() < 1e-12, "{shape:?}");
        assert_eq!(theory.caveats, []);
        // After another station arrivals are no longer Poisson, and theory reports a caveat.
        let behind = network.add_station(Station::servers("behind", 1));
        let service = Service { mean_s: 1e-6, shape: shape.clone() };
        network.classes[0] = network.classes[0].clone().visit(behind, service);
        let theory = solve(&network, Method::Auto).unwrap();
        assert_eq!(theory.caveats.is_empty(), shape == Shape::Exponential);
    }
}

fn visit(at: &[StationId], service: Service) -> Visit {
    Visit { at: at.to_vec(), service, draws: 0.0 }
}

#[test]
fn an_engine_that_waits_for_its_transfer_is_the_machine_repairman() {
    // 24 engines of 4 requests each: while one request holds an engine, the engine's other requests
    // wait, so the fabric sees 24 customers whose think time is the engine's own time.
    let mut network = Network::default();
    let fabric = network.add_station(Station::servers("fabric", 1));
    let (own_s, fabric_s) = (8.75e-6, 0.41e-6);
    for index in 0..24 {
        let engine = network.add_station(Station::servers(format!("engine {index}"), 1));
        let inner = Step::Visit(visit(&[fabric], Service::exponential(fabric_s)));
        let hold = Step::Hold(visit(&[engine], Service::exponential(own_s)), vec![inner]);
        network.add_class(Class::closed(format!("port {index}"), 4).step(hold));
    }
    let known = known::repairman(24, own_s, fabric_s);
    let simulated = simulate(&network, Run { requests: 200_000, ..RUN }, |_| ()).unwrap();
    let found = simulated.solution.throughput_per_s();
    assert!((found / known - 1.0).abs() < 0.005, "{found}, {known}");
    let engine = &simulated.solution.stations[1];
    assert!(engine.utilisation > 0.999, "{engine:?}");
    let refused = solve(&network, Method::Auto).unwrap_err();
    assert!(matches!(refused, ModelError::NotProductForm { .. }), "{refused}");
}

#[test]
fn a_fork_takes_as_long_as_its_slowest_branch() {
    // Two exponential branches without queues need 1/2 + 1 = 1.5 times the mean of one branch, four
    // branches 25/12.
    for (branches, factor) in [(2, 1.5), (4, 25.0 / 12.0)] {
        let mut network = Network::default();
        let device = network.add_station(Station::delay("devices"));
        let branch = || vec![Step::Visit(visit(&[device], Service::exponential(1e-5)))];
        let fork = Step::Fork((0..branches).map(|_| branch()).collect());
        network.add_class(Class::closed("write", 3).step(fork));
        let simulated = simulate(&network, RUN, |_| ()).unwrap();
        assert!(simulated.response_s[0].holds(factor * 1e-5), "{:?}", simulated.response_s);
        let present = simulated.solution.stations[0].present;
        assert!((present / (3.0 * f64::from(branches) / factor) - 1.0).abs() < 0.02, "{present}");
    }
}

#[test]
fn chance_takes_branches_as_often_as_it_should() {
    let mut network = Network::default();
    let devices: Vec<_> =
        (0..4).map(|k| network.add_station(Station::servers(format!("die {k}"), 1))).collect();
    let any = |mean_s| vec![Step::Visit(visit(&devices, Service::exponential(mean_s)))];
    let choose = Step::Choose(vec![(0.7, any(1e-5)), (0.3, any(1e-5))]);
    network.add_class(Class::closed("io", 16).step(choose));
    let theory = solve(&network, Method::Exact).unwrap();
    // K balanced stations: R = S (1 + (N − 1)/K).
    assert!((theory.response_s() / (1e-5 * (1.0 + 15.0 / 4.0)) - 1.0).abs() < 1e-12);
    let simulated = simulate(&network, RUN, |_| ()).unwrap();
    assert!(simulated.response_s[0].holds(theory.response_s()));
    for station in &simulated.solution.stations {
        assert!(
            (station.throughput_per_s / theory.stations[0].throughput_per_s - 1.0).abs() < 0.03
        );
    }
}

#[test]
fn writes_slow_down_when_the_reserve_is_gone() {
    // A fresh device writes at 100,000 a second. Garbage collection reclaims units at 40,000 a
    // second and halves the speed: the sustained rate is 40,000.
    let mut network = Network::default();
    let mut device = Station::servers("device", 1);
    device.reserve = Some(Reserve {
        capacity: 50_000.0,
        low: 100.0,
        high: 200.0,
        refill_per_s: 40_000.0,
        slowdown: 2.0,
    });
    let device = network.add_station(device);
    let service = Service::exponential(1e-5);
    let write = Visit { at: vec![device], service, draws: 1.0 };
    network.add_class(Class::closed("write", 8).step(Step::Visit(write)));
    let fresh = Run { seed: 1, warmup: 1_000, requests: 40_000 };
    let fresh = simulate(&network, fresh, |_| ()).unwrap().solution.throughput_per_s();
    assert!((fresh / 100_000.0 - 1.0).abs() < 0.03, "{fresh}");
    let worn = Run { seed: 1, warmup: 100_000, requests: 100_000 };
    let worn = simulate(&network, worn, |_| ()).unwrap().solution.throughput_per_s();
    assert!((worn / 40_000.0 - 1.0).abs() < 0.03, "{worn}");
}

#[test]
fn what_cannot_go_on_is_an_error() {
    // Two classes each hold one of two stations and wait for the other: a deadlock.
    let mut network = Network::default();
    let a = network.add_station(Station::servers("a", 1));
    let b = network.add_station(Station::servers("b", 1));
    for (name, first, second) in [("ab", a, b), ("ba", b, a)] {
        let inner = Step::Hold(visit(&[second], Service::fixed(1e-6)), vec![]);
        let outer = Step::Hold(visit(&[first], Service::fixed(1e-6)), vec![inner]);
        network.add_class(Class::closed(name, 1).step(outer));
    }
    let error = simulate(&network, RUN, |_| ()).unwrap_err().to_string();
    assert!(error.contains("wait for each other"), "{error}");

    let mut network = Network::default();
    let slow = network.add_station(Station::servers("slow", 1));
    network.add_class(Class::open("io", 1e6).visit(slow, Service::exponential(1e-3)));
    let run = Run { seed: 1, warmup: 0, requests: 1_000_000 };
    let error = simulate(&network, run, |_| ()).unwrap_err().to_string();
    assert!(error.contains("overloaded"), "{error}");
    let error = solve(&network, Method::Auto).unwrap_err();
    assert!(matches!(error, ModelError::Overload { .. }), "{error}");
}

#[test]
fn a_seed_gives_the_same_bits_on_every_machine() {
    let mut network = Network::default();
    let a = network.add_station(Station::servers("a", 2));
    let b = network.add_station(Station::servers("b", 1));
    let shapes = [
        Shape::Exponential,
        Shape::Erlang(5),
        Shape::Hyperexponential(3.0),
        Shape::Empirical(vec![1.0, 2.0, 4.0]),
        Shape::Deterministic,
    ];
    for (index, shape) in shapes.into_iter().enumerate() {
        let service = Service { mean_s: 3e-6, shape };
        let fork = Step::Fork(vec![
            vec![Step::Visit(visit(&[a], service.clone()))],
            vec![Step::Visit(visit(&[a, b], service.clone()))],
        ]);
        network.add_class(Class::closed(format!("{index}"), 3).visit(b, service).step(fork));
    }
    network.add_class(Class::open("open", 5e3).visit(a, Service::exponential(1e-6)));
    // FNV-1a over all completions; recorded once, on x86-64.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let run = Run { seed: 42, warmup: 100, requests: 20_000 };
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0100_0000_01b3);
    let found = simulate(&network, run, |done| {
        hash = mix(mix(mix(hash, u64::from(done.class.0)), done.at.0), done.latency.0);
    });
    assert!(found.is_ok());
    assert_eq!(hash, 0xdae3_90a0_70ef_5b18, "{hash:#x}");
}
