use block::Op;
use model::{Method, solve};

use super::*;

/// Returns IOPS and mean latency of a closed loop of one operation.
pub fn closed(profile: &Profile, op: Op, depth: u32, len_bytes: u32) -> (f64, f64) {
    let share = if op == Op::Read { 1.0 } else { 0.0 };
    let network = profile.closed(1, depth, share, len_bytes);
    let solution = solve(&network, Method::Auto).unwrap();
    (solution.throughput_per_s(), solution.response_s())
}

/// Returns the drives with a profile, either those with an arm or those without.
pub fn drives(arm: bool) -> Vec<(std::sync::Arc<Part>, Profile)> {
    let catalogue = Catalogue::shipped();
    let drives = catalogue.parts.values().filter(|part| part.class == Class::Drive);
    let mut all: Vec<_> = drives
        .filter_map(|part| {
            Some((catalogue.assumed(part, ASSUMED).0, catalogue.profile(part).ok()?))
        })
        .collect();
    all.retain(|(_, profile)| profile.stages.iter().any(|stage| stage.head.is_some()) == arm);
    all
}

#[track_caller]
pub fn near(what: &str, found: f64, wanted: f64, percent: f64) {
    let off = (found / wanted - 1.0) * 100.0;
    assert!(off.abs() <= percent, "{what}: {found} where {wanted} is published: {off:+.2} %");
}

#[test]
fn each_drive_does_what_the_catalogue_says_alone_at_depth_and_in_long_ios() {
    let drives = drives(false);
    assert!(drives.len() >= 300, "{} drives", drives.len());
    for (part, profile) in drives {
        for (op, word) in [(Op::Read, "read"), (Op::Write, "write")] {
            let figure = |what: &str| part.value(&format!("{word}_{what}")).unwrap();
            let (iops, latency_s) = (figure("iops"), figure("latency"));
            let bandwidth = figure("bandwidth");
            let about = |what: &str| format!("{}, {word}, {what}", part.id);
            // A rating beyond the bandwidth is for I/Os shorter than 4 KiB.
            let iops = iops.min(bandwidth / 4096.0);
            let deep = profile.queue_depth.unwrap_or((8.0 * iops * latency_s).max(64.0) as u32);
            near(&about("IOPS at depth"), closed(&profile, op, deep, 4096).0, iops, 2.0);
            // The latency at queue depth 1 is at least one over the rated IOPS.
            let alone_s = latency_s.max(1.0 / iops);
            near(&about("latency alone"), closed(&profile, op, 1, 4096).1, alone_s, 2.0);
            let rate = closed(&profile, op, deep.min(64), 131_072).0 * 131_072.0;
            // Full flash may be assumed to write fewer I/Os than its bandwidth has long ones.
            near(&about("bandwidth"), rate, bandwidth.min(iops * 131_072.0), 2.0);
        }
    }
}

#[test]
fn reads_collide_on_banks_as_the_model_says() {
    for (part, profile) in drives(false) {
        let (iops, latency_s) = (part.value("read_iops"), part.value("read_latency"));
        let (iops, latency_s) = (iops.unwrap(), latency_s.unwrap());
        let banks = iops * latency_s;
        // A SATA link is slower than a few banks.
        if banks < 8.0 || part.interface == "sata" {
            continue;
        }
        for depth in [banks / 8.0, banks / 4.0, banks / 2.0, banks, 2.0 * banks, 3.0 * banks] {
            let depth = depth.round() as u32;
            let wanted = model::laws::banks_per_s(iops, latency_s, depth);
            let found = closed(&profile, Op::Read, depth, 4096).0;
            near(&format!("{} at {depth} of {banks:.0}", part.id), found, wanted, 6.0);
        }
    }
}

#[test]
fn a_figure_that_is_not_known_is_named_and_is_no_zero() {
    let catalogue = Catalogue::shipped();
    let refused =
        |name: &str| catalogue.profile(catalogue.part(name).unwrap()).unwrap_err().to_string();
    assert_eq!(
        refused("any-nvme"),
        "any-nvme cannot be emulated: the catalogue has no read_iops, write_iops, read_latency, \
         write_latency, read_bandwidth, write_bandwidth; `drumfire plan --drive any-nvme` predicts \
         it with figures of similar drives"
    );
    assert_eq!(refused("lsi-9210-8i"), "lsi-9210-8i is an adapter: only drives have profiles");
}

#[test]
fn what_nobody_rated_is_assumed_by_name_with_its_range() {
    let catalogue = Catalogue::shipped();
    let part = catalogue.part("980-pro-1000").unwrap();
    assert!(part.value("write_iops").is_none() && part.value("write_latency").is_none());
    let text = catalogue.profile_text(part).unwrap();
    for words in ["write_iops unknown: ", "write_latency unknown: ", "guess: "] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let wide = catalogue.worn_writes(part).unwrap();
    let (iops, _) = closed(&catalogue.profile(part).unwrap(), Op::Write, 256, 4096);
    near("writes of a full drive", iops, wide.value, 2.0);
}

#[test]
fn what_is_printed_is_read_again() {
    let catalogue = Catalogue::shipped();
    for (part, _) in [drives(false), drives(true)].concat() {
        let part = &catalogue.parts[&part.id];
        let (text, profile) =
            (catalogue.profile_text(part).unwrap(), catalogue.profile(part).unwrap());
        let has_arm = text.contains("[stage.head]");
        let figures = if has_arm { "full_seek" } else { "write_latency" };
        assert!(text.contains("flush") && text.contains(figures), "{text}");
        assert_eq!(text.contains("exponential"), !has_arm, "{text}");
        assert_eq!(Profile::parse(&text), Ok(profile));
    }
}
