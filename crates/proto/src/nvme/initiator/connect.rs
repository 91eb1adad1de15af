//! The host's Connect command.

use crate::Ending;

use super::super::pdu::{CommandBuilder, Completion, Status, fabrics};

/// Parameters of a Connect command.
#[derive(Clone, Debug)]
pub(super) struct Connect {
    pub(super) host_nqn: String,
    pub(super) host_id: [u8; 16],
    pub(super) subsystem_nqn: String,
    /// QID; 0 is the admin queue.
    pub(super) queue: u16,
    /// Number of entries, 2 to 65535.
    pub(super) entries: u16,
    /// Controller identifier; [`ANY_CONTROLLER`] for an admin queue.
    pub(super) controller: u16,
    /// KATO in milliseconds; 0 for none.
    pub(super) keep_alive_ms: u32,
}

/// Controller identifier for the dynamic controller model.
//= NVMe-oF §Connect command: FFFFh in the dynamic controller model.
pub(super) const ANY_CONTROLLER: u16 = 0xffff;

/// Attribute: disable SQ flow control.
//= NVMe-oF §Connect command: CATTR bit 2 disables SQ flow control.
const NO_FLOW_CONTROL: u8 = 1 << 2;

impl Connect {
    /// The submission queue entry; [`data`](Self::data) is its data.
    //= NVMe-oF §Connect command: RECFMT 0, QID, SQSIZE as a 0's based value, CATTR, KATO.
    pub(super) fn command(&self, id: u16) -> CommandBuilder {
        let command = CommandBuilder::fabrics(fabrics::CONNECT, id);
        let command = command.field(42, self.queue.to_le_bytes());
        let command = command.field(44, (self.entries - 1).to_le_bytes());
        command.field(46, [NO_FLOW_CONTROL]).field(48, self.keep_alive_ms.to_le_bytes())
    }

    /// The data.
    //= NVMe-oF §Connect command: HOSTID, CNTLID, SUBNQN and HOSTNQN.
    pub(super) fn data(&self) -> [u8; 1024] {
        let mut data = [0; 1024];
        data[..16].copy_from_slice(&self.host_id);
        data[16..18].copy_from_slice(&self.controller.to_le_bytes());
        for (at, name) in [(256, &self.subsystem_nqn), (512, &self.host_nqn)] {
            // A name that is too long is cut, so the target refuses it.
            let len = name.len().min(255);
            data[at..at + len].copy_from_slice(&name.as_bytes()[..len]);
        }
        data
    }

    /// Checks the completion; returns the controller identifier.
    pub(super) fn connected(&self, completion: &Completion) -> Result<u16, Ending> {
        let (id, authentication) = (completion.result as u16, completion.result as u32 >> 16);
        if !completion.status.is_success() {
            return Err(self.refused(completion));
        }
        //= NVMe-oF §Connect command: AUTHREQ is not zero if the host must prove who it is.
        if authentication != 0 {
            return Err(Ending::Refused("the target requires authentication".to_owned()));
        }
        if self.controller != ANY_CONTROLLER && id != self.controller {
            return Err(Ending::Refused(format!("the target connected us to controller {id}")));
        }
        Ok(id)
    }

    /// Returns whether an I/O queue was refused because the previous one with the same identifier
    /// still exists: a sequence error in the standard and Linux; SPDK reports an invalid queue
    /// identifier.
    pub(super) fn is_taken(&self, completion: &Completion) -> bool {
        let status = completion.status;
        //= NVMe-oF §Connect command: IPO is the offset of the invalid parameter, IATTR says where.
        let names_queue = completion.result as u32 & 0x1_ffff == 42;
        let invalid = status.means(Status::CONNECT_INVALID_PARAMETERS) && names_queue;
        let taken = invalid
            || status.means(Status::SEQUENCE_ERROR)
            || status.means(Status::INVALID_QUEUE_IDENTIFIER);
        self.queue != 0 && taken
    }

    fn refused(&self, completion: &Completion) -> Ending {
        let status = completion.status;
        //= NVMe-oF §Connect command: IPO is the offset of the invalid parameter, IATTR says where.
        let (at, in_data) = (completion.result as u16, completion.result & 1 << 16 != 0);
        if status.means(Status::CONNECT_INVALID_HOST) {
            let (host, subsystem) = (&self.host_nqn, &self.subsystem_nqn);
            let why = format!("'{subsystem}' does not allow host '{host}': list it there");
            return Ending::Refused(why);
        }
        let parameters = status.means(Status::CONNECT_INVALID_PARAMETERS);
        let why = match (parameters, in_data, at) {
            (true, true, 256) => format!("the target has no subsystem '{}'", self.subsystem_nqn),
            (true, true, 512) => format!("the target refuses host '{}'", self.host_nqn),
            (true, true, 16) => format!("the target has no controller {}", self.controller),
            (true, false, 42) => format!("the target refuses queue identifier {}", self.queue),
            (true, false, 44) => format!("the target refuses queues of {} entries", self.entries),
            (true, ..) => format!("{status}: byte {at} of {}", place(in_data)),
            _ => status.to_string(),
        };
        Ending::Refused(why)
    }
}

fn place(in_data: bool) -> &'static str {
    if in_data { "its data" } else { "the command" }
}
