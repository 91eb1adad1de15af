//! Messages: a header of 12 bytes, and a payload. All numbers are in native byte order.

use super::broken;
use crate::endpoint::Violation;

/// Length of a header.
pub(super) const HEADER_BYTES: usize = 12;
/// Maximum length of a payload; the longest, a configuration of 256 bytes, has 268.
const PAYLOAD_BYTES_MOST: usize = 512;
/// Maximum number of queues.
pub const QUEUES_MOST: u16 = 16;

/// Version in a header's flags.
const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
/// Flag of a reply.
pub(super) const REPLY: u32 = 4;
/// Flag that asks for an acknowledgement.
pub(super) const NEED_REPLY: u32 = 8;

/// `VHOST_USER_F_PROTOCOL_FEATURES`.
pub(super) const F_PROTOCOL_FEATURES: u64 = 1 << 30;
/// `VHOST_USER_PROTOCOL_F_MQ`.
pub(super) const PROTOCOL_MQ: u64 = 1;
/// `VHOST_USER_PROTOCOL_F_REPLY_ACK`.
pub(super) const PROTOCOL_REPLY_ACK: u64 = 1 << 3;
/// `VHOST_USER_PROTOCOL_F_CONFIG`.
pub(super) const PROTOCOL_CONFIG: u64 = 1 << 9;

/// Bit of a descriptor message that comes without one.
pub(super) const NO_DESCRIPTOR: u64 = 1 << 8;
/// Bits of the queue's number in a descriptor message.
pub(super) const QUEUE_MASK: u64 = 0xff;

/// Types of requests.
pub(super) mod request {
    pub const GET_FEATURES: u32 = 1;
    pub const SET_FEATURES: u32 = 2;
    pub const SET_OWNER: u32 = 3;
    pub const RESET_OWNER: u32 = 4;
    pub const SET_MEM_TABLE: u32 = 5;
    pub const SET_VRING_NUM: u32 = 8;
    pub const SET_VRING_ADDR: u32 = 9;
    pub const SET_VRING_BASE: u32 = 10;
    pub const GET_VRING_BASE: u32 = 11;
    pub const SET_VRING_KICK: u32 = 12;
    pub const SET_VRING_CALL: u32 = 13;
    pub const SET_VRING_ERR: u32 = 14;
    pub const GET_PROTOCOL_FEATURES: u32 = 15;
    pub const SET_PROTOCOL_FEATURES: u32 = 16;
    pub const GET_QUEUE_NUM: u32 = 17;
    pub const SET_VRING_ENABLE: u32 = 18;
    pub const GET_CONFIG: u32 = 24;
    pub const SET_CONFIG: u32 = 25;
}

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub request: u32,
    pub flags: u32,
    pub payload: Vec<u8>,
}

impl Message {
    pub fn new(request: u32, payload: Vec<u8>) -> Message {
        Message { request, flags: VERSION, payload }
    }

    pub fn reply(request: u32, payload: Vec<u8>) -> Message {
        Message { request, flags: VERSION | REPLY, payload }
    }

    pub fn needing_reply(self) -> Message {
        Message { flags: self.flags | NEED_REPLY, ..self }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.payload.len());
        for word in [self.request, self.flags, self.payload.len() as u32] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(&self.payload);
        bytes
    }

    /// A payload of words of 64 bits.
    ///
    /// # Errors
    ///
    /// The payload has another length.
    pub fn words<const N: usize>(&self) -> Result<[u64; N], Violation> {
        if self.payload.len() != 8 * N {
            return broken("vhost-user §Payload: another length than the request's", 8);
        }
        let (words, _) = self.payload.as_chunks::<8>();
        Ok(std::array::from_fn(|at| u64::from_ne_bytes(words[at])))
    }

    /// A payload of a queue's number and a number.
    ///
    /// # Errors
    ///
    /// The payload has another length.
    pub fn state(&self) -> Result<(u32, u32), Violation> {
        let [word] = self.words::<1>()?;
        let bytes = word.to_ne_bytes();
        let half = |at: usize| {
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Ok((half(0), half(4)))
    }
}

/// The bytes of a queue's number and a number.
pub(super) fn state(queue: u32, number: u32) -> Vec<u8> {
    [queue.to_ne_bytes(), number.to_ne_bytes()].concat()
}

/// Assembles messages, each together with its descriptors.
#[derive(Debug)]
pub struct Assembly<F> {
    bytes: Vec<u8>,
    descriptors: Vec<F>,
}

impl<F> Default for Assembly<F> {
    fn default() -> Assembly<F> {
        Assembly { bytes: Vec::with_capacity(HEADER_BYTES), descriptors: Vec::new() }
    }
}

/// Maximum number of descriptors of a message.
pub(super) const DESCRIPTORS_MOST: usize = 8;

impl<F> Assembly<F> {
    /// Number of bytes to receive next, at least 1. More would be of the next message, and their
    /// descriptors with them.
    pub fn wants(&self) -> usize {
        match self.bytes.len() {
            0..HEADER_BYTES => HEADER_BYTES - self.bytes.len(),
            len => HEADER_BYTES + self.len() - len,
        }
    }

    /// Length of the payload, by the header.
    fn len(&self) -> usize {
        self.word(8) as usize
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = &self.bytes[at..at + 4];
        u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    /// Takes at most [`wants`](Self::wants) bytes and the descriptors that came with them. Returns
    /// a message once it is whole.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        descriptors: &mut Vec<F>,
    ) -> Result<Option<(Message, Vec<F>)>, Violation> {
        debug_assert!(bytes.len() <= self.wants(), "bytes of one message");
        self.descriptors.append(descriptors);
        if self.descriptors.len() > DESCRIPTORS_MOST {
            return broken("vhost-user §Communication: more than 8 descriptors", 0);
        }
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() < HEADER_BYTES {
            return Ok(None);
        }
        if self.word(4) & VERSION_MASK != VERSION {
            return broken("vhost-user §Header: another version than 1", 4);
        }
        if self.len() > PAYLOAD_BYTES_MOST {
            return broken("vhost-user §Header: a payload of more than 512 bytes", 8);
        }
        if self.bytes.len() < HEADER_BYTES + self.len() {
            return Ok(None);
        }
        let (request, flags) = (self.word(0), self.word(4));
        let payload = self.bytes[HEADER_BYTES..].to_vec();
        self.bytes.clear();
        let message = Message { request, flags, payload };
        Ok(Some((message, std::mem::take(&mut self.descriptors))))
    }
}
