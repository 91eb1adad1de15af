//! Quantities of a part: names, dimensions and plausible ranges.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::unit::Dimension;

/// A quantity of a part: name, unit and plausible range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity {
    /// Name of the quantity in data files.
    pub name: &'static str,
    /// Dimension of its unit.
    pub dimension: Dimension,
    /// Minimum plausible value, in base units.
    pub least: f64,
    /// Maximum plausible value, in base units.
    pub most: f64,
    /// True for counted or defined quantities: a value without an interval is exact.
    pub exact: bool,
    /// Description of the quantity.
    pub meaning: &'static str,
}

impl Quantity {
    /// Returns the base unit of the quantity; `number` if it has none.
    pub fn unit(&self) -> String {
        match self.dimension {
            Dimension::NUMBER => "number".to_owned(),
            Dimension::RATE if self.name == "clock" => "Hz".to_owned(),
            other => other.to_string(),
        }
    }
}

const fn measured(
    name: &'static str,
    dimension: Dimension,
    (least, most): (f64, f64),
    meaning: &'static str,
) -> Quantity {
    Quantity { name, dimension, least, most, exact: false, meaning }
}

const fn counted(name: &'static str, most: f64, meaning: &'static str) -> Quantity {
    Quantity { name, dimension: Dimension::NUMBER, least: 1.0, most, exact: true, meaning }
}

/// Returns a quantity defined by a standard or a design: a value without an interval is exact.
const fn defined(
    name: &'static str,
    dimension: Dimension,
    (least, most): (f64, f64),
    meaning: &'static str,
) -> Quantity {
    Quantity { name, dimension, least, most, exact: true, meaning }
}

/// Range of the I/Os per second of one part: from a tape robot to a rack.
const IOPS: (f64, f64) = (1.0, 1e9);
/// Range of the bytes per second of one part.
const BANDWIDTH: (f64, f64) = (1e5, 1e13);
/// Range of latencies in seconds: from one clock cycle to the spin-up of a disk.
const LATENCY: (f64, f64) = (1e-10, 60.0);
/// Range of prices, in dollars.
const PRICE: (f64, f64) = (0.5, 1e8);
/// Range of power, in watts.
const POWER: (f64, f64) = (1e-3, 1e5);

/// All quantities.
pub const QUANTITIES: &[Quantity] = &[
    measured("read_iops", Dimension::RATE, IOPS, "reads per second"),
    measured("write_iops", Dimension::RATE, IOPS, "writes per second"),
    measured("small_read_iops", Dimension::RATE, IOPS, "reads of 512 B per second"),
    measured("fresh_write_iops", Dimension::RATE, IOPS, "writes per second before flash is full"),
    measured("mix_iops", Dimension::RATE, IOPS, "I/Os per second at 70 % reads, 30 % writes"),
    measured("depth16_iops", Dimension::RATE, IOPS, "reads per second with 16 outstanding"),
    measured("depth16_latency", Dimension::TIME, LATENCY, "mean of those reads"),
    measured("depth16_p99", Dimension::TIME, LATENCY, "99 % of those reads are quicker"),
    measured("read_bandwidth", Dimension::BYTE_RATE, BANDWIDTH, "sequential reads"),
    measured("write_bandwidth", Dimension::BYTE_RATE, BANDWIDTH, "sequential writes"),
    measured("read_latency", Dimension::TIME, LATENCY, "a read alone"),
    measured("small_read_latency", Dimension::TIME, LATENCY, "a read of 512 B alone"),
    measured("write_latency", Dimension::TIME, LATENCY, "a write alone"),
    measured(
        "sync_write_latency",
        Dimension::TIME,
        LATENCY,
        "a write of 4 KiB alone with the flush after it, as fdatasync or O_DSYNC does",
    ),
    defined(
        "plp",
        Dimension::NUMBER,
        (0.0, 1.0),
        "1 if the write cache survives a loss of power, so that a flush costs nothing; 0 if not",
    ),
    defined("rpm", Dimension::NUMBER, (1000.0, 50_000.0), "turns of a disk per minute"),
    measured(
        "average_seek",
        Dimension::TIME,
        LATENCY,
        "seek of a disk between random tracks, before a read",
    ),
    measured("average_write_seek", Dimension::TIME, LATENCY, "the same before a write"),
    measured(
        "full_seek",
        Dimension::TIME,
        LATENCY,
        "seek of a disk from its first track to the last",
    ),
    measured("track_seek", Dimension::TIME, LATENCY, "seek of a disk to the next track"),
    measured("command_time", Dimension::TIME, LATENCY, "of a disk's controller for each I/O"),
    defined("cache", Dimension::BYTES, (1e3, 1e12), "memory of a disk for read-ahead"),
    measured(
        "reorder",
        Dimension::NUMBER,
        (0.01, 0.5),
        "exponent of the gain in rate of a disk with n commands",
    ),
    measured(
        "cached_write_gain",
        Dimension::NUMBER,
        (1.0, 20.0),
        "gain in writes of a disk by its write cache",
    ),
    measured("mix_factor", Dimension::NUMBER, (0.1, 100.0), "weight of a write among reads"),
    measured("iops", Dimension::RATE, IOPS, "I/Os per second through the whole part"),
    measured(
        "parity_iops",
        Dimension::RATE,
        IOPS,
        "random writes per second with parity by a card or software",
    ),
    measured("parity_bandwidth", Dimension::BYTE_RATE, BANDWIDTH, "of data with parity by a card"),
    measured("port_iops", Dimension::RATE, IOPS, "I/Os per second through one port"),
    measured("bandwidth", Dimension::BYTE_RATE, BANDWIDTH, "through the whole part"),
    measured("port_bandwidth", Dimension::BYTE_RATE, BANDWIDTH, "payload through one port"),
    measured("engine_time", Dimension::TIME, LATENCY, "of a port's engine for each I/O"),
    measured("added_latency", Dimension::TIME, LATENCY, "added by the part"),
    measured("rdma_latency", Dimension::TIME, LATENCY, "added by the part, with RDMA"),
    measured(
        "added_write_latency",
        Dimension::TIME,
        LATENCY,
        "added by the part to a write, if longer",
    ),
    defined("capacity", Dimension::BYTES, (1e3, 1e18), "for data"),
    measured("price", Dimension::MONEY, PRICE, "of one, new unless noted"),
    measured("power_active", Dimension::POWER, POWER, "at work"),
    measured("power_idle", Dimension::POWER, POWER, "idle"),
    defined("symbol_rate", Dimension::TRANSFERS, (1e8, 1e12), "of one lane, before coding"),
    defined("coding", Dimension::NUMBER, (0.5, 1.0), "share of symbols that carries data"),
    defined("nominal_rate", Dimension::BIT_RATE, (1e6, 1e13), "of the link by its name"),
    measured("framing", Dimension::NUMBER, (0.5, 1.0), "share of the data rate left to payload"),
    defined("clock", Dimension::RATE, (1e6, 1e11), "of the processor"),
    measured(
        "core_speed",
        Dimension::NUMBER,
        (0.01, 20.0),
        "speed of a thread, relative to a Xeon Scalable of 2017 in its turbo",
    ),
    measured("core_time", Dimension::TIME, LATENCY, "of a core for each I/O"),
    measured("core_time_4k", Dimension::TIME, LATENCY, "of a core for each I/O of 4 KiB"),
    measured(
        "contention",
        Dimension::NUMBER,
        (1e-4, 1.0),
        "share that each further core adds to the core time of all",
    ),
    measured(
        "core_bandwidth",
        Dimension::BYTE_RATE,
        BANDWIDTH,
        "of copies and checksums by a core, besides its time per I/O of 4 KiB",
    ),
    defined(
        "cluster",
        Dimension::NUMBER,
        (0.0, 1.0),
        "1 for copies on hosts: unknown figures are those of other clusters",
    ),
    measured(
        "daemon_read_iops",
        Dimension::RATE,
        IOPS,
        "reads of the software that serves one drive",
    ),
    measured(
        "daemon_write_iops",
        Dimension::RATE,
        IOPS,
        "writes of the software that serves one drive, each copy",
    ),
    measured(
        "daemon_read_bandwidth",
        Dimension::BYTE_RATE,
        BANDWIDTH,
        "long reads of the software that serves one drive",
    ),
    measured(
        "daemon_write_bandwidth",
        Dimension::BYTE_RATE,
        BANDWIDTH,
        "long writes of the software that serves one drive, each copy",
    ),
    measured(
        "record_bandwidth",
        Dimension::BYTE_RATE,
        BANDWIDTH,
        "of checksums and decompression of whole records by a file system",
    ),
    measured(
        "log_time",
        Dimension::TIME,
        LATENCY,
        "of a file system's log for each flushed write, one after the other",
    ),
    measured(
        "extent_time",
        Dimension::TIME,
        LATENCY,
        "of a file system to convert an unwritten extent at a first write, one at a time in a file",
    ),
    defined(
        "record",
        Dimension::BYTES,
        (512.0, 1.7e7),
        "unit in which a file system reads and writes",
    ),
    defined(
        "buffered",
        Dimension::NUMBER,
        (0.0, 1.0),
        "1 if memory acknowledges writes that are not flushed, and reads ahead",
    ),
    measured("daemon_read_time", Dimension::TIME, LATENCY, "of a core for a read of a daemon"),
    measured("daemon_write_time", Dimension::TIME, LATENCY, "of a core for each copy of a write"),
    measured(
        "drive_writes",
        Dimension::NUMBER,
        (1.0, 20.0),
        "of a drive for each copy that it writes: 2 with a journal on the same drive",
    ),
    measured(
        "client_time",
        Dimension::TIME,
        LATENCY,
        "of a client of a cluster for each I/O, which it handles one after the other",
    ),
    measured(
        "client_write_time",
        Dimension::TIME,
        LATENCY,
        "of a client of a cluster for each write, if longer",
    ),
    counted(
        "queue_depth",
        65536.0,
        "maximum commands at once; for software, I/Os in flight per thread",
    ),
    counted("channels", 65536.0, "dies or channels that work side by side"),
    counted("modules", 64.0, "devices on the card"),
    counted("ports", 1024.0, "for drives or links"),
    counted("lanes", 1024.0, "of PCI Express"),
    counted("drive_lanes", 16.0, "of PCI Express that an adapter gives each drive"),
    counted("generation", 7.0, "of PCI Express"),
    counted("slots", 64.0, "for cards"),
    counted("bays", 1024.0, "for drives"),
    counted("sockets", 64.0, "for processors"),
    counted("cores", 4096.0, "in all"),
    defined("height", Dimension::HEIGHT, (0.5, 60.0), "in a rack"),
];

/// Returns the quantity of this name.
pub fn quantity_named(name: &str) -> Option<&'static Quantity> {
    // Cached: every prediction looks up each figure of each part.
    static BY_NAME: OnceLock<BTreeMap<&str, &Quantity>> = OnceLock::new();
    let by_name = || QUANTITIES.iter().map(|quantity| (quantity.name, quantity)).collect();
    BY_NAME.get_or_init(by_name).get(name).copied()
}
