//! All stories of up to three operations, from four states of the array: most bugs of such systems
//! need no more.

use super::story::{Over, Step, Story};

/// Operations on two legs: the written block spans two regions, whose reads go to different legs.
const WORDS: [Step; 10] = [
    Step::Write { block: 1, long: true, fua: false },
    Step::Write { block: 1, long: true, fua: true },
    Step::Flush,
    Step::Trim(1),
    Step::Fail(0),
    Step::Fail(1),
    Step::Return(0),
    Step::Return(1),
    Step::Crash,
    Step::Coming,
];
/// Step after each operation but the last: the next operation at once, after some events, or after
/// all I/Os completed.
const PAUSES: [Step; 3] = [Step::Go(0), Step::Go(12), Step::Rest];
/// The last is followed by the end of the story, where all I/Os complete.
const LAST: u64 = WORDS.len() as u64;
const EACH: u64 = LAST * PAUSES.len() as u64;

const WRITTEN: [Step; 4] =
    [Step::Write { block: 1, long: true, fua: false }, Step::Flush, Step::Rest, Step::Sync];
const BEHIND: [Step; 3] =
    [Step::Fail(1), Step::Write { block: 1, long: true, fua: false }, Step::Rest];

/// Prefixes: none, identical legs, one leg out, one leg syncing.
const BEFORE: [&[&[Step]]; 4] = [
    &[],
    &[&WRITTEN],
    &[&WRITTEN, &BEHIND],
    &[&WRITTEN, &BEHIND, &[Step::Return(1), Step::Coming]],
];

/// Number of stories.
pub fn short_count() -> u64 {
    BEFORE.len() as u64 * LAST * (1 + EACH + EACH * EACH)
}

/// All short stories, by number; those with fewer operations come first.
pub fn all_short() -> impl Iterator<Item = Story> {
    (0..short_count()).map(short)
}

fn short(number: u64) -> Story {
    let (before, rest) = (number % BEFORE.len() as u64, number / BEFORE.len() as u64);
    let (last, mut rest) = (rest % LAST, rest / LAST);
    let length = match rest {
        0 => 0,
        1..=EACH => 1,
        _ => 2,
    };
    rest -= [0, 1, 1 + EACH][length];
    let mut steps = BEFORE[before as usize].concat();
    for _ in 0..length {
        let (word, pause) = (rest % LAST, rest / LAST);
        steps.push(WORDS[word as usize]);
        steps.push(PAUSES[(pause % PAUSES.len() as u64) as usize]);
        rest /= EACH;
    }
    steps.push(WORDS[last as usize]);
    let (over, array) = (Over::Nothing, true);
    Story { seed: number, legs: 2, spares: 0, lanes: 1, over, array, steps }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_is_another_one() {
        assert_eq!(short_count(), 4 * (10 + 30 * 10 + 30 * 30 * 10));
        let all = all_short().map(|story| format!("{:?}", story.steps));
        assert_eq!(all.collect::<HashSet<_>>().len() as u64, short_count());
    }
}
