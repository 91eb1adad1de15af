//! Stories for data on other hosts: leftovers of lost connections.

use block::Rng;

use super::{BLOCKS, KINDS, Step};

/// Steps that make no sense without an array.
const WITHOUT_ARRAY: [u64; KINDS] =
    [6, 4, 1, 4, 3, 2, 2, 1, 1, 1, 4, 2, 2, 3, 0, 0, 1, 1, 1, 0, 0, 0, 2, 6];

/// Draws a short story of an array: one or two of the known ones, and few other steps.
pub(super) fn short(rng: &mut Rng, legs: u64) -> Vec<Step> {
    let mut steps = some(rng, &Step::weights, legs);
    for _ in 0..1 + rng.below(2) {
        steps.extend(match rng.below(7) {
            0 | 1 if legs > 1 => rejoined(rng, legs),
            2 if legs > 1 => haunted(rng, legs),
            3 if legs > 1 => exchanged(rng, legs),
            4 => outlived(rng, legs),
            5 => Step::silent(rng, legs),
            _ => overtaken(rng, legs),
        });
        steps.extend(some(rng, &Step::weights, legs));
    }
    steps
}

/// A story of a lone volume.
pub(super) fn lone(rng: &mut Rng) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..1 + rng.below(3) {
        steps.extend(some(rng, &|_| WITHOUT_ARRAY, 1));
        steps.extend(match rng.below(5) {
            0 => outlived(rng, 1),
            1 | 2 => forgotten(rng),
            _ => overtaken(rng, 1),
        });
    }
    steps
}

/// Up to eight steps of any kind.
fn some(rng: &mut Rng, weights: &dyn Fn(&mut Rng) -> [u64; KINDS], legs: u64) -> Vec<Step> {
    let weights = weights(rng);
    (0..rng.below(9)).map(|_| Step::draw(rng, &weights, legs)).collect()
}

fn any_block(rng: &mut Rng) -> usize {
    rng.below(BLOCKS as u64) as usize
}

fn write(rng: &mut Rng, block: usize) -> Step {
    Step::Write { block, long: false, fua: rng.below(2) == 0 }
}

/// Writes a block of a slow leg: the write reaches it, and may be executed much later.
fn left_behind(rng: &mut Rng, leg: usize, block: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    if rng.below(2) == 0 {
        // When the leg slows down, the block's region is marked already.
        steps.extend([write(rng, block), Step::Rest]);
    }
    steps.extend([Step::Slow(leg), write(rng, block)]);
    if rng.below(3) == 0 {
        let other = any_block(rng);
        steps.push(write(rng, other));
    }
    steps.push([Step::Go(40 + rng.below(160) as u32), Step::Wait(1)][rng.below(2) as usize]);
    steps
}

/// A newer write of the block, whose data must stay after the older one is executed.
fn written_anew(rng: &mut Rng, block: usize) -> Vec<Step> {
    let mut steps = vec![write(rng, block)];
    if rng.below(3) > 0 {
        steps.push(Step::Rest);
    }
    steps.extend([Step::Wait(1 + rng.below(260) as u32), Step::Read(block), Step::Rest]);
    steps
}

/// A leg is disconnected while it executes a write, and joins again.
fn rejoined(rng: &mut Rng, legs: u64) -> Vec<Step> {
    let (leg, block) = (rng.below(legs) as usize, any_block(rng));
    let mut steps = vec![Step::Whole];
    steps.extend(left_behind(rng, leg, block));
    steps.extend([Step::Fail(leg), Step::Return(leg), Step::Wait(11 + rng.below(30) as u32)]);
    steps.extend(written_anew(rng, block));
    steps
}

/// A leg takes so long for a write that it fails, and is re-added on a new connection while the old
/// one still waits.
fn haunted(rng: &mut Rng, legs: u64) -> Vec<Step> {
    let (leg, block) = (rng.below(legs) as usize, any_block(rng));
    let mut steps = vec![Step::Whole];
    steps.extend(left_behind(rng, leg, block));
    steps.extend([Step::Wait(50 + rng.below(30) as u32), Step::Return(leg)]);
    steps.push(Step::Wait(11 + rng.below(30) as u32));
    steps.extend(written_anew(rng, block));
    steps
}

/// The only leg is disconnected while it executes a write, and a newer one follows.
fn overtaken(rng: &mut Rng, legs: u64) -> Vec<Step> {
    let (stays, block) = (rng.below(legs) as usize, any_block(rng));
    let mut steps = Vec::new();
    if legs > 1 {
        steps.extend((0..legs as usize).filter(|leg| *leg != stays).map(Step::Fail));
        let other = any_block(rng);
        steps.extend([write(rng, other), Step::Rest]);
    }
    steps.extend(left_behind(rng, stays, block));
    steps.extend([Step::Fail(stays), Step::Return(stays), Step::Wait(1 + rng.below(40) as u32)]);
    steps.extend(written_anew(rng, block));
    steps
}

/// The process dies while a leg executes a write, and the next process writes the block again.
fn outlived(rng: &mut Rng, legs: u64) -> Vec<Step> {
    let (leg, block) = (rng.below(legs) as usize, any_block(rng));
    let mut steps = left_behind(rng, leg, block);
    steps.push(Step::Crash);
    if rng.below(2) == 0 {
        steps.push(Step::Return(leg));
    }
    steps.extend(written_anew(rng, block));
    steps
}

/// A leg is replaced with an older image between its check and the first connections.
fn exchanged(rng: &mut Rng, legs: u64) -> Vec<Step> {
    let (leg, block) = (rng.below(legs) as usize, any_block(rng));
    let mut steps = vec![write(rng, block), Step::Rest, Step::Snap(leg)];
    steps.extend([write(rng, block), Step::Rest, write(rng, 3 - block), Step::Rest, Step::Crash]);
    steps.extend([Step::Roll(leg), Step::Return(leg), Step::Go(rng.below(60) as u32)]);
    steps.extend([Step::Read(block), Step::Read(3 - block)]);
    if rng.below(2) == 0 {
        steps.push(write(rng, block));
    }
    steps.extend([Step::Rest, Step::Read(block), Step::Rest]);
    steps
}

/// The server loses its cache, and returns.
fn forgotten(rng: &mut Rng) -> Vec<Step> {
    let block = any_block(rng);
    let mut steps = vec![write(rng, block), Step::Rest];
    if rng.below(2) == 0 {
        steps.extend([Step::Flush, Step::Rest, write(rng, block), Step::Rest]);
    }
    if rng.below(3) == 0 {
        steps.push(write(rng, 3 - block));
    }
    steps.push([Step::Lose(0), Step::Fail(0)][rng.below(2) as usize]);
    steps.push(Step::Go(rng.below(30) as u32));
    if rng.below(3) == 0 {
        steps.push(Step::Flush);
    }
    steps.extend([Step::Return(0), Step::Wait(rng.below(30) as u32)]);
    steps.extend([Step::Read(block), Step::Flush, Step::Rest, Step::Read(block), Step::Rest]);
    if rng.below(2) == 0 {
        steps.extend([Step::Lose(0), Step::Return(0), Step::Read(block), Step::Rest]);
    }
    steps
}
