//! Overheads of links: line codes, frames and headers of PCI Express, Ethernet, Fibre Channel, SATA
//! and SAS.
//!
//! Each function says how many bytes a transfer takes on the wire. This is arithmetic of the
//! standards; nothing is fitted.

use catalogue::Part;

/// Ethernet: header 14, FCS 4, preamble 8, gap 12.
// IEEE 802.3 clauses 3.1.1 and 4.4.2.
pub const ETHERNET_BYTES: f64 = 38.0;
/// IPv4 and TCP headers without options.
pub const TCP_IP_BYTES: f64 = 40.0;
/// iSCSI basic header segment.
//= RFC 7143 §11.2: the BHS has 48 bytes
pub const ISCSI_BYTES: f64 = 48.0;
/// NVMe/TCP header of data to the host.
//= NVMe-TCP §3.6.2.10: C2HData has a header of 24 bytes
pub const NVME_TCP_BYTES: f64 = 24.0;
/// Fibre Channel: SOF 4, header 24, CRC 4, EOF 4, and six idle words between frames.
pub const FC_FRAME_BYTES: f64 = 60.0;
/// Most payload of a Fibre Channel frame that adapters use.
pub const FC_PAYLOAD_BYTES: f64 = 2048.0;

/// SAS: SOF 4, header 24, CRC 4, EOF 4, and the credit that goes the other way counts there.
pub const SAS_FRAME_BYTES: f64 = 36.0;
/// Most payload of a SAS data frame.
pub const SAS_PAYLOAD_BYTES: f64 = 1024.0;

/// How blocks are carried over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tcp {
    /// MTU.
    pub mtu: f64,
    /// Bytes of TCP options in each segment.
    pub options: f64,
    /// Header of each PDU of data.
    pub pdu: f64,
}

impl Tcp {
    /// iSCSI in standard frames, without TCP options.
    pub const ISCSI: Tcp = Tcp { mtu: 1500.0, options: 0.0, pdu: ISCSI_BYTES };
    /// NVMe/TCP in standard frames, without TCP options.
    pub const NVME: Tcp = Tcp { mtu: 1500.0, options: 0.0, pdu: NVME_TCP_BYTES };
    /// The least that block storage over TCP can cost: smallest header, jumbo frames.
    pub const LEAST: Tcp = Tcp { mtu: 9000.0, options: 0.0, pdu: NVME_TCP_BYTES };

    /// Bytes on the wire for one transfer of `size` bytes in one direction, PDUs back to back in
    /// full segments, as TCP packs a stream that waits.
    pub fn wire_bytes(&self, size: f64) -> f64 {
        let segment = self.mtu - TCP_IP_BYTES - self.options;
        let frame = TCP_IP_BYTES + self.options + ETHERNET_BYTES;
        let pdu = self.pdu + size;
        pdu * (segment + frame) / segment
    }
}

/// Bytes on a Fibre Channel wire for one transfer of `size` bytes.
pub fn fc_wire_bytes(size: f64) -> f64 {
    size + (size / FC_PAYLOAD_BYTES).ceil() * FC_FRAME_BYTES
}

/// A slot of PCI Express and what its requests look like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pcie {
    /// Bytes per second of one lane after its code, one way.
    pub lane_bytes_per_s: f64,
    /// Generation, 1 to 6.
    pub generation: u32,
    /// Lanes in use.
    pub lanes: u32,
    /// Most payload of a packet.
    pub payload_max: u32,
    /// Whether addresses have 64 bits.
    pub long_addresses: bool,
}

impl Pcie {
    /// Bytes per second after the code, one way.
    pub fn raw_bytes_per_s(&self) -> f64 {
        self.lane_bytes_per_s * f64::from(self.lanes)
    }

    /// Bytes per second that packets may use: acknowledgements, flow control and skips taken off.
    pub fn packet_bytes_per_s(&self) -> f64 {
        // One acknowledgement and one credit update of 8 bytes in each acknowledgement interval.
        let per_interval = 16.0 / (self.ack_symbols() * f64::from(self.lanes));
        // A skip set of 4 symbols at least every 1538 symbols.
        self.raw_bytes_per_s() * (1.0 - per_interval - 4.0 / 1538.0)
    }

    /// Symbol times within which a packet must be acknowledged: the table of the base
    /// specification, written as the formula that it is computed from.
    fn ack_symbols(&self) -> f64 {
        let factor = match (self.payload_max, self.lanes) {
            (..=256, ..=4) => 1.4,
            (..=256, 5..=8) => 2.5,
            (..=256, _) => 3.0,
            (_, ..=8) => 1.0,
            (_, _) => 2.0,
        };
        let delay = match self.generation {
            1 => 19.0,
            2 => 70.0,
            _ => 115.0,
        };
        (f64::from(self.payload_max) + 28.0) * factor / f64::from(self.lanes) + delay
    }

    /// Header of a packet: framing and link 8, header 12 or 16 with the address.
    pub fn header_bytes(&self) -> f64 {
        if self.long_addresses { 24.0 } else { 20.0 }
    }

    /// Bytes from device to host for one read of `size` bytes: the data, the request for the
    /// command, the completion entry, and the interrupt.
    pub fn read_bytes(&self, size: f64) -> f64 {
        let header = self.header_bytes();
        let packets = (size / f64::from(self.payload_max)).ceil();
        let (command, completion, interrupt) = (header, 16.0 + header, 4.0 + header);
        size + packets * header + command + completion + interrupt
    }
}

/// Bytes per second one way after the code, of all lanes; `None` for parts without a line.
pub fn line_bytes_per_s(link: &Part, lanes: u32) -> Option<f64> {
    let symbols = link.value("symbol_rate")?;
    let coding = link.value("coding")?;
    // A transfer of QPI carries two bytes, one of anything else a bit on each lane.
    if let Some(bytes) = link.value("bandwidth").filter(|_| link.id.starts_with("qpi")) {
        return Some(bytes);
    }
    Some(symbols * coding / 8.0 * f64::from(lanes))
}

#[cfg(test)]
mod test {
    use super::*;
    use catalogue::Catalogue;

    fn near(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 5e-4, "{value} is not {expected}");
    }

    #[test]
    fn codes_leave_what_the_standards_say() {
        let catalogue = Catalogue::shipped();
        let lane = |id: &str| line_bytes_per_s(catalogue.part(id).unwrap(), 1).unwrap();
        near(lane("pcie-1"), 250e6);
        near(lane("pcie-2"), 500e6);
        near(lane("pcie-3"), 984.6e6);
        near(lane("pcie-4"), 1969.2e6);
        near(lane("pcie-5"), 3938.5e6);
        near(lane("pcie-6"), 7562.5e6);
        near(lane("sata-2"), 300e6);
        near(lane("sas-2"), 600e6);
        near(lane("fc-8"), 850e6);
        near(lane("qpi-6.4"), 12.8e9);
        assert_eq!(line_bytes_per_s(catalogue.part("x25-m").unwrap(), 1), None);
    }

    #[test]
    fn iscsi_of_512_bytes_reaches_two_million_on_ten_gigabit() {
        near(1.25e9 / Tcp::ISCSI.wire_bytes(512.0), 2.1189e6);
        // Standard frames leave 94.9 % to TCP, 94.1 % with timestamps.
        let stamped = Tcp { options: 12.0, pdu: 0.0, ..Tcp::ISCSI };
        near(1e6 / stamped.wire_bytes(1e6), 0.9415);
    }

    #[test]
    fn packets_of_pci_express_cost_what_the_specification_says() {
        let slot = Pcie {
            lane_bytes_per_s: 5e8,
            generation: 2,
            lanes: 1,
            payload_max: 128,
            long_addresses: true,
        };
        // Its table has 288 symbol times for this link, 124 for four lanes, 118 for eight.
        assert_eq!(slot.ack_symbols().floor(), 288.0);
        assert_eq!(Pcie { lanes: 4, ..slot }.ack_symbols().floor(), 124.0);
        assert_eq!(Pcie { lanes: 8, ..slot }.ack_symbols().floor(), 118.0);
        assert_eq!(Pcie { payload_max: 256, ..slot }.ack_symbols().floor(), 467.0);
        assert_eq!(slot.read_bytes(4096.0), 4096.0 + 32.0 * 24.0 + 24.0 + 40.0 + 28.0);
    }

    #[test]
    fn fibre_channel_carries_what_it_is_named_after() {
        let large = 1e6;
        near(850e6 * large / fc_wire_bytes(large), 825.8e6);
    }
}
