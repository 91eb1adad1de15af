//! Cross-Controller Reset: a new controller ends an old one that has no connections left, and with
//! it the unanswered commands.

use block::Nanos;

use super::super::pdu::{CommandBuilder, Completion, admin, get16, get64};
use super::ControllerInstance;

/// Offsets in Identify Controller data.
//= NVMe base §Identify Controller data structure: CIU is byte 135, CIRN bytes 143:136, CQT 387:386,
// CCRL byte 1807.
mod at {
    pub(super) const CIU: usize = 135;
    pub(super) const CIRN: usize = 136;
    pub(super) const CQT: usize = 386;
    pub(super) const CCRL: usize = 1807;
}

/// The log page of resets, and the length that is read of it: 511 entries.
//= NVMe base §Cross-Controller Reset log page: 1Eh.
const LOG: u32 = 0x1e;
const LOG_BYTES: u32 = 4096;

/// Outcome of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The old controller has no commands left.
    Done,
    UnderWay,
    Failed,
}

/// Whether a controller can reset others.
//= NVMe base §CCRL: zero where the command is not supported.
pub(super) fn is_supported(page: &[u8]) -> bool {
    page[at::CCRL] != 0
}

/// Time in which a controller ends its commands after it has lost its host, as reported.
//= NVMe base §CQT: milliseconds; zero is not reported.
pub(super) fn quiesce_time(page: &[u8]) -> Nanos {
    Nanos::from_millis(get16(page, at::CQT).into())
}

/// A controller, of its Identify data.
pub(super) fn instance(id: u16, page: &[u8]) -> ControllerInstance {
    ControllerInstance { id, ciu: page[at::CIU], cirn: get64(page, at::CIRN) }
}

/// The command.
//= NVMe base §Cross-Controller Reset command: ICID and CIU in Dword 10, CIRN in Dwords 12 and 13.
pub(super) fn command(id: u16, old: ControllerInstance) -> CommandBuilder {
    let command = CommandBuilder::new(admin::CROSS_CONTROLLER_RESET, id, 0);
    let command = command.word(10, u32::from(old.id) | u32::from(old.ciu) << 16);
    command.word(12, old.cirn as u32).word(13, (old.cirn >> 32) as u32)
}

/// Reads the outcome of the command.
//= NVMe base §Cross-Controller Reset command: bit 0 of Dword 0 is Immediate Reset Successful.
pub(super) fn outcome(completion: &Completion) -> Outcome {
    match (completion.status.is_success(), completion.result & 1) {
        (true, 1) => Outcome::Done,
        (true, _) => Outcome::UnderWay,
        (false, _) => Outcome::Failed,
    }
}

/// The command that reads the log.
//= NVMe base §Get Log Page: LID, and dwords less one in bits 31:16.
pub(super) fn log(id: u16) -> CommandBuilder {
    CommandBuilder::new(admin::GET_LOG_PAGE, id, u32::MAX).word(10, LOG | (LOG_BYTES / 4 - 1) << 16)
}

/// Returns the outcome from the log page.
//= NVMe base §Cross-Controller Reset log page: NE; entries of ICID, CIU, ACID, CCRS.
pub(super) fn logged(data: &[u8], old: ControllerInstance) -> Outcome {
    let (head, rest) = data.split_at(8);
    let entries = rest.as_chunks::<8>().0.iter().take(get16(head, 0).into());
    let mut ours = entries.filter(|entry| get16(&entry[..], 0) == old.id && entry[2] == old.ciu);
    //= NVMe base §Cross-Controller Reset log page: CCRS 0 is in progress, 1 successful.
    match ours.next_back().map(|entry| entry[6]) {
        Some(0) => Outcome::UnderWay,
        Some(1) => Outcome::Done,
        _ => Outcome::Failed,
    }
}
