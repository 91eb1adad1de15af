//! Admin commands: their dispatch, and those without a separate file.

use block::Nanos;

use crate::Outbox;
use crate::flow::is_full;

use super::super::pdu::{Command, SglKind, Status, admin, fabrics};
use super::event::Events;
use super::feature::Features;
use super::job::{NOWHERE, Refused};
use super::reset::Settling;
use super::slot::{Job, SlotState};
use super::{NvmeTarget, Stage};

/// State of an admin queue beyond that of other queues.
#[derive(Debug)]
pub(super) struct Admin {
    /// Whether this is a discovery controller.
    pub(super) discovery: bool,
    /// Controller configuration and status.
    pub(super) configuration: u32,
    pub(super) status: u32,
    pub(super) features: Features,
    pub(super) events: Events,
    pub(super) keep_alive_ms: u32,
    /// Keep Alive deadline, if the host set one.
    pub(super) deadline: Option<Nanos>,
    pub(super) settling: Settling,
}

/// Whether the outbox has room for a page.
pub(super) fn has_room_for_page(out: &Outbox) -> bool {
    !is_full(out) && out.has_room(4096 + 128)
}

/// Granularity of KATO in milliseconds.
//= NVMe base §KAS: counts 100 milliseconds.
pub(super) const KEEP_ALIVE_UNIT_MS: u32 = 1000;

/// Rounds KATO up.
//= NVMe base §Keep Alive Timer: rounded up to the granularity in KAS.
pub(super) fn in_whole_units(keep_alive_ms: u32) -> u32 {
    keep_alive_ms.div_ceil(KEEP_ALIVE_UNIT_MS).saturating_mul(KEEP_ALIVE_UNIT_MS)
}

impl Admin {
    pub(super) fn new(discovery: bool, keep_alive_ms: u32) -> Admin {
        Admin {
            discovery,
            configuration: 0,
            status: 0,
            features: Features::default(),
            events: Events::default(),
            keep_alive_ms: in_whole_units(keep_alive_ms),
            deadline: None,
            settling: Settling::default(),
        }
    }

    /// Resets the state of the queue.
    //= NVMe base §Controller reset: outstanding commands are not completed, features are forgotten.
    pub(super) fn reset(&mut self) {
        self.events = Events::default();
        self.features = Features::default();
    }
}

impl NvmeTarget {
    /// Handles an admin command.
    #[cold]
    pub(super) fn admin_command(
        &mut self,
        command: Command<'_>,
        out: &mut Outbox,
    ) -> Result<(), Refused> {
        if command.opcode() == admin::FABRICS {
            return self.admin_fabrics(command, out);
        }
        if !has_room_for_page(out) {
            return self.wait_for_room(command);
        }
        Ok(self.admin_now(command, out)?)
    }

    /// Keeps a command until the outbox has room for its answer.
    pub(super) fn wait_for_room(&mut self, command: Command<'_>) -> Result<(), Refused> {
        let slot = self.begin(command, NOWHERE, SlotState::Waiting).ok_or(Refused::Overrun)?;
        self.slots[slot].job = Some(Box::new(Job::new(*command.0)));
        self.starve(slot);
        Ok(())
    }

    /// Retries a command that waited for room in the outbox.
    pub(super) fn try_again(&mut self, slot: u16, out: &mut Outbox) {
        if !has_room_for_page(out) {
            return self.starve(slot);
        }
        let job = self.slots[slot].job.take();
        self.slots.release(slot);
        let Some(job) = job else { return };
        let command = Command(&job.entry);
        let result = match self.stage {
            Stage::Admin => self.admin_now(command, out),
            _ => self.report_now(command, out),
        };
        if let Err(status) = result {
            self.answer(command.id(), status, out);
        }
    }

    fn admin_now(&mut self, command: Command<'_>, out: &mut Outbox) -> Result<(), Status> {
        //= NVMe base §3.5.4: a controller that is not ready takes fabrics commands only.
        if !self.is_ready() {
            return Err(Status::SEQUENCE_ERROR);
        }
        //= NVMe-oF §2.3: SGLs are used for all commands; and we fuse none.
        if !command.is_plain() {
            return Err(Status::INVALID_FIELD);
        }
        match command.opcode() {
            admin::IDENTIFY => {
                let page = self.identify(command)?;
                self.answer_page(command, &page, page.len(), out)
            }
            admin::GET_LOG_PAGE => {
                self.get_log_page(command, out)?;
                self.announce(out);
                Ok(())
            }
            admin::GET_FEATURES => self.get_features(command, out),
            admin::SET_FEATURES => {
                let result = self.set_features(command)?;
                self.answer_result(command.id(), Status::SUCCESS, result, out);
                self.announce(out);
                Ok(())
            }
            admin::ASYNC_EVENT => {
                let admin = self.admin.as_mut().ok_or(Status::INVALID_OPCODE)?;
                admin.events.park(command.id())?;
                self.announce(out);
                Ok(())
            }
            admin::KEEP_ALIVE => {
                let now = self.alive.last_heard();
                self.restart_keep_alive(now);
                self.answer(command.id(), Status::SUCCESS, out);
                Ok(())
            }
            admin::ABORT => {
                self.abort(command, out);
                Ok(())
            }
            admin::CROSS_CONTROLLER_RESET => {
                self.reset_other(command)?;
                self.settle(out);
                Ok(())
            }
            _ => Err(Status::INVALID_OPCODE),
        }
    }

    fn admin_fabrics(&mut self, command: Command<'_>, out: &mut Outbox) -> Result<(), Refused> {
        match command.fabrics_type() {
            fabrics::PROPERTY_GET => {
                let value = self.get_property(command, out)?;
                self.answer_result(command.id(), Status::SUCCESS, value, out);
            }
            fabrics::PROPERTY_SET => {
                self.set_property(command, out)?;
                self.answer(command.id(), Status::SUCCESS, out);
            }
            //= NVMe-oF §Connect command: a queue that is connected cannot be connected again.
            fabrics::CONNECT => return Err(Status::SEQUENCE_ERROR.into()),
            //= NVMe-oF §Disconnect command: it is for I/O queues.
            fabrics::DISCONNECT => return Err(Status::INVALID_QUEUE_TYPE.into()),
            _ => return Err(Status::INVALID_OPCODE.into()),
        }
        Ok(())
    }

    /// Returns `page`, zero-filled to `len` bytes.
    pub(super) fn answer_page(
        &mut self,
        command: Command<'_>,
        page: &[u8],
        len: usize,
        out: &mut Outbox,
    ) -> Result<(), Status> {
        if command.sgl_kind() != SglKind::Transport {
            return Err(Status::SGL_TYPE_INVALID);
        }
        if (command.sgl_len() as usize) < len {
            return Err(Status::SGL_LENGTH_INVALID);
        }
        if page.len() == len {
            self.answer_with(command.id(), page, out);
            return Ok(());
        }
        let mut whole = vec![0; len];
        let there = page.len().min(len);
        whole[..there].copy_from_slice(&page[..there]);
        self.answer_with(command.id(), &whole, out);
        Ok(())
    }

    /// Aborts an event request. Other commands are in flight on a volume, or complete before an
    /// Abort would reach them.
    fn abort(&mut self, command: Command<'_>, out: &mut Outbox) {
        //= NVMe base §Abort: bit 0 of the result says that the command was not aborted.
        const NOT_ABORTED: u64 = 1;
        let (queue, id) = (command.word(10) as u16, (command.word(10) >> 16) as u16);
        let events = self.admin.as_mut().map(|admin| &mut admin.events);
        let found = events.filter(|_| queue == 0).and_then(|events| events.abort(id));
        if let Some(event) = found {
            self.answer(event, Status::ABORT_REQUESTED, out);
        }
        let result = if found.is_some() { 0 } else { NOT_ABORTED };
        self.answer_result(command.id(), Status::SUCCESS, result, out);
    }
}
