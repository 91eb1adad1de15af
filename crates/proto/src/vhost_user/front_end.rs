//! The front-end: the driver of a device in another process.

use std::collections::VecDeque;

use super::broken;
use super::wire::{
    Assembly, F_PROTOCOL_FEATURES, Message, PROTOCOL_CONFIG, PROTOCOL_MQ, PROTOCOL_REPLY_ACK,
    QUEUES_MOST, REPLY, request, state,
};
use crate::endpoint::Ending;
use crate::virtio::{Addresses, Config, F_VERSION_1, Features};

/// A descriptor that a message carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// The memory of all queues.
    Memory,
    /// The descriptor to notify this queue.
    Kick(u16),
    /// The descriptor by which this queue interrupts.
    Call(u16),
}

/// A queue to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStart {
    /// Number of descriptors.
    pub size: u16,
    /// The ring's parts.
    pub addresses: Addresses,
}

/// The device, as far as it is known before the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Features that both ends have.
    pub features: Features,
    /// Configuration space.
    pub config: Config,
    /// Number of queues that the device can serve.
    pub queues: u16,
}

/// Progress of a front-end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEndPhase {
    /// Waits for answers.
    Asking,
    /// The device is known: [start](FrontEnd::start) its queues.
    Known(Known),
    /// The queues are being started.
    Starting,
    /// The queues are served.
    Ready,
}

/// A connection to a back-end.
#[derive(Debug)]
pub struct FrontEnd {
    assembly: Assembly<()>,
    phase: FrontEndPhase,
    /// Requests whose replies are awaited, in order.
    awaited: VecDeque<u32>,
    out: VecDeque<(Vec<u8>, Option<Attachment>)>,
    features: u64,
    protocol: u64,
    queues: u16,
}

impl Default for FrontEnd {
    fn default() -> FrontEnd {
        FrontEnd::new()
    }
}

impl FrontEnd {
    /// A new connection, which asks for features first.
    pub fn new() -> FrontEnd {
        let mut end = FrontEnd {
            assembly: Assembly::default(),
            phase: FrontEndPhase::Asking,
            awaited: VecDeque::new(),
            out: VecDeque::new(),
            features: 0,
            protocol: 0,
            queues: 1,
        };
        end.ask(Message::new(request::GET_FEATURES, Vec::new()));
        end
    }

    /// Progress.
    pub fn phase(&self) -> FrontEndPhase {
        self.phase
    }

    /// The next message to send, and its descriptor.
    pub fn output(&mut self) -> Option<(Vec<u8>, Option<Attachment>)> {
        self.out.pop_front()
    }

    /// Number of bytes to receive next.
    pub fn wants(&self) -> usize {
        self.assembly.wants()
    }

    /// Receives at most [`wants`](Self::wants) bytes.
    ///
    /// # Errors
    ///
    /// The back-end broke a rule, or is no block device that can be used.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), Ending> {
        match self.assembly.push(bytes, &mut Vec::new())? {
            Some((message, _)) => self.handle(&message),
            None => Ok(()),
        }
    }

    /// Starts the queues of a known device, whose memory is one region at the address `user`.
    pub fn start(&mut self, user: u64, len: u64, queues: &[QueueStart]) {
        let features = self.features;
        self.say(request::SET_FEATURES, features.to_ne_bytes().to_vec(), None);
        let table = [1_u64.to_ne_bytes(), user.to_ne_bytes(), len.to_ne_bytes()].concat();
        let table = [table, user.to_ne_bytes().to_vec(), vec![0; 8]].concat();
        self.say(request::SET_MEM_TABLE, table, Some(Attachment::Memory));
        for (at, queue) in (0_u16..).zip(queues) {
            let number = u64::from(at).to_ne_bytes().to_vec();
            self.say(request::SET_VRING_NUM, state(at.into(), queue.size.into()), None);
            self.say(request::SET_VRING_BASE, state(at.into(), 0), None);
            let Addresses { descriptors, available, used } = queue.addresses;
            let words = [descriptors, used, available, 0].map(u64::to_ne_bytes).concat();
            let address = [state(at.into(), 0), words].concat();
            self.say(request::SET_VRING_ADDR, address, None);
            self.say(request::SET_VRING_CALL, number.clone(), Some(Attachment::Call(at)));
            self.say(request::SET_VRING_KICK, number, Some(Attachment::Kick(at)));
            self.say(request::SET_VRING_ENABLE, state(at.into(), 1), None);
        }
        self.phase = FrontEndPhase::Starting;
        self.advance();
    }

    /// Sends a request, with an acknowledgement if the back-end has them.
    fn say(&mut self, request: u32, payload: Vec<u8>, attachment: Option<Attachment>) {
        let mut message = Message::new(request, payload);
        if self.protocol & PROTOCOL_REPLY_ACK != 0 {
            message = message.needing_reply();
            self.awaited.push_back(request);
        }
        self.out.push_back((message.to_bytes(), attachment));
    }

    /// Sends a request that has a reply of its own.
    fn ask(&mut self, message: Message) {
        self.awaited.push_back(message.request);
        self.out.push_back((message.to_bytes(), None));
    }

    fn advance(&mut self) {
        if self.phase == FrontEndPhase::Starting && self.awaited.is_empty() {
            self.phase = FrontEndPhase::Ready;
        }
    }

    fn handle(&mut self, message: &Message) -> Result<(), Ending> {
        if message.flags & REPLY == 0 {
            return violation("vhost-user §Header: no reply of a back-end", 4);
        }
        if self.awaited.pop_front() != Some(message.request) {
            return violation("vhost-user §Communication: a reply to another request", 0);
        }
        match message.request {
            request::GET_FEATURES => self.features_came(message.words()?)?,
            request::GET_PROTOCOL_FEATURES => {
                let [offered] = message.words()?;
                let used = PROTOCOL_MQ | PROTOCOL_REPLY_ACK | PROTOCOL_CONFIG;
                if offered & PROTOCOL_CONFIG == 0 {
                    return refused("the device does not tell its configuration");
                }
                let protocol = (offered & used).to_ne_bytes().to_vec();
                self.say(request::SET_PROTOCOL_FEATURES, protocol, None);
                self.protocol = offered & used;
                self.say(request::SET_OWNER, Vec::new(), None);
                if self.protocol & PROTOCOL_MQ != 0 {
                    self.ask(Message::new(request::GET_QUEUE_NUM, Vec::new()));
                }
                let size = Config::BYTES as u32;
                let head = [0, size, 0].map(u32::to_ne_bytes).concat();
                let payload = [head, vec![0; Config::BYTES]].concat();
                self.ask(Message::new(request::GET_CONFIG, payload));
            }
            request::GET_QUEUE_NUM => {
                let [count] = message.words()?;
                self.queues = count.clamp(1, QUEUES_MOST.into()) as u16;
            }
            request::GET_CONFIG => {
                let Some(space) = message.payload.get(12..).filter(|space| !space.is_empty())
                else {
                    return refused("the device does not tell its configuration");
                };
                let config = Config::parse(space);
                let features = Features(self.features & !F_PROTOCOL_FEATURES);
                self.phase = FrontEndPhase::Known(Known { features, config, queues: self.queues });
            }
            _ => {
                let [result] = message.words()?;
                if result != 0 {
                    return refused("the device refused a request for its queues");
                }
                self.advance();
            }
        }
        Ok(())
    }

    fn features_came(&mut self, [offered]: [u64; 1]) -> Result<(), Ending> {
        if offered & F_PROTOCOL_FEATURES == 0 || offered & F_VERSION_1 == 0 {
            return refused("the device has no protocol features, or is older than VIRTIO 1.0");
        }
        self.features = Features::used(offered).0 | F_PROTOCOL_FEATURES;
        self.ask(Message::new(request::GET_PROTOCOL_FEATURES, Vec::new()));
        Ok(())
    }
}

fn violation<T>(rule: &'static str, at: usize) -> Result<T, Ending> {
    broken(rule, at).map_err(Ending::Violation)
}

fn refused<T>(why: &str) -> Result<T, Ending> {
    Err(Ending::Refused(why.to_owned()))
}
