//! Both ends of vhost-user, and of the rings in memory that the other end writes.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Cause, Done, Geometry, Io, Memory, Op, Pool, Window};
use proto::vhost_user::{BackEnd, FrontEnd, FrontEndPhase, Order, QueueStart};
use proto::virtio::{
    Addresses, Area, BlockQueue, Config, Disk, DriverQueue, F_EVENT_IDX, F_INDIRECT, F_VERSION_1,
    Features, GuestMemory, Windows,
};

use crate::VOLUME_BYTES;

/// Descriptors of a queue.
const SIZE: u16 = 16;
/// Memory of a driver.
const SHARED_BYTES: u64 = 64 << 10;
/// Address of the driver's memory in ring addresses.
const USER: u64 = 0x10_0000;

/// A back-end that receives messages; a descriptor is a number.
pub fn receive_as_back_end(stream: &[u8], descriptors: usize) {
    let geometry = Geometry::new(VOLUME_BYTES, 512);
    let mut end = BackEnd::new(Features::offered(&geometry), Config::of(&geometry, 4));
    let mut rest = stream;
    while !rest.is_empty() {
        let wants = end.wants();
        assert!(wants > 0 && wants <= 1024, "{wants} bytes of a message");
        let (part, after) = rest.split_at(wants.min(rest.len()));
        rest = after;
        let mut came: Vec<u8> = (0..descriptors as u8 % 4).collect();
        if end.receive(part, &mut came).is_err() {
            return;
        }
        while let Some(order) = end.order() {
            match order {
                Order::Map(regions) => {
                    assert!(regions.len() <= 8);
                    end.mapped();
                }
                Order::Stop(queue) => end.stopped(queue, 7),
                Order::Start(queue, setup) => {
                    assert!(queue < 4 && setup.size.is_power_of_two());
                }
                Order::Enable(queue, _) | Order::Kick(queue, _) | Order::Call(queue, _) => {
                    assert!(queue < 4);
                }
            }
        }
        assert!(end.output().len() <= 512, "one answer for a message");
    }
}

/// A front-end that receives answers.
pub fn receive_as_front_end(stream: &[u8]) {
    let mut end = FrontEnd::new();
    let mut rest = stream;
    let mut started = false;
    while !rest.is_empty() {
        let (part, after) = rest.split_at(end.wants().min(rest.len()));
        rest = after;
        if end.receive(part).is_err() {
            return;
        }
        if let FrontEndPhase::Known(known) = end.phase()
            && !std::mem::replace(&mut started, true)
        {
            if let Some(geometry) = known.config.geometry(known.features) {
                assert!(geometry.blocks > 0 && geometry.bytes() <= i64::MAX as u64);
            }
            let addresses = Addresses::default();
            end.start(USER, SHARED_BYTES, &[QueueStart { size: SIZE, addresses }]);
        }
        let mut messages = 0;
        while end.output().is_some() {
            messages += 1;
        }
        assert!(messages < 20);
    }
}

/// Writes what the other end may write: 4 bytes of the input are a place, a length and a value.
fn scribble(window: &Window, step: [u8; 4]) {
    let [low, high, kind, value] = step;
    let at = u64::from(u16::from_le_bytes([low, high]));
    let value = u64::from(value);
    match kind % 5 {
        0 => window.store8(at, value as u8),
        1 => window.store16(at & !1, value as u16),
        2 => window.store32(at & !3, value as u32 * 64),
        3 => window.store64(at & !7, value * 64),
        _ => window.store64(at & !7, u64::MAX - value),
    };
}

/// Executes the I/Os of a device on a volume that ends where it ends.
fn execute(device: &mut BlockQueue, ios: &mut VecDeque<Io>, pool: &Pool) {
    while let Some(io) = ios.pop_back() {
        let Io { tag, op, len, offset, buf, .. } = io;
        assert!(offset + u64::from(len) <= VOLUME_BYTES, "{op:?} outside of the volume");
        assert!(buf.as_ref().is_none_or(|buf| buf.len() >= len as usize));
        device.complete(Done { tag, result: Ok(()), cause: Cause::NONE, buf }, pool);
    }
}

/// A device whose driver writes any bytes into the rings.
pub fn serve_ring(bits: u8, input: &[u8]) {
    let window = Window::anonymous(SHARED_BYTES).expect("memory");
    let area = Area { guest: 0, user: USER, window: window.clone() };
    let guest = Arc::new(GuestMemory::new(vec![area]).expect("a region"));
    let (descriptors, available, used) = (USER, USER + 0x100, USER + 0x180);
    let addresses = Addresses { descriptors, available, used };
    let windows = Windows::find(&guest, SIZE, &addresses).expect("in the region");
    let features = F_VERSION_1 | if bits & 1 == 0 { 0 } else { F_EVENT_IDX };
    let mut device = BlockQueue::new(windows, 0, Features(features), guest);
    let memory = (bits & 2 == 0).then(|| Memory::new(VOLUME_BYTES).expect("memory"));
    let geometry = Geometry { read_only: bits & 4 != 0, ..Geometry::new(VOLUME_BYTES, 512) };
    let disk = Disk { geometry, memory, serial: *b"0123456789abcdefghij" };
    let (pool, mut ios) = (Pool::new(64, 64), VecDeque::new());
    for step in input.as_chunks::<4>().0 {
        scribble(&window, *step);
        if step[2] & 0x80 != 0 {
            let Ok(taken) = device.take(&disk, &pool, &mut ios) else { break };
            assert!(taken.requests <= 32 && taken.answered <= taken.requests);
            if step[2] & 0x40 != 0 {
                execute(&mut device, &mut ios, &pool);
            }
            device.publish();
        }
    }
    execute(&mut device, &mut ios, &pool);
    assert_eq!((device.in_flight(), pool.lent()), (0, [0, 0]), "buffers are back");
}

/// A driver whose device writes any bytes into the memory.
pub fn drive_ring(bits: u8, input: &[u8]) {
    let features = F_VERSION_1 | if bits & 1 == 0 { 0 } else { F_EVENT_IDX };
    let features = Features(features | if bits & 2 == 0 { 0 } else { F_INDIRECT });
    let bytes = DriverQueue::bytes(SIZE, 4096, features);
    let window = Window::anonymous(bytes).expect("memory");
    let queue = DriverQueue::new(window.clone(), USER, SIZE, 4096, features);
    let mut queue = queue.expect("a power of two");
    let slots = queue.free();
    let mut data = [0; 512];
    for step in input.as_chunks::<4>().0 {
        queue.start(Op::Read, 512 * u64::from(step[3]), 512, None);
        queue.publish();
        scribble(&window, *step);
        while step[2] & 0x80 != 0 {
            let Ok(done) = queue.poll() else { return };
            let Some(done) = done else { break };
            queue.read_data(done.slot, &mut data);
            queue.release(done.slot);
        }
        assert_eq!(queue.free() + usize::from(queue.in_flight()), slots);
    }
}
