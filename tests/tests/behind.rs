//! Targets that serve remote volumes: they wait for another target, and for no timer of their own.

use std::thread::sleep;
use std::time::{Duration, Instant};

use drumfire_tests::{Drumfire, Folder, Nbd, NbdCommand, Running, Served};

const LIMIT: Duration = Duration::from_secs(60);
/// Time that shows a delayed send: a core sleeps for 10 ms before it checks where its peers are,
/// and data sent only at its wake-up takes longer.
const TIMER: Duration = Duration::from_millis(8);
/// Time after which our target has noticed silence: it sends a ping after 15 s, and disconnects 15
/// s later.
const SILENCE: Duration = Duration::from_secs(33);

/// Serves volumes by NBD; returns the address.
fn serve(drumfire: &Drumfire, folder: &Folder, volumes: &str) -> (Running, String) {
    let args = format!("serve --nbd 127.0.0.1:0 {volumes}");
    let mut running = Running::start(&mut drumfire.command(folder.path(), &args));
    let address = running.await_stdout(LIMIT, |stdout| {
        let (line, _) = stdout.split_once('\n')?;
        line.strip_prefix("ready nbd=").map(str::to_owned)
    });
    (running, address)
}

/// Fifth shortest time of 20 writes.
fn quick_write(volume: &mut Nbd, len: u32) -> Duration {
    let data = vec![7; len as usize];
    let mut times: Vec<Duration> = (0..20)
        .map(|_| {
            let start = Instant::now();
            volume.send(NbdCommand::Write, false, 1, (0, len), &data).unwrap();
            assert_eq!(volume.answer().unwrap(), (1, true));
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[4]
}

fn both(served: &Served, name: &str) -> [String; 2] {
    [served.uri(name), served.nvme_uri(name)]
}

/// The other target requests the data of long writes, and gets them upon each request.
#[test]
fn solicited_data_wait_for_no_timer() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let other = drumfire.serve(&["a=ram:16m"]);
    for uri in both(&other, "a") {
        let (_running, address) = serve(&drumfire, &folder, &format!("--volume v={uri}"));
        let mut volume = Nbd::connect(&address, "v").unwrap();
        for len in [64 << 10, 256 << 10, 1 << 20] {
            // A busy host may delay one round.
            let rounds: Vec<Duration> = (0..5).map(|_| quick_write(&mut volume, len)).collect();
            assert!(rounds.iter().any(|time| *time < TIMER), "{uri}, {len} bytes: {rounds:?}");
        }
    }
}

/// The client reads nothing for longer than a target waits for an answer to its ping.
#[test]
fn idle_volumes_stay_connected() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let others = [0; 2].map(|_| drumfire.serve(&["a=ram:16m", "b=ram:16m", "c=ram:16m"]));
    let legs = |name| others.each_ref().map(|other| other.uri(name));
    let ([one, two], [left, right]) = (legs("a"), legs("b"));
    let create = format!("volume create mirror disk --leg {left} --leg {right} --destroy");
    drumfire.run(folder.path(), &create, LIMIT).ok();
    let [lone, other] = both(&others[0], "c");
    let volumes = format!(
        "--volume stripe=stripe:64k({one},{two}) --volume lone={lone} --volume \
         mirror=array:disk?leg={left}&leg={right}"
    );
    let (running, address) = serve(&drumfire, &folder, &volumes);
    let (_running, far) = serve(&drumfire, &folder, &format!("--volume far={other}"));
    let connect = |address: &str, name| Nbd::connect(address, name).unwrap();
    let mut stripe = connect(&address, "stripe");
    let mut idle = [("stripe", 64 << 10), ("mirror", 0), ("mirror", 4 << 20), ("lone", 0)]
        .map(|(name, offset)| (name, connect(&address, name), offset))
        .into_iter()
        .chain([("far", connect(&far, "far"), 0)])
        .collect::<Vec<_>>();
    for (name, volume, offset) in &mut idle {
        volume.read(*offset, 512).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let start = Instant::now();
    while start.elapsed() < SILENCE {
        // The other part has no work.
        stripe.read(0, 512).unwrap();
        sleep(Duration::from_millis(500));
    }
    for (name, volume, offset) in &mut idle {
        volume.read(*offset, 512).unwrap_or_else(|error| panic!("{name} {offset}: {error}"));
        volume.send(NbdCommand::Write, false, 1, (*offset, 512), &[1; 512]).unwrap();
        assert_eq!(volume.answer().unwrap(), (1, true), "{name} {offset}");
    }
    assert_eq!(running.stderr(), "", "no leg was lost, either");
}
