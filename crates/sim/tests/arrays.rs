//! Stories that once failed, and a few of all. `cargo xtask sim --array` runs many more, and
//! `--array --short` all of up to three operations.
#![forbid(unsafe_code)]

use block::Plant;
use sim::Case;
use sim::array::{RemoteStory, Story, all_short, run};

/// Planted mistakes, each with a seed that finds it.
const FOUND: [(Plant, u64); 22] = [
    (Plant::MapAfterData, 0),
    (Plant::AckEarly, 1),
    (Plant::ReadStale, 37),
    (Plant::KeepGeneration, 0),
    (Plant::FlushOneLeg, 16),
    (Plant::CleanUnflushed, 0),
    (Plant::CopyUnclaimed, 46),
    (Plant::JoinUnmapped, 1),
    (Plant::JoinUnflushed, 23),
    (Plant::MapOnOneLeg, 0),
    (Plant::TrustFirst, 15),
    (Plant::EnterUnseen, 1),
    (Plant::GrowUnzeroed, 3),
    (Plant::GrowEarly, 19),
    (Plant::RefuseForAll, 0),
    (Plant::TrustOldImage, 35),
    (Plant::TrimUnzeroed, 713),
    (Plant::ReviveUnseen, 76),
    (Plant::ReadUnsettled, 637),
    (Plant::WaitForEver, 136),
    (Plant::ShowUnrecorded, 99),
    (Plant::CheckUnclaimed, 861),
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
fn all_stories_of_up_to_two_operations_hold() {
    all_short().take(1240).for_each(|story| holds(&story.to_string()));
}

#[test]
fn the_same_story_is_the_same_run() {
    let story = Story::of_seed(3);
    assert_eq!(run(&story), run(&story));
}

#[test]
fn a_flush_of_the_last_leg_tells_that_its_cache_was_lost() {
    for seed in 0..20 {
        for (legs, first) in [(1, ""), (2, "fail1,"), (3, "fail1,fail2,")] {
            holds(&format!(
                "seed={seed} legs={legs} spares=0 lanes=2 steps={first}write0,rest,lose0,return0,\
                 go{},flush,rest,crash,read0,rest",
                seed * 5
            ));
        }
    }
}

#[test]
fn every_planted_mistake_is_found() {
    assert!(Plant::KEPT.iter().all(|plant| FOUND.iter().any(|(found, _)| found == plant)));
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

/// A spare alone recorded a change, and was absent while the legs that were in went on.
#[test]
fn a_spare_that_took_a_change_alone_is_no_split() {
    holds(
        "seed=728826 legs=2 spares=1 lanes=1 steps=fail0,fail1,whole,crash,fail2,crash,fail0,\
         flush,rest,fail1,crash",
    );
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

#[test]
fn what_was_told_when_the_last_cache_is_lost_may_be_gone() {
    holds(
        "seed=5435 legs=3 spares=0 lanes=1 steps=go16,write0,go10,fail2,sync,sick1,write0,go14,\
         lose0",
    );
    holds("seed=8314 legs=2 spares=1 lanes=1 steps=sick0,sync,write1,go12,go20,lose1");
    holds(
        "seed=5507 legs=3 spares=0 lanes=1 steps=write-long1,fail2,flush,write0,flush,write1,\
         sync,lose1,fail0",
    );
}

#[test]
fn a_leg_that_went_on_alone_is_not_given_up_for_an_older_one() {
    holds("seed=2892 legs=2 spares=0 lanes=1 steps=write3,lose0,go23,fail1,return0,crash");
}

#[test]
fn a_leg_that_is_copied_from_and_loses_its_cache_is_copied_again() {
    holds(
        "seed=2853 legs=2 spares=0 lanes=1 steps=write-long1,fail0,rest,return0,coming,go2,lose1",
    );
}

/// The leg wrote superblocks of ever higher generations meanwhile, which pushed all others out of
/// the history.
#[test]
fn a_last_leg_that_goes_as_another_is_recorded_as_in_is_waited_for() {
    let steps = "read1,read2,go14,coming,coming,read0,fua2,read3,go35,read3,read2,write1,write3,\
                 read0,fua0,fua2,write0,sync,rest,coming,sync,sync,go36,go23,go40,read0,write2,\
                 sync,fua-long1,fail1,fua2,rest,return1,coming,go29,lose0,go5,bad1,return0,read0,\
                 read1,go17,lose0,bad1,sync,bad1,rest,whole,read0,go5";
    holds(&format!("seed=568 legs=2 spares=0 lanes=1 steps={steps}"));
}

/// After 64 generations the leg's superblock was dropped from the history, as if the leg had been
/// used alone.
#[test]
fn a_leg_that_was_away_while_others_came_and_went_a_hundred_times_is_taken_in_again() {
    holds(
        "seed=158629 legs=4 spares=1 lanes=1 steps=sick1,full0,sick2,full3,sync,sync,crash,sync,\
         sync,sync",
    );
}

/// Seed 168,792: the leg died when it had the superblock that recorded it as in, and the others did
/// not have it yet. A FUA write was acknowledged, because the leg was not recorded as in; after the
/// crash the leg was in.
#[test]
fn a_leg_that_dies_while_it_is_recorded_as_in_is_waited_for() {
    holds(
        "seed=168792 legs=3 spares=1 lanes=1 steps=fail2,go29,fail1,write0,return1,coming,go7,go19,\
         go18,fua0,fail1,rest,crash,full0,sync",
    );
    // If the last leg that is read is gone, there is no wait for recording the failure of others.
    holds(
        "seed=73445 legs=3 spares=1 lanes=1 steps=fua2,lose0,coming,write1,rest,flush,rest,fail1,\
         fail2,write1,rest",
    );
}

#[test]
fn a_second_leg_may_fail_while_the_first_is_made_equal() {
    for (legs, second) in [(2, 0), (3, 0), (3, 2), (4, 3)] {
        for seed in 0..50 {
            for trouble in ["fail", "lose", "sick", "bad", "full"] {
                holds(&format!(
                    "seed={seed} legs={legs} spares=0 lanes=2 steps=fua0,fua3,rest,sync,fail1,fua0,\
                     write-long1,rest,return1,coming,go{},{trouble}{second},read0,write3,go40,sync",
                    seed % 25
                ));
            }
        }
    }
}

#[test]
fn a_resync_may_be_cut_ten_times() {
    for cut in ["crash", "fail1,go9,return1", "lose1,go9,return1", "fail0,go9,return0"] {
        for seed in 0..40 {
            let cuts = format!("coming,go{},{cut},", seed % 20).repeat(10);
            holds(&format!(
                "seed={seed} legs=2 spares=0 lanes=1 steps=fua0,fua3,rest,sync,fail1,fua0,\
                 fua-long1,\
                 fua3,rest,return1,{cuts}read0,read1,read2,read3,whole"
            ));
        }
    }
}

/// Also if a leg's first superblock is torn and the second is the only one.
#[test]
fn an_array_may_die_at_every_write_of_a_growth() {
    for writes in 0..=20 {
        for seed in 0..12 {
            let legs = 1 + seed % 3;
            holds(&format!(
                "seed={seed} legs={legs} spares={} lanes=1 steps=fua0,write3,rest,crash,go{},\
                 grow{writes},read4,read5,fua4,write5,rest,crash,read0,read4,grow{},fua5,rest",
                seed % 2,
                seed * 3,
                20 - writes
            ));
        }
    }
}

#[test]
fn an_array_that_lacks_a_leg_does_not_grow_and_one_that_is_whole_again_does() {
    for seed in 0..40 {
        let leg = seed % 2;
        let story = format!(
            "seed={seed} legs=2 spares=0 lanes=1 steps=fua0,rest,fail{leg},fua1,rest,grow99,read4,\
             return{leg},whole,grow99,fua4,read5,rest"
        );
        let story: Story = story.parse().unwrap();
        let kept = run(&story).unwrap();
        let count = |word: &str| {
            kept.counts().iter().find(|(what, _)| *what == word).map_or(0, |(_, count)| *count)
        };
        let all = count("growths refused") + count("arrays that grew");
        assert_eq!(all, 2, "{:?}", kept.counts());
        assert!(count("growths refused") >= 1);
    }
}

/// The process dies again and again while it writes superblocks.
#[test]
fn of_two_superblocks_one_is_always_whole() {
    for seed in 0..150 {
        let cuts = |n: u64| format!("crash,go{},", (seed * 7 + n * 5) % 29);
        let cuts: String = (0..8).map(cuts).collect();
        holds(&format!(
            "seed={seed} legs={} spares=0 lanes=1 steps=fua0,rest,{cuts}fua1,rest,crash",
            1 + seed % 2
        ));
    }
}

#[test]
fn a_leg_without_room_for_its_map_and_superblocks_leaves_and_comes_back() {
    for seed in 0..100 {
        holds(&format!(
            "seed={seed} legs=2 spares=0 lanes=2 steps=full{},write0,fua2,go9,fua-long1,flush,rest,\
             crash,write3,rest,return0,return1,whole,fua0,read0,rest",
            seed % 2
        ));
    }
}

/// An older image replaces the only leg with all data, before the opening was recorded on it: seed
/// 1437.
#[test]
fn an_older_image_is_known_by_what_was_read_at_the_opening() {
    for seed in 1430..1450 {
        for over in ["iscsi", "nbd", "nvme"] {
            holds(&format!(
                "seed={seed} legs=2 spares=0 lanes=1 over={over} steps=fail0,fua1,rest,snap1,fua1,\
                 fua2,rest,crash,roll1,return1,wait2,fua1,go6"
            ));
        }
    }
}

/// A target reported a failed flush to its queues one after the other.
#[test]
fn a_leg_whose_flushes_failed_many_times_stays_in_again() {
    holds(
        "seed=4397 legs=4 spares=0 lanes=3 over=nvme steps=zero0,fail2,read3,sync,read0,fua2,sick2,\
         sync,hang1,go12,sync,zero2,read0,whole",
    );
}

/// The simulated disk never made the data durable: the process waiting for the completion was gone.
#[test]
fn what_a_disk_executed_for_a_server_that_died_is_flushed_by_the_next_one() {
    holds(
        "seed=8285 legs=1 spares=1 lanes=3 over=nbd steps=sync,flush,fua-long1,flush,go17,write3,\
         fua2,rest,slow0,write2,write3,wait1,read2,write0,fua2,fail0,write2,fua2,fua2,wait152,\
         read2",
    );
}

/// The last leg executed a write late, after another leg had been resynced from it.
#[test]
fn a_leg_is_made_equal_when_the_last_one_has_no_writes_in_doubt() {
    holds("seed=18077 legs=2 spares=1 lanes=1 over=nbd steps=coming,fail0,slow1,fua2,go54,fail1");
}

/// Nothing was written since the array's own connection to the last leg broke, so the loss was
/// unnoticed.
#[test]
fn a_write_may_notice_that_the_connection_to_the_last_leg_is_lost() {
    for writes in ["write0", "fua-long1,write0,rest,write3,write2"] {
        holds(&format!(
            "seed=18112 legs=1 spares=0 lanes=1 over=mixed steps=coming,fail0,return0,sync,{writes}"
        ));
    }
}

/// The array's own connection to the last leg stays lost, so no region can be marked any more. A
/// write may fail when it notices this; permanent failure is a fault.
#[test]
fn writes_that_fail_for_ever_are_noticed() {
    let plant = Some(Plant::ReviveForClients);
    let noticed = "seed=18112 legs=1 spares=0 lanes=1 over=mixed \
                   steps=coming,fail0,return0,sync,write0";
    let why = noticed.parse::<Story>().unwrap().run(plant, |_| {}).unwrap_err();
    assert!(why.contains("fails, medium error, though leg 0 is good"), "{why}");
    let why = RemoteStory::of_seed(12).run(plant, |_| {}).unwrap_err();
    assert!(why.contains("writes fail long after all legs are good again"), "{why}");
}

/// A server failed a read after a timeout: the data of the other leg are written back, also if the
/// map is clean.
#[test]
fn a_read_that_hung_is_repaired() {
    holds("seed=18556 legs=2 spares=0 lanes=1 over=iscsi steps=whole,hang0,read3,sync");
}

/// A write to the range of one in doubt, before the lane was open.
#[test]
fn a_lane_takes_nothing_before_it_is_open() {
    holds(
        "seed=17677 legs=1 spares=0 lanes=1 over=nbd array=no steps=write1,rest,fail0,fua2,rest,\
         return0,wait1,write2",
    );
}

#[test]
fn a_leg_that_vanished_is_given_up_or_brought_back() {
    for seed in 0..100 {
        holds(&format!(
            "seed={seed} legs=3 spares={} lanes=1 steps=fua0,rest,lose{},fua0,rest,crash,fua2,rest,\
             crash,read0,read2,rest",
            seed % 2,
            seed % 3
        ));
    }
}
