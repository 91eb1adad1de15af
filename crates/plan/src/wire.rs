//! Overheads of links: line codes, frames and headers of PCI Express, Ethernet, InfiniBand, Fibre
//! Channel, SATA and SAS.
//!
//! Each function returns the number of bytes of a transfer on the wire. This is arithmetic of the
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
/// Header of a reply with data in NBD.
// NBD protocol: simple reply message, magic 4, error 4, cookie 8.
pub const NBD_BYTES: f64 = 16.0;
/// RoCE v2 in each packet: IPv4 20, UDP 8, BTH 12, ICRC 4.
// InfiniBand Architecture, volume 1, annex A17 (RoCE v2).
pub const ROCE_BYTES: f64 = ETHERNET_BYTES + 44.0;
/// InfiniBand in each packet of a subnet: LRH 8, BTH 12, ICRC 4, VCRC 2.
// InfiniBand Architecture, volume 1, chapter 5.
pub const INFINIBAND_BYTES: f64 = 26.0;
/// Header of an RDMA write or read, in its first packet.
pub const RETH_BYTES: f64 = 16.0;
/// Completion of NVMe, a separate packet over RDMA.
pub const NVME_COMPLETION_BYTES: f64 = 16.0;
/// iSER: its header, and the basic header segment of the response.
//= RFC 7145 §9.2: the iSER header of the control type has 28 bytes
pub const ISER_BYTES: f64 = 28.0 + ISCSI_BYTES;
/// Fibre Channel: SOF 4, header 24, CRC 4, EOF 4, and six idle words between frames.
pub const FC_FRAME_BYTES: f64 = 60.0;
/// Maximum payload of a Fibre Channel frame that adapters use.
pub const FC_PAYLOAD_BYTES: f64 = 2048.0;

/// SAS: SOF 4, header 24, CRC 4, EOF 4; the credit in the opposite direction counts there.
pub const SAS_FRAME_BYTES: f64 = 36.0;
/// Maximum payload of a SAS data frame.
pub const SAS_PAYLOAD_BYTES: f64 = 1024.0;

/// Block protocol over TCP on Ethernet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tcp {
    /// MTU.
    pub mtu: f64,
    /// Bytes of TCP options in each segment.
    pub options: f64,
    /// Header of each data PDU.
    pub pdu: f64,
}

impl Tcp {
    /// iSCSI in standard frames, without TCP options.
    pub const ISCSI: Tcp = Tcp { mtu: 1500.0, options: 0.0, pdu: ISCSI_BYTES };
    /// NVMe/TCP in standard frames, without TCP options.
    pub const NVME: Tcp = Tcp { mtu: 1500.0, options: 0.0, pdu: NVME_TCP_BYTES };
    /// NBD in standard frames, without TCP options.
    pub const NBD: Tcp = Tcp { mtu: 1500.0, options: 0.0, pdu: NBD_BYTES };
    /// Minimum overhead of block storage over TCP: smallest header, jumbo frames.
    pub const LEAST: Tcp = Tcp { mtu: 9000.0, options: 0.0, pdu: NVME_TCP_BYTES };

    /// Returns the bytes on the wire for one transfer of `size` bytes in one direction, PDUs back
    /// to back in full segments, as TCP packs a stream that waits.
    pub fn wire_bytes(&self, size: f64) -> f64 {
        let segment = self.mtu - TCP_IP_BYTES - self.options;
        let frame = TCP_IP_BYTES + self.options + ETHERNET_BYTES;
        let pdu = self.pdu + size;
        pdu * (segment + frame) / segment
    }
}

/// Block protocol over RDMA.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rdma {
    /// Maximum payload of a packet on Ethernet: 1024 in standard frames, 4096 in jumbo frames.
    pub payload: f64,
    /// Payload of the packet that completes a command.
    pub response: f64,
}

impl Rdma {
    /// NVMe/RDMA in standard frames.
    pub const NVME: Rdma = Rdma { payload: 1024.0, response: NVME_COMPLETION_BYTES };
    /// iSER in standard frames.
    pub const ISER: Rdma = Rdma { payload: 1024.0, response: ISER_BYTES };
    /// Maximum payload of a packet of InfiniBand, and of any.
    pub const MOST: f64 = 4096.0;

    /// Returns the bytes on the wire for one transfer of `size` bytes in one direction: the packets
    /// of data, and the one that completes the command.
    pub fn wire_bytes(&self, size: f64, infiniband: bool) -> f64 {
        let (header, payload) = match infiniband {
            true => (INFINIBAND_BYTES, Rdma::MOST),
            false => (ROCE_BYTES, self.payload),
        };
        let packets = (size / payload).ceil();
        size + packets * header + RETH_BYTES + header + self.response
    }
}

/// Block protocol of a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Protocol {
    /// A TCP stream.
    Tcp(Tcp),
    /// RDMA.
    Rdma(Rdma),
}

impl Protocol {
    /// Names of the protocols in bills and claims.
    pub const NAMES: [&str; 5] = ["iscsi", "nvme-tcp", "nvme-rdma", "iser", "nbd"];

    /// Returns the protocol of a name; `None` for any other name.
    pub fn named(name: &str) -> Option<Protocol> {
        Some(match name {
            "iscsi" => Protocol::Tcp(Tcp::ISCSI),
            "nvme-tcp" => Protocol::Tcp(Tcp::NVME),
            "nvme-rdma" => Protocol::Rdma(Rdma::NVME),
            "iser" => Protocol::Rdma(Rdma::ISER),
            "nbd" => Protocol::Tcp(Tcp::NBD),
            _ => return None,
        })
    }

    /// Returns the title of the protocol.
    pub fn title(&self) -> &'static str {
        match self {
            Protocol::Tcp(tcp) if tcp.pdu == ISCSI_BYTES => "iSCSI",
            Protocol::Tcp(tcp) if tcp.pdu == NBD_BYTES => "NBD",
            Protocol::Tcp(_) => "NVMe/TCP",
            Protocol::Rdma(rdma) if rdma.response == ISER_BYTES => "iSER",
            Protocol::Rdma(_) => "NVMe/RDMA",
        }
    }

    /// Returns the protocol in frames of this MTU. RDMA uses the next power of two below it.
    #[must_use]
    pub fn with_mtu(self, mtu: f64) -> Protocol {
        match self {
            Protocol::Tcp(tcp) => Protocol::Tcp(Tcp { mtu, ..tcp }),
            Protocol::Rdma(rdma) => {
                let sizes = [256.0, 512.0, 1024.0, 2048.0, Rdma::MOST];
                let fits = |payload: &f64| payload + ROCE_BYTES - ETHERNET_BYTES <= mtu;
                let payload = sizes.into_iter().rev().find(fits).unwrap_or(sizes[0]);
                Protocol::Rdma(Rdma { payload, ..rdma })
            }
        }
    }

    /// Returns the bytes on the wire for one transfer of `size` bytes in one direction.
    pub fn wire_bytes(&self, size: f64, infiniband: bool) -> f64 {
        match self {
            Protocol::Tcp(tcp) => tcp.wire_bytes(size),
            Protocol::Rdma(rdma) => rdma.wire_bytes(size, infiniband),
        }
    }
}

/// Returns whether a link is InfiniBand.
pub fn is_infiniband(link: &Part) -> bool {
    link.id.starts_with("ib-")
}

/// Returns the bytes on a Fibre Channel wire for one transfer of `size` bytes.
pub fn fc_wire_bytes(size: f64) -> f64 {
    size + (size / FC_PAYLOAD_BYTES).ceil() * FC_FRAME_BYTES
}

/// A slot of PCI Express with the properties of its requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pcie {
    /// Bytes per second of one lane after its line code, in one direction.
    pub lane_bytes_per_s: f64,
    /// Generation, 1 to 6.
    pub generation: u32,
    /// Lanes in use.
    pub lanes: u32,
    /// Maximum payload of a packet in bytes.
    pub payload_max: u32,
    /// True if addresses have 64 bits.
    pub long_addresses: bool,
}

impl Pcie {
    /// Returns the bytes per second after the line code, in one direction.
    pub fn raw_bytes_per_s(&self) -> f64 {
        self.lane_bytes_per_s * f64::from(self.lanes)
    }

    /// Returns the bytes per second for packets: without acknowledgements, flow control and skips.
    pub fn packet_bytes_per_s(&self) -> f64 {
        // One acknowledgement and one credit update of 8 bytes in each acknowledgement interval.
        let per_interval = 16.0 / (self.ack_symbols() * f64::from(self.lanes));
        // A skip set of at least 4 symbols every 1538 symbols.
        self.raw_bytes_per_s() * (1.0 - per_interval - 4.0 / 1538.0)
    }

    /// Returns the symbol times within which a packet must be acknowledged: the table of the base
    /// specification, as the formula behind it.
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

    /// Returns the header size of a packet: framing and link 8, header 12 or 16 with the address.
    pub fn header_bytes(&self) -> f64 {
        if self.long_addresses { 24.0 } else { 20.0 }
    }

    /// Returns the bytes from device to host for one read of `size` bytes: the data, the request
    /// for the command, the completion entry, and the interrupt.
    pub fn read_bytes(&self, size: f64) -> f64 {
        let header = self.header_bytes();
        let packets = (size / f64::from(self.payload_max)).ceil();
        let (command, completion, interrupt) = (header, 16.0 + header, 4.0 + header);
        size + packets * header + command + completion + interrupt
    }
}

/// Returns the bytes per second in one direction after the line code, of all lanes; `None` for
/// parts without a line.
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
    fn rdma_costs_its_packets_and_a_completion() {
        // Four packets of 82 bytes of frame and headers, an RETH, and a completion of 16 + 82.
        let roce = Protocol::named("nvme-rdma").unwrap();
        assert_eq!(roce.wire_bytes(4096.0, false), 4096.0 + 4.0 * 82.0 + 16.0 + 98.0);
        // One packet in jumbo frames: 2.91 million of 4 KiB on 100 Gb/s.
        near(12.5e9 / roce.with_mtu(9000.0).wire_bytes(4096.0, false), 2.9125e6);
        assert_eq!(roce.with_mtu(1500.0), roce);
        assert_eq!(roce.wire_bytes(4096.0, true), 4096.0 + 26.0 + 16.0 + 42.0);
        let iser = Protocol::named("iser").unwrap();
        assert_eq!(iser.wire_bytes(4096.0, false) - roce.wire_bytes(4096.0, false), 60.0);
        for name in Protocol::NAMES {
            let protocol = Protocol::named(name).unwrap();
            let title = protocol.title().to_ascii_lowercase().replace('/', "-");
            assert_eq!(title, name);
            // The most favourable bound of claims is below all of them.
            assert!(protocol.wire_bytes(4096.0, true) > 4096.0);
            assert!(
                protocol.with_mtu(9000.0).wire_bytes(4096.0, false)
                    >= Tcp::LEAST.wire_bytes(4096.0) - 8.1,
                "{name}"
            );
        }
        assert_eq!(Protocol::named("nfs"), None);
    }

    #[test]
    fn infiniband_carries_what_its_code_leaves() {
        let catalogue = Catalogue::shipped();
        let line = |id: &str| line_bytes_per_s(catalogue.part(id).unwrap(), 1).unwrap() * 8.0;
        near(line("ib-qdr"), 32e9);
        near(line("ib-fdr"), 54.545e9);
        near(line("ib-edr"), 100e9);
        near(line("ib-hdr"), 200e9);
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
        // The table of the specification has 288 symbol times for this link, 124 for four lanes,
        // 118 for eight.
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
