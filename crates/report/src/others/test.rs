use serde_json::{Value, json};
use stats::{Buckets, Latencies};

use super::*;
use crate::fio;
use crate::generated;

/// Returns fio's output for one job in client mode, from a histogram of ours.
fn job(name: &str, host: Option<&str>, latencies: &Latencies) -> Value {
    let bins = fio::bins::bins(&Buckets::of(latencies));
    let percents = [50.0, 99.0, 99.9];
    let found = fio::bins::percentiles(&bins, &percents);
    let named = |(p, ns): (f64, u64)| (format!("{p:.6}"), ns.into());
    let percentile: serde_json::Map<String, Value> = found.into_iter().map(named).collect();
    let named = |(ns, count): (u64, u64)| (ns.to_string(), count.into());
    let bins: serde_json::Map<String, Value> = bins.into_iter().map(named).collect();
    let spread = json!({ "min": latencies.min(), "max": latencies.max(), "mean": latencies.mean(),
        "percentile": percentile, "bins": bins });
    let read = json!({ "total_ios": latencies.count(), "iops": 100.0, "clat_ns": spread });
    let nothing =
        json!({ "total_ios": 0, "iops": 0.0, "clat_ns": { "min": 0, "max": 0, "mean": 0.0 } });
    let mut job = json!({ "jobname": name, "read": read, "write": nothing });
    if let Some(host) = host {
        (job["hostname"], job["port"]) = (host.into(), 8765.into());
    }
    job
}

fn of(parts: &[(u64, u64)]) -> Latencies {
    let mut latencies = Latencies::new();
    parts.iter().for_each(|(ns, count)| latencies.record_n(*ns, *count));
    latencies
}

/// A quick host with a short tail and one that does a tenth of the I/Os, all slow.
fn hosts() -> [Latencies; 2] {
    [of(&[(100_000, 9000), (900_000, 20)]), of(&[(5_000_000, 1000), (40_000_000, 30)])]
}

fn document(jobs: &[Value]) -> Vec<u8> {
    let all = json!({ "fio version": "fio-3.36", "client_stats": jobs });
    [b"<a> fio: some line\n".to_vec(), all.to_string().into_bytes()].concat()
}

#[test]
fn sections_of_servers_merge_to_what_one_histogram_says() {
    let [one, two] = hosts();
    let mut all = one.clone();
    all.merge(&two);
    let jobs =
        [job("a", Some("one"), &one), job("b", Some("two"), &two), job("All clients", None, &all)];
    let text = document(&jobs);
    assert!(is_fio(&text));
    let entries = read_fio("x.json", &text).unwrap();
    assert_eq!(entries.len(), 3);
    let [read] = &together(&entries).unwrap()[..] else { panic!("one direction") };
    let bins = fio::bins::bins(&Buckets::of(&all));
    assert_eq!(read.bins, bins.iter().copied().collect());
    assert_eq!((read.samples, read.entries), (all.count(), 2));
    assert_eq!((Some(read.min_ns), Some(read.max_ns)), (all.min(), all.max()));
    assert!((read.mean_ns - all.mean().unwrap()).abs() < 1e-3);
    for row in &read.percentiles {
        let right = fio::bins::percentiles(&bins, &[row.percent])[0].1;
        assert_eq!((row.merged_ns, row.own_ns), (right, Some(right)), "p{}", row.percent);
    }
    // The average of both medians is one that nearly no I/O took.
    let p50 = read.percentiles[0];
    assert!(p50.off_percent.unwrap() > 2000.0, "{p50:?}");
    let p99 = read.percentiles[1];
    assert!(p99.off_percent.unwrap() > 200.0, "{p99:?}");
    let shown = painted("fio", 1, std::slice::from_ref(read), Paint::PLAIN);
    assert!(shown.as_str().contains("tool's own sum"), "{}", shown.as_str());
}

/// Our documents in fio's format are read, too, and several files.
#[test]
fn our_own_form_of_fio_is_read() {
    let mut entries = Vec::new();
    let mut samples = 0;
    for (number, result) in generated::hundred().iter().take(20).enumerate() {
        let mut text = Vec::new();
        let steps = std::slice::from_ref(result);
        fio::write(steps, fio::Include { plus: true, trust: false }, &mut text).unwrap();
        if result.totals.read.ios == 0 {
            continue;
        }
        let read = read_fio(&format!("{number}.json"), &text).unwrap();
        samples += read
            .iter()
            .filter(|entry| entry.direction == "read")
            .flat_map(|entry| entry.bins.values())
            .sum::<u64>();
        entries.extend(read);
    }
    let all = together(&entries).unwrap();
    assert_eq!(all.iter().find(|of| of.direction == "read").unwrap().samples, samples);
}

#[test]
fn what_cannot_be_merged_is_refused() {
    let [one, _] = hosts();
    let good = job("a", None, &one);
    let refused = |spoil: &dyn Fn(&mut Value)| {
        let mut job = good.clone();
        spoil(&mut job);
        let text = document(&[good.clone(), job]);
        read_fio("x", &text).and_then(|entries| together(&entries).map(drop)).unwrap_err()
    };
    let clat = |job: &mut Value| job["read"]["clat_ns"].take();
    assert!(refused(&|job| drop(clat(job))).contains("--output-format=json+"));
    assert!(refused(&|job| job["read"]["lat_ns"] = clat(job)).contains("histograms of clat_ns"));
    assert!(
        refused(&|job| job["read"]["clat_ns"]["bins"] = json!({ "x": 1 })).contains("no number")
    );
    let huge = json!({ "7": u64::MAX });
    assert!(refused(&|job| job["read"]["clat_ns"]["bins"] = huge.clone()).contains("64 bits"));
    let nan = json!({ "NaN": 1 });
    assert!(refused(&|job| job["read"]["clat_ns"]["percentile"] = nan.clone()).contains("fio"));
    assert!(refused(&|job| job["read"]["total_ios"] = json!(-3)).contains("no result of fio"));
    let cut = document(std::slice::from_ref(&good));
    assert!(read_fio("x", &cut[..cut.len() / 2]).is_err());
    assert!(read_fio("x", b"").is_err());
    assert!(!is_fio(b"{}"));
}
