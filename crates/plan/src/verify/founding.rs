//! Systems of the founding documents.

use super::{PlanError, Set, Table, Tag, plain, root, simulated, solved};
use crate::bill::Bill;

const RATE: (Tag, Option<Set>) = (Tag::Pred, Some(Set::Founding));
const CPU: (Tag, Option<Set>) = (Tag::Pred, Some(Set::Processor));
const FIT: (Tag, Option<Set>) = (Tag::Fit, None);
const ALT: (Tag, Option<Set>) = (Tag::Alt, None);

pub(super) fn rows(table: &mut Table) -> Result<(), PlanError> {
    intel_ssd(table)?;
    marvell(table)?;
    intel_iscsi(table)?;
    thirdio(table)
}

/// 28 drives: ratings predict rate and latency; only the CPU time is from the text.
fn intel_ssd(table: &mut Table) -> Result<(), PlanError> {
    const CASE: &str = "Intel, 28 SSDs";
    let bill = table.bill(include_str!("../../systems/intel-ssd.toml"));
    let found = solved(&bill, &[])?;
    let (iops, latency) = (table.claim(20, "iops").clone(), table.claim(20, "latency").clone());
    let cpu = table.claim(21, "cpu_percent").clone();
    table.row(CASE, "IOPS", RATE, (&iops, found.iops), "drives at their rating");
    table.row(CASE, "mean latency", RATE, (&latency, found.latency_s), "32 in flight on each");
    for (what, found) in simulated::shapes(&bill)? {
        let note = format!("simulated, {what}");
        table.row(CASE, "IOPS", ALT, (&iops, found.iops), &note);
        table.row(CASE, "mean latency", ALT, (&latency, found.latency_s), &note);
    }
    let used = found.processor.unwrap_or_default();
    table.row(CASE, "processor", FIT, (&cpu, used), "6.6 us of a core from this very figure");
    table.fit("core time, Windows and Iometer", "6.6 us".to_owned(), "82.5 % of 8 cores", true);
    for (software, note) in [
        ("linux-libaio-megaraid", "from a log of fio of 2011 alone, on 2.4 GHz"),
        (
            "linux-adms-2010",
            "from the abstract of 2010 alone; its cores and clock are guesses, 8 at 2.93 GHz",
        ),
    ] {
        let other = Bill { software: Some(software.to_owned()), ..bill.clone() };
        let used = solved(&other, &[])?.processor.unwrap_or_default();
        table.row(CASE, &format!("processor, {software}"), CPU, (&cpu, used), note);
    }
    Ok(())
}

/// Modules: one fitted share of serial work for reads, one for writes.
fn marvell(table: &mut Table) -> Result<(), PlanError> {
    const CASE: &str = "Marvell, modules";
    let link = table.bill(include_str!("../../systems/marvell-link.toml"));
    let module = table.catalogue.parts["marvell-88nv9145"].value("read_iops").unwrap_or_default();
    let by_link = solved(&link, &[])?.iops;
    let note = "by one lane of generation 2 alone: packets of 128 B, 64-bit addresses";
    table.row(CASE, "one module reads", RATE, (&plain(module), by_link), note);
    for (payload, long, what) in [(128, false, "32-bit addresses"), (256, true, "packets of 256 B")]
    {
        let mut other = link.clone();
        other.groups[0].payload_max = payload;
        other.groups[0].long_addresses = long;
        let found = solved(&other, &[])?.iops;
        table.row(CASE, "one module reads", ALT, (&plain(module), found), what);
    }
    let reads = include_str!("../../systems/marvell-read.toml");
    let writes = include_str!("../../systems/marvell-write.toml");
    for (word, text, numbers) in
        [("read", reads, [34, 35, 36].as_slice()), ("write", writes, &[38, 39, 40, 41])]
    {
        let bill = table.bill(text);
        let at = |modules: u32, contention: f64| {
            let mut bill = bill.clone();
            (bill.groups[0].count, bill.groups[0].contention) = (modules, contention);
            Ok::<f64, PlanError>(solved(&bill, &[])?.iops)
        };
        let eight = table.claim(if word == "read" { 35 } else { 40 }, "iops").clone();
        let share = root((0.0, 0.1), |share| Ok(eight.value - at(8, share)?))?;
        let name = format!("serial share of {word}s");
        table.fit(&name, format!("{share:.5}"), "8 modules", true);
        table.row(CASE, &format!("8 modules {word}"), FIT, (&eight, at(8, share)?), "");
        // Two modules read twice 93K, as in the table of the slides.
        if word == "read" {
            let two = plain(2.0 * module);
            table.row(CASE, "2 modules read", RATE, (&two, at(2, share)?), "");
        }
        for number in numbers.iter().filter(|number| ![35, 40].contains(*number)) {
            let published = table.claim(*number, "iops").clone();
            let modules = table.claim(*number, "drives").value as u32;
            let figure = format!("{modules} modules {word}");
            table.row(CASE, &figure, RATE, (&published, at(modules, share)?), "");
        }
        let published = table.claim(if word == "read" { 36 } else { 41 }, "iops").clone();
        let figure = format!("16 modules {word}");
        table.row(CASE, &figure, ALT, (&published, at(16, 0.0)?), "on a straight line");
    }
    Ok(())
}

/// iSCSI: the limit of the CPU is from the text, that of the wire is not.
fn intel_iscsi(table: &mut Table) -> Result<(), PlanError> {
    const CASE: &str = "Intel, iSCSI";
    let wire = table.bill(include_str!("../../systems/iscsi-wire.toml"));
    let measured = table.catalogue.parts["x520-da1"].value("port_bandwidth").unwrap_or_default();
    let found = solved(&wire, &[])?.bytes_per_s;
    table.row(CASE, "wire speed", RATE, (&plain(measured), found), "without TCP options");
    let mut stamped = wire.clone();
    stamped.groups[0].tcp_options = 12;
    let found = solved(&stamped, &[])?.bytes_per_s;
    table.row(CASE, "wire speed", ALT, (&plain(measured), found), "with TCP timestamps");
    let bill = table.bill(include_str!("../../systems/intel-iscsi.toml"));
    let found = solved(&bill, &[])?;
    let note = "processors taken as full at 1.03M; one point, nothing held out";
    table.row(CASE, "IOPS of 512 B", FIT, (&plain(1.03e6), found.iops), note);
    table.fit("core time, iSCSI initiator", "7.77 us".to_owned(), "1.03M IOPS on 8 cores", true);
    let mut wire = wire;
    wire.work.size_bytes = 512.0;
    let claimed = table.claim(52, "iops").clone();
    let found = solved(&wire, &[])?.iops;
    table.row(
        CASE,
        "limit of the wire at 512 B",
        ALT,
        (&claimed, found),
        "the claim forgets headers",
    );
    Ok(())
}

/// Ports whose engines wait for one fabric: its rate, and the engines' time, are fitted.
fn thirdio(table: &mut Table) -> Result<(), PlanError> {
    const CASE: &str = "Third I/O, ports";
    let bill = table.bill(include_str!("../../systems/thirdio-fc.toml"));
    let fabric = fitted_fabric(table, &bill)?;
    for (engine, fabric, shown) in [(fabric.0, fabric.1, true), decimal(table, &bill)?] {
        let at = |size: f64| {
            let mut bill = bill.clone();
            bill.work.size_bytes = size;
            let engines =
                [("lpe12004", "engine_time", engine), ("lpe12002", "engine_time", engine)];
            let values = [engines[0], engines[1], ("dl370-g6", "bandwidth", fabric)];
            solved(&bill, &values)
        };
        let reading = "10 GB/s read as 10,000 of the binary megabytes that Iometer counted";
        let (rate, note) = if shown { (RATE, reading) } else { (ALT, "10 GB/s read as decimal") };
        let best = table.claim(74, "iops").clone();
        for (size, word) in [(512.0, "512 B"), (2048.0, "2 KiB")] {
            table.row(CASE, &format!("reads of {word}"), rate, (&best, at(size)?.iops), note);
        }
        let alone = {
            let mut one = bill.clone();
            one.groups.truncate(1);
            (one.groups[0].count, one.groups[0].ports) = (1, 1);
            one.work.size_bytes = 2048.0;
            let values = [("lpe12004", "engine_time", engine), ("dl370-g6", "bandwidth", fabric)];
            solved(&one, &values)?.iops
        };
        let scaling = table.said(57, "thirdio.port-scaling");
        let scale = at(2048.0)?.iops / (24.0 * alone);
        table.row(CASE, "24 ports beside one", rate, (&scaling, scale), note);
        for (size, claim, word, share) in [(4096.0, 75, "4 KiB", 75), (8192.0, 76, "8 KiB", 77)] {
            let published = table.claim(claim, "iops").clone();
            let found = at(size)?;
            table.row(CASE, &format!("mix of {word}"), rate, (&published, found.iops), note);
            let of_best = found.bytes_per_s / fabric;
            let figure = format!("mix of {word}, share of the best");
            let published = table.share(share);
            table.row(CASE, &figure, rate, (&published, of_best), note);
        }
        if shown {
            for contexts in [2, 4] {
                let mut other = bill.clone();
                other.work.size_bytes = 4096.0;
                other.groups.iter_mut().for_each(|group| group.contexts = contexts);
                let engines =
                    [("lpe12004", "engine_time", engine), ("lpe12002", "engine_time", engine)];
                let values = [engines[0], engines[1], ("dl370-g6", "bandwidth", fabric)];
                let found = solved(&other, &values)?.iops;
                let published = table.claim(75, "iops").clone();
                let note = format!("{contexts} transfers in flight at each port");
                table.row(CASE, "mix of 4 KiB", ALT, (&published, found), &note);
            }
            for (what, engine, found) in simulated::engines(&bill, best.value, fabric)? {
                let published = table.claim(75, "iops").clone();
                let micros = engine * 1e6;
                let note = format!("simulated, {what}, engines fitted anew: {micros:.2} us");
                table.row(CASE, "mix of 4 KiB", ALT, (&published, found), &note);
            }
            processor(table, &at)?;
            let figure = "mean latency of 1 KiB";
            let published = table.claim(72, "latency").clone();
            let arith = (Tag::Arith, None);
            let found = at(1024.0)?.latency_s;
            table.row(CASE, figure, arith, (&published, found), "follows from 3072 in flight");
        }
    }
    Ok(())
}

fn processor(
    table: &mut Table,
    at: &dyn Fn(f64) -> Result<crate::predict::Prediction, PlanError>,
) -> Result<(), PlanError> {
    const CASE: &str = "Third I/O, ports";
    for (size, claim, word, tag, note) in [
        (1024.0, 58, "1 KiB", FIT, "0.98 us from this figure"),
        (4096.0, 75, "4 KiB", FIT, "1.38 us from this figure, at the rate of the model"),
        (8192.0, 76, "8 KiB", CPU, "on the line through both; no clock is in it"),
    ] {
        let published = table.claim(claim, "cpu_percent").clone();
        let used = at(size)?.processor.unwrap_or_default();
        table.row(CASE, &format!("processor at {word}"), tag, (&published, used), note);
    }
    table.fit("core time, target, up to 1 KiB", "0.98 us".to_owned(), "33 % at 2.7M", true);
    table.fit("core time, target, 4 KiB", "1.38 us".to_owned(), "38 % at 2.2M", true);
    Ok(())
}

/// Returns the engine time and fabric that result in 2.7M reads of 1 KiB and `target` bytes per
/// second at 512 KiB.
fn fit_to(table: &Table, bill: &Bill, target: f64) -> Result<(f64, f64), PlanError> {
    let reads = table.claim(74, "iops").value;
    let at = |engine: f64, fabric: f64, size: f64| {
        let mut bill = bill.clone();
        bill.work.size_bytes = size;
        let engines = [("lpe12004", "engine_time", engine), ("lpe12002", "engine_time", engine)];
        solved(&bill, &[engines[0], engines[1], ("dl370-g6", "bandwidth", fabric)])
    };
    // At 512 KiB the engines have no effect, so one round determines both.
    let rough = reads.recip() * 24.0;
    let fabric = root((0.9 * target, 1.2 * target), |fabric| {
        Ok(at(rough, fabric, 524_288.0)?.bytes_per_s - target)
    })?;
    let engine = root((1e-6, 20e-6), |engine| Ok(reads - at(engine, fabric, 1024.0)?.iops))?;
    Ok((engine, fabric))
}

fn fitted_fabric(table: &mut Table, bill: &Bill) -> Result<(f64, f64), PlanError> {
    const CASE: &str = "Third I/O, ports";
    let target = 10_000.0 * 1_048_576.0;
    let (engine, fabric) = fit_to(table, bill, target)?;
    let best = table.claim(74, "iops").clone();
    let mut large = bill.clone();
    large.work.size_bytes = 524_288.0;
    let engines = [("lpe12004", "engine_time", engine), ("lpe12002", "engine_time", engine)];
    let values = [engines[0], engines[1], ("dl370-g6", "bandwidth", fabric)];
    let small = solved(bill, &values)?.iops;
    let moved = solved(&large, &values)?.bytes_per_s;
    table.row(CASE, "reads of 1 KiB", FIT, (&best, small), "");
    let note = "10,000 MiB/s: a million of 8 K is nearly 8 GB/s in the same text only in binary";
    table.row(CASE, "bandwidth at 512 KiB", FIT, (&plain(target), moved), note);
    table.fit("engine time of a port", format!("{:.3} us", engine * 1e6), "2.7M of 1 KiB", true);
    table.fit("fabric", format!("{:.2} GB/s", fabric / 1e9), "10 GB/s at 512 KiB", true);
    Ok((engine, fabric))
}

fn decimal(table: &Table, bill: &Bill) -> Result<(f64, f64, bool), PlanError> {
    let target = table.claim(78, "bandwidth").value;
    let (engine, fabric) = fit_to(table, bill, target)?;
    Ok((engine, fabric, false))
}
