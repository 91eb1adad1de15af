//! Servers behind a volume are killed, or lose their power, under load, again and again: no data
//! acknowledged with FUA or before a completed flush are lost, a possible loss fails a flush, and
//! the legs of an array become identical again.
//!
//! `DRUMFIRE_ROUNDS=500 cargo test -p drumfire-tests killed_behind::` makes 500 series of each
//! kind, of [`KILLS`] kills each; `DRUMFIRE_SEED` sets the first seed.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use drumfire_tests::{
    Below, Chance, Drumfire, Far, Folder, Nbd, Patience, Server, Witness, rounds,
};

use crate::doubt::{Front, LIMIT, array, await_agreement, leg_file};

const AT_ONCE: usize = 2;
const KILLS: u64 = 3;

/// Reads everything, as soon as it can be read, and flushes it.
fn look(witness: &mut Witness, way: &mut Nbd, told: &dyn Fn() -> String) {
    let mut patience = Patience::new(LIMIT);
    loop {
        let looked = witness.look(way);
        if let Ok(wrong) = &looked {
            assert!(wrong.is_empty(), "{}: {wrong:#?}", told());
        }
        if looked.is_ok() && way.flush().unwrap() {
            return;
        }
        assert!(patience.wait(), "{}: {looked:?}", told());
    }
}

fn series(drumfire: &Drumfire, seed: u64, legs: u64) -> String {
    let mut chance = Chance(seed);
    let folder = Folder::new();
    let files: Vec<PathBuf> = (0..legs).map(|number| leg_file(&folder, number)).collect();
    let mut fars: Vec<Far> = files
        .iter()
        .map(|file| {
            let server = Server::OURS[chance.below(3) as usize];
            Far::start(server, drumfire, folder.path(), Below::File(file.clone()))
        })
        .collect();
    let uris: Vec<String> = fars.iter().map(|far| format!("{}?grace=1", far.uri())).collect();
    let uri = match legs {
        1 => format!("{}&reconnect=60s", uris[0]),
        _ => array(drumfire, &folder, &uris),
    };
    let front = Front::start(drumfire, &folder, &uri);
    let mut ways = [front.connect(), front.connect()];
    let mut witness = Witness::new(ways[0].bytes);
    let servers: Vec<Server> = fars.iter().map(|far| far.server).collect();
    let (mut errors, mut leavings) = (0, 0);
    for kill in 0..KILLS {
        // Any leg but one, or all.
        let all = legs == 1 || chance.below(3) == 0;
        let spared = chance.below(legs) as usize;
        let hit = |number: usize| all || number != spared;
        let away = Duration::from_millis(chance.below(600));
        let answers = 50 + chance.below(300);
        let told = || format!("seed {seed}, {servers:?}, kill {kill}, all: {all}, {spared}");
        let act = || {
            let mut struck: Vec<&mut Far> = Vec::new();
            struck
                .extend(fars.iter_mut().enumerate().filter(|(at, _)| hit(*at)).map(|(_, far)| far));
            struck.iter_mut().for_each(|far| far.kill());
            sleep(away);
            struck.iter_mut().for_each(|far| far.come_back());
        };
        let failed = witness.ride(&mut ways, &mut chance, answers, act).unwrap();
        let said = || format!("{}: {}", told(), front.running.stderr());
        assert!(all || failed == 0, "{failed} failed though a good leg was in, {}", said());
        errors += failed;
        // Each connection gets one report of a loss.
        for way in &mut ways {
            if !way.flush().unwrap() {
                assert!(all, "a flush failed though a good leg was in, {}", said());
                witness.may_have_lost();
                errors += 1;
            }
        }
        let [one, other] = &mut ways;
        look(&mut witness, one, &said);
        look(&mut witness, other, &said);
        if legs > 1 {
            await_agreement(&front, &files);
            // The last leg never leaves.
            leavings += legs as usize - 1;
            await_all_in(&front, &mut ways[0], leavings);
        }
    }
    drop(ways);
    let said = front.end();
    if legs > 1 {
        let check = drumfire.run(folder.path(), &format!("volume check {uri}"), LIMIT);
        assert_eq!(check.code, Some(0), "seed {seed}, {servers:?}: {check:?}, {said}");
    }
    format!("{servers:?}: {} durable, {errors} errors", witness.durable)
}

/// Waits until at least `leavings` legs have left since the start, and all of them are in again.
/// The line that a leg left may be printed after its I/Os have completed on others.
fn await_all_in(front: &Front, way: &mut Nbd, leavings: usize) {
    let count = |word: &str| front.running.stderr().matches(word).count();
    let mut patience = Patience::new(LIMIT);
    while count(") left: ") < leavings || count(") left: ") > count(" is back in sync") {
        assert!(way.flush().is_ok());
        assert!(patience.wait(), "never in again: {}", front.running.stderr());
    }
}

#[test]
fn a_reconnecting_volume_keeps_what_was_durable() {
    let Some(drumfire) = Drumfire::find() else { return };
    rounds(1..4, AT_ONCE, |seed| series(&drumfire, seed, 1));
}

#[test]
fn an_array_keeps_what_was_durable() {
    let Some(drumfire) = Drumfire::find() else { return };
    rounds(1..4, AT_ONCE, |seed| series(&drumfire, seed, 2 + seed % 2));
}
