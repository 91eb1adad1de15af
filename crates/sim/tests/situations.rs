//! Situations whose results were once wrong, and a few random ones. `cargo xtask sim --rig` runs
//! many more.
#![forbid(unsafe_code)]

use block::Plant;
use sim::{Case, Situation, shrink};

fn holds(situation: &str) {
    let situation: Situation = situation.parse().unwrap();
    if let Err(why) = situation.run(None, |_| {}) {
        panic!("{why}\n  cargo xtask sim --rig '{situation}'");
    }
}

#[test]
fn the_first_situations_hold() {
    (0..25).for_each(|seed| holds(&Situation::of_seed(seed).to_string()));
}

#[test]
fn the_same_seed_is_the_same_result() {
    let [first, second] = [(); 2].map(|()| Situation::of_seed(3).run(None, |_| {}).unwrap());
    assert_eq!(first, second);
}

#[test]
fn every_planted_mistake_is_found() {
    for plant in Situation::PLANTS {
        let fails = |seed| Situation::of_seed(seed).run(Some(*plant), |_| {}).is_err();
        assert!((0..Situation::PLANT_SEEDS).any(fails), "{plant:?} is not found");
    }
}

#[test]
fn a_failing_situation_is_made_smaller() {
    let situation: Situation = "seed=3 volumes=2 workers=3 depth=8 ios=1500 window=4500 ramp=35 \
         units=2 service=two-peaks pace=rate load=90 reads=0 sizes=3 limit=0 stop=0 mishaps=swap"
        .parse()
        .unwrap();
    let plant = Some(Plant::WrongStart);
    let small = shrink(&situation, |situation| situation.run(plant, |_| {}));
    assert!(small.mishaps.is_empty() && small.workers == 1 && small.sizes == 1, "{small}");
    assert!(small.run(plant, |_| {}).is_err() && small.run(None, |_| {}).is_ok());
}

#[test]
fn who_has_begun_all_its_ios_ends_with_the_last() {
    holds(
        "seed=720 volumes=1 workers=5 depth=2 ios=1500 window=930 ramp=0 units=2 \
         service=exponential pace=rate load=90 reads=100 sizes=3 limit=63 stop=0 \
         mishaps=dead-end,silent",
    );
}

#[test]
fn nothing_is_planned_beyond_a_limit() {
    holds(
        "seed=148 volumes=1 workers=2 depth=8 ios=3000 window=2500 ramp=1000 units=1 \
         service=fixed pace=rate load=250 reads=100 sizes=2 limit=1565 skew=1 \
         mishaps=ramp-errors,throttle",
    );
}

#[test]
fn who_lost_the_way_plans_nothing_beyond_its_time() {
    holds(
        "seed=9467 volumes=1 workers=5 depth=1 ios=12000 window=7000 ramp=139 units=1 \
         service=fixed pace=bytes load=250 reads=100 sizes=1 skew=1 length=3709 mishaps=time-out",
    );
}

#[test]
fn connections_count_from_the_turn_of_their_worker_on() {
    holds(
        "seed=93 volumes=2 workers=6 depth=16 ios=3000 window=2000 ramp=1000 service=two-peaks \
         pace=bytes load=60 sizes=1 skew=1 delay=1410 mishaps=reconnect",
    );
}

#[test]
fn who_waits_for_a_place_has_not_begun() {
    holds(
        "seed=8646 volumes=1 workers=4 depth=48 ios=1 window=1 ramp=44 units=1 service=fixed \
         pace=closed load=1 reads=0 sizes=2 skew=1 verify=1",
    );
}

#[test]
fn who_met_a_lie_does_not_end_by_itself() {
    holds(
        "seed=18806 volumes=1 workers=1 depth=1 ios=630 window=618 ramp=13 service=two-peaks \
         pace=closed load=1 reads=12 sizes=1 skew=1 length=617 verify=1 mishaps=lie",
    );
}

#[test]
fn who_lost_the_way_with_its_last_io_is_not_waited_for() {
    holds(
        "seed=25579 volumes=1 workers=1 depth=1 ios=41 window=1850 ramp=0 service=fixed pace=rate \
         load=248 reads=0 sizes=1 skew=1 length=635 mishaps=reconnect,time-out",
    );
}
