//! What parts and wires can do, at the most that any source allows.

use super::{Finding, Outcome, finding, holds_if, per_second, round};
use crate::catalogue::{Catalogue, Kind, Known, Part};
use crate::claim::Claim;
use crate::wire::{self, Tcp};

pub(super) fn rules(claim: &Claim, _: &Catalogue) -> Vec<Finding> {
    [
        drives(claim),
        drive_bandwidth(claim),
        adapters(claim),
        ports(claim),
        link(claim),
        price(claim),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// IOPS cannot exceed the drives' ratings together.
fn drives(claim: &Claim) -> Option<Finding> {
    let (iops, drive, drives) = (claim.amount("iops")?, claim.drive?, claim.count("drives")?);
    let read = claim.read_share();
    let Some((each, kind)) = most_iops(drive, read) else {
        let line = format!("what {} does at {:.0} % reads is not known", drive.id, read * 100.0);
        return Some(finding("drives", Outcome::Unclear, line));
    };
    let most = each * drives;
    let nominal = nominal_iops(drive, read).unwrap_or(each) * drives;
    let line = format!(
        "{} x {} does {} IOPS ({}), {} at the most; claimed {}, {:.1} % of it",
        round(drives),
        drive.id,
        block::Rate(nominal),
        kind.word(),
        block::Rate(most),
        block::Rate(iops.value),
        iops.value / nominal * 100.0
    );
    // Smaller I/Os than the rating's may go faster on flash.
    let small = claim.size_bytes.is_some_and(|size| size < 4096.0);
    let outcome = match iops.interval().0 <= most {
        true => Outcome::Holds,
        false if small => Outcome::Unclear,
        false => Outcome::Breaks,
    };
    Some(finding("drives", outcome, line).by(kind))
}

/// The most that a drive does at this share of reads: reads and writes do not disturb each other.
fn most_iops(drive: &Part, read: f64) -> Option<(f64, Kind)> {
    let high = |name| drive.known(name).map(|known: Known| (known.high, known.kind));
    blend(read, high("read_iops").or_else(|| high("iops")), high("write_iops"))
}

fn nominal_iops(drive: &Part, read: f64) -> Option<f64> {
    let value = |name| drive.known(name).map(|known: Known| (known.value, known.kind));
    blend(read, value("read_iops").or_else(|| value("iops")), value("write_iops"))
        .map(|(rate, _)| rate)
}

/// A rate for a share of each: the time of one I/O is the mean of both times, and as sure as the
/// less sure of them.
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

/// Bytes per second of a claim: as claimed, or IOPS times size.
fn moved(claim: &Claim) -> Option<(f64, f64)> {
    if let Some(bandwidth) = claim.amount("bandwidth") {
        let bits = bandwidth.value / crate::claim::bytes_of(bandwidth);
        return Some((bandwidth.interval().0 / bits, bandwidth.value / bits));
    }
    let (iops, size) = (claim.amount("iops")?, claim.size_bytes?);
    Some((iops.interval().0 * size, iops.value * size))
}

/// Bandwidth cannot exceed the drives' together.
fn drive_bandwidth(claim: &Claim) -> Option<Finding> {
    let (low, value) = moved(claim)?;
    let (drive, drives) = (claim.drive?, claim.count("drives")?);
    let read = claim.read_share();
    let high = |name| drive.known(name).map(|known| (known.high, known.kind));
    let (each, kind) = blend(read, high("read_bandwidth"), high("write_bandwidth"))?;
    let line = format!(
        "{} x {} moves {} at the most ({}); claimed {}",
        round(drives),
        drive.id,
        per_second(each * drives),
        kind.word(),
        per_second(value)
    );
    Some(finding("drive-bandwidth", holds_if(low <= each * drives), line).by(kind))
}

/// IOPS cannot exceed the adapters' ratings together.
fn adapters(claim: &Claim) -> Option<Finding> {
    let (iops, adapter) = (claim.amount("iops")?, claim.adapter?);
    let count = claim.count("adapters")?;
    let ports = adapter.value("ports").unwrap_or(1.0);
    let through = |name, times: f64| {
        adapter.known(name).map(|known| (known.value * times, known.high * times, known.kind))
    };
    let (nominal, most, kind) = through("iops", 1.0).or_else(|| through("port_iops", ports))?;
    let line = format!(
        "{} x {} passes {} IOPS ({}), {} at the most; claimed {}",
        round(count),
        adapter.id,
        block::Rate(nominal * count),
        kind.word(),
        block::Rate(most * count),
        block::Rate(iops.value)
    );
    Some(finding("adapters", holds_if(iops.interval().0 <= most * count), line).by(kind))
}

/// Drives need ports.
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

/// A link carries no more than its code, frames and headers leave.
fn link(claim: &Claim) -> Option<Finding> {
    let (part, lanes) = claim.link?;
    let (low, value) = moved(claim)?;
    let count = claim.count("ports").unwrap_or(1.0);
    // Reads go one way and writes the other.
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

/// Payload per second one way through one link, for I/Os of `size` bytes.
fn ceiling(claim: &Claim, part: &Part, lanes: u32, size: f64) -> Option<(f64, String)> {
    if part.id.starts_with("ethernet") {
        let bytes = part.value("nominal_rate")? / 8.0;
        let (name, mut tcp) = match claim.text.protocol.as_deref() {
            Some("iscsi") => ("iSCSI", Tcp::ISCSI),
            Some("nvme-tcp") => ("NVMe/TCP", Tcp::NVME),
            _ => ("the leanest block protocol", Tcp::LEAST),
        };
        tcp.mtu = claim.count("mtu").unwrap_or(tcp.mtu);
        let wire = tcp.wire_bytes(size);
        let how = format!("{name}, MTU {}, {} B on the wire", round(tcp.mtu), round(wire));
        return Some((bytes * size / wire, how));
    }
    let line = wire::line_bytes_per_s(part, lanes)?;
    let code = part.value("coding").unwrap_or(1.0);
    if part.id.starts_with("fc") {
        let wire = wire::fc_wire_bytes(size);
        return Some((line * size / wire, format!("code {code:.4}, frames of 2048 B")));
    }
    Some((line, format!("{lanes} lanes, code {code:.4}")))
}

/// What the drives cost at known prices.
fn price(claim: &Claim) -> Option<Finding> {
    let (price, drive, drives) = (claim.amount("price")?, claim.drive?, claim.count("drives")?);
    let Some(each) = drive.known("price") else {
        let line = format!(
            "the price of {} is not known; it would be ${:.0} each",
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
    // Prices move; another one is no contradiction.
    let outcome = if near { Outcome::Holds } else { Outcome::Unclear };
    Some(finding("price", outcome, line).by(each.kind))
}
