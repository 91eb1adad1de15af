//! Limits of parts and links: the highest that any source allows.

use super::{Finding, Outcome, finding, holds_if, per_second, round};
use crate::claim::Claim;
use crate::wire::{self, Protocol, Rdma, Tcp};
use catalogue::{Catalogue, Kind, Known, Part};

mod room;

pub(super) fn rules(claim: &Claim, catalogue: &Catalogue) -> Vec<Finding> {
    let mut all: Vec<Finding> = [
        drives(claim),
        rating(claim),
        drive_bandwidth(claim),
        adapters(claim),
        ports(claim),
        link(claim),
        capacity(claim),
        price(claim),
    ]
    .into_iter()
    .flatten()
    .collect();
    all.extend(room::rules(claim, catalogue));
    all
}

/// Factor by which a sample may exceed the rating of its model: ratings are promises, and reviewers
/// find drives 10 % faster.
const BETTER: f64 = 1.15;

/// Returns the outcome of a `value` that must not exceed `most`. An excess within the spread of
/// samples is unclear, unless `most` was measured.
pub(super) fn beyond(value: f64, most: f64, kind: Kind) -> (Outcome, &'static str) {
    match () {
        () if value <= most => (Outcome::Holds, ""),
        () if value <= most * BETTER && kind != Kind::Derived => {
            (Outcome::Unclear, "; samples differ by as much")
        }
        () => (Outcome::Breaks, ""),
    }
}

/// IOPS cannot exceed the sum of the drives' ratings.
fn drives(claim: &Claim) -> Option<Finding> {
    let (iops, drive, drives) = (claim.amount("iops")?, claim.drive?, claim.count("drives")?);
    let read = claim.read_share();
    let Some((each, kind)) = most_iops(drive, read) else {
        let line = format!("the IOPS of {} at {:.0} % reads are not known", drive.id, read * 100.0);
        return Some(finding("drives", Outcome::Unclear, line));
    };
    let most = each * drives;
    let nominal = nominal_iops(drive, read).unwrap_or(each) * drives;
    // I/Os smaller than the rating's may be faster on flash.
    let small = claim.size_bytes.is_some_and(|size| size < 4096.0);
    let apart = apart(drive, read).map_or(0.0, |each| each * drives);
    let low = iops.interval().0;
    let (outcome, note) = match beyond(low, most, kind) {
        (Outcome::Breaks, _) if small => (Outcome::Unclear, "; smaller I/Os may go faster"),
        (Outcome::Breaks, _) if low <= apart => {
            (Outcome::Unclear, "; only if reads and writes do not slow each other down")
        }
        other => other,
    };
    let line = format!(
        "{} x {} does {} IOPS ({}), {} at the most; claimed {}, {:.1} % of it{note}",
        round(drives),
        drive.id,
        block::Rate(nominal),
        kind.word(),
        block::Rate(most),
        block::Rate(iops.value),
        iops.value / nominal * 100.0
    );
    Some(finding("drives", outcome, line).by(kind))
}

/// The claimed rating of one device, times the number of devices.
fn rating(claim: &Claim) -> Option<Finding> {
    let (iops, rating) = (claim.amount("iops")?, claim.amount("rating")?);
    let count = claim.count("drives").or_else(|| claim.count("adapters"))?;
    let most = rating.interval().1 * count;
    let (outcome, note) = beyond(iops.interval().0, most, Kind::Spec);
    let line = format!(
        "{} x {} IOPS rated = {}; claimed {}{note}",
        round(count),
        block::Rate(rating.value),
        block::Rate(rating.value * count),
        block::Rate(iops.value)
    );
    Some(finding("rating", outcome, line))
}

/// Returns the highest rate of a drive at this share of reads, by any figure: from the rates of
/// reads and writes in turn, or of a measured mix.
fn most_iops(drive: &Part, read: f64) -> Option<(f64, Kind)> {
    let high = |name| drive.known(name).map(|known: Known| (known.high, known.kind));
    let greater = |a: Option<(f64, Kind)>, b: Option<(f64, Kind)>| match (a, b) {
        (Some(a), Some(b)) => Some(if a.0 >= b.0 { a } else { b }),
        (a, b) => a.or(b),
    };
    let reads = high("read_iops").or_else(|| high("iops"));
    let reads = greater(reads, high("depth16_iops").filter(|_| reads.is_some()));
    let turns = blend(read, reads, high("write_iops"));
    let mix = high("mix_iops").filter(|_| (0.65..=0.75).contains(&read));
    greater(turns, mix)
}

/// Returns the highest rate if reads and writes did not slow each other down at all.
fn apart(drive: &Part, read: f64) -> Option<f64> {
    let mixed = read > 0.0 && read < 1.0;
    let high = |name| drive.known(name).map(|known| known.high);
    let reads = high("read_iops").filter(|_| mixed)? / read;
    Some(reads.min(high("write_iops")? / (1.0 - read)))
}

fn nominal_iops(drive: &Part, read: f64) -> Option<f64> {
    let value = |name| drive.known(name).map(|known: Known| (known.value, known.kind));
    blend(read, value("read_iops").or_else(|| value("iops")), value("write_iops"))
        .map(|(rate, _)| rate)
}

/// Returns the rate of a mix: the time of one I/O is the mean of both times, as certain as the less
/// certain of them.
fn blend(
    read: f64,
    reads: Option<(f64, Kind)>,
    writes: Option<(f64, Kind)>,
) -> Option<(f64, Kind)> {
    match read {
        1.0.. => reads,
        ..=0.0 => writes,
        _ => {
            let ((reads, of_reads), (writes, of_writes)) = (reads?, writes?);
            Some((1.0 / (read / reads + (1.0 - read) / writes), of_reads.max(of_writes)))
        }
    }
}

/// Returns the bytes per second of a claim: as claimed, or IOPS times size.
pub(super) fn moved(claim: &Claim) -> Option<(f64, f64)> {
    if let Some(bandwidth) = claim.amount("bandwidth") {
        let bits = bandwidth.value / crate::claim::bytes_of(bandwidth);
        return Some((bandwidth.interval().0 / bits, bandwidth.value / bits));
    }
    let (iops, size) = (claim.amount("iops")?, claim.size_bytes?);
    Some((iops.interval().0 * size, iops.value * size))
}

/// Bandwidth cannot exceed that of all drives together.
fn drive_bandwidth(claim: &Claim) -> Option<Finding> {
    let (low, value) = moved(claim)?;
    let (drive, drives) = (claim.drive?, claim.count("drives")?);
    let read = claim.read_share();
    let high = |name| drive.known(name).map(|known| (known.high, known.kind));
    let (each, kind) = blend(read, high("read_bandwidth"), high("write_bandwidth"))?;
    let (outcome, note) = beyond(low, each * drives, kind);
    let line = format!(
        "{} x {} moves {} at the most ({}); claimed {}{note}",
        round(drives),
        drive.id,
        per_second(each * drives),
        kind.word(),
        per_second(value)
    );
    Some(finding("drive-bandwidth", outcome, line).by(kind))
}

/// IOPS cannot exceed the sum of the adapters' ratings.
fn adapters(claim: &Claim) -> Option<Finding> {
    let (iops, adapter) = (claim.amount("iops")?, claim.adapter?);
    let count = claim.count("adapters").unwrap_or(1.0);
    let ports = adapter.value("ports").unwrap_or(1.0);
    let through = |name, times: f64| {
        adapter.known(name).map(|known| (known.value * times, known.high * times, known.kind))
    };
    let (nominal, most, kind) = through("iops", 1.0).or_else(|| through("port_iops", ports))?;
    let (outcome, note) = beyond(iops.interval().0, most * count, kind);
    let line = format!(
        "{} x {} passes {} IOPS ({}), {} at the most; claimed {}{note}",
        round(count),
        adapter.id,
        block::Rate(nominal * count),
        kind.word(),
        block::Rate(most * count),
        block::Rate(iops.value)
    );
    Some(finding("adapters", outcome, line).by(kind))
}

/// Each drive needs a port.
fn ports(claim: &Claim) -> Option<Finding> {
    let (adapter, drives) = (claim.adapter?, claim.count("drives")?);
    let known = adapter.known("ports")?;
    let (count, ports) = (claim.count("adapters")?, known.value);
    let line = format!(
        "{} x {} has {} ports ({}) for {} drives",
        round(count),
        adapter.id,
        round(count * ports),
        known.kind.word(),
        round(drives)
    );
    Some(finding("ports", holds_if(drives <= count * ports), line).by(known.kind))
}

/// Payload cannot exceed the link rate less encoding, framing and headers.
fn link(claim: &Claim) -> Option<Finding> {
    let (part, lanes) = claim.link?;
    let (low, value) = moved(claim)?;
    // A SATA link connects one drive, so there are as many links as drives.
    let each = claim.count("drives").filter(|_| part.id.starts_with("sata"));
    let count = claim.count("ports").or(each).unwrap_or(1.0);
    // Full duplex: reads use one direction, writes the other.
    let read = claim.read_share();
    let one_way = read.max(1.0 - read);
    let size = claim.size_bytes.unwrap_or(65536.0);
    let (carries, how) = ceiling(claim, part, lanes, size)?;
    let most = carries * count / one_way;
    let per_io = match claim.size_bytes {
        Some(size) => format!(" = {} IOPS of {} B", block::Rate(most / size), round(size)),
        None => String::new(),
    };
    let line = format!(
        "{} x {} carries {} of payload{per_io} (derived: {how}); claimed {}",
        round(count),
        part.id,
        per_second(most),
        per_second(value)
    );
    Some(finding("link", holds_if(low <= most * 1.000_001), line))
}

/// Returns the payload per second of one link in one direction, for I/Os of `size` bytes.
fn ceiling(claim: &Claim, part: &Part, lanes: u32, size: f64) -> Option<(f64, String)> {
    let infiniband = wire::is_infiniband(part);
    if part.id.starts_with("ethernet") || infiniband {
        let line = wire::line_bytes_per_s(part, 1).filter(|_| infiniband);
        let bytes = line.or(part.value("nominal_rate").map(|bits| bits / 8.0))?;
        let named = claim.text.protocol.as_deref().and_then(Protocol::named);
        let (name, protocol, usual) = match named {
            // RDMA packets are as long as frames allow, whose size is not given.
            Some(rdma @ Protocol::Rdma(_)) => (rdma.title(), rdma, Tcp::LEAST.mtu),
            Some(Protocol::Tcp(tcp)) => (Protocol::Tcp(tcp).title(), Protocol::Tcp(tcp), tcp.mtu),
            // InfiniBand has the smallest headers of all.
            None if infiniband => ("RDMA", Protocol::Rdma(Rdma::NVME), Tcp::LEAST.mtu),
            None => ("the leanest block protocol", Protocol::Tcp(Tcp::LEAST), Tcp::LEAST.mtu),
        };
        let mtu = claim.count("mtu").unwrap_or(usual);
        let wire = protocol.with_mtu(mtu).wire_bytes(size, infiniband);
        let how = format!("{name}, MTU {}, {} B on the wire", round(mtu), round(wire));
        return Some((bytes * size / wire, how));
    }
    let line = wire::line_bytes_per_s(part, lanes)?;
    let code = part.value("coding").unwrap_or(1.0);
    if part.id.starts_with("fc") {
        let wire = wire::fc_wire_bytes(size);
        return Some((line * size / wire, format!("code {code:.4}, frames of 2048 B")));
    }
    if let Some(slot) = room::slot(part, lanes) {
        let packets = format!(
            "{lanes} lanes, code {code:.4}, packets of {} B with the leanest header",
            slot.payload_max
        );
        return Some((room::payload_bytes_per_s(&slot, size), packets));
    }
    if part.id.starts_with("sas") {
        let share = wire::SAS_PAYLOAD_BYTES / (wire::SAS_PAYLOAD_BYTES + wire::SAS_FRAME_BYTES);
        return Some((line * share, format!("{lanes} lanes, code {code:.4}, frames of 1024 B")));
    }
    Some((line, format!("{lanes} lanes, code {code:.4}")))
}

/// Capacity cannot exceed that of all drives together; data reduction is another claim.
fn capacity(claim: &Claim) -> Option<Finding> {
    let (room, drive, drives) = (claim.amount("capacity")?, claim.drive?, claim.count("drives")?);
    let known = drive.known("capacity")?;
    let most = known.high * drives;
    let low = room.interval().0;
    let line = format!(
        "{} x {} of {}B ({}) is {}B; claimed {}B",
        round(drives),
        drive.id,
        block::Rate(known.value),
        known.kind.word(),
        block::Rate(known.value * drives),
        block::Rate(room.value)
    );
    // The claim may count the vendor's TB as TiB.
    let outcome = match () {
        () if low <= most * 1.01 => Outcome::Holds,
        () if low <= most * 1.1 => Outcome::Unclear,
        () => Outcome::Breaks,
    };
    Some(finding("capacity", outcome, line).by(known.kind))
}

/// The price of the drives, at known prices.
fn price(claim: &Claim) -> Option<Finding> {
    let (price, drive, drives) = (claim.amount("price")?, claim.drive?, claim.count("drives")?);
    let Some(each) = drive.known("price") else {
        let line = format!(
            "the price of {} is not known; the claim implies ${:.0} each",
            drive.id,
            price.value / drives
        );
        return Some(finding("price", Outcome::Unclear, line));
    };
    let line = format!(
        "{} x {} at ${:.0} ({}) is ${:.0}; claimed ${:.0}",
        round(drives),
        drive.id,
        each.value,
        each.kind.word(),
        each.value * drives,
        price.value
    );
    let (low, high) = price.interval();
    let near = low <= each.high * drives && high >= each.low * drives;
    // Prices change: a different one is no contradiction.
    let outcome = if near { Outcome::Holds } else { Outcome::Unclear };
    Some(finding("price", outcome, line).by(each.kind))
}
