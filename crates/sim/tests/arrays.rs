//! Stories of arrays that once went wrong, and a few of all. Many more run by
//! `cargo xtask sim --array`, and all of up to three operations by `--array --short`.
#![forbid(unsafe_code)]

use block::Plant;
use sim::Case;
use sim::array::{Story, all_short, run};

/// Mistakes, each with a seed that finds it.
const FOUND: [(Plant, u64); 7] = [
    (Plant::MapAfterData, 38),
    (Plant::AckEarly, 431),
    (Plant::KeepGeneration, 6),
    (Plant::FlushOneLeg, 68),
    (Plant::CleanUnflushed, 1),
    (Plant::CopyUnclaimed, 221),
    (Plant::JoinUnmapped, 2),
];

fn holds(story: &str) {
    let story: Story = story.parse().unwrap();
    if let Err(why) = run(&story) {
        panic!("{why}\n  cargo xtask sim --array '{story}'");
    }
}

#[test]
fn the_first_stories_hold() {
    (0..60).for_each(|seed| holds(&Story::of_seed(seed).to_string()));
}

#[test]
fn all_stories_of_one_operation_hold() {
    all_short().take(104).for_each(|story| holds(&story.to_string()));
}

#[test]
fn the_same_story_is_the_same_run() {
    let story = Story::of_seed(3);
    assert_eq!(run(&story), run(&story));
}

#[test]
fn every_planted_mistake_is_found() {
    for (plant, seed) in FOUND {
        let story = Story::of_seed(seed);
        assert!(story.run(Some(plant), |_| {}).is_err(), "{plant:?} is not found by seed {seed}");
    }
}

#[test]
fn a_last_leg_that_is_gone_answers_and_comes_back() {
    holds("seed=5 legs=1 spares=0 lanes=1 steps=go13,lose0,write2");
    holds("seed=18 legs=2 spares=0 lanes=1 steps=fail0,lose1,return1,flush");
    holds("seed=10002 legs=1 spares=0 lanes=1 steps=go10,write2,go28,fail0,sync,crash");
}

#[test]
fn a_spare_gets_what_was_ever_written() {
    holds("seed=3228 legs=3 spares=1 lanes=1 steps=fua3,sync,sick1,lose2,sync,crash");
}

#[test]
fn a_leg_that_was_being_made_equal_when_the_process_died_is_made_equal() {
    holds(
        "seed=2064 legs=2 spares=0 lanes=2 steps=fua2,fua3,sync,fail1,fua2,read0,write0,write3,\
         sync,crash,go21,crash,lose0,go38,write2,flush,bad1,go4,crash,go22,crash,return1,return0,\
         write0,go39,fail0,rest,write2,lose0,fua0,sync,crash,return0,fail0,sync",
    );
}

#[test]
fn a_leg_that_failed_for_a_long_time_is_taken_in_again() {
    holds(
        "seed=191 legs=2 spares=0 lanes=3 steps=sync,fua3,fua0,flush,sync,write2,go39,sync,sick0,\
         go9,fua0,go36,flush,write1,fail1,go15,read0,sync,go40,rest,return1,sync,flush",
    );
}
