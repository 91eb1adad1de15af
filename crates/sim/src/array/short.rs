//! All stories of up to three operations: most mistakes of such systems need no more.

use super::story::{Step, Story};

/// What may happen: to two legs and two blocks in two regions.
const WORDS: [Step; 13] = [
    Step::Write { block: 0, long: false, fua: false },
    Step::Write { block: 2, long: false, fua: false },
    Step::Write { block: 0, long: false, fua: true },
    Step::Write { block: 2, long: false, fua: true },
    Step::Flush,
    Step::Trim(0),
    Step::Trim(2),
    Step::Fail(0),
    Step::Fail(1),
    Step::Return(0),
    Step::Return(1),
    Step::Crash,
    Step::Sync,
];
/// What follows each: the next at once, after some events, or after all is answered.
const PAUSES: [Step; 4] = [Step::Go(0), Step::Go(4), Step::Go(25), Step::Rest];

/// What stands before them: nothing, or blocks that were written and legs that are equal.
const BEFORE: [&[Step]; 2] = [
    &[],
    &[
        Step::Write { block: 0, long: false, fua: false },
        Step::Write { block: 2, long: false, fua: false },
        Step::Flush,
        Step::Rest,
        Step::Sync,
    ],
];

/// How many there are.
pub fn short_count() -> u64 {
    let each = (WORDS.len() * PAUSES.len()) as u64;
    BEFORE.len() as u64 * (each + each.pow(2) + each.pow(3))
}

/// All of them, by number.
pub fn all_short() -> impl Iterator<Item = Story> {
    (0..short_count()).map(short)
}

fn short(number: u64) -> Story {
    let each = (WORDS.len() * PAUSES.len()) as u64;
    let (before, mut rest) = (number % BEFORE.len() as u64, number / BEFORE.len() as u64);
    let mut length = 1;
    while rest >= each.pow(length) {
        rest -= each.pow(length);
        length += 1;
    }
    let mut steps = BEFORE[before as usize].to_vec();
    for _ in 0..length {
        let (word, pause) = (rest % WORDS.len() as u64, rest / WORDS.len() as u64);
        steps.push(WORDS[word as usize]);
        steps.push(PAUSES[(pause % PAUSES.len() as u64) as usize]);
        rest /= each;
    }
    Story { seed: number, legs: 2, spares: 0, lanes: 1, steps }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_is_another_one() {
        assert_eq!(short_count(), 2 * (52 + 52 * 52 + 52 * 52 * 52));
        let some = all_short().take(6000).map(|story| format!("{:?}", story.steps));
        assert_eq!(some.collect::<HashSet<_>>().len(), 6000);
        assert_eq!(short(short_count() - 1).steps.len(), 5 + 6);
        assert_eq!(short(short_count() - 2).steps.len(), 6);
    }
}
