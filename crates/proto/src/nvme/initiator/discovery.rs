//! A discovery controller's log: the subsystems of a portal.

use block::Nanos;

use crate::{Ending, Endpoint, Outbox};

use super::super::name::DISCOVERY_NQN;
use super::super::pdu::{CommandBuilder, Completion, admin};
use super::connect::{ANY_CONTROLLER, Connect};
use super::control::{Control, Reply, Rhythm};
use super::link::Link;

/// An entry of the discovery log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryEntry {
    /// Name of the subsystem.
    pub nqn: String,
    /// IP address.
    pub traddr: String,
    /// TCP port.
    pub trsvcid: String,
    /// Type of the subsystem.
    pub kind: SubsystemKind,
}

/// Type of a subsystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubsystemKind {
    /// Another discovery service.
    Referral,
    /// An NVM subsystem.
    Nvm,
    /// The discovery service itself.
    Discovery,
    /// Types of later standards.
    Other(u8),
}

/// A connection to the discovery service of a portal. It reads the log, then shuts its controller
/// down.
#[derive(Debug)]
pub struct NvmeDiscovery {
    control: Control,
    /// Bytes of the log, header and entries, and the number of entries.
    log: Vec<u8>,
    whole: u64,
    /// The header is being read again, to check that the log did not change.
    checking: bool,
    tries: u32,
    entries: Option<Vec<DiscoveryEntry>>,
}

/// Length of the header and of each entry.
//= NVMe-oF §Discovery Log Page: 1024 bytes each.
const RECORD_BYTES: u64 = 1024;
/// The log is read in parts of this size, which every controller supports.
const PART_BYTES: u64 = 4096;
/// Maximum number of entries.
const ENTRIES_MAX: u64 = 16 << 10;
/// Maximum number of changes of the log while it is read.
const TRIES_MAX: u32 = 10;
/// Time-out of Connect and of each command.
const PATIENCE: Nanos = Nanos::from_secs(10);

impl NvmeDiscovery {
    /// A connection that starts at its first [`tick`](Endpoint::tick), due at once, with this host
    /// NQN and host identifier.
    pub fn new(host_nqn: &str, host_id: [u8; 16], now: Nanos) -> NvmeDiscovery {
        let connect = Connect {
            host_nqn: host_nqn.to_owned(),
            host_id,
            subsystem_nqn: DISCOVERY_NQN.to_owned(),
            queue: 0,
            entries: 32,
            controller: ANY_CONTROLLER,
            keep_alive_ms: 0,
        };
        let link = Link::new(false, false);
        NvmeDiscovery {
            control: Control::new(connect, link, Rhythm::NONE, PATIENCE, PATIENCE, now),
            log: Vec::new(),
            whole: 0,
            checking: false,
            tries: 0,
            entries: None,
        }
    }

    /// The log, once complete: subsystems over TCP.
    pub fn entries(&self) -> Option<Vec<DiscoveryEntry>> {
        self.entries.clone()
    }

    /// Whether the connection may be closed.
    pub fn finished(&self) -> bool {
        self.control.is_closed()
    }

    /// Reads the next part of the log, or its header again.
    fn ask(&mut self, now: Nanos, out: &mut Outbox) {
        let (at, len) = match (self.log.len() as u64, self.checking) {
            (0, _) | (_, true) => (0, RECORD_BYTES),
            (at, false) => (at, (self.whole - at).min(PART_BYTES)),
        };
        //= NVMe base §Get Log Page: RAE, NUMDL as a 0's based count of dwords, LPOL and LPOU.
        let dwords = (len / 4 - 1) as u32;
        let command = |id| {
            let command = CommandBuilder::new(admin::GET_LOG_PAGE, id, 0);
            let command = command.word(10, 0x70 | 1 << 15 | dwords << 16);
            command.word(12, at as u32).word(13, (at >> 32) as u32)
        };
        self.control.ask(now, command, len as u32, out);
    }

    fn news(&mut self, now: Nanos, reply: Reply, out: &mut Outbox) -> Result<(), Ending> {
        let Reply::Answer(completion, data) = reply else {
            self.ask(now, out);
            return Ok(());
        };
        self.learn(&completion, &data)?;
        if self.entries.is_some() {
            self.control.close(now, out);
        } else {
            self.ask(now, out);
        }
        Ok(())
    }

    fn learn(&mut self, completion: &Completion, data: &[u8]) -> Result<(), Ending> {
        let refuse = |why: String| Err(Ending::Refused(why));
        if !completion.status.is_success() {
            return refuse(format!("reading the discovery log: {}", completion.status));
        }
        let header = self.log.is_empty() || self.checking;
        if data.is_empty() || header && data.len() < 16 {
            return refuse("the discovery log is shorter than its header".to_owned());
        }
        if !header {
            let room = (self.whole - self.log.len() as u64) as usize;
            self.log.extend_from_slice(&data[..data.len().min(room)]);
            self.checking = self.log.len() as u64 == self.whole;
            return Ok(());
        }
        //= NVMe-oF §Discovery Log Page: the same GENCTR before and after means one log.
        if self.checking && data[..16] == self.log[..16] {
            self.entries = Some(self.parse());
            return Ok(());
        }
        self.tries += 1;
        let (_, numbers) = data[..16].split_at(8);
        let count = u64::from_le_bytes(*numbers.first_chunk().expect("eight of sixteen"));
        if self.tries > TRIES_MAX || count > ENTRIES_MAX {
            return refuse(format!("the discovery log changes, or is too long: {count} entries"));
        }
        self.whole = RECORD_BYTES * (1 + count);
        self.log = data.to_vec();
        self.log.resize(RECORD_BYTES as usize, 0);
        self.checking = count == 0;
        Ok(())
    }

    fn parse(&self) -> Vec<DiscoveryEntry> {
        let (records, _) = self.log.as_chunks::<{ RECORD_BYTES as usize }>();
        records.iter().skip(1).filter_map(entry).collect()
    }
}

/// An entry, if its transport is TCP.
//= NVMe-oF §Discovery Log Page Entry: TRTYPE, SUBTYPE, TRSVCID, SUBNQN and TRADDR.
fn entry(record: &[u8; RECORD_BYTES as usize]) -> Option<DiscoveryEntry> {
    const TCP: u8 = 3;
    let kind = match record[2] {
        1 => SubsystemKind::Referral,
        2 => SubsystemKind::Nvm,
        3 => SubsystemKind::Discovery,
        other => SubsystemKind::Other(other),
    };
    let text = |range: std::ops::Range<usize>| {
        let field = &record[range];
        let len = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
        String::from_utf8_lossy(&field[..len]).trim_end_matches(' ').to_owned()
    };
    let (trsvcid, nqn, traddr) = (text(32..64), text(256..512), text(512..768));
    (record[0] == TCP).then_some(DiscoveryEntry { nqn, traddr, trsvcid, kind })
}

impl Endpoint for NvmeDiscovery {
    fn receive(&mut self, now: Nanos, bytes: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        let mut bytes = bytes;
        while let Some(reply) = self.control.take(now, &mut bytes, out)? {
            self.news(now, reply, out)?;
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Nanos> {
        self.control.deadline()
    }

    fn tick(&mut self, now: Nanos, out: &mut Outbox) -> Result<(), Ending> {
        self.control.tick(now, out)
    }
}
