//! A database on an attached array whose servers lose their power, all at once or all but one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use drumfire_tests::{Below, Chance, Drumfire, Far, Folder, Server, rounds};

use super::postgres::{LIMIT, Postgres, is_possible};
use super::{Attached, folder};

/// Two of them share the host's cores.
const AT_ONCE: usize = 2;
/// Bytes of the drive, and those that an array keeps for itself.
const DRIVE: u64 = 512 << 20;
const OWN: u64 = 2 << 20;

/// Inserts numbers one by one and notes each that was acknowledged, until one fails.
const COUNT: &str = "(n=0; while psql -q -c \"insert into seen values ($n)\" 2>/dev/null; do \
                     echo $n >> ACKED; n=$((n+1)); done) ";

/// Bytes of a database in a drive of its own.
fn image(drumfire: &Drumfire, images: &Folder) -> PathBuf {
    let (made, image) = (folder(), images.path().join("image"));
    let _attached = Attached::new(drumfire, made.path(), &format!("ram:{DRIVE}"));
    let mut database = Postgres::new(made.path());
    database.make().unwrap();
    database.shell("psql -q -c 'create table seen (n int)'").unwrap();
    database.copy(&image).unwrap();
    image
}

/// Servers that lose what was not flushed.
fn servers(drumfire: &Drumfire, folder: &Path, chance: &mut Chance) -> Vec<Far> {
    let start = |number| {
        let file = folder.join(format!("leg{number}"));
        File::create(&file).unwrap().set_len(DRIVE + OWN).unwrap();
        let server = Server::OURS[chance.below(3) as usize];
        Far::start(server, drumfire, folder, Below::File(file))
    };
    (0..2).map(start).collect()
}

/// What became of the database is whole, or somebody has said that it may not be.
fn a_cut(drumfire: &Drumfire, seed: u64, image: &Path) -> String {
    let (mut chance, folder) = (Chance(seed), folder());
    let mut fars = servers(drumfire, folder.path(), &mut chance);
    let kinds: Vec<Server> = fars.iter().map(|far| far.server).collect();
    let legs: Vec<String> = fars.iter().map(|far| format!("--leg {}?grace=1", far.uri())).collect();
    let args = format!("volume create mirror disk --destroy {}", legs.join(" "));
    let uri = drumfire.run(folder.path(), &args, LIMIT).ok().stdout;
    let attached = Attached::new(drumfire, folder.path(), uri.trim());
    let mut database = Postgres::new(folder.path());
    database.make_of(image).unwrap_or_else(|why| panic!("seed {seed}, before the cut: {why}"));
    let acked = folder.path().join("acked");
    fs::write(&acked, "").unwrap();
    fs::set_permissions(&acked, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let count = COUNT.replace("ACKED", &acked.display().to_string());
    database.shell(&format!("(pgbench -c 3 -T 60 >/dev/null 2>&1 &) ; ({count} &)")).unwrap();
    sleep(Duration::from_millis(1000 + chance.below(3000)));

    // Some with a leg that stays.
    let spared = (chance.below(4) == 0).then(|| chance.below(2) as usize);
    let hit = |number: &usize| Some(*number) != spared;
    (0..2).filter(hit).for_each(|number| fars[number].cut_power());
    sleep(Duration::from_millis(chance.below(1500)));
    (0..2).filter(hit).for_each(|number| fars[number].come_back());
    sleep(Duration::from_millis(500 + chance.below(4000)));

    let goes_on = database.shell("psql -q -c 'insert into seen values (-1)'").is_ok();
    let _ = database.shell("kill -9 $(head -1 DATA/postmaster.pid); sleep 1");
    database.unmount();
    let told = format!("seed {seed}, {kinds:?}, spared: {spared:?}, goes on: {goes_on}");
    assert!(goes_on || spared.is_none(), "{told}: a good leg was in: {}", attached.stderr());
    let last =
        fs::read_to_string(&acked).unwrap().lines().last().map_or(-1, |n| n.parse().unwrap());
    let all = format!("psql -At -c 'select count(*) > {last} from seen where n >= 0' | grep -qx t");
    match database.start_again() {
        // An administrator is told, and restores a backup.
        Err(why) => format!("{told}: does not start: {}", why.lines().last().unwrap_or_default()),
        Ok(()) => {
            let right = database.shell(&all).and_then(|_| database.check());
            right.unwrap_or_else(|why| {
                panic!("{told}: corrupt, and nobody said so: {why}; {}", attached.stderr())
            });
            format!("{told}: whole with {} acknowledged", last + 1)
        }
    }
}

#[test]
fn a_database_whose_servers_lose_power_is_whole_or_says_so() {
    let Some(drumfire) = Drumfire::find() else { return };
    if !is_possible() {
        return;
    }
    let images = folder();
    let image = image(&drumfire, &images);
    rounds(1..3, AT_ONCE, |seed| a_cut(&drumfire, seed, &image));
}
