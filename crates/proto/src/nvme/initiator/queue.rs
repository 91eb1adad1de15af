//! An I/O queue of an association: connection and disconnection. Its I/Os are in `io`.

use block::{Cause, Done, Geometry, Io, Nanos};

use crate::flow::{DataEnd, IoTable, Stamps, later};
use crate::{Ending, Endpoint, Fence, Initiator, Outbox, Phase};

use super::super::frame::{Fatal, Next};
use super::super::pdu::{CommandBuilder, Completion, fabrics, kind};
use super::connect::Connect;
use super::link::{Link, terminated};
use super::slot::Progress;
use super::{Association, NvmeInitiatorConfig};

/// An I/O queue of an association.
#[derive(Debug)]
pub struct NvmeQueue {
    pub(super) link: Link,
    connect: Connect,
    pub(super) limits: Limits,
    pub(super) ios: IoTable<Progress>,
    pub(super) stamps: Stamps,
    pub(super) incoming: Incoming,
    stage: Stage,
    /// Deadline for connecting or closing.
    until: Nanos,
    /// Time of the next Connect, after a refusal because of the previous queue.
    again_at: Option<Nanos>,
    told: Told,
}

/// Facts about the namespace from the association.
#[derive(Debug)]
struct Told {
    fence: Fence,
    instance: Option<u64>,
    identity: Option<String>,
}

/// Limits of commands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) geometry: Geometry,
    pub(super) block_shift: u32,
    pub(super) namespace: u32,
    pub(super) in_capsule: u32,
    /// Bytes in one command.
    pub(super) transfer: u32,
    /// Maximum number of bytes in a zeroing and in a trim command; 0 if the target lacks the
    /// command.
    pub(super) zeroes: u32,
    pub(super) trim: u32,
    disconnect: bool,
}

/// Destination of the incoming data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub(super) slot: u16,
    /// Bytes received of it.
    pub(super) have: u32,
    /// Whether the PDU has the SUCCESS flag.
    pub(super) success: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Fresh,
    Opening,
    Connecting,
    Open,
    /// The queue closes when no I/O is in flight.
    Draining,
    Disconnecting,
    Closed,
}

/// Retry interval of Connect while the previous queue with the same identifier has commands left.
const AGAIN: Nanos = Nanos::from_millis(20);
/// Time-out of a Disconnect command.
const DISCONNECT_PATIENCE: Nanos = Nanos::from_secs(5);

impl NvmeQueue {
    /// Queue number `queue_id`, 1 to [`Association::queues`], which connects at its first
    /// [`tick`](Endpoint::tick), due at once. `config` is that of the admin queue.
    pub fn new(
        config: &NvmeInitiatorConfig,
        association: &Association,
        queue_id: u16,
        now: Nanos,
    ) -> NvmeQueue {
        //= NVMe base §3.3.1: a queue holds one command less than it has entries.
        let most = u16::try_from(association.max_queue_entries).unwrap_or(u16::MAX) - 1;
        let depth = config.queue_depth.clamp(1, most.max(1));
        let connect = Connect {
            host_nqn: config.host_nqn.clone(),
            host_id: config.host_id,
            subsystem_nqn: config.subsystem_nqn.clone(),
            queue: queue_id,
            entries: depth + 1,
            controller: association.controller.id,
            keep_alive_ms: 0,
        };
        NvmeQueue {
            link: Link::new(config.header_digest, config.data_digest),
            connect,
            limits: Limits::new(association, config.nsid),
            ios: IoTable::new(depth, config.io_timeout, now),
            stamps: Stamps::default(),
            incoming: Incoming { slot: 0, have: 0, success: false },
            stage: Stage::Fresh,
            until: later(now, config.connect_timeout),
            again_at: None,
            told: Told {
                fence: association.fence(),
                instance: association.instance,
                identity: association.identity.clone(),
            },
        }
    }

    /// The identifier of commands that carry no I/O.
    fn control_id(&self) -> u16 {
        self.ios.max() as u16
    }

    fn connect(&mut self, out: &mut Outbox) {
        self.stage = Stage::Connecting;
        let command = self.connect.command(self.control_id());
        self.link.command_with(command, &self.connect.data(), out);
    }

    /// Asks for the end of the queue, once no I/O is in flight.
    fn disconnect_when_quiet(&mut self, out: &mut Outbox) {
        if self.stage != Stage::Draining || !self.ios.is_idle() {
            return;
        }
        if !self.limits.disconnect {
            // The end of the connection is all that such a target understands.
            self.stage = Stage::Closed;
            return;
        }
        self.stage = Stage::Disconnecting;
        let command = CommandBuilder::fabrics(fabrics::DISCONNECT, self.control_id());
        self.link.command(command, out);
    }

    /// Handles the header of a PDU; its data, if any, follows.
    #[inline(always)]
    fn pdu(&mut self, now: Nanos, header: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        if self.stage == Stage::Open
            && let Some(short) = header.first_chunk()
        {
            let result = match header[0] {
                kind::C2H_DATA => self.data_begins(short),
                kind::CAPSULE_RESP => self.completed(short, out),
                kind::R2T => self.data_wanted(short, out),
                _ => return self.rare_pdu(now, header, out),
            };
            return result.map_err(|fatal| self.link.give_up(fatal, header, out));
        }
        self.rare_pdu(now, header, out)
    }

    /// A PDU while the queue is not simply open, or one that carries no I/O.
    #[cold]
    fn rare_pdu(&mut self, now: Nanos, header: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        if header[0] == kind::C2H_TERM_REQ {
            return Err(terminated(header));
        }
        if header[0] == kind::IC_RESP {
            self.link.opened(header.first_chunk().expect("its length is checked"), out)?;
            self.connect(out);
            return Ok(());
        }
        let short = header.first_chunk().expect("its length is checked");
        let control = Some(Completion::parse(short))
            .filter(|_| header[0] == kind::CAPSULE_RESP)
            .filter(|completion| completion.command == self.control_id());
        let result = match (self.stage, header[0], control) {
            (Stage::Connecting, _, Some(completion)) if self.connect.is_taken(&completion) => {
                // The time-out of connecting limits this.
                self.again_at = Some(later(now, AGAIN));
                Ok(())
            }
            (Stage::Connecting, _, Some(completion)) => {
                self.connect.connected(&completion)?;
                self.stage = Stage::Open;
                Ok(())
            }
            (Stage::Disconnecting, _, Some(_)) => {
                self.stage = Stage::Closed;
                Ok(())
            }
            (Stage::Open | Stage::Draining, kind::C2H_DATA, _) => self.data_begins(short),
            (Stage::Open | Stage::Draining, kind::R2T, _) => self.data_wanted(short, out),
            (Stage::Open | Stage::Draining, kind::CAPSULE_RESP, _) => self.completed(short, out),
            _ => Err(Fatal::sequence(
                "NVMe-TCP §3.2: ICResp, then the answer to Connect, come first",
            )),
        };
        if let Err(fatal) = result {
            return Err(self.link.give_up(fatal, header, out));
        }
        self.disconnect_when_quiet(out);
        Ok(())
    }

    fn take(&mut self, now: Nanos, bytes: &mut &[u8], out: &mut Outbox) -> Result<(), Ending> {
        while !bytes.is_empty() && self.stage != Stage::Closed {
            if self.link.frame.in_data() {
                self.data(bytes, out)?;
                continue;
            }
            match self.link.frame.header(bytes) {
                Ok(Next::Whole(header)) => self.pdu(now, header, out)?,
                Ok(Next::Collected(header)) => self.rare_pdu(now, &header, out)?,
                Ok(Next::Partial) => break,
                Err(fatal) => return Err(self.link.give_up_at(fatal, bytes, out)),
            }
        }
        Ok(())
    }

    /// Puts the next part of data into the buffer of its I/O.
    #[inline(always)]
    fn data(&mut self, bytes: &mut &[u8], out: &mut Outbox) -> Result<(), Ending> {
        let (part, end) = self.link.frame.data(bytes);
        self.place(part, out.pool())?;
        if end != DataEnd::Open {
            self.placed(end == DataEnd::Intact, out);
            if self.stage == Stage::Draining {
                self.disconnect_when_quiet(out);
            }
        }
        Ok(())
    }

    /// Whether the queue carries I/Os.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open | Stage::Draining)
    }
}

impl Limits {
    fn new(association: &Association, namespace: u32) -> Limits {
        let geometry = association.geometry;
        let whole_blocks = |bytes: u64| {
            let block = u64::from(geometry.block_bytes);
            let bytes = bytes.min(u64::from(u32::MAX));
            (bytes / block * block) as u32
        };
        let zeroes = whole_blocks(association.max_zeroes_bytes);
        let trim = whole_blocks(association.max_trim_bytes);
        Limits {
            geometry,
            block_shift: geometry.block_bytes.trailing_zeros(),
            namespace,
            in_capsule: association.in_capsule_bytes,
            transfer: whole_blocks(association.max_transfer_bytes.into()).max(geometry.block_bytes),
            zeroes: if association.write_zeroes { zeroes } else { 0 },
            trim: if association.trim { trim } else { 0 },
            disconnect: association.disconnect,
        }
    }
}

impl Endpoint for NvmeQueue {
    fn receive(&mut self, now: Nanos, bytes: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        let mut bytes = bytes;
        let taken = self.take(now, &mut bytes, out);
        self.stamps.acknowledge(out);
        taken
    }

    fn deadline(&self) -> Option<Nanos> {
        match self.stage {
            Stage::Fresh => Some(Nanos(0)),
            Stage::Connecting => Some(self.again_at.map_or(self.until, |at| at.min(self.until))),
            Stage::Opening | Stage::Disconnecting => Some(self.until),
            Stage::Open => Some(self.ios.due()),
            Stage::Draining => Some(self.until),
            Stage::Closed => None,
        }
    }

    fn tick(&mut self, now: Nanos, out: &mut Outbox) -> Result<(), Ending> {
        let late = now >= self.until;
        match self.stage {
            Stage::Fresh => {
                self.stage = Stage::Opening;
                self.link.start(out);
            }
            Stage::Opening | Stage::Connecting if late => {
                return Err(Ending::TimedOut(match self.again_at {
                    Some(_) => "commands of the queue before this one have not ended",
                    None => "the target does not let the queue connect",
                }));
            }
            Stage::Connecting if self.again_at.take_if(|at| now >= *at).is_some() => {
                self.connect(out);
            }
            Stage::Open => return self.ios.check_timeouts(now),
            Stage::Draining | Stage::Disconnecting if late => self.stage = Stage::Closed,
            _ => {}
        }
        Ok(())
    }
}

impl Initiator for NvmeQueue {
    fn phase(&self) -> Phase {
        match self.stage {
            Stage::Fresh | Stage::Opening | Stage::Connecting => Phase::Opening,
            Stage::Open => Phase::Ready(self.limits.geometry),
            Stage::Draining | Stage::Disconnecting => Phase::Closing,
            Stage::Closed => Phase::Closed,
        }
    }

    #[inline]
    fn room(&self) -> usize {
        if self.stage == Stage::Open { self.ios.room() } else { 0 }
    }

    #[inline]
    fn submit(&mut self, _now: Nanos, io: Io, out: &mut Outbox) {
        self.begin(io, out);
    }

    fn done(&mut self) -> &mut Vec<Done> {
        &mut self.ios.done
    }

    fn words_of(&self, cause: Cause) -> Option<String> {
        super::io::words(cause)
    }

    fn changes(&self) -> u64 {
        self.ios.changes
    }

    fn in_doubt(&self) -> Vec<(u64, u64)> {
        self.ios.in_doubt(|io| Some((io.offset + u64::from(io.own.done), io.own.part.into())))
    }

    fn fence(&self) -> Fence {
        self.told.fence
    }

    fn instance(&self) -> Option<u64> {
        self.told.instance
    }

    fn identity(&self) -> Option<String> {
        self.told.identity.clone()
    }

    fn close(&mut self, now: Nanos, out: &mut Outbox) {
        match self.stage {
            Stage::Fresh | Stage::Opening | Stage::Connecting => self.stage = Stage::Closed,
            Stage::Open => {
                self.stage = Stage::Draining;
                self.until = later(now, DISCONNECT_PATIENCE);
                self.disconnect_when_quiet(out);
            }
            Stage::Draining | Stage::Disconnecting | Stage::Closed => {}
        }
    }

    fn abandon(&mut self) {
        self.stage = Stage::Closed;
        self.ios.fail_all();
    }
}
