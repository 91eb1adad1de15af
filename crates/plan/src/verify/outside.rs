//! Published figures of other systems, without parameters fitted to them.

use std::sync::Arc;

use model::{Run, Service, Step, simulate};

use super::{PlanError, Set, Table, Tag, plain, root, simulated, solved};
use crate::bill::Bill;
use crate::system::{System, Tweak};

const RATE: (Tag, Option<Set>) = (Tag::Pred, Some(Set::Outside));
const FIT: (Tag, Option<Set>) = (Tag::Fit, None);
const ALT: (Tag, Option<Set>) = (Tag::Alt, None);
const TAIL: (Tag, Option<Set>) = (Tag::Pred, Some(Set::Tails));

pub(super) fn rows(table: &mut Table) -> Result<(), PlanError> {
    depth(table)?;
    mixes(table)?;
    scaling(table)?;
    fibre(table)
}

/// Drives from depth 1 to depth 16, by channels.
fn depth(table: &mut Table) -> Result<(), PlanError> {
    const CASE: &str = "drives at depth 16";
    for (text, part, tag, note) in [
        (
            include_str!("../../systems/p4800x.toml"),
            "p4800x-375",
            RATE,
            "from 8.9 us alone and seven channels",
        ),
        (include_str!("../../systems/p3700.toml"), "p3700-800", FIT, "64 dies chosen to meet it"),
        (
            include_str!("../../systems/micron-9100.toml"),
            "micron-9100-2400",
            FIT,
            "192 dies chosen to meet it",
        ),
    ] {
        let bill = table.bill(text);
        let published = table.catalogue.parts[part].value("depth16_iops").unwrap_or_default();
        let found = solved(&bill, &[])?;
        table.row(CASE, &format!("IOPS, {part}"), tag, (&plain(published), found.iops), note);
        for (what, found) in simulated::shapes(&bill)? {
            let note = format!("simulated, {what}");
            table.row(CASE, &format!("IOPS, {part}"), ALT, (&plain(published), found.iops), &note);
        }
        if tag == FIT {
            let channels = table.catalogue.parts[part].value("channels").unwrap_or_default();
            let name = format!("dies of {part}");
            table.fit(&name, format!("{channels}"), "IOPS at depth 16", false);
        }
        let published = table.catalogue.parts[part].value("depth16_latency").unwrap_or_default();
        // The published latency of the P4800X contradicts its own IOPS by Little's law, so it is no
        // reference.
        let tag = if tag == FIT { FIT } else { ALT };
        let figure = format!("mean latency, {part}");
        table.row(CASE, &figure, tag, (&plain(published), found.latency_s), note);
        let published = table.catalogue.parts[part].value("depth16_p99").unwrap_or_default();
        let model = p99(&bill)?;
        let note = "simulated; random dies, Erlang service";
        table.row(CASE, &format!("p99, {part}"), TAIL, (&plain(published), model), note);
    }
    Ok(())
}

/// Returns the 99th percentile of a bill, simulated with service times of little variance.
fn p99(bill: &Bill) -> Result<f64, PlanError> {
    let mut network = System::build(bill, &Tweak::default())?.network;
    let steps = network.classes.iter_mut().flat_map(|class| &mut class.route);
    for step in steps {
        if let Step::Visit(visit) = step {
            visit.service = Service::erlang(20, visit.service.mean_s);
        }
    }
    let mut latencies: Vec<f64> = Vec::new();
    let run = Run { seed: 1, warmup: 10_000, requests: 60_000 };
    simulate(&network, run, |done| latencies.push(done.latency.as_secs_f64()))?;
    latencies.sort_by(f64::total_cmp);
    Ok(latencies.get(latencies.len() * 99 / 100).copied().unwrap_or_default())
}

/// Mixes of reads and writes: one weight, fitted on the smallest drive of a family.
fn mixes(table: &mut Table) -> Result<(), PlanError> {
    const CASE: &str = "drives at 70 % reads";
    let base = table.bill(include_str!("../../systems/mixed.toml"));
    let family = [
        "micron-9550-max-3200",
        "micron-9550-max-6400",
        "micron-9550-max-12800",
        "micron-9550-max-25600",
    ];
    let at = |part: &str, weight: f64| {
        let mut bill = base.clone();
        bill.groups[0].drive = Some(part.to_owned());
        // A figure in the bill precedes the rated mix, which is what is predicted.
        let known = bill.catalogue.parts[part].figures["write_iops"][0].clone();
        let figure = catalogue::Figure { value: weight, low: weight, high: weight, ..known };
        let parts = Arc::make_mut(&mut bill.catalogue.parts);
        let part = parts.get_mut(part).expect("checked");
        let figures = &mut Arc::make_mut(part).figures;
        figures.insert("mix_factor".to_owned(), vec![figure]);
        Ok::<f64, PlanError>(solved(&bill, &[])?.iops)
    };
    let rated = |table: &Table, part: &str| {
        table.catalogue.parts[part].value("mix_iops").unwrap_or_default()
    };
    let fit = |table: &Table, part: &str| {
        let target = rated(table, part);
        root((1.0, 10.0), |weight| Ok(target - at(part, weight)?))
    };
    let weight = fit(table, family[0])?;
    table.fit(
        "weight of a write among reads",
        format!("{weight:.2}"),
        "the rated mix of 3.2 TB",
        false,
    );
    for part in family {
        let published = plain(rated(table, part));
        let tag = if part == family[0] { FIT } else { RATE };
        table.row(CASE, &format!("IOPS, {part}"), tag, (&published, at(part, weight)?), "");
        let note = "reads and writes undisturbed";
        table.row(CASE, &format!("IOPS, {part}"), ALT, (&published, at(part, 1.0)?), note);
    }
    // Sensitivity to the drive that the weight is fitted on.
    let other = fit(table, family[1])?;
    for part in [family[0], family[2], family[3]] {
        let published = plain(rated(table, part));
        let note = format!("fitted on 6.4 TB instead: weight {other:.2}");
        table.row(CASE, &format!("IOPS, {part}"), ALT, (&published, at(part, other)?), &note);
    }
    let published = plain(rated(table, "p4800x-375"));
    let note = "no erase, so undisturbed";
    table.row(CASE, "IOPS, p4800x-375", RATE, (&published, at("p4800x-375", 1.0)?), note);
    Ok(())
}

/// More drives or chips of the same kind.
fn scaling(table: &mut Table) -> Result<(), PlanError> {
    const CASE: &str = "more of the same";
    let spdk = table.bill(include_str!("../../systems/spdk-24.toml"));
    let found = solved(&spdk, &[])?.iops;
    let note = "each as one of sixteen; 120 million of 24 were published later";
    let rate = |server: &str| table.catalogue.parts[server].value("iops").unwrap_or_default();
    let (of_16, of_24) = (rate("m50cyp"), rate("xeon-8480-2s"));
    table.row(CASE, "SPDK, 24 drives from 16", RATE, (&plain(of_24), found), note);
    for (figure, published, outstanding, iops, note) in [
        ("SPDK, 16 drives, mean latency", 25.54e-6, 2048.0, of_16, "16 x 128 in flight"),
        (
            "io_uring, depth 128, mean latency",
            34.9e-6,
            128.0,
            2.58e6,
            "the pair contradicts itself",
        ),
    ] {
        let latency = model::laws::response_s(outstanding, iops);
        table.row(CASE, figure, (Tag::Arith, None), (&plain(published), latency), note);
    }
    let lsi = table.bill(include_str!("../../systems/lsi-two-chips.toml"));
    let published = table.catalogue.parts["lsi-9202-16e"].value("iops").unwrap_or_default();
    let found = solved(&lsi, &[])?.iops;
    table.row(CASE, "two SAS2008 from one", RATE, (&plain(published), found), "350K of one chip");
    Ok(())
}

/// Fibre Channel of 16 Gb/s, predicted from 8 Gb/s.
fn fibre(table: &mut Table) -> Result<(), PlanError> {
    const CASE: &str = "Fibre Channel ports";
    let bill = table.bill(include_str!("../../systems/fc-port.toml"));
    let at = |link: &str, framing: f64| {
        let mut bill = bill.clone();
        bill.groups[0].link = Some(link.to_owned());
        let known = bill.catalogue.parts[link].figures["coding"][0].clone();
        let figure = catalogue::Figure { value: framing, ..known };
        let parts = Arc::make_mut(&mut bill.catalogue.parts);
        let link = parts.get_mut(link).expect("checked");
        let figures = &mut Arc::make_mut(link).figures;
        figures.insert("framing".to_owned(), vec![figure]);
        Ok::<f64, PlanError>(solved(&bill, &[])?.bytes_per_s)
    };
    let published =
        |part: &str| plain(table.catalogue.parts[part].value("port_bandwidth").unwrap_or_default());
    let (eight, sixteen) = (published("lpe12002"), published("lpe16002"));
    let framing = root((0.5, 1.0), |framing| Ok(at("fc-8", framing)? - eight.value))?;
    table.fit("share left by the protocol", format!("{framing:.3}"), "789 MB/s of 8GFC", false);
    table.row(CASE, "8GFC", FIT, (&eight, at("fc-8", framing)?), "");
    table.row(CASE, "16GFC", RATE, (&sixteen, at("fc-16", framing)?), "with the same share");
    Ok(())
}
