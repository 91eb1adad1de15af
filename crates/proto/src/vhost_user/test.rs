//! Both ends joined in memory, and ends whose peer lies.

use block::{Geometry, Rng};

use super::wire::{HEADER_BYTES, Message, request, state};
use super::*;
use crate::virtio::{Addresses, Config, F_EVENT_IDX, F_INDIRECT, F_VERSION_1, Features};

fn back_end() -> BackEnd<u8> {
    let geometry = Geometry::new(1 << 20, 4096);
    BackEnd::new(Features::offered(&geometry), Config::of(&geometry, 4))
}

/// Sends a message, cut at each byte, with descriptors at its first.
fn send(end: &mut BackEnd<u8>, bytes: &[u8], mut descriptors: Vec<u8>) -> Result<(), Violation> {
    for byte in bytes {
        assert!(end.wants() > 0);
        end.receive(&[*byte], &mut descriptors)?;
    }
    Ok(())
}

/// Carries messages until nobody has any; returns the orders.
fn join(front: &mut FrontEnd, back: &mut BackEnd<u8>) -> Vec<Order<u8>> {
    let mut orders = Vec::new();
    loop {
        let mut moved = false;
        while let Some((bytes, attachment)) = front.output() {
            moved = true;
            let descriptors = attachment.map(|attachment| match attachment {
                Attachment::Memory => 100,
                Attachment::Kick(queue) => queue as u8,
                Attachment::Call(queue) => 50 + queue as u8,
            });
            send(back, &bytes, descriptors.into_iter().collect()).unwrap();
            while let Some(order) = back.order() {
                if matches!(order, Order::Map(_)) {
                    back.mapped();
                }
                orders.push(order);
            }
        }
        let bytes = back.output();
        for byte in &bytes {
            front.receive(&[*byte]).unwrap();
        }
        if !moved && bytes.is_empty() {
            return orders;
        }
    }
}

#[test]
fn a_device_is_asked_and_started() {
    let (mut front, mut back) = (FrontEnd::new(), back_end());
    assert!(join(&mut front, &mut back).is_empty());
    let FrontEndPhase::Known(known) = front.phase() else { panic!("{:?}", front.phase()) };
    assert_eq!((known.queues, known.config.sectors, known.config.block_bytes), (4, 2048, 4096));
    assert!(known.features.has(F_INDIRECT) && known.features.has(F_EVENT_IDX));
    let addresses = Addresses { descriptors: 0x1000, available: 0x2000, used: 0x3000 };
    let queue = QueueStart { size: 128, addresses };
    front.start(0x1000, 0x8000, &[queue, queue]);
    let orders = join(&mut front, &mut back);
    assert_eq!(front.phase(), FrontEndPhase::Ready);
    let [Order::Map(regions), Order::Call(0, Some(50)), Order::Kick(0, Some(0)), start, ..] =
        &*orders
    else {
        panic!("{orders:?}")
    };
    let region = Region { guest: 0x1000, len: 0x8000, user: 0x1000, offset: 0 };
    assert_eq!(*regions, [(region, 100)]);
    let Order::Start(0, setup) = start else { panic!("{start:?}") };
    assert_eq!((setup.size, setup.addresses, setup.base), (128, addresses, 0));
    assert_eq!(setup.features, known.features);
    assert!(matches!(orders.last(), Some(Order::Start(1, _))));
}

#[test]
fn a_queue_stops_when_its_requests_have_ended() {
    let (mut front, mut back) = (FrontEnd::new(), back_end());
    join(&mut front, &mut back);
    let addresses = Addresses { descriptors: 0x1000, available: 0x2000, used: 0x3000 };
    front.start(0, 0x8000, &[QueueStart { size: 8, addresses }]);
    join(&mut front, &mut back);
    let stop = Message::new(request::GET_VRING_BASE, state(0, 0)).to_bytes();
    send(&mut back, &stop, vec![]).unwrap();
    assert!(matches!(back.order(), Some(Order::Stop(0))) && back.output().is_empty());
    assert_eq!(back.wants(), 0, "nothing is read until then");
    back.stopped(0, 77);
    assert_eq!(back.output()[HEADER_BYTES..], state(0, 77));
    let base = Message::new(request::SET_VRING_BASE, state(0, 80)).to_bytes();
    send(&mut back, &base, vec![]).unwrap();
    let kick = Message::new(request::SET_VRING_KICK, vec![0; 8]).to_bytes();
    send(&mut back, &kick, vec![3]).unwrap();
    assert!(matches!(back.order(), Some(Order::Kick(0, Some(3)))));
    assert!(matches!(back.order(), Some(Order::Start(0, setup)) if setup.base == 80));
}

#[test]
fn each_lie_of_a_front_end_has_its_place() {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let lies: Vec<(u32, Vec<u8>, Vec<u8>, usize)> = vec![
        (request::SET_FEATURES, words(&[1 << 34]), vec![], 12),
        (request::SET_FEATURES, words(&[F_VERSION_1, 0]), vec![], 8),
        (request::SET_PROTOCOL_FEATURES, words(&[1 << 12]), vec![], 12),
        (request::SET_OWNER, vec![], vec![1], 0),
        (request::SET_VRING_NUM, state(0, 100), vec![], 16),
        (request::SET_VRING_NUM, state(4, 128), vec![], 12),
        (request::SET_VRING_BASE, state(0, 65536), vec![], 16),
        (request::SET_VRING_ADDR, words(&[1 << 32, 0, 0, 0, 0]), vec![], 16),
        (request::SET_VRING_KICK, words(&[0]), vec![], 12),
        (request::SET_VRING_CALL, words(&[256]), vec![1], 12),
        (request::SET_VRING_ENABLE, state(0, 2), vec![], 16),
        (request::SET_MEM_TABLE, words(&[2, 0, 0, 0, 0]), vec![1, 2], 12),
        (request::SET_MEM_TABLE, words(&[1, 0, 0, 0, 0]), vec![], 12),
        (request::SET_MEM_TABLE, vec![1], vec![], 8),
        (request::GET_CONFIG, vec![0; 11], vec![], 8),
        (request::GET_CONFIG, [0, 300, 0].map(u32::to_ne_bytes).concat(), vec![], 12),
        (request::GET_CONFIG, [u32::MAX, 1, 0].map(u32::to_ne_bytes).concat(), vec![], 12),
        (6, words(&[0]), vec![], 0),
        (999, vec![], vec![], 0),
        (1, vec![0; 513], vec![], 8),
    ];
    for (request, payload, descriptors, at) in lies {
        let message = Message::new(request, payload).to_bytes();
        let found = send(&mut back_end(), &message, descriptors).expect_err("a lie");
        assert_eq!(found.at, at, "request {request}: {found}");
    }
    let mut old = Message::new(request::SET_OWNER, vec![]).to_bytes();
    old[4..8].copy_from_slice(&2_u32.to_ne_bytes());
    assert_eq!(send(&mut back_end(), &old, vec![]).unwrap_err().at, 4);
}

#[test]
fn random_messages_do_no_harm() {
    for seed in 0..2000 {
        let mut rng = Rng::new(seed, 49);
        let mut back = back_end();
        for _ in 0..40 {
            let len = [0, 8, 40, 20, 40, 72][rng.below(6) as usize];
            let payload = (0..len).map(|_| (rng.below(6) / 3 * rng.below(3)) as u8).collect();
            let mut message = Message::new(rng.below(45) as u32, payload);
            message.flags |= (rng.below(2) * 8) as u32;
            let descriptors = (0..rng.below(3)).map(|at| at as u8).collect();
            if send(&mut back, &message.to_bytes(), descriptors).is_err() {
                break;
            }
            while let Some(order) = back.order() {
                match order {
                    Order::Map(_) => back.mapped(),
                    Order::Stop(queue) => back.stopped(queue, 1),
                    _ => {}
                }
            }
            back.output();
        }
        let mut front = FrontEnd::new();
        for _ in 0..20 {
            let len = [8, 72][rng.below(2) as usize];
            let payload = (0..len).map(|_| rng.below(256) as u8).collect();
            let mut message =
                Message::reply([1, 15, 17, 24, 16, 3][rng.below(6) as usize], payload);
            message.flags ^= (rng.below(8) / 7 * 4) as u32;
            let bytes = message.to_bytes();
            let mut rest = &*bytes;
            while !rest.is_empty() {
                let (part, after) = rest.split_at(front.wants().min(rest.len()));
                rest = after;
                if front.receive(part).is_err() {
                    rest = &[];
                }
            }
            while front.output().is_some() {}
        }
    }
}
