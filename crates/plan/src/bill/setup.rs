//! Setup of a bill beyond its parts: hosts, networks, copies, RAID, caches, targets.

use super::{Layer, Work};
use serde::{Deserialize, Serialize};

use catalogue::{Catalogue, Class};

/// Maximum number of hosts of a cluster.
pub const HOSTS_MAX: u32 = 100_000;

/// Setup of a system beyond its parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setup {
    /// Number of submitting threads, each on its own core; `None` for as many as there are cores.
    pub jobs: Option<u32>,
    /// Number of identical hosts that share the work. The bill's parts are those of one.
    pub hosts: u32,
    /// Number of copies of the data, on different hosts.
    pub replicas: u32,
    /// State of the flash: worn or fresh.
    pub state: FlashState,
    /// Cache in front of the drives.
    pub cache: Option<Cache>,
    /// Target on the network, whose CPUs serve the drives.
    pub target: Option<Target>,
    /// Number of drives of one parity set; `None` for all of a group.
    pub width: Option<u32>,
    /// Number of spare drives of each host, which have no data until another drive fails.
    pub spares: u32,
    /// Failed drives and hosts, before they are replaced.
    pub down: Down,
    /// True if I/Os are sequential, so that no head moves.
    pub sequential: bool,
    /// Erasure code across hosts, instead of copies.
    pub erasure: Option<Erasure>,
    /// Share of the time of each drive, 0 to 1, that a rebuild uses.
    pub rebuild: f64,
    /// Further concurrent workloads.
    pub streams: Vec<Stream>,
    /// True if reads of other streams are between its writes.
    pub among_reads: bool,
    /// Number of cores of each host, if no server part defines it.
    pub cores: Option<u32>,
    /// Ports of each host of a cluster, for its clients and for the copies.
    pub network: Option<Network>,
    /// Number of client machines, or volumes, of a cluster, each with the ports of a host; `None`
    /// for as many as needed.
    pub clients: Option<u32>,
    /// Number of daemons of the software, such as OSDs of Ceph, that share each drive.
    pub daemons: u32,
    /// True if a file system writes its journal with each flush, as ext4 and XFS do for `fsync`.
    pub journal: bool,
    /// Number of files with unwritten extents that random writes go to: a file system converts an
    /// unwritten extent at each first write of a block; 0 for none.
    pub unwritten: u32,
    /// Further layers of I/Os on each host.
    pub layers: Vec<Layer>,
    /// Virtual disk of a guest, above the software of its host.
    pub guest: Option<Guest>,
    /// Total queue depth of all drives of all hosts, each I/O on a random drive.
    pub in_flight: Option<u32>,
    /// Bytes of the records that a file system reads and writes whole; `None` for those of its
    /// software, if it has any.
    pub record: Option<u32>,
    /// Bytes of all drives together over which random I/Os are spread, such as the size of a test
    /// file; `None` for the whole capacity.
    pub span: Option<f64>,
    /// True if memory acknowledges writes without a flush, and reads ahead; `None` for the default
    /// of the software.
    pub buffered: Option<bool>,
}

/// Ports of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Network {
    /// Link of the ports: a link of the catalogue.
    pub link: String,
    /// Number of ports.
    pub ports: u32,
}

impl Network {
    /// Maximum number of ports of a host.
    const PORTS_MAX: u32 = 64;

    /// Reads "10GbE", "2x25GbE" or "2 x ethernet-25"; the error is the reason.
    fn read(text: &str, catalogue: &Catalogue) -> Result<Network, String> {
        let times = |text: &str| {
            let (count, link) = text.split_once(['x', 'X'])?;
            Some((count.trim().parse::<u32>().ok()?, link.trim().to_owned()))
        };
        let (ports, name) = times(text).unwrap_or((1, text.trim().to_owned()));
        if !(1..=Network::PORTS_MAX).contains(&ports) {
            return Err(format!("network: {ports} ports: 1 to {}", Network::PORTS_MAX));
        }
        let part = catalogue.part(&name).map_err(|error| format!("network: {error}"))?;
        let network = ["ethernet", "fc", "ib-"].iter().any(|kind| part.id.starts_with(kind));
        if part.class != Class::Link || !network {
            return Err(format!("network: {} is no network: name one, such as 25GbE", part.id));
        }
        Ok(Network { link: part.id.clone(), ports })
    }
}

/// A workload concurrent with others on the same drives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stream {
    /// Workload of the stream.
    pub work: Work,
    /// True if the I/Os are sequential.
    pub sequential: bool,
}

/// Erasure code with `data` data chunks and `parity` parity chunks, each on another host; as many
/// hosts as `parity` may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Erasure {
    /// Number of data chunks, k.
    pub data: u32,
    /// Number of parity chunks, m.
    pub parity: u32,
}

impl Erasure {
    /// Reads "4+2".
    fn read(text: &str) -> Option<Erasure> {
        let (data, parity) = text.split_once('+')?;
        let code = Erasure { data: data.trim().parse().ok()?, parity: parity.trim().parse().ok()? };
        ((2..=64).contains(&code.data) && (1..=16).contains(&code.parity)).then_some(code)
    }

    /// Returns the number of all chunks.
    pub fn width(self) -> u32 {
        self.data + self.parity
    }
}

/// Failed drives and hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Down {
    /// Failed drives of a host. Work is spread evenly, so all hosts are as slow as that one.
    pub drives: u32,
    /// Failed hosts of a cluster.
    pub hosts: u32,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            jobs: None,
            hosts: 1,
            replicas: 1,
            state: FlashState::Worn,
            cache: None,
            target: None,
            width: None,
            spares: 0,
            down: Down::default(),
            sequential: false,
            erasure: None,
            rebuild: 0.0,
            streams: Vec::new(),
            among_reads: false,
            cores: None,
            network: None,
            clients: None,
            daemons: 1,
            journal: false,
            unwritten: 0,
            layers: Vec::new(),
            guest: None,
            in_flight: None,
            record: None,
            span: None,
            buffered: None,
        }
    }
}

impl Setup {
    /// Returns the writes that reach drives for each write of the workload, including the journal
    /// if one in `flush` of them is flushed.
    pub(crate) fn with_journal(&self, flush: Option<u32>) -> f64 {
        match flush {
            Some(every) if self.journal => 1.0 + 1.0 / f64::from(every.max(1)),
            _ => 1.0,
        }
    }

    /// Returns the number of hosts that are up.
    pub fn up(&self) -> u32 {
        self.hosts.saturating_sub(self.down.hosts)
    }

    /// Copies of the data that exist: each is on another host, so that hosts which are down may
    /// leave fewer than `replicas`. 1 with erasure coding.
    pub fn copies(&self) -> u32 {
        self.replicas.min(self.up()).max(1)
    }

    /// Number of hosts that may fail before data is lost.
    pub fn survives(&self) -> u32 {
        self.erasure.map_or(self.replicas - 1, |code| code.parity)
    }

    /// Returns the reads and writes of drives for a write of the workload, over all hosts. A small
    /// write reads the old data and the parities and rewrites them; sequential writes are whole
    /// stripes.
    pub fn host_writes(&self) -> (f64, f64) {
        match self.erasure {
            None => (0.0, f64::from(self.copies())),
            Some(code) if self.sequential => (0.0, f64::from(code.width()) / f64::from(code.data)),
            Some(code) => {
                let each = f64::from(1 + code.parity);
                (each, each)
            }
        }
    }

    /// Returns the traffic of a host's ports for each I/O, in I/Os of its size, in the busier
    /// direction. A write arrives once for each copy, and the host that receives it sends the
    /// others on.
    pub fn carried(&self, reads: f64, writes: f64) -> f64 {
        let copies = match self.erasure {
            Some(code) => f64::from(code.width()) / f64::from(code.data),
            None => f64::from(self.copies()),
        };
        (reads + writes * (copies - 1.0)).max(writes * copies)
    }

    /// Returns the reads of drives for a read while hosts are down: their data are reconstructed
    /// from as many chunks of the others as there are of data.
    pub fn host_reads(&self) -> f64 {
        let lost = f64::from(self.down.hosts) / f64::from(self.hosts.max(1));
        self.erasure.map_or(1.0, |code| 1.0 - lost + lost * f64::from(code.data))
    }

    /// Returns the number of drives of a host that do no I/O.
    pub fn idle(&self) -> u32 {
        self.spares.saturating_add(self.down.drives)
    }
}

/// State of the flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlashState {
    /// Fresh: nothing was written since it was erased, or a burst goes to an SLC cache: random
    /// writes are as fast as sequential ones.
    #[serde(alias = "burst")]
    Fresh,
    /// Worn: the steady state, to which data sheets of server drives refer.
    #[default]
    #[serde(alias = "sustained", alias = "steady")]
    Worn,
}

impl FlashState {
    /// Returns the state of a word; the error names the words.
    ///
    /// # Errors
    ///
    /// The word is none of them.
    pub fn named(word: &str) -> Result<FlashState, String> {
        match word {
            "fresh" | "burst" => Ok(FlashState::Fresh),
            "worn" | "sustained" | "steady" => Ok(FlashState::Worn),
            other => Err(format!("'{other}': worn, sustained or steady; fresh or burst")),
        }
    }
}

/// Cache in front of the drives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cache {
    /// Hit rate, 0 to 1.
    pub hit: f64,
    /// Latency of a hit, in seconds.
    pub latency_s: f64,
}

/// Target on a network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Target {
    /// Software part with the CPU time of an I/O.
    pub software: String,
    /// Server part whose cores spend that time; `None` if only their number is known.
    pub server: Option<String>,
    /// Number of serving cores, fewer than the server has or without one.
    pub cores: Option<u32>,
    /// Volume type, such as a file system; `None` if the volumes are drives.
    pub volume: Option<String>,
}

/// A guest that does the I/O.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Guest {
    /// Virtual disk, a part.
    pub disk: String,
    /// Threads of the host that serve the disk.
    pub threads: u32,
}

/// Returns the part of a name and a class; the error is the reason.
fn named(catalogue: &Catalogue, name: &str, class: Class) -> Result<String, String> {
    let part = catalogue.part(name).map_err(|error| error.to_string())?;
    match part.class == class {
        true => Ok(part.id.clone()),
        false => Err(format!("{} is a {}, no {}", part.id, part.class.word(), class.word())),
    }
}

/// Returns an erasure code for this number of hosts; the error is the reason.
fn coded(text: &str, hosts: u32, replicas: u32) -> Result<Erasure, String> {
    let code = Erasure::read(text)
        .ok_or_else(|| format!("erasure = \"{text}\": chunks of data and parity, as \"4+2\""))?;
    if code.width() > hosts || replicas > 1 {
        let width = code.width();
        return Err(format!("erasure takes {width} hosts or more, and no replicas besides"));
    }
    Ok(code)
}

/// RAID level of drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Raid {
    /// No redundancy: single drives, or a stripe set.
    #[default]
    #[serde(rename = "0", alias = "none", alias = "stripe", alias = "jbod")]
    None,
    /// Mirrors.
    #[serde(rename = "1", alias = "10", alias = "mirror")]
    Mirror,
    /// One parity.
    #[serde(rename = "5", alias = "50", alias = "raidz", alias = "raidz1")]
    Single,
    /// Two parities.
    #[serde(rename = "6", alias = "60", alias = "raidz2")]
    Double,
}

impl Raid {
    /// Returns the level as it is written.
    pub fn word(self) -> &'static str {
        match self {
            Raid::None => "0",
            Raid::Mirror => "1",
            Raid::Single => "5",
            Raid::Double => "6",
        }
    }

    /// Returns the minimum number of drives; `None` if one suffices.
    pub fn least(self) -> Option<u32> {
        match self {
            Raid::None => None,
            Raid::Mirror => Some(2),
            Raid::Single => Some(3),
            Raid::Double => Some(4),
        }
    }

    /// Returns the number of drives of a set that may fail before data are lost.
    pub fn tolerates(self) -> u32 {
        match self {
            Raid::None => 0,
            Raid::Mirror | Raid::Single => 1,
            Raid::Double => 2,
        }
    }

    /// Returns the share of the capacity of a set of `width` drives that is left for data.
    pub fn usable(self, width: u32) -> f64 {
        let width = f64::from(width.max(1));
        match self {
            Raid::None => 1.0,
            Raid::Mirror => 0.5,
            Raid::Single => (width - 1.0).max(0.0) / width,
            Raid::Double => (width - 2.0).max(0.0) / width,
        }
    }

    /// Returns the reads of other drives for a read of a failed one, in a set of `width` drives.
    pub fn degraded_reads(self, width: u32) -> f64 {
        match self {
            Raid::None | Raid::Mirror => 1.0,
            Raid::Single => f64::from(width.saturating_sub(1).max(1)),
            Raid::Double => f64::from(width.saturating_sub(2).max(1)),
        }
    }

    /// Returns the number of parity chunks per stripe.
    pub fn parity(self) -> u32 {
        match self {
            Raid::None | Raid::Mirror => 0,
            Raid::Single => 1,
            Raid::Double => 2,
        }
    }

    /// Returns the number of drives that store a separate small write, such as that of a log.
    pub fn copies(self) -> f64 {
        match self {
            Raid::None => 1.0,
            Raid::Mirror => 2.0,
            Raid::Single | Raid::Double => f64::from(1 + self.parity()),
        }
    }

    /// Returns the number of chunks of a stripe of `width` drives for each chunk of data.
    pub fn per_data(self, width: u32) -> f64 {
        match self {
            Raid::None => 1.0,
            Raid::Mirror => 2.0,
            Raid::Single | Raid::Double => {
                f64::from(width) / f64::from(width.saturating_sub(self.parity()).max(1))
            }
        }
    }

    /// Returns the reads and writes of drives for a small random write: old data and parities are
    /// read, new ones are written.
    pub fn small_write(self) -> (f64, f64) {
        match self {
            Raid::None => (0.0, 1.0),
            Raid::Mirror => (0.0, 2.0),
            Raid::Single => (2.0, 2.0),
            Raid::Double => (3.0, 3.0),
        }
    }
}

/// Setup as a bill has it.
pub(super) struct RawSetup {
    pub jobs: Option<u32>,
    pub hosts: Option<u32>,
    pub replicas: Option<u32>,
    pub state: Option<FlashState>,
    pub cache_hit: Option<f64>,
    pub cache_latency_us: Option<f64>,
    pub target_software: Option<String>,
    pub target_server: Option<String>,
    pub target_cores: Option<u32>,
    pub width: Option<u32>,
    pub spares: u32,
    pub down_drives: u32,
    pub down_hosts: u32,
    pub sequential: bool,
    pub erasure: Option<String>,
    pub rebuild: f64,
    pub cores: Option<u32>,
    pub network: Option<String>,
    pub clients: Option<u32>,
    pub daemons: u32,
    pub target_volume: Option<String>,
    pub guest: Option<String>,
    pub guest_threads: Option<u32>,
}

impl RawSetup {
    /// Returns the setup; the error is the reason.
    pub fn checked(self, catalogue: &Catalogue) -> Result<Setup, String> {
        let hosts = self.hosts.unwrap_or(1);
        if !(1..=HOSTS_MAX).contains(&hosts) {
            return Err(format!("{hosts} hosts: 1 to {HOSTS_MAX}"));
        }
        let replicas = self.replicas.unwrap_or(1);
        if !(1..=hosts.min(16)).contains(&replicas) {
            return Err(format!("{replicas} replicas on {hosts} hosts: 1 to {}", hosts.min(16)));
        }
        if self.jobs.is_some_and(|jobs| !(1..=65_536).contains(&jobs)) {
            return Err("jobs: 1 to 65536".to_owned());
        }
        if self.cores.is_some_and(|cores| !(1..=4096).contains(&cores)) {
            return Err("cores: 1 to 4096".to_owned());
        }
        if self.clients.is_some_and(|clients| !(1..=65_536).contains(&clients)) {
            return Err("clients: 1 to 65536".to_owned());
        }
        if !(1..=16).contains(&self.daemons) {
            return Err("daemons: 1 to 16 on each drive".to_owned());
        }
        let network = self.network.as_deref();
        let network = network.map(|text| Network::read(text, catalogue)).transpose()?;
        let coded = |text| coded(text, hosts, replicas);
        let erasure = self.erasure.as_deref().map(coded).transpose()?;
        if !(0.0..=90.0).contains(&self.rebuild) {
            return Err(format!("rebuild takes {} % of the drives: 0 to 90", self.rebuild));
        }
        let rebuild = self.rebuild / 100.0;
        let cache = self.cached()?;
        let (target, guest) = (self.target(catalogue)?, self.guest(catalogue)?);
        let state = self.state.unwrap_or_default();
        let down = Down { drives: self.down_drives, hosts: self.down_hosts };
        let (jobs, width, spares) = (self.jobs, self.width, self.spares);
        let sequential = self.sequential;
        let (cores, clients, daemons) = (self.cores, self.clients, self.daemons);
        let more = Setup { erasure, rebuild, sequential, ..Setup::default() };
        let more = Setup { cores, network, clients, daemons, guest, ..more };
        Ok(Setup { jobs, hosts, replicas, state, cache, target, width, spares, down, ..more })
    }

    /// Returns the target on the network; the error is the reason.
    fn target(&self, catalogue: &Catalogue) -> Result<Option<Target>, String> {
        if self.target_cores.is_some_and(|cores| !(1..=4096).contains(&cores)) {
            return Err("target_cores: 1 to 4096".to_owned());
        }
        let part = |name: &Option<String>, class: Class| {
            name.as_deref().map(|name| named(catalogue, name, class)).transpose()
        };
        let software = part(&self.target_software, Class::Software)?;
        let volume = part(&self.target_volume, Class::Software)?;
        let server = part(&self.target_server, Class::Server)?;
        match (software, self.target_cores) {
            (None, None) if server.is_none() && volume.is_none() => Ok(None),
            (Some(software), cores) if server.is_some() || cores.is_some() => {
                Ok(Some(Target { software, server, cores, volume }))
            }
            _ => Err("a target is software on cores: give target_software, and target_server or \
                      target_cores"
                .to_owned()),
        }
    }

    /// Returns the virtual disk of a guest; the error is the reason.
    fn guest(&self, catalogue: &Catalogue) -> Result<Option<Guest>, String> {
        match (self.guest.as_deref(), self.guest_threads) {
            (Some(disk), threads @ (None | Some(1..=4096))) => {
                let disk = named(catalogue, disk, Class::Software)?;
                Ok(Some(Guest { disk, threads: threads.unwrap_or(1) }))
            }
            (None, None) => Ok(None),
            _ => Err("guest_threads: 1 to 4096 threads that serve the disk of a guest: give \
                      guest, such as \"qemu-virtio-scsi\""
                .to_owned()),
        }
    }

    /// Returns the cache in front of the drives; the error is the reason.
    fn cached(&self) -> Result<Option<Cache>, String> {
        match (self.cache_hit, self.cache_latency_us) {
            (None, None) => Ok(None),
            (Some(hit), Some(us)) if (0.0..=100.0).contains(&hit) && (1e-3..=1e7).contains(&us) => {
                Ok(Some(Cache { hit: hit / 100.0, latency_s: us * 1e-6 }))
            }
            (Some(_), Some(_)) => {
                Err("cache_hit: 0 to 100 %; cache_latency_us: 0.001 to 1e7".to_owned())
            }
            _ => Err("a cache has a share of hits and a time: give cache_hit in percent and \
                      cache_latency_us"
                .to_owned()),
        }
    }
}
