//! CPU time of one request through a virtqueue: both ends on one thread, each descriptor checked.
//!
//! `cargo run --release -p drumfire-proto --example ring_speed`

use std::collections::VecDeque;

use block::{Geometry, Memory, Op, Pool, Rng, Window};
use proto::virtio::{BlockQueue, Disk, DriverQueue, F_EVENT_IDX, F_INDIRECT, Features, Windows};

const SIZE: u16 = 512;
const SLOT_BYTES: u64 = 4096;
const BASE: u64 = 1 << 32;
const DEPTH: usize = 128;

/// Nanoseconds per request of `len` bytes at random offsets of `bytes`.
fn ns_per_request(features: u64, bytes: u64, len: u32, turns: usize) -> f64 {
    let features = Features(features);
    let window = Window::anonymous(DriverQueue::bytes(SIZE, SLOT_BYTES, features)).unwrap();
    let mut driver = DriverQueue::new(window, BASE, SIZE, SLOT_BYTES, features).unwrap();
    let guest = driver.memory().unwrap();
    let windows = Windows::find(&guest, SIZE, &driver.addresses()).unwrap();
    let mut device = BlockQueue::new(windows, 0, features, guest);
    let memory = Memory::new(bytes).unwrap();
    (0..bytes / 4096).for_each(|page| memory.write(page * 4096, &page.to_le_bytes()));
    let geometry = Geometry::new(bytes, 512);
    let disk = Disk { geometry, memory: Some(memory), serial: [b'0'; 20] };
    let (pool, mut ios) = (Pool::new(1, 1), VecDeque::new());
    let mut rng = Rng::new(1, 1);
    let blocks = (bytes - u64::from(len)) / 512 + 1;
    let mut data = vec![0; len as usize];
    driver.silence();
    device.silence();
    let (mut count, begin) = (0_u64, cpu_ns());
    for _ in 0..turns {
        while usize::from(driver.in_flight()) < DEPTH {
            driver.start(Op::Read, rng.below(blocks) * 512, len, None).unwrap();
        }
        driver.publish();
        while device.take(&disk, &pool, &mut ios).unwrap().requests > 0 {}
        device.publish();
        while let Some(done) = driver.poll().unwrap() {
            assert_eq!(done.result, Ok(()));
            driver.read_data(done.slot, &mut data);
            driver.release(done.slot);
            count += 1;
        }
    }
    assert_eq!(count, (turns * DEPTH) as u64);
    (cpu_ns() - begin) as f64 / count as f64
}

/// CPU time of this thread: other programs may use the CPU meanwhile.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let first = text.split_whitespace().next().expect("three numbers");
    first.parse().expect("nanoseconds")
}

/// All shapes, `turns` times the depth each.
fn measure(turns: usize) {
    for (features, name) in [(F_EVENT_IDX, "direct"), (F_EVENT_IDX | F_INDIRECT, "indirect")] {
        for (bytes, len) in [(1 << 20, 512), (1 << 20, 4096), (64 << 20, 512)] {
            let ns = ns_per_request(features, bytes, len, turns);
            println!("{name}: {len} B of {} MiB: {ns:.1} ns", bytes >> 20);
        }
    }
}

fn main() {
    measure(100_000);
}

#[cfg(test)]
mod test {
    #[test]
    fn a_few_requests_are_measured() {
        super::measure(20);
    }
}
