//! Runs of steps that a story of single draws would seldom have.

use block::Rng;

use super::{BLOCKS, Step};

impl Step {
    /// A leg fails, misses writes, returns, and has faults during or just after its resync.
    pub(super) fn back(rng: &mut Rng, legs: u64) -> Vec<Step> {
        let (leg, other) = (rng.below(legs) as usize, rng.below(legs) as usize);
        let (block, fua) = (rng.below(BLOCKS as u64) as usize, rng.below(2) == 0);
        let then = [Step::Coming, Step::Coming, Step::Whole][rng.below(3) as usize];
        let trouble = [
            Step::Read(block),
            Step::Crash,
            Step::Lose(other),
            Step::Fail(other),
            Step::Write { block, long: false, fua },
        ];
        vec![
            Step::Fail(leg),
            Step::Write { block, long: false, fua },
            Step::Rest,
            Step::Return(leg),
            then,
            Step::Go(rng.below(30) as u32),
            trouble[rng.below(5) as usize],
            Step::Go(rng.below(30) as u32),
        ]
    }

    /// A leg returns and dies about when it is recorded as in, before a durable write reaches it;
    /// after a crash it is back, and a leg with all data fails. For the start of a story, with all
    /// legs in.
    pub(super) fn enter(rng: &mut Rng, legs: u64) -> Vec<Step> {
        let leg = rng.below(legs) as usize;
        let other = (leg + 1) % legs as usize;
        let block = rng.below(BLOCKS as u64) as usize;
        let goes = [Step::Fill(other), Step::Fail(other)][rng.below(2) as usize];
        // Legs that failed before the first write do not count after the crash.
        let away = (0..legs as usize).filter(|one| ![leg, other].contains(one)).map(Step::Fail);
        away.chain([
            Step::Fail(leg),
            Step::Write { block, long: false, fua: false },
            Step::Rest,
            Step::Return(leg),
            Step::Entering,
            Step::Go(rng.below(16) as u32),
            Step::Write { block, long: false, fua: true },
            Step::Fail(leg),
            Step::Rest,
            Step::Crash,
            goes,
            Step::Sync,
        ])
        .collect()
    }

    /// A leg reverts to a snapshot, at once or after more writes to other legs; at any time, and
    /// sometimes twice.
    pub(super) fn older(rng: &mut Rng, legs: u64) -> Vec<Step> {
        let leg = rng.below(legs) as usize;
        let block = rng.below(BLOCKS as u64) as usize;
        let write = |rng: &mut Rng| Step::Write { block, long: false, fua: rng.below(2) == 0 };
        let pause = |rng: &mut Rng| {
            [Step::Rest, Step::Sync, Step::Whole, Step::Go(rng.below(30) as u32)]
                [rng.below(4) as usize]
        };
        let mut steps = vec![write(rng), pause(rng), Step::Snap(leg), write(rng), pause(rng)];
        for _ in 0..1 + rng.below(2) {
            steps.extend([write(rng), pause(rng), Step::Roll(leg)]);
            if rng.below(3) == 0 {
                steps.push(Step::Go(rng.below(20) as u32));
            }
            steps.push(Step::Return(leg));
            steps.push([Step::Crash, Step::Coming, Step::Whole][rng.below(3) as usize]);
            steps.extend([Step::Read(block), pause(rng)]);
        }
        steps
    }

    /// All legs but one fail, and the remaining one loses its cache, or returns as an older image,
    /// and maybe as itself. A later flush must report the loss.
    pub(super) fn silent(rng: &mut Rng, legs: u64) -> Vec<Step> {
        let stays = rng.below(legs) as usize;
        let block = rng.below(BLOCKS as u64) as usize;
        let write = |rng: &mut Rng| Step::Write { block, long: false, fua: rng.below(4) == 0 };
        let mut steps = vec![write(rng), Step::Rest, Step::Snap(stays)];
        steps.extend((0..legs as usize).filter(|leg| *leg != stays).map(Step::Fail));
        steps.extend([Step::Write { block: 3 - block, long: false, fua: true }, Step::Rest]);
        steps.extend([write(rng), Step::Rest]);
        steps.push([Step::Lose(stays), Step::Roll(stays)][rng.below(2) as usize]);
        steps.extend([Step::Go(rng.below(20) as u32), Step::Return(stays)]);
        // A connection is re-established at once, or after a while.
        steps.push([Step::Go(rng.below(60) as u32), Step::Whole][rng.below(2) as usize]);
        steps.extend([Step::Read(block), Step::Read(3 - block), Step::Rest]);
        steps.extend([Step::Flush, Step::Rest, Step::Read(block), Step::Rest, Step::Crash]);
        steps.extend([Step::Read(block), Step::Rest]);
        steps
    }

    /// A crash leaves legs that differ; data read from the first are read from the others, while
    /// one of them is slowly resynced.
    pub(super) fn unequal(rng: &mut Rng) -> Vec<Step> {
        let block = rng.below(BLOCKS as u64) as usize;
        let mut steps = vec![Step::Write { block, long: false, fua: true }, Step::Rest];
        steps.extend([Step::Slow(1), Step::Write { block, long: false, fua: false }]);
        steps.extend([Step::Go(rng.below(24) as u32), Step::Crash]);
        steps.extend([Step::Read(block), [Step::Rest, Step::Go(50)][rng.below(2) as usize]]);
        steps.extend([Step::Fail(0), Step::Read(block), Step::Rest]);
        steps
    }

    /// A leg with late writes fails, or loses its connections, and is re-added while these writes
    /// may still be executed; data written then must stay.
    pub(super) fn late(rng: &mut Rng, legs: u64) -> Vec<Step> {
        let leg = rng.below(legs) as usize;
        let block = rng.below(BLOCKS as u64) as usize;
        let write = |rng: &mut Rng| Step::Write { block, long: false, fua: rng.below(2) == 0 };
        let mut steps = vec![Step::Slow(leg)];
        for _ in 0..1 + rng.below(4) {
            steps.push(write(rng));
        }
        steps.push(Step::Go(rng.below(20) as u32));
        steps.push([Step::Fail(leg), Step::Crash, Step::Rest][rng.below(3) as usize]);
        steps.extend([write(rng), Step::Go(rng.below(20) as u32), Step::Return(leg)]);
        steps.push([Step::Coming, Step::Whole, Step::Sync][rng.below(3) as usize]);
        steps.extend([write(rng), Step::Rest, Step::Read(block), Step::Rest]);
        steps
    }

    /// Legs are compared and repaired during writes.
    pub(super) fn compared(rng: &mut Rng) -> Vec<Step> {
        let mut steps = vec![Step::Whole];
        for _ in 0..12 {
            let block = rng.below(BLOCKS as u64) as usize;
            if rng.below(3) == 0 {
                if rng.below(2) == 0 {
                    steps.push(Step::Spoil(rng.below(2) as usize));
                }
                steps.push(Step::Check { repairs: rng.below(4) > 0 });
                steps.push(Step::Go(rng.below(24) as u32));
            }
            steps.push(Step::Write { block, long: false, fua: rng.below(2) == 0 });
            steps.push(Step::Go(rng.below(12) as u32));
        }
        steps
    }

    /// Durable data, then all legs but one fail, and the remaining one must have the data after a
    /// crash.
    pub(super) fn last(rng: &mut Rng, legs: u64) -> Vec<Step> {
        let stays = rng.below(legs);
        let (block, other) = (rng.below(BLOCKS as u64) as usize, rng.below(BLOCKS as u64) as usize);
        let mut steps = Vec::new();
        if rng.below(2) == 0 {
            // The remaining leg was resynced late.
            let stays = stays as usize;
            steps.extend([Step::Fail(stays), Step::Write { block, long: false, fua: true }]);
            steps.extend([Step::Rest, Step::Return(stays), Step::Whole]);
        } else {
            steps.extend([Step::Write { block, long: false, fua: false }, Step::Rest]);
            steps.extend([Step::Flush, Step::Rest]);
        }
        steps.extend((0..legs).filter(|leg| *leg != stays).map(|leg| Step::Fail(leg as usize)));
        steps.extend([Step::Write { block: other, long: false, fua: false }, Step::Rest]);
        steps.push(Step::Crash);
        steps
    }
}

/// Grows the array once or twice, and lets clients use the new part.
pub(super) fn grow(steps: &mut Vec<Step>, rng: &mut Rng) {
    for _ in 0..1 + rng.below(2) {
        let at = rng.below(steps.len() as u64 + 1) as usize;
        let writes = if rng.below(2) == 0 { 99 } else { rng.below(26) as u32 };
        let mut known = if rng.below(3) > 0 { vec![Step::Whole] } else { Vec::new() };
        known.push(Step::Grow(writes));
        if rng.below(2) == 0 {
            known.extend([Step::Read(4 + rng.below(2) as usize), Step::Rest]);
        }
        steps.splice(at..at, known);
        for step in &mut steps[at..] {
            match step {
                Step::Write { block, long: false, .. }
                | Step::Trim(block)
                | Step::Zero(block)
                | Step::Read(block)
                    if rng.below(2) == 0 =>
                {
                    *block = 4 + rng.below(2) as usize;
                }
                _ => {}
            }
        }
    }
}
