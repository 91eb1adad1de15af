//! Bandwidth of slots and lanes after the packet headers of PCI Express.

use super::{beyond, moved};
use crate::audit::{Finding, finding, per_second, round};
use crate::claim::Claim;
use crate::wire::{self, Pcie};
use catalogue::{Catalogue, Kind, Part};

/// Maximum payload of a packet that root ports of servers use, in bytes.
const PAYLOAD_MAX: u32 = 512;
/// Header of a packet in flit mode, which has no framing of its own, in bytes.
const FLIT_HEADER_BYTES: f64 = 12.0;

pub(super) fn rules(claim: &Claim, catalogue: &Catalogue) -> Vec<Finding> {
    [adapter_bandwidth(claim), cards(claim, catalogue, true), cards(claim, catalogue, false)]
        .into_iter()
        .flatten()
        .collect()
}

/// Checks the bandwidth, which cannot exceed that of all adapters. Reads use one direction and
/// writes the other.
fn adapter_bandwidth(claim: &Claim) -> Option<Finding> {
    let (low, value) = moved(claim)?;
    let adapter = claim.adapter?;
    let count = claim.count("adapters").unwrap_or(1.0);
    let ports = adapter.value("ports").unwrap_or(1.0);
    let through = |name, times: f64| {
        adapter.known(name).map(|known| (known.high * times * count, known.kind))
    };
    let (most, kind) = through("bandwidth", 1.0).or_else(|| through("port_bandwidth", ports))?;
    let (outcome, note) = beyond(low * one_way(claim), most, kind);
    let line = format!(
        "{} x {} moves {} one way at the most ({}); claimed {}{note}",
        round(count),
        adapter.id,
        per_second(most),
        kind.word(),
        per_second(value)
    );
    Some(finding("adapter-bandwidth", outcome, line).by(kind))
}

/// Checks that cards transfer no more than their lanes carry: adapters, or drives that are cards
/// themselves.
fn cards(claim: &Claim, catalogue: &Catalogue, adapters: bool) -> Option<Finding> {
    let (low, value) = moved(claim)?;
    let (part, count) = match adapters {
        true => (claim.adapter?, claim.count("adapters").unwrap_or(1.0)),
        false => (claim.drive?, claim.count("drives")?),
    };
    let (generation, lanes) = (part.value("generation")?, part.value("lanes")?);
    let link = catalogue.parts.get(&format!("pcie-{generation}"))?;
    let slot = slot(link, lanes as u32)?;
    let size = claim.size_bytes.unwrap_or(65536.0);
    let most = payload_bytes_per_s(&slot, size) * count / one_way(claim);
    let line = format!(
        "{} x {} on PCIe {generation} x{lanes} carries {} of payload (derived: packets of \
         {PAYLOAD_MAX} B with the leanest header); claimed {}",
        round(count),
        part.id,
        per_second(most),
        per_second(value)
    );
    let outcome = beyond(low, most * 1.000_001, Kind::Derived).0;
    Some(finding("slot", outcome, line))
}

/// Returns the share of the busier direction.
fn one_way(claim: &Claim) -> f64 {
    let read = claim.read_share();
    read.max(1.0 - read)
}

/// Returns the most favourable slot of servers; `None` for links other than PCI Express.
pub(super) fn slot(link: &Part, lanes: u32) -> Option<Pcie> {
    let generation = link.id.strip_prefix("pcie-")?.parse().ok()?;
    Some(Pcie {
        lane_bytes_per_s: wire::line_bytes_per_s(link, 1)?,
        generation,
        lanes,
        payload_max: PAYLOAD_MAX,
        long_addresses: false,
    })
}

/// Returns the payload in one direction for transfers of `size` bytes: no commands, no completions,
/// whole packets.
pub(super) fn payload_bytes_per_s(slot: &Pcie, size: f64) -> f64 {
    let header = if slot.generation >= 6 { FLIT_HEADER_BYTES } else { slot.header_bytes() };
    let packets = (size / f64::from(slot.payload_max)).ceil();
    slot.packet_bytes_per_s() * size / (size + packets * header)
}
