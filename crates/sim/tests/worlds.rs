//! Worlds that once failed, and a few of all. `cargo xtask sim` runs many more.
#![forbid(unsafe_code)]

use block::Plant;
use sim::{Plan, run, shrink};

fn holds(world: &str) {
    let plan: Plan = world.parse().unwrap();
    if let Err(why) = run(&plan, None, |line| println!("server: {line}")) {
        panic!("{why}\n  cargo xtask sim '{plan}'");
    }
}

/// Checks that the world fails with the mistake, and holds without it.
fn finds(plant: Plant, world: &str) {
    holds(world);
    let plan: Plan = world.parse().unwrap();
    assert!(run(&plan, Some(plant), |_| {}).is_err(), "{plant:?} is not found");
}

#[test]
fn the_first_worlds_hold() {
    (0..25).for_each(|seed| holds(&Plan::of_seed(seed).to_string()));
}

#[test]
fn the_same_seed_is_the_same_run() {
    let plan = Plan::of_seed(7);
    let [first, second] = [(); 2].map(|()| run(&plan, None, |_| {}).unwrap());
    assert_eq!(first, second);
}

#[test]
fn every_busy_unit_is_polled() {
    finds(
        Plant::PollFirstAndLast,
        "seed=0 cores=1 disks=5 memories=0 iscsi=3 nvme=2 hostile=0 depth=4 blocks=8 buffers=64 \
         memory=256 cut=0 digests=0 faults=",
    );
}

#[test]
fn what_a_poll_queues_is_sent() {
    finds(
        Plant::SubmitFirst,
        "seed=0 cores=1 disks=1 memories=0 iscsi=1 nvme=0 hostile=0 depth=1 blocks=8 buffers=64 \
         memory=256 cut=0 digests=0 faults=",
    );
}

#[test]
fn units_that_nobody_uses_are_looked_after() {
    finds(
        Plant::ForgetIdle,
        "seed=0 cores=1 disks=1 memories=0 iscsi=1 nvme=0 hostile=0 depth=1 blocks=1 buffers=64 \
         memory=256 cut=0 digests=0 faults=",
    );
}

#[test]
fn every_socket_gets_a_buffer_in_turn() {
    finds(
        Plant::RefillLastFirst,
        "seed=1 cores=1 disks=0 memories=1 iscsi=8 nvme=8 hostile=0 depth=16 blocks=16 buffers=2 \
         memory=256 cut=0 digests=0 faults=",
    );
}

#[test]
fn a_volume_that_lets_nobody_in_holds_nobody_else_up() {
    finds(
        Plant::OpenInLoop,
        "seed=1 cores=1 disks=1 memories=1 iscsi=2 nvme=2 hostile=0 depth=2 blocks=1 buffers=64 \
         memory=256 cut=0 digests=0 faults=slow-open",
    );
}

#[test]
fn memory_goes_back_when_peers_leave_after_a_quiet_time() {
    finds(
        Plant::KeepMemory,
        "seed=3482 cores=1 disks=1 memories=0 iscsi=1 nvme=0 hostile=1 depth=4 blocks=6 buffers=2 \
         memory=78 cut=3 digests=0 faults=vanish,pause",
    );
}

#[test]
fn a_server_that_was_killed_serves_all_again() {
    let world = |seed: u64| {
        format!(
            "seed={seed} cores=2 disks=2 memories=1 iscsi=2 nvme=2 hostile=1 depth=4 blocks=8 \
             buffers=8 memory=64 cut=100 digests=0 faults=crash,reset"
        )
    };
    (0..4).for_each(|seed| holds(&world(seed)));
}

#[test]
fn a_write_of_a_session_that_was_cut_never_lands_on_a_later_one() {
    finds(
        Plant::AnswerReinstatementEarly,
        "seed=1 cores=1 disks=1 memories=0 iscsi=2 nvme=0 hostile=0 depth=8 blocks=1 buffers=64 \
         memory=64 cut=0 digests=0 faults=reset,late",
    );
}

#[test]
fn a_write_of_a_controller_that_was_reset_never_lands_on_a_later_one() {
    finds(
        Plant::CompleteResetEarly,
        "seed=1 cores=1 disks=1 memories=0 iscsi=0 nvme=2 hostile=0 depth=8 blocks=1 buffers=64 \
         memory=64 cut=0 digests=0 faults=vanish,late",
    );
}

#[test]
fn clients_that_were_killed_find_their_last_write() {
    let world = |seed: u64| {
        format!(
            "seed={seed} cores=2 disks=1 memories=0 iscsi=2 nvme=2 hostile=0 depth=8 blocks=1 \
             buffers=64 memory=64 cut=0 digests=0 faults=kill,late,busy"
        )
    };
    (0..8).for_each(|seed| holds(&world(seed)));
}

#[test]
fn a_flush_that_fails_is_told_to_all_who_wrote() {
    finds(
        Plant::ForgetFailedFlush,
        "seed=1 cores=1 disks=1 memories=0 iscsi=2 nvme=1 hostile=0 depth=4 blocks=8 buffers=64 \
         memory=64 cut=0 digests=0 faults=medium",
    );
}

#[test]
fn a_failing_world_is_made_smaller() {
    let plan: Plan = "seed=3 cores=2 disks=4 memories=2 iscsi=3 nvme=3 hostile=2 depth=4 blocks=8 \
                      buffers=8 memory=256 cut=100 digests=1 faults=reset,stall"
        .parse()
        .unwrap();
    let small = shrink(&plan, |plan| run(plan, Some(Plant::PinBuffers), |_| {}));
    assert!(small.faults.is_empty() && small.cores == 1 && !small.digests, "{small}");
    assert!(run(&small, Some(Plant::PinBuffers), |_| {}).is_err());
}

#[test]
fn a_connection_that_makes_room_for_others_gives_its_buffers_back() {
    // The server had unsent responses.
    holds(
        "seed=75481 cores=1 disks=1 memories=0 iscsi=4 nvme=8 hostile=0 depth=3 blocks=31 \
         buffers=2 memory=4 cut=100 digests=0 faults=leave,pause",
    );
}
