//! Lifecycle of a controller, from Connect to the end of its shutdown.

use block::Nanos;

use crate::{Ending, Outbox};

use super::super::super::pdu::{CommandBuilder, Completion, admin, fabrics};
use super::{Control, PAGE_BYTES, Reply, later};

/// The step in progress, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(super) enum Step {
    Fresh,
    Opening,
    Connecting,
    Capabilities,
    Enabling,
    AwaitingReady,
    Identifying,
    Open,
    ShuttingDown,
    AwaitingShutdown,
    Closed,
}

/// Offsets and values of properties.
//= NVMe base §3.1.3: CAP, CC and CSTS.
const CAPABILITIES: u32 = 0x00;
const CONFIGURATION: u32 = 0x14;
pub(super) const STATUS: u32 = 0x1c;
//= NVMe base §CC: EN; IOSQES and IOCQES of 2⁶ and 2⁴ bytes; SHN 01b is a normal shutdown.
const ENABLED: u32 = 1 | 0x46 << 16;
const SHUT_DOWN: u32 = ENABLED | 1 << 14;
//= NVMe base §CSTS: RDY, CFS, and SHST 10b.
const READY: u64 = 1;
const FATAL: u64 = 2;
const SHUTDOWN: u64 = 3 << 2;
const SHUTDOWN_COMPLETE: u64 = 2 << 2;

/// Interval at which CSTS is polled.
const POLL_INTERVAL: Nanos = Nanos::from_millis(5);
/// Time-out of a shutdown.
const SHUTDOWN_PATIENCE: Nanos = Nanos::from_secs(5);
impl Control {
    /// Handles a completion while the controller is being opened or shut down.
    pub(super) fn step(
        &mut self,
        now: Nanos,
        completion: &Completion,
        out: &mut Outbox,
    ) -> Result<Option<Reply>, Ending> {
        if self.step == Step::Connecting {
            self.facts.cntlid = self.connect.connected(completion)?;
            self.plan_beat(now);
        } else if !completion.status.is_success() && self.closing {
            // The shutdown is over, whatever the status.
            self.step = Step::Closed;
            return Ok(None);
        } else if !completion.status.is_success() {
            let what = self.step.name();
            return Err(Ending::Refused(format!("{what}: {}", completion.status)));
        }
        let ended = completion.result & SHUTDOWN == SHUTDOWN_COMPLETE;
        match self.step {
            Step::Capabilities => {
                self.facts.capabilities = completion.result;
                //= NVMe base §CAP: TO, bits 31:24, in units of 500 ms.
                let timeout = Nanos::from_millis((completion.result >> 24 & 0xff) * 500);
                self.give_up_waiting = later(now, timeout.max(self.patience));
            }
            Step::AwaitingReady if completion.result & FATAL != 0 => {
                return Err(Ending::Refused("the controller reports a fatal error".to_owned()));
            }
            Step::AwaitingReady if completion.result & READY == 0 && !self.closing => {
                self.ask_again = Some(later(now, POLL_INTERVAL));
                return Ok(None);
            }
            Step::Identifying => {
                if self.data.len() < PAGE_BYTES as usize {
                    return Err(Ending::Refused("identify: too little data".to_owned()));
                }
                self.facts.controller = std::mem::take(&mut self.data);
            }
            Step::AwaitingShutdown if !ended && completion.result & FATAL == 0 => {
                self.ask_again = Some(later(now, POLL_INTERVAL));
                return Ok(None);
            }
            _ => {}
        }
        if self.closing && self.step < Step::Open {
            self.shut_down(now, out);
            return Ok(None);
        }
        self.go_on(now, out);
        let opened = self.step == Step::Open;
        Ok(opened.then_some(Reply::Opened))
    }

    /// Starts the next step.
    pub(super) fn go_on(&mut self, now: Nanos, out: &mut Outbox) {
        self.step = match self.step {
            Step::Fresh => Step::Opening,
            Step::Opening => Step::Connecting,
            Step::Connecting => Step::Capabilities,
            Step::Capabilities => Step::Enabling,
            Step::Enabling => Step::AwaitingReady,
            Step::AwaitingReady => Step::Identifying,
            Step::Identifying | Step::Open => Step::Open,
            Step::ShuttingDown => Step::AwaitingShutdown,
            Step::AwaitingShutdown | Step::Closed => Step::Closed,
        };
        match self.step {
            Step::Opening => self.link.start(out),
            Step::Connecting => {
                let id = self.begin(now, 0);
                let command = self.connect.command(id);
                self.link.command_with(command, &self.connect.data(), out);
            }
            Step::Capabilities => self.ask(now, |id| property_get(id, CAPABILITIES, 1), 0, out),
            Step::Enabling => self.ask(now, |id| property_set(id, ENABLED), 0, out),
            Step::AwaitingReady | Step::AwaitingShutdown => {
                self.ask(now, |id| property_get(id, STATUS, 0), 0, out);
            }
            Step::Identifying => {
                let identify = |id| CommandBuilder::new(admin::IDENTIFY, id, 0).word(10, 1);
                self.ask(now, identify, PAGE_BYTES, out);
            }
            Step::ShuttingDown => self.ask(now, |id| property_set(id, SHUT_DOWN), 0, out),
            Step::Fresh | Step::Open | Step::Closed => {}
        }
    }

    /// Starts a shutdown.
    pub(in super::super) fn close(&mut self, now: Nanos, out: &mut Outbox) {
        self.closing = true;
        if self.step <= Step::Connecting {
            // No controller is connected, or it will end with the connection.
            self.step = Step::Closed;
        } else if !self.asking && self.step < Step::ShuttingDown {
            self.shut_down(now, out);
        }
    }

    pub(super) fn shut_down(&mut self, now: Nanos, out: &mut Outbox) {
        self.step = Step::ShuttingDown;
        self.ask_again = None;
        self.give_up_waiting = later(now, SHUTDOWN_PATIENCE);
        self.ask(now, |id| property_set(id, SHUT_DOWN), 0, out);
    }
}

impl Step {
    /// The step in progress, for messages.
    fn name(self) -> &'static str {
        match self {
            Step::Capabilities => "reading the capabilities of the controller",
            Step::Enabling => "enabling the controller",
            Step::AwaitingReady => "reading the status of the controller",
            Step::Identifying => "identifying the controller",
            Step::ShuttingDown | Step::AwaitingShutdown => "shutting the controller down",
            Step::Fresh | Step::Opening | Step::Connecting | Step::Open | Step::Closed => "command",
        }
    }
}

//= NVMe-oF §Property Get command: ATTRIB 1 for eight bytes, OFST.
pub(super) fn property_get(id: u16, offset: u32, eight: u8) -> CommandBuilder {
    let command = CommandBuilder::fabrics(fabrics::PROPERTY_GET, id);
    command.field(40, [eight]).field(44, offset.to_le_bytes())
}

//= NVMe-oF §Property Set command: ATTRIB 0 for four bytes, OFST, VALUE.
fn property_set(id: u16, value: u32) -> CommandBuilder {
    let command = CommandBuilder::fabrics(fabrics::PROPERTY_SET, id);
    command.field(44, CONFIGURATION.to_le_bytes()).field(48, value.to_le_bytes())
}
