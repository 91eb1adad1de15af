//! Layers of a bill: stages of I/Os that are in no part and no key.

use catalogue::Catalogue;
use plan::bill::Bill;
use plan::chance::chance;
use plan::predict::{Limit, Prediction, limit, predict, what_if};
use plan::system::Tweak;

fn read(text: &str) -> Result<Bill, String> {
    Bill::read("b.toml", text, &Catalogue::shipped()).map_err(|error| error.to_string())
}

fn text(top: &str, layer: &str) -> String {
    format!(
        "name = 'x'\nsize = '4k'\n{top}\n[[group]]\ndrive = 'p4510-4000'\n[[layer]]\n\
         name = 'a proxy'\n{layer}\n"
    )
}

fn asked(top: &str, layer: &str) -> Prediction {
    predict(&read(&text(top, layer)).unwrap(), &Tweak::default()).unwrap()
}

fn near(found: f64, wanted: f64, off: f64) {
    assert!((found / wanted - 1.0).abs() <= off, "{found} for {wanted}");
}

#[test]
fn a_layer_passes_so_many_ios_or_bytes() {
    let deep = "outstanding = 256";
    near(asked(deep, "iops = 20_000").iops, 20_000.0, 0.001);
    near(asked(deep, "bandwidth = 100").bytes_per_s, 100e6, 0.001);
    near(asked(deep, "iops = 20_000\nbandwidth = 40.96").iops, 10_000.0, 0.001);
    // The time of a lone I/O in the layer is added, without a queue.
    let alone = |layer: &str| asked("outstanding = 1", layer).latency_s * 1e6;
    near(alone("latency_us = 250") - alone("latency_us = 50"), 200.0, 1e-6);
    near(alone("iops = 10_000\nlatency_us = 50") - alone("latency_us = 50"), 100.0, 0.05);
    assert!(asked(deep, "latency_us = 100").iops > 500_000.0);
}

#[test]
fn reads_or_writes_alone_go_through_it() {
    let mixed = "outstanding = 64\nread = 75";
    near(asked(mixed, "iops = 5000").iops, 5000.0, 0.001);
    near(asked(mixed, "iops = 5000\nof = 'writes'").iops, 20_000.0, 0.001);
    near(asked(mixed, "iops = 7500\nof = 'reads'").iops, 10_000.0, 0.001);
    let reads = "outstanding = 64";
    let free = asked(reads, "iops = 5\nof = 'writes'").iops;
    near(free, asked(reads, "latency_us = 0.001").iops, 0.01);
}

#[test]
fn it_is_named_where_it_limits() {
    let limits = |top: &str, layer: &str| {
        let bill = read(&text(top, layer)).unwrap();
        limit(&bill, &what_if(&bill).unwrap()).unwrap().unwrap()
    };
    let host = "software = 'linux-libaio'\njobs = 4\noutstanding = 64";
    let found = limits(host, "iops = 20_000");
    assert_eq!(found, Limit::Layer { name: "a proxy".to_owned() });
    assert_eq!(found.words(), "a proxy");
    assert_ne!(limits(host, "iops = 20_000_000"), found);
    // A deeper queue compensates for a delay without a queue.
    let alone = limits(&host.replace("64", "1"), "latency_us = 900");
    assert!(matches!(alone, Limit::QueueDepth { .. }), "{}", alone.words());
    // The usage of the cores is that of the rate.
    let cores = asked(host, "iops = 20_000").processor.unwrap();
    assert!((0.01..0.2).contains(&cores), "{cores}");
}

#[test]
fn each_host_has_its_own() {
    let top = |hosts: u32| {
        format!("outstanding = 64\nhosts = {hosts}\nsoftware = 'linux-libaio'\njobs = 4")
    };
    let one = asked(&top(1), "iops = 8000").iops;
    near(one, 8000.0, 0.001);
    near(asked(&top(3), "iops = 8000").iops, 3.0 * one, 0.001);
}

#[test]
fn its_numbers_are_drawn_by_their_kind() {
    let spread = |kind: &str| {
        let bill = read(&text("outstanding = 256", &format!("iops = 20_000\n{kind}"))).unwrap();
        let drawn = chance(&bill, 400, 1, None).unwrap().spread();
        drawn.1 - drawn.0
    };
    let (wide, narrow) = (spread(""), spread("kind = 'measured'"));
    assert!(wide > 3.0 * narrow, "{wide} {narrow}");
}

#[test]
fn a_layer_that_says_nothing_is_refused() {
    let refused = |layer: &str, why: &str| {
        let error = read(&text("outstanding = 1", layer)).map(|_| "taken").unwrap_err();
        assert!(error.contains(why), "{error}");
    };
    refused("", "layer a proxy: give latency_us, iops or bandwidth");
    refused("iops = 0", "out of range");
    refused("iops = nan", "a number above 0");
    refused("latency_us = -5", "a number above 0");
    refused("bandwidth = 1e12", "out of range");
    refused("iops = 5\nof = 'trims'", "reads");
    refused("iops = 5\nspeed = 5", "unknown field");
    let many = "iops = 5\n[[layer]]\nname = 'y'\n".repeat(9) + "iops = 5";
    refused(&many, "8 at most");
}
