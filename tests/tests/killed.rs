//! A server is killed in mid-burst, again and again: no data acknowledged with FUA or before a
//! completed flush are lost, and the legs of an array are identical again afterwards.
//!
//! `DRUMFIRE_KILLS=200 cargo test -p drumfire-tests killed::` runs 200 rounds. In every second
//! series each file has a write cache that the kill empties, so that unflushed data are lost for
//! certain.

use std::path::{Path, PathBuf};
use std::time::Duration;

use drumfire_tests::{Chance, Drumfire, Folder, Nbd, Patience, Running, Witness};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(300);
/// Rounds of each kind of volume, unless the environment overrides the number.
const ROUNDS: u64 = 6;
/// Bytes of the volumes under test, minus the arrays' metadata.
const MIB: u64 = 1 << 20;
const LEG_BYTES: u64 = 10 * MIB;

/// A volume under test and its files.
struct Rig {
    drumfire: Drumfire,
    folder: Folder,
    uri: String,
    legs: Vec<PathBuf>,
}

impl Rig {
    fn new(drumfire: &Drumfire, kind: &str, cache: Option<&str>) -> Rig {
        let folder = Folder::new();
        if let Some(cache) = cache {
            let text = format!("name = 'a cache'\nseed = 7\n[cache]\n{cache}\n");
            folder.file("cache.toml", text.as_bytes());
        }
        let names: &[&str] = match kind {
            "plain" => &["a"],
            "striped" => &["a", "b", "c"],
            _ => &["a", "b"],
        };
        let legs: Vec<PathBuf> = names.iter().map(|name| folder.path().join(name)).collect();
        let schedule = folder.path().join("cache.toml");
        let uris = legs.iter().map(|leg| {
            let file = format!("file:{}?size={LEG_BYTES}", leg.display());
            match cache {
                Some(_) => format!("fault:{}({file})", schedule.display()),
                None => file,
            }
        });
        let uris: Vec<String> = uris.collect();
        let uri = match kind {
            "plain" => uris[0].clone(),
            "striped" => format!("stripe:16k({})", uris.join(",")),
            _ => {
                let legs: Vec<String> = uris.iter().map(|leg| format!("--leg {leg}")).collect();
                let args = format!("volume create mirror disk {}", legs.join(" "));
                let made = drumfire.run(folder.path(), &args, LIMIT).ok();
                made.stdout.trim().to_owned()
            }
        };
        Rig { drumfire: drumfire.clone(), folder, uri, legs }
    }

    fn serve(&self) -> (Running, String) {
        let args = format!("serve --nbd 127.0.0.1:0 --volume disk={}", self.uri);
        let mut running = Running::start(&mut self.drumfire.command(self.folder.path(), &args));
        let address = running.await_stdout(LIMIT, |stdout| {
            let (line, _) = stdout.split_once('\n')?;
            line.strip_prefix("ready nbd=").map(str::to_owned)
        });
        (running, address)
    }

    /// Whether the data of both legs are identical.
    fn legs_agree(&self) -> bool {
        let data = |leg: &Path| {
            let bytes = std::fs::read(leg).unwrap();
            bytes[MIB as usize..(LEG_BYTES - MIB) as usize].to_vec()
        };
        data(&self.legs[0]) == data(&self.legs[1])
    }
}

/// Rounds of one volume; returns the errors of the first failed round, and the number of rounds
/// whose legs differed after the kill.
fn rounds(rig: &Rig, seed: u64, rounds: u64) -> (Vec<String>, u64) {
    let mut chance = Chance(seed);
    let mut witness: Option<Witness> = None;
    let mut differed = 0;
    for round in 0..rounds {
        let (running, address) = rig.serve();
        let mut ways = [0; 2].map(|_| Nbd::connect(&address, "disk").unwrap());
        let witness = witness.get_or_insert_with(|| Witness::new(ways[0].bytes));
        let told =
            |wrong: Vec<String>| wrong.into_iter().map(|line| format!("round {round}: {line}"));
        let wrong = witness.look(&mut ways[0]).unwrap();
        if !wrong.is_empty() {
            return (told(wrong).collect(), differed);
        }
        assert!(ways[0].flush().unwrap(), "seed {seed}, round {round}: the flush failed");
        // Data that were read and flushed persist, whichever leg serves the read.
        let wrong = witness.look(&mut ways[1]).unwrap();
        if !wrong.is_empty() {
            return (told(wrong).collect(), differed);
        }
        // Some kills occur during a resync.
        if rig.legs.len() == 2 && chance.below(3) == 0 {
            let mut patience = Patience::new(LIMIT);
            while !rig.legs_agree() {
                assert!(patience.wait(), "seed {seed}, round {round}: the legs never agree");
                assert!(ways[0].flush().unwrap());
            }
        }
        let answers = 1 + chance.below(400);
        let kill = || running.signal(Signal::KILL);
        witness.burst(&mut ways, &mut chance, answers, kill).unwrap();
        running.finish(LIMIT);
        differed += u64::from(rig.legs.len() == 2 && !rig.legs_agree());
    }
    assert!(witness.unwrap().durable > 0, "nothing was at stake");
    (Vec::new(), differed)
}

fn count() -> u64 {
    std::env::var("DRUMFIRE_KILLS").map_or(ROUNDS, |count| count.parse().unwrap())
}

/// Runs all rounds of a kind, half of them with a cache; a series has at most 10.
fn survives(kind: &str) {
    let Some(drumfire) = Drumfire::find() else { return };
    let (mut left, mut seed, mut differed) = (count(), 0, 0);
    while left > 0 {
        let series = left.min(10).min(count().div_ceil(2));
        let cache = (seed % 2 == 0).then_some("size = '1m'");
        let rig = Rig::new(&drumfire, kind, cache);
        let (wrong, differ) = rounds(&rig, seed, series);
        assert!(wrong.is_empty(), "{kind}, seed {seed}, cache {cache:?}: {wrong:#?}");
        (left, seed, differed) = (left - series, seed + 1, differed + differ);
    }
    println!("{kind}: {} rounds; legs differed after {differed} kills", count());
}

#[test]
fn a_plain_volume_keeps_what_was_durable() {
    survives("plain");
}

#[test]
fn a_striped_volume_keeps_what_was_durable() {
    survives("striped");
}

#[test]
fn an_array_keeps_what_was_durable_and_its_legs_agree_again() {
    survives("mirrored");
}

/// Verifies the other tests: they would see a loss.
#[test]
fn a_cache_that_lies_is_found_out() {
    let Some(drumfire) = Drumfire::find() else { return };
    for kind in ["plain", "striped"] {
        let found = (0..20).any(|seed| {
            let rig = Rig::new(&drumfire, kind, Some("lies = true"));
            !rounds(&rig, seed, 4).0.is_empty()
        });
        assert!(found, "{kind}: a lying cache lost nothing in 20 series");
    }
}
