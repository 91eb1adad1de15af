//! The back-end: the device of a driver in another process.

use std::collections::VecDeque;

use super::broken;
use super::wire::{
    Assembly, F_PROTOCOL_FEATURES, Message, NEED_REPLY, NO_DESCRIPTOR, PROTOCOL_CONFIG,
    PROTOCOL_MQ, PROTOCOL_REPLY_ACK, QUEUE_MASK, QUEUES_MOST, REPLY, request, state,
};
use crate::endpoint::Violation;
use crate::virtio::{Addresses, Config, Features};

/// Our protocol features.
const PROTOCOL: u64 = PROTOCOL_MQ | PROTOCOL_REPLY_ACK | PROTOCOL_CONFIG;
/// Maximum length of a configuration space in a message.
const CONFIG_BYTES_MOST: u32 = 256;
/// Length of a memory region in a message.
const REGION_BYTES: usize = 32;

/// A region of memory to map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First address in descriptors.
    pub guest: u64,
    /// Length in bytes.
    pub len: u64,
    /// First address in the front-end's process.
    pub user: u64,
    /// Offset in the file.
    pub offset: u64,
}

/// A queue to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSetup {
    /// Number of descriptors.
    pub size: u16,
    /// The ring's parts.
    pub addresses: Addresses,
    /// The entry to begin with.
    pub base: u16,
    /// Negotiated features.
    pub features: Features,
}

/// An order to the owner of a back-end.
#[derive(Debug)]
pub enum Order<F> {
    /// Map these files and call [`BackEnd::mapped`].
    Map(Vec<(Region, F)>),
    /// Serve this queue from now on.
    Start(u16, QueueSetup),
    /// Serve a queue (true), or take no more requests for now.
    Enable(u16, bool),
    /// Finish the requests in flight of this queue, and call [`BackEnd::stopped`].
    Stop(u16),
    /// The driver notifies this queue by this descriptor.
    Kick(u16, Option<F>),
    /// Interrupt the driver of this queue by this descriptor.
    Call(u16, Option<F>),
}

/// State of a queue as far as messages tell.
#[derive(Debug, Default)]
struct Queue {
    size: u16,
    addresses: Option<Addresses>,
    base: u16,
    kicked: bool,
    enabled: bool,
    started: bool,
}

/// An answer that waits for the owner.
#[derive(Debug, PartialEq, Eq)]
enum Pending {
    Nothing,
    Map { acknowledge: bool },
    Stop(u16),
}

/// A connection of a front-end.
#[derive(Debug)]
pub struct BackEnd<F> {
    assembly: Assembly<F>,
    offered: Features,
    features: u64,
    protocol: u64,
    config: Config,
    queues: Vec<Queue>,
    has_memory: bool,
    pending: Pending,
    orders: VecDeque<Order<F>>,
    out: Vec<u8>,
}

impl<F> BackEnd<F> {
    /// A new connection to a device with these features and this configuration.
    pub fn new(offered: Features, config: Config) -> BackEnd<F> {
        let queues = config.queues.clamp(1, QUEUES_MOST);
        BackEnd {
            assembly: Assembly::default(),
            offered,
            features: 0,
            protocol: 0,
            config: Config { queues, ..config },
            queues: (0..queues).map(|_| Queue::default()).collect(),
            has_memory: false,
            pending: Pending::Nothing,
            orders: VecDeque::new(),
            out: Vec::new(),
        }
    }

    /// Number of bytes to receive next; 0 while the owner has not carried out an order.
    pub fn wants(&self) -> usize {
        if self.pending == Pending::Nothing { self.assembly.wants() } else { 0 }
    }

    /// Receives at most [`wants`](Self::wants) bytes and their descriptors. Then the owner carries
    /// out the [orders](Self::order) and sends the [output](Self::output).
    ///
    /// # Errors
    ///
    /// The front-end broke a rule: the connection ends.
    pub fn receive(&mut self, bytes: &[u8], descriptors: &mut Vec<F>) -> Result<(), Violation> {
        match self.assembly.push(bytes, descriptors)? {
            Some((message, descriptors)) => self.handle(&message, descriptors),
            None => Ok(()),
        }
    }

    /// The next order.
    pub fn order(&mut self) -> Option<Order<F>> {
        self.orders.pop_front()
    }

    /// Takes the bytes to send.
    pub fn output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// The regions of [`Order::Map`] are mapped.
    pub fn mapped(&mut self) {
        let before = std::mem::replace(&mut self.pending, Pending::Nothing);
        self.has_memory = true;
        if before == (Pending::Map { acknowledge: true }) {
            self.acknowledge(request::SET_MEM_TABLE, true);
        }
        (0..self.queues.len()).for_each(|queue| self.start(queue));
    }

    /// The queue of [`Order::Stop`] has stopped; it would continue with the entry `base`.
    pub fn stopped(&mut self, queue: u16, base: u16) {
        if self.pending == Pending::Stop(queue) {
            self.pending = Pending::Nothing;
            if let Some(one) = self.queues.get_mut(usize::from(queue)) {
                one.base = base;
            }
            self.answer(request::GET_VRING_BASE, state(queue.into(), base.into()));
        }
    }

    fn answer(&mut self, request: u32, payload: Vec<u8>) {
        self.out.extend(Message::reply(request, payload).to_bytes());
    }

    fn acknowledge(&mut self, request: u32, good: bool) {
        self.answer(request, u64::from(!good).to_ne_bytes().to_vec());
    }

    fn handle(&mut self, message: &Message, descriptors: Vec<F>) -> Result<(), Violation> {
        if message.flags & REPLY != 0 {
            return broken("vhost-user §Header: a reply of a front-end", 4);
        }
        let needs = message.flags & NEED_REPLY != 0 && self.protocol & PROTOCOL_REPLY_ACK != 0;
        let takes = matches!(
            message.request,
            request::SET_MEM_TABLE
                | request::SET_VRING_KICK
                | request::SET_VRING_CALL
                | request::SET_VRING_ERR
        );
        if !takes && !descriptors.is_empty() {
            return broken("vhost-user §Communication: a request without descriptors", 0);
        }
        match message.request {
            request::GET_FEATURES => {
                let all = self.offered.0 | F_PROTOCOL_FEATURES;
                self.answer(message.request, all.to_ne_bytes().to_vec());
                return Ok(());
            }
            request::GET_PROTOCOL_FEATURES => {
                self.answer(message.request, PROTOCOL.to_ne_bytes().to_vec());
                return Ok(());
            }
            request::GET_QUEUE_NUM => {
                let count = u64::from(self.config.queues);
                self.answer(message.request, count.to_ne_bytes().to_vec());
                return Ok(());
            }
            request::GET_CONFIG => return self.tell_config(message),
            request::GET_VRING_BASE => return self.stop(message),
            request::SET_CONFIG => {
                // No field is writable.
                if needs {
                    self.acknowledge(message.request, false);
                }
                return Ok(());
            }
            request::SET_MEM_TABLE => return self.map(message, descriptors, needs),
            request::SET_OWNER | request::RESET_OWNER => {}
            request::SET_FEATURES => {
                let [features] = message.words()?;
                if features & !(self.offered.0 | F_PROTOCOL_FEATURES) != 0 {
                    return broken("vhost-user §VHOST_USER_SET_FEATURES: one not offered", 12);
                }
                self.features = features;
            }
            request::SET_PROTOCOL_FEATURES => {
                let [protocol] = message.words()?;
                if protocol & !PROTOCOL != 0 {
                    let rule = "vhost-user §VHOST_USER_SET_PROTOCOL_FEATURES: one not offered";
                    return broken(rule, 12);
                }
                self.protocol = protocol;
            }
            request::SET_VRING_KICK | request::SET_VRING_CALL | request::SET_VRING_ERR => {
                self.take_descriptor(message, descriptors)?;
            }
            _ => self.set_ring(message)?,
        }
        if needs {
            self.acknowledge(message.request, true);
        }
        Ok(())
    }

    /// Settings of a ring.
    fn set_ring(&mut self, message: &Message) -> Result<(), Violation> {
        match message.request {
            request::SET_VRING_NUM => {
                let (queue, size) = message.state()?;
                let fits = u16::try_from(size).ok().filter(|size| size.is_power_of_two());
                let Some(size) = fits else {
                    return broken("vhost-user §VHOST_USER_SET_VRING_NUM: no power of two", 16);
                };
                self.stopped_queue(queue)?.size = size;
            }
            request::SET_VRING_BASE => {
                let (queue, base) = message.state()?;
                let Ok(base) = u16::try_from(base) else {
                    return broken("vhost-user §VHOST_USER_SET_VRING_BASE: beyond 65535", 16);
                };
                self.stopped_queue(queue)?.base = base;
            }
            request::SET_VRING_ADDR => {
                let [head, descriptors, used, available, _log] = message.words()?;
                let bytes = head.to_ne_bytes();
                let queue = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                if bytes[4..] != [0; 4] {
                    return broken("vhost-user §VHOST_USER_SET_VRING_ADDR: logging", 16);
                }
                let addresses = Addresses { descriptors, available, used };
                self.stopped_queue(queue)?.addresses = Some(addresses);
            }
            request::SET_VRING_ENABLE => {
                let (queue, enabled) = message.state()?;
                if enabled > 1 {
                    return broken("vhost-user §VHOST_USER_SET_VRING_ENABLE: 0 or 1", 16);
                }
                let one = self.queue(queue)?;
                one.enabled = enabled == 1;
                if one.started {
                    self.orders.push_back(Order::Enable(queue as u16, enabled == 1));
                }
                self.start(queue as usize);
            }
            _ => return broken("vhost-user §Front-end message types: one not negotiated", 0),
        }
        Ok(())
    }

    fn queue(&mut self, queue: u32) -> Result<&mut Queue, Violation> {
        match self.queues.get_mut(queue as usize) {
            Some(queue) => Ok(queue),
            None => broken("vhost-user §Multiple queue support: no such queue", 12),
        }
    }

    /// A queue that is not being served.
    fn stopped_queue(&mut self, queue: u32) -> Result<&mut Queue, Violation> {
        let queue = self.queue(queue)?;
        if queue.started {
            return broken("vhost-user §Ring states: a setting of a started ring", 12);
        }
        Ok(queue)
    }

    fn take_descriptor(
        &mut self,
        message: &Message,
        mut descriptors: Vec<F>,
    ) -> Result<(), Violation> {
        let [word] = message.words()?;
        let queue = (word & QUEUE_MASK) as u16;
        let expected = usize::from(word & NO_DESCRIPTOR == 0);
        if descriptors.len() != expected {
            let rule = "vhost-user §VHOST_USER_SET_VRING_KICK: one descriptor, or bit 8";
            return broken(rule, 12);
        }
        let one = self.queue(queue.into())?;
        let descriptor = descriptors.pop();
        match message.request {
            request::SET_VRING_KICK => {
                one.kicked = true;
                self.orders.push_back(Order::Kick(queue, descriptor));
                self.start(queue.into());
            }
            request::SET_VRING_CALL => self.orders.push_back(Order::Call(queue, descriptor)),
            // Errors end the connection.
            _ => {}
        }
        Ok(())
    }

    /// Starts a queue once all its settings are there.
    fn start(&mut self, queue: usize) {
        let negotiated = self.features & F_PROTOCOL_FEATURES != 0;
        let features = Features(self.features & !F_PROTOCOL_FEATURES);
        let Some(one) = self.queues.get_mut(queue) else { return };
        let ready = self.has_memory && one.size > 0 && one.kicked && !one.started;
        let Some(addresses) = one.addresses.filter(|_| ready) else { return };
        //= vhost-user §Ring states: without protocol features a ring starts enabled.
        if negotiated && !one.enabled {
            return;
        }
        one.started = true;
        let setup = QueueSetup { size: one.size, addresses, base: one.base, features };
        self.orders.push_back(Order::Start(queue as u16, setup));
    }

    fn stop(&mut self, message: &Message) -> Result<(), Violation> {
        let (queue, _) = message.state()?;
        let one = self.queue(queue)?;
        one.kicked = false;
        let (was_started, base) = (std::mem::replace(&mut one.started, false), one.base);
        let queue = queue as u16;
        self.pending = Pending::Stop(queue);
        match was_started {
            true => self.orders.push_back(Order::Stop(queue)),
            false => self.stopped(queue, base),
        }
        Ok(())
    }

    fn map(
        &mut self,
        message: &Message,
        descriptors: Vec<F>,
        acknowledge: bool,
    ) -> Result<(), Violation> {
        let Some((head, regions)) = message.payload.split_at_checked(8) else {
            return broken("vhost-user §Memory regions description: too short", 8);
        };
        let count = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let (regions, _) = regions.as_chunks::<REGION_BYTES>();
        // Front-ends may send the room of all eight regions.
        if count > regions.len() || count != descriptors.len() {
            let rule = "vhost-user §Memory regions description: a descriptor for each region";
            return broken(rule, 12);
        }
        let region = |bytes: &[u8; REGION_BYTES]| {
            let (words, _) = bytes.as_chunks::<8>();
            let [guest, len, user, offset] =
                std::array::from_fn(|at| u64::from_ne_bytes(words[at]));
            Region { guest, len, user, offset }
        };
        let regions = regions[..count].iter().map(region).zip(descriptors).collect();
        self.pending = Pending::Map { acknowledge };
        self.orders.push_back(Order::Map(regions));
        Ok(())
    }

    fn tell_config(&mut self, message: &Message) -> Result<(), Violation> {
        let Some((head, room)) = message.payload.split_at_checked(12) else {
            return broken("vhost-user §Virtio device config space: too short", 8);
        };
        let word =
            |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (offset, size) = (word(0), word(4));
        let end = offset.checked_add(size).filter(|end| *end <= CONFIG_BYTES_MOST);
        let (Some(end), true) = (end, room.len() == size as usize) else {
            return broken("vhost-user §Virtio device config space: beyond 256 bytes", 12);
        };
        let mut space = self.config.to_bytes().to_vec();
        space.resize(CONFIG_BYTES_MOST as usize, 0);
        let mut payload = head.to_vec();
        payload.extend(&space[offset as usize..end as usize]);
        self.answer(message.request, payload);
        Ok(())
    }
}
