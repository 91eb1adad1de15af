//! Bills of material: the parts of a system, and its workload.
//!
//! A bill is a TOML file or a few flags. It may add its own parts and figures, under the rules of
//! the catalogue: unit, kind, source. A bill that cannot be built is refused with its line: more
//! cards than slots, more drives than ports.

mod check;
#[cfg(test)]
mod keys;
mod layer;
mod memory;
mod read;
mod setup;

use serde::{Deserialize, Serialize};

use catalogue::Catalogue;

pub(crate) use check::LANES;
pub use layer::{Layer, Of};
pub use memory::record;
pub(crate) use read::ANY_CLUSTER;
pub use setup::{
    Cache, Down, Erasure, FlashState, HOSTS_MAX, Network, Raid, Setup, Stream, Target,
};

/// Bills that come along: name and text.
const SHIPPED: [(&str, &str); 6] = [
    ("intel-ssd", include_str!("../systems/intel-ssd.toml")),
    ("intel-iscsi", include_str!("../systems/intel-iscsi.toml")),
    ("iodrive-duo", include_str!("../systems/iodrive-duo.toml")),
    ("sas-16", include_str!("../systems/sas-16.toml")),
    ("spdk-24", include_str!("../systems/spdk-24.toml")),
    ("thirdio-fc", include_str!("../systems/thirdio-fc.toml")),
];

/// Returns the text of a built-in bill.
pub fn shipped(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Returns the names of the built-in bills, for messages.
pub fn shipped_names() -> String {
    SHIPPED.map(|(name, _)| name).join(", ")
}

/// A system of parts with its workload.
#[derive(Clone, Debug)]
pub struct Bill {
    /// Name of the bill.
    pub name: String,
    /// Server part, if one is named.
    pub server: Option<String>,
    /// Software part with the CPU time of an I/O, if named.
    pub software: Option<String>,
    /// Workload of the system.
    pub work: Work,
    /// Cards, drives and ports.
    pub groups: Vec<Group>,
    /// The catalogue, with the bill's own figures.
    pub catalogue: Catalogue,
    /// Setup of the system beyond its parts.
    pub setup: Setup,
    /// Prices of items that are in no catalogue, in dollars: (item, price).
    pub extras: Vec<(String, f64)>,
}

/// Workload of a system.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Work {
    /// I/O size in bytes.
    pub size_bytes: f64,
    /// Share of reads, 0 to 1.
    pub read_share: f64,
    /// Queue depth of each drive, or of each port if there are no drives.
    pub outstanding: u32,
    /// Number of writes between two flushes, like `fsync` of fio: 1 flushes after each; `None`
    /// never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<u32>,
}

/// Identical cards with their attached devices. Without an adapter the drives are cards themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Adapter or network card.
    pub adapter: Option<String>,
    /// Number of such cards.
    pub count: u32,
    /// Drive attached to the card.
    pub drive: Option<String>,
    /// Number of drives on each card.
    pub drives: u32,
    /// Ports in use on each card: without drives those with their own requests, with drives those
    /// that connect them.
    pub ports: u32,
    /// Link of the ports: a link of the catalogue.
    pub link: Option<String>,
    /// Bus of each drive, if it is slower than the drive: SATA, SAS or PCI Express of a generation,
    /// a link of the catalogue.
    pub bus: Option<String>,
    /// Protocol on the link, one of [`crate::wire::Protocol::NAMES`].
    pub protocol: Option<String>,
    /// Bytes of TCP options in each segment.
    pub tcp_options: u32,
    /// RAID level of the drives.
    pub raid: Raid,
    /// True if the adapter has a non-volatile write cache, and sorts its writes for HDDs.
    pub write_cache: bool,
    /// Chunk size: bytes of a stripe that are on one drive.
    pub chunk: f64,
    /// True if md has a write-intent bitmap on each drive, which is its default; `None` if the bill
    /// does not say.
    pub bitmap: Option<bool>,
    /// True if an expander or a port multiplier is between the adapter and its drives.
    pub expander: bool,
    /// Model of a drive.
    pub view: View,
    /// Contention: share of the work of all devices of the group that is serialized.
    pub contention: f64,
    /// Number of transfers that an engine of a port has in flight at once.
    pub contexts: u32,
    /// Maximum payload of a PCI Express packet in bytes.
    pub payload_max: u32,
    /// True if its packets have 64-bit addresses.
    pub long_addresses: bool,
    /// Number of the line in the file.
    pub line: usize,
}

impl Bill {
    /// Returns the number of drives of one host, spares included.
    pub fn drives(&self) -> u32 {
        let of = self.groups.iter().filter(|group| group.drive.is_some());
        of.fold(0, |sum, group| sum.saturating_add(group.devices()))
    }

    /// Returns the ratio of the total rate to that of one host: the number of hosts that are up, or
    /// fewer if there is less than one I/O in flight on each.
    pub fn host_factor(&self) -> f64 {
        let hosts = f64::from(self.setup.up());
        match self.setup.in_flight {
            Some(all) => f64::from(all) / f64::from(self.host_in_flight(all)),
            None => hosts,
        }
    }

    /// Returns the I/Os in flight on a host, of `all` on all hosts.
    pub(crate) fn host_in_flight(&self, all: u32) -> u32 {
        all.div_ceil(self.setup.up().max(1)).max(1)
    }

    /// Returns the bill with `outstanding` I/Os in flight on each drive, and the total scaled
    /// accordingly.
    pub fn deepened(&self, outstanding: u32) -> Bill {
        let mut deeper = self.clone();
        let more = f64::from(outstanding) / f64::from(self.work.outstanding.max(1));
        let all = |all: u32| (f64::from(all) * more).round().clamp(1.0, f64::from(IN_FLIGHT_MAX));
        deeper.setup.in_flight = self.setup.in_flight.map(|count| all(count) as u32);
        deeper.work.outstanding = outstanding;
        deeper
    }

    /// Describes the queue depth and the flushes: "32 in flight on each".
    pub fn in_flight(&self) -> String {
        let Work { outstanding, flush, .. } = self.work;
        let mut words = match self.setup.in_flight {
            Some(all) => format!("{all} in flight in all"),
            None => format!("{outstanding} in flight on each"),
        };
        match flush {
            Some(1) => words += ", a flush after each write",
            Some(writes) => words += &format!(", a flush after {writes} writes"),
            None => {}
        }
        words
    }

    /// Returns the number of submitting threads, if the host is not known to have no more cores
    /// than these.
    pub fn unused_cores(&self) -> Option<u32> {
        let server = self.server.as_ref().and_then(|id| self.catalogue.parts[id].value("cores"));
        let cores = self.setup.cores.map(f64::from).or(server).unwrap_or(f64::INFINITY);
        self.setup.jobs.filter(|jobs| f64::from(*jobs) < cores)
    }

    /// Returns whether the drives are attached by a network.
    pub fn is_remote(&self) -> bool {
        let linked = self.groups.iter().any(|group| group.link.is_some());
        self.drives() > 0 && (linked || self.setup.network.is_some())
    }

    /// Returns the time to rebuild a drive's data, in seconds, with the share of the drives' time
    /// that `rebuild` grants. A RAID set writes the data to one new drive; copies and erasure codes
    /// spread them over all remaining drives. `None` without a rebuild, or if a figure is unknown.
    pub fn rebuild_s(&self) -> Option<f64> {
        let Setup { rebuild, replicas, erasure, .. } = self.setup;
        let group = self.groups.iter().find(|group| group.drive.is_some())?;
        let drive = &self.catalogue.parts[group.drive.as_ref()?];
        let (read, write) = (drive.value("read_bandwidth")?, drive.value("write_bandwidth")?);
        let bytes = drive.value("capacity")?;
        if rebuild <= 0.0 {
            return None;
        }
        if replicas < 2 && erasure.is_none() {
            return Some(bytes / (rebuild * read).min(write));
        }
        let left = self.drives().saturating_mul(self.setup.hosts).saturating_sub(1).max(1);
        let reads = erasure.map_or(1.0, |code| f64::from(code.data));
        // Each byte is read `reads` times and written once, in the time that all drives grant.
        Some(bytes * (reads / read + 1.0 / write) / (rebuild * f64::from(left)))
    }

    /// Bytes left for data of all hosts that are not down, after spares, parity and the copies that
    /// can exist on them; `None` if a drive's capacity is not known, or if there are no drives.
    pub fn usable_bytes(&self) -> Option<f64> {
        let drives = self.drives();
        if drives == 0 {
            return None;
        }
        let mut bytes = 0.0;
        for group in self.groups.iter().filter(|group| group.drive.is_some()) {
            let drive = &self.catalogue.parts[group.drive.as_ref()?];
            let set = self.setup.width.unwrap_or(drives.saturating_sub(self.setup.spares));
            let each = drive.value("capacity")? * group.raid.usable(set);
            bytes += each * f64::from(group.devices());
        }
        let held = f64::from(drives.saturating_sub(self.setup.spares)) / f64::from(drives);
        let share = match self.setup.erasure {
            Some(code) => f64::from(code.data) / f64::from(code.width()),
            None => 1.0 / f64::from(self.setup.copies()),
        };
        Some(bytes * held * f64::from(self.setup.up()) * share)
    }
}

/// Model of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// One server at the drive's rating.
    #[default]
    Rated,
    /// Parallel channels, each I/O at a random one.
    Channels,
    /// The rate of the slot: a device whose flash is faster than its link.
    Link,
}

/// Reason why a bill was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {reason}")]
pub struct BillError {
    /// File name as the caller gave it.
    pub file: String,
    /// Number of the line, from 1.
    pub line: usize,
    /// Error and remedy.
    pub reason: String,
}

/// Default chunk size: cards have 64 to 256 KiB, md 512 KiB.
pub(crate) const CHUNK_BYTES: f64 = 131_072.0;

/// Returns the maximum payload that most chipsets allow.
fn payload() -> u32 {
    256
}

/// Maximum number of I/Os in flight of a whole bill: the maximum of a class of the model.
pub const IN_FLIGHT_MAX: u32 = 1 << 20;

/// Maximum number of drives and ports of a host. Each is a class with its own stations, and `model`
/// has state for each pair of them.
pub const DEVICES_MAX: u32 = 2048;

impl Group {
    /// Creates a group of `count` cards of `adapter` with `drives` drives each.
    pub fn of_drives(adapter: Option<&str>, count: u32, drive: &str, drives: u32) -> Group {
        Group {
            adapter: adapter.map(str::to_owned),
            count,
            drive: Some(drive.to_owned()),
            drives,
            ports: 0,
            link: None,
            bus: None,
            protocol: None,
            tcp_options: 0,
            raid: Raid::None,
            write_cache: false,
            chunk: CHUNK_BYTES,
            bitmap: None,
            expander: false,
            view: View::Rated,
            contention: 0.0,
            contexts: 1,
            payload_max: payload(),
            long_addresses: true,
            line: 1,
        }
    }

    /// Returns the number of drives, or ports, of all its cards.
    pub fn devices(&self) -> u32 {
        let each = if self.drive.is_some() { self.drives } else { self.ports };
        self.count.saturating_mul(each)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const HEAD: &str = "name = 'x'\nserver = 'sr2625urlx'\nsize = '4k'\noutstanding = 32\n";

    fn read(text: &str) -> Result<Bill, String> {
        let bill = Bill::read("b.toml", text, &Catalogue::shipped());
        bill.map_err(|error| error.to_string())
    }

    #[test]
    fn reads_a_bill_with_a_part_of_its_own() {
        let own = "[[group]]\ndrive = 'mine'\ncount = 3\n[source.me]\ntitle = 'measured here'\n\
            [[part]]\nid = 'mine'\nname = 'Mine'\nclass = 'drive'\ninterface = 'pcie'\n\
            figures = [{ is = 'read_iops', value = 5e5, unit = 'IOPS', kind = 'measured', \
            source = 'me' }]\n[[figure]]\npart = 'mine'\nis = 'read_iops'\nvalue = 6e5\n\
            unit = 'IOPS'\nkind = 'measured'\nsource = 'me'\n";
        let bill = read(&format!("{HEAD}{own}")).unwrap();
        assert_eq!(bill.groups[0].devices(), 3);
        // The bill's figure precedes the part's own, and both remain.
        assert_eq!(bill.catalogue.parts["mine"].value("read_iops"), Some(6e5));
        assert_eq!(bill.catalogue.parts["mine"].figures["read_iops"].len(), 2);
        assert!(!Catalogue::shipped().parts.contains_key("mine"));
    }

    #[test]
    fn lanes_and_bays_are_counted() {
        let wide = "name = 'x'\nserver = 'm50cyp'\nsize = '4k'\noutstanding = 32\n[[group]]\n\
            drive = 'micron-9550-max-3200'\ncount = ";
        assert!(read(&format!("{wide}32\n")).is_ok());
        let error = read(&format!("{wide}33\n")).unwrap_err();
        assert!(error.starts_with("b.toml:5: 132 lanes so far of the 128"), "{error}");
        let bays = "[[group]]\nadapter = 'lsi-9210-8i'\ncount = 4\ndrive = 'x25-m'\ndrives = 8\n\
            [[figure]]\npart = 'sr2625urlx'\nis = 'bays'\nvalue = 24\nkind = 'spec'\n\
            source = 'ark-intel'\n";
        let error = read(&format!("{HEAD}{bays}")).unwrap_err();
        assert!(error.contains("32 drives so far in 24 bays"), "{error}");
    }

    #[test]
    fn a_host_holds_two_thousand_drives_and_the_rate_is_theirs() {
        let bill = |drives: u32| {
            let text = format!(
                "name = 'x'\nsize = '4k'\noutstanding = 4\n[[group]]\ncount = {drives}\n\
                 drive = 'x25-m'\n"
            );
            read(&text)
        };
        let rate = |drives| {
            let tweak = crate::system::Tweak::default();
            crate::predict::predict(&bill(drives).unwrap(), &tweak).unwrap().iops
        };
        // One drive is solved exactly, many are not.
        let share = rate(DEVICES_MAX) / rate(1) / f64::from(DEVICES_MAX);
        assert!((0.98..1.02).contains(&share), "{share}");
        assert!(bill(DEVICES_MAX + 1).unwrap_err().contains("2049 drives"));
    }

    #[test]
    fn drives_hang_on_slower_links() {
        let rate = |drive: &str, size: &str, link: &str| {
            let text = format!(
                "name = 'x'\nsize = '{size}'\noutstanding = 32\nsequential = true\n[[group]]\n\
                 drive = '{drive}'\n{link}\n"
            );
            let bill = read(&text)?;
            let found = crate::predict::predict(&bill, &crate::system::Tweak::default());
            found.map(|found| found.bytes_per_s).map_err(|error| error.to_string())
        };
        // 3 Gb/s are 300 MB/s after encoding, and 279 of data.
        let (free, slow) =
            (rate("dc600m-960", "1m", ""), rate("dc600m-960", "1m", "link = 'sata-2'"));
        assert!((free.unwrap() / 560e6 - 1.0).abs() < 0.01);
        assert!((slow.unwrap() / 279e6 - 1.0).abs() < 0.01);
        let short = rate("dc600m-960", "4k", "link = 'sata-2'").unwrap();
        assert!((0.9..1.001).contains(&(short / 279e6)), "94,000 reads of 4 KiB do not fit");
        // A link that is fast enough changes nothing.
        let same = rate("x25-m", "1m", "link = 'sata-3'").unwrap();
        assert_eq!(same, rate("x25-m", "1m", "").unwrap());
        let older = rate("micron-9550-max-3200", "1m", "link = 'pcie-3'").unwrap();
        assert!((3.0e9..3.7e9).contains(&older), "{older}");
        for (drive, link, reason) in [
            ("micron-9550-max-3200", "link = 'sata-3'", "drive of pcie: no sata-3"),
            ("x25-m", "link = 'pcie-3'", "drive of sata: no pcie-3"),
            ("x25-m", "link = 'sata-2'\nports = 1", "no network"),
        ] {
            let error = rate(drive, "4k", link).unwrap_err();
            assert!(error.contains(reason), "'{error}' lacks '{reason}'");
        }
        let alone = read(&format!(
            "{HEAD}[[group]]\nadapter = 'lsi-9210-8i'\nports = 1\nlink = 'sata-2'\n"
        ));
        assert!(alone.unwrap_err().contains("name the drive"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text: String) {
            let _ = read(&text);
            let _ = read(&format!("{HEAD}[[group]]\n{text}"));
        }
    }

    #[test]
    fn refuses_what_cannot_be_built_with_its_line() {
        for (group, line, reason) in [
            ("adapter = 'lsi-9210-8i'\ncount = 6\ndrive = 'x25-m'\ndrives = 4", 5, "6 cards"),
            ("adapter = 'lsi-9210-8i'\ndrive = 'x25-m'\ndrives = 9", 5, "9 on each"),
            ("drive = 'iodrive-duo'\ncount = 6", 5, "6 cards so far in the 5 slots"),
            ("drive = 'nosuch'", 5, "no part is called"),
            ("adapter = 'x25-m'\ndrive = 'x25-m'", 5, "no adapter"),
            ("drive = 'lsi-9210-8i'", 5, "no drive"),
            ("adapter = 'x520'", 5, "a drive, ports, or ports that lead"),
            ("drive = 'x25-m'\nports = 1", 5, "name their link"),
            ("drive = 'x25-m'\ncount = 0", 1, "0 drives and ports"),
            (
                "drive = 'x25-m'\n[[group]]\ncount = 4000000000\ndrive = 'x25-m'\ndrives = 0",
                7,
                "cards",
            ),
            ("drive = 'x25-m'\ncontexts = 99", 5, "contexts"),
            ("drive = 'x25-m'\ntcp_options = 41", 5, "0 to 40 bytes"),
            ("drive = 'x25-m'\nraid = '5'", 5, "3 drives at least"),
            ("drives = 2\nports = 1", 5, "without a drive"),
            ("drive = 'x25-m'\n[[extra]]\nwhat = 'rack'\nprice = nan", 1, "extra 'rack'"),
            ("drive = 'x25-m'\n[[extra]]\nwhat = 'gift'\nprice = -1", 1, "extra 'gift'"),
            ("drive = 'x25-m'\ncount = 4000000000\ndrives = 4000000000", 1, "drives and ports"),
            ("drive = 'x25-m'\ncontention = nan", 5, "contention"),
            ("drive = 'x25-m'\ncolour = 1", 7, "unknown field"),
            ("drive = 'x25-m'\n[[figure]]\nis = 'price'\nvalue = 1\nkind = 'guess'", 7, "part"),
        ] {
            let error = read(&format!("{HEAD}[[group]]\n{group}\n")).unwrap_err();
            assert!(error.starts_with(&format!("b.toml:{line}: ")), "{error}, not line {line}");
            assert!(error.contains(reason), "'{error}' lacks '{reason}'");
        }
        let two = "[[group]]\nadapter = 'lsi-9210-8i'\ncount = 4\ndrive = 'x25-m'\n\
            [[group]]\ndrive = 'iodrive-duo'\ncount = 2\n";
        let error = read(&format!("{HEAD}{two}")).unwrap_err();
        assert!(error.starts_with("b.toml:9: 6 cards so far"), "{error}");
        for (from, to, reason) in [
            ("size = '4k'", "size = '0'", "I/Os of 0 bytes"),
            ("size = '4k'", "size = '1025m'", "1 to 1g are possible"),
            ("size = '4k'", "size = 'big'", "not a size"),
            ("outstanding = 32", "outstanding = 0", "0 outstanding"),
            ("outstanding = 32", "outstanding = 32\nread = 101", "101 % of reads"),
            ("server = 'sr2625urlx'", "server = 'x25-m'", "no server"),
        ] {
            let text = format!("{}[[group]]\ndrive = 'x25-m'\n", HEAD.replace(from, to));
            let error = read(&text).unwrap_err();
            assert!(error.contains(reason), "'{error}' lacks '{reason}'");
        }
        let longest = HEAD.replace("size = '4k'", "size = '1g'");
        read(&format!("{longest}[[group]]\ndrive = 'x25-m'\nchunk = '1g'\n")).unwrap();
    }
}
