//! What a session runs with, once the login is over.

use block::Pool;

use super::negotiate::{Key, Values};

/// The outcome of a login, from one end's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Params {
    pub(super) header_digest: bool,
    pub(super) data_digest: bool,
    /// Data beyond the immediate ones goes out only when it is asked for.
    pub(super) initial_r2t: bool,
    /// Data may come with the command.
    pub(super) immediate_data: bool,
    /// Longest burst that is asked for, or sent as one sequence.
    pub(super) max_burst: u32,
    /// Longest burst that is not asked for, immediate data included.
    pub(super) first_burst: u32,
    /// Longest data segment that we send.
    pub(super) send_max: u32,
    /// Longest data segment that we take.
    pub(super) receive_max: u32,
}

impl Params {
    /// From the outcome; `values` has the peer's own MaxRecvDataSegmentLength.
    pub(super) fn new(values: &Values, receive_max: u32) -> Params {
        let max_burst = values.get(Key::MaxBurstLength);
        let data_digest = values.is(Key::DataDigest);
        // Data and their digest lie in one buffer of the outbox; half of one keeps whole blocks.
        let longest = Pool::LARGE_BYTES / if data_digest { 2 } else { 1 };
        Params {
            header_digest: values.is(Key::HeaderDigest),
            data_digest,
            initial_r2t: values.is(Key::InitialR2T),
            immediate_data: values.is(Key::ImmediateData),
            max_burst,
            //= RFC 7143 §13.14: FirstBurstLength MUST NOT exceed MaxBurstLength.
            first_burst: values.get(Key::FirstBurstLength).min(max_burst),
            send_max: values.get(Key::MaxRecvDataSegmentLength).min(longest as u32),
            receive_max,
        }
    }
}
