use proptest::prelude::*;

use super::*;
use job::spec::{Access, Zoned as Spec};

const BLOCK: u64 = 4096;

/// A zoned device in memory, as strict as a real one.
struct Device {
    written: Vec<u64>,
    bytes: u64,
    capacity: u64,
    max_open: usize,
    resets: u32,
}

impl Device {
    fn new(zones: usize, blocks: u64, capacity: u64, max_open: usize) -> Device {
        let (bytes, capacity) = (blocks * BLOCK, capacity * BLOCK);
        Device { written: vec![0; zones], bytes, capacity, max_open, resets: 0 }
    }

    fn zones(&self) -> Zones {
        let zone = |(index, written): (usize, &u64)| Zone {
            start: index as u64 * self.bytes,
            bytes: self.bytes,
            capacity: self.capacity,
            written: *written,
            sequential: true,
            open: *written > 0 && *written < self.capacity,
            usable: true,
        };
        let zones = self.written.iter().enumerate().map(zone).collect();
        Zones { zones, max_open: self.max_open as u32 }
    }

    fn write(&mut self, offset: u64, len: u64) {
        let (index, at) = ((offset / self.bytes) as usize, offset % self.bytes);
        assert_eq!(at, self.written[index], "a write beside the write pointer of zone {index}");
        self.written[index] += len;
        assert!(self.written[index] <= self.capacity, "zone {index} is longer than it can be");
        let open = self.written.iter().filter(|it| **it > 0 && **it < self.capacity).count();
        assert!(self.max_open == 0 || open <= self.max_open, "{open} zones are open");
    }

    fn read(&self, offset: u64, len: u64) {
        let (index, at) = ((offset / self.bytes) as usize, offset % self.bytes);
        assert!(at + len <= self.written[index], "a read behind the write pointer");
    }
}

fn workload(read: f64, random: f64, blocks: Option<u64>) -> Workload {
    let zoned = Some(Spec::default());
    let access = Access { zoned, ..Access::new(BLOCK as u32, read, random) };
    access.check().unwrap();
    Workload { limit_bytes: blocks.map(|blocks| blocks * BLOCK), ..Workload::new(access, 1) }
}

fn zoned(device: &Device, workload: &Workload) -> Zoned {
    let all = (0, device.written.len() as u64 * device.bytes);
    Zoned::new(workload, device.zones(), all, block::Rng::new(7, 0), Part::WHOLE).unwrap()
}

/// Runs I/Os, up to `depth` in flight, which complete in any order. Returns the number of each
/// kind.
fn run(device: &mut Device, zoned: &mut Zoned, depth: usize, most: u32, seed: u64) -> [u32; 2] {
    let (mut flying, mut held, mut done): (Vec<Next>, Option<Next>, _) = (Vec::new(), None, [0; 2]);
    let mut rng = block::Rng::new(seed, 1);
    while done[0] + done[1] < most {
        let next = if flying.len() < depth { held.take().or_else(|| zoned.next()) } else { None };
        match next {
            Some(next) if next.op == Op::Read => {
                done[0] += 1;
                // I/Os in flight count as written: the device executes them in order.
                let end = next.offset + u64::from(next.len);
                let meets = |other: &Next| {
                    other.offset < end && other.offset + u64::from(other.len) > next.offset
                };
                let pending = flying.iter().any(meets);
                if !pending {
                    device.read(next.offset, u64::from(next.len));
                }
                continue;
            }
            Some(next) if next.op == Op::Flush => continue,
            Some(next) => match zoned.enter(next.offset) {
                Entry::Now => {
                    flying.push(next);
                    continue;
                }
                Entry::Reset(zone) if flying.is_empty() => {
                    device.written[(zone.start / device.bytes) as usize] = 0;
                    device.resets += 1;
                    zoned.was_reset(&zone);
                    held = Some(next);
                    continue;
                }
                Entry::Reset(_) | Entry::Wait => held = Some(next),
            },
            None if flying.is_empty() => break,
            None => {}
        }
        let ended = flying.swap_remove(rng.below(flying.len() as u64) as usize);
        device.write(ended.offset, u64::from(ended.len));
        zoned.ended(ended.offset, true);
        done[1] += 1;
    }
    done
}

#[test]
fn zones_are_filled_in_order_and_reset_when_they_are_full() {
    let mut device = Device::new(3, 4, 4, 0);
    let mut first = zoned(&device, &workload(0.0, 0.0, Some(12)));
    assert_eq!(run(&mut device, &mut first, 8, u32::MAX, 1), [0, 12]);
    assert_eq!((&device.written[..], device.resets), (&[4 * BLOCK; 3][..], 0));
    // Once more: each zone is reset when entered.
    let mut again = zoned(&device, &workload(0.0, 0.0, Some(6)));
    assert_eq!(run(&mut device, &mut again, 8, u32::MAX, 1), [0, 6]);
    let wanted = [4, 2, 4].map(|blocks: u64| blocks * BLOCK);
    assert_eq!((&device.written[..], device.resets), (&wanted[..], 2));
    // A partly written zone is continued.
    let mut on = zoned(&device, &workload(0.0, 0.0, None));
    run(&mut device, &mut on, 1, 6, 1);
    assert_eq!(device.resets, 3);
    assert_eq!(device.written[1], 4 * BLOCK);
}

#[test]
fn what_cannot_be_written_of_a_zone_counts_for_a_size_alone() {
    let mut device = Device::new(4, 4, 3, 0);
    let mut by_size = zoned(&device, &workload(0.0, 0.0, Some(16)));
    assert_eq!(run(&mut device, &mut by_size, 4, u32::MAX, 1), [0, 12]);
    assert_eq!((&device.written[..], device.resets), (&[3 * BLOCK; 4][..], 0));
    let mut device = Device::new(4, 4, 3, 0);
    let mut by_bytes = zoned(&device, &workload(0.0, 0.0, Some(8)));
    assert_eq!(run(&mut device, &mut by_bytes, 4, u32::MAX, 1), [0, 8]);
    assert_eq!(device.written, [3 * BLOCK, 3 * BLOCK, 2 * BLOCK, 0]);
}

#[test]
fn a_size_that_ends_within_a_zone_ends_before_it() {
    let mut device = Device::new(4, 4, 3, 0);
    let workload = workload(0.0, 0.0, Some(10));
    let range = (0, 10 * BLOCK);
    let all = device.zones();
    let mut zoned = Zoned::new(&workload, all, range, block::Rng::new(7, 0), Part::WHOLE).unwrap();
    assert_eq!(run(&mut device, &mut zoned, 4, u32::MAX, 1), [0, 6]);
    assert_eq!((&device.written[..2], device.resets), (&[3 * BLOCK; 2][..], 0));
}

#[test]
fn reads_end_where_nothing_was_written() {
    let mut device = Device::new(3, 4, 4, 0);
    device.written = vec![2 * BLOCK, 0, 3 * BLOCK];
    let mut forward = zoned(&device, &workload(100.0, 0.0, Some(12)));
    assert_eq!(run(&mut device, &mut forward, 1, u32::MAX, 1), [5, 0]);
    let mut random = zoned(&device, &workload(100.0, 100.0, Some(100)));
    assert_eq!(run(&mut device, &mut random, 1, u32::MAX, 1), [100, 0]);
    let mut empty = Device::new(3, 4, 4, 0);
    let mut nothing = zoned(&empty, &workload(100.0, 100.0, Some(12)));
    assert_eq!(run(&mut empty, &mut nothing, 1, u32::MAX, 1), [0, 0]);
    let spec = Spec { read_beyond: true, ..Spec::default() };
    let mut workload = workload(100.0, 0.0, Some(12));
    workload.access.zoned = Some(spec);
    let mut beyond = zoned(&empty, &workload);
    assert_eq!(std::iter::from_fn(|| beyond.next()).count(), 12);
}

#[test]
fn what_does_not_fit_the_device_is_refused() {
    let device = Device::new(3, 4, 4, 0);
    let made = |change: fn(&mut Workload), range| {
        let mut workload = workload(0.0, 0.0, None);
        change(&mut workload);
        Zoned::new(&workload, device.zones(), range, block::Rng::new(1, 0), Part::WHOLE)
            .unwrap_err()
    };
    let all = (0, 12 * BLOCK);
    assert!(made(|_| (), (BLOCK, 5 * BLOCK)).contains("no whole zone"));
    let odd = |it: &mut Workload| it.access.zoned.as_mut().unwrap().zone_bytes = 4096;
    assert!(made(odd, all).contains("set zonesize=16384"));
    let long = |it: &mut Workload| it.access.lines[0].size_bytes = 1 << 20;
    assert!(made(long, all).contains("larger than a zone"));
}

#[test]
fn a_zone_whose_write_failed_is_left() {
    let device = Device::new(2, 4, 4, 0);
    let mut zoned = zoned(&device, &workload(0.0, 0.0, None));
    let first = zoned.next().unwrap();
    assert_eq!(zoned.enter(first.offset), Entry::Now);
    zoned.ended(first.offset, false);
    let next: Vec<u64> = (0..3).map(|_| zoned.next().unwrap().offset / BLOCK).collect();
    assert_eq!(next, [4, 5, 6]);
    zoned.ended(next[0] * BLOCK, false);
    assert_eq!(zoned.next(), None);
}

/// Offsets and lengths in blocks, each write done before the next, until all is done.
fn writes(workload: &Workload, zones: Zones, bytes: u64) -> Vec<(u64, u64)> {
    let rng = block::Rng::new(7, 0);
    let mut zoned = Zoned::new(workload, zones, (0, bytes), rng, Part::WHOLE).unwrap();
    let mut done = Vec::new();
    while let Some(next) = zoned.next() {
        if next.op == Op::Flush {
            done.push((u64::MAX, 0));
            continue;
        }
        if let Entry::Reset(zone) = zoned.enter(next.offset) {
            zoned.was_reset(&zone);
            assert_eq!(zoned.enter(next.offset), Entry::Now);
        }
        zoned.ended(next.offset, true);
        done.push((next.offset / BLOCK, u64::from(next.len) / BLOCK));
    }
    done
}

#[test]
fn zones_are_reset_early_as_with_fio() {
    let mut workload = workload(0.0, 0.0, Some(16));
    let spec = Spec { reset_threshold: 0.5, reset_frequency: 0.5, ..Spec::default() };
    workload.access.zoned = Some(spec);
    let zones = Zones::emulated(16 * BLOCK, 4 * BLOCK, 4 * BLOCK);
    let found: Vec<u64> = writes(&workload, zones, 16 * BLOCK).iter().map(|it| it.0).collect();
    // Half is data after eight; then each second write resets its zone.
    assert_eq!(found, [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 8, 9, 8, 9, 8]);
}

#[test]
fn lengths_are_cut_at_the_end_of_a_zone_and_flushes_come_between() {
    let mut workload = workload(0.0, 0.0, Some(8));
    workload.access.lines = vec![Line::new(3 * BLOCK as u32, 0.0, 0.0)];
    workload.access.lines[0].share_percent = 50.0;
    workload.access.lines.push(Line { size_bytes: BLOCK as u32, ..workload.access.lines[0] });
    workload.access.check().unwrap();
    let zones = || Zones::emulated(8 * BLOCK, 4 * BLOCK, 4 * BLOCK);
    let found = writes(&workload, zones(), 8 * BLOCK);
    // No blocks are skipped, and no I/O crosses the end of a zone.
    let mut at = 0;
    for (offset, len) in &found {
        assert_eq!(*offset, at);
        assert_eq!(offset / 4, (offset + len - 1) / 4);
        at += len;
    }
    assert_eq!(at, 8);
    workload.access.flush_every = 2;
    let flushes = |found: &[(u64, u64)]| found.iter().filter(|it| it.0 == u64::MAX).count();
    assert_eq!(flushes(&writes(&workload, zones(), 8 * BLOCK)), (found.len() - 1) / 2);
}

#[test]
fn random_zones_come_as_often_as_they_have_blocks() {
    let mut workload = workload(0.0, 100.0, Some(32));
    workload.access.random = Places::Once;
    let zones = || Zones::emulated(32 * BLOCK, 4 * BLOCK, 4 * BLOCK);
    let mut places = writes(&workload, zones(), 32 * BLOCK);
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 32);
    // With less capacity some zones are reset, but not those with data to verify.
    let less = || Zones::emulated(32 * BLOCK, 4 * BLOCK, 3 * BLOCK);
    assert_eq!(writes(&workload, less(), 32 * BLOCK).len(), 32);
    workload.verify = Some(job::spec::Verify { fill: false, ..Default::default() });
    assert_eq!(writes(&workload, less(), 32 * BLOCK).len(), 24);
    let mut full = zones();
    full.zones.iter_mut().for_each(|zone| zone.written = zone.capacity);
    assert_eq!(writes(&workload, full, 32 * BLOCK).len(), 32);
}

proptest! {
    /// With any I/Os in flight, a strict device accepts all of them.
    #[test]
    fn the_device_takes_every_write(
        zones in 1_usize..9,
        blocks in 1_u64..7,
        less in 0_u64..3,
        max_open in 0_usize..5,
        depth in 1_usize..9,
        read in prop::sample::select(vec![0.0, 30.0, 70.0]),
        random in prop::sample::select(vec![0.0, 100.0]),
        once in any::<bool>(),
        early in prop::sample::select(vec![0.0, 0.3]),
        flush_every in 0_u32..3,
        seed in any::<u64>(),
    ) {
        let capacity = blocks.saturating_sub(less).max(1);
        let mut device = Device::new(zones, blocks, capacity, max_open);
        let mut workload = workload(read, random, None);
        workload.access.flush_every = flush_every;
        workload.access.zoned = Some(Spec { reset_frequency: early, ..Spec::default() });
        if once {
            workload.access.random = Places::Once;
        }
        let mut zoned = zoned(&device, &workload);
        let [reads, writes] = run(&mut device, &mut zoned, depth, 300, seed);
        prop_assert_eq!(reads + writes, 300);
        let filled = u64::from(writes) * BLOCK / (capacity * BLOCK);
        prop_assert!(early > 0.0 || u64::from(device.resets) <= filled);
    }
}
