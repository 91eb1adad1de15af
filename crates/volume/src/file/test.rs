use std::path::PathBuf;

use block::Pool;
use proptest::prelude::*;

use super::*;
use crate::uri::Uri;

const BLOCK: u64 = 4096;
const BYTES: u64 = 64 * BLOCK;

/// A file that is removed after the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let name = format!("drumfire-file-{}-{name}", std::process::id());
        let place = Place(std::env::temp_dir().join(name));
        let _ = std::fs::remove_file(&place.0);
        place
    }

    fn cut(&self, bytes: u64) {
        let file = std::fs::OpenOptions::new().write(true).open(&self.0).unwrap();
        file.set_len(bytes).unwrap();
    }

    fn bytes(&self) -> u64 {
        std::fs::metadata(&self.0).unwrap().len()
    }

    fn open(&self) -> FileVolume {
        let uri = format!("file:{}?size={BYTES}&direct=0", self.0.display());
        let Uri::File(uri) = uri.parse().unwrap() else { panic!("{uri} is a file") };
        FileVolume::open(&uri, Purpose::Store).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn core() -> Core {
    Core::open(Pool::new(16, 4)).unwrap()
}

/// Executes one I/O of a block; returns its result, with a description on failure.
fn go(core: &Core, lane: &mut dyn Lane, op: Op, offset: u64) -> Result<(), (Fault, String)> {
    let buf = matches!(op, Op::Read | Op::Write).then(|| core.pool().take(4096).unwrap());
    let io = Io { tag: Tag(1), op, offset, len: 4096, fua: false, buf };
    let (mut ios, mut done, mut ready) = (VecDeque::from([io]), Vec::new(), Vec::new());
    while done.is_empty() {
        lane.submit(core.now(), &mut ios);
        core.turn(Some(core.now() + BELIEVED), &mut ready).unwrap();
        lane.poll(core.now(), &mut done);
    }
    let Done { result, cause, buf, .. } = done.remove(0);
    buf.into_iter().for_each(|buf| core.pool().give(buf));
    result.map_err(|fault| (fault, lane.words_of(cause).unwrap_or_default()))
}

/// Waits until a lane checks its file again.
fn wait(core: &Core) {
    let end = core.now() + BELIEVED;
    while core.now() < end {
        core.turn(Some(end), &mut Vec::new()).unwrap();
    }
}

#[test]
fn a_file_that_was_cut_short_is_not_made_longer() {
    let (core, place) = (core(), Place::new("cut"));
    let mut lane = place.open().lane(&core).unwrap();
    let last = BYTES - BLOCK;
    assert_eq!(go(&core, &mut *lane, Op::Write, last), Ok(()));
    place.cut(8 * BLOCK);
    wait(&core);
    let end = (Fault::Medium, "read past the end of the file".to_owned());
    for op in [Op::Write, Op::WriteZeroes, Op::Trim, Op::Read] {
        assert_eq!(go(&core, &mut *lane, op, last), Err(end.clone()), "{op:?}");
        assert_eq!(go(&core, &mut *lane, op, 8 * BLOCK), Err(end.clone()), "{op:?}");
        assert_eq!(go(&core, &mut *lane, op, 7 * BLOCK), Ok(()), "{op:?}");
        assert_eq!(place.bytes(), 8 * BLOCK, "{op:?}");
    }
    // A truncated file may be extended again.
    place.cut(BYTES);
    wait(&core);
    assert_eq!(go(&core, &mut *lane, Op::Write, last), Ok(()));
}

#[test]
fn a_file_that_was_removed_takes_no_writes_and_is_followed_by_all_lanes() {
    let (core, place) = (core(), Place::new("removed"));
    let volume = place.open();
    let mut lane = volume.lane(&core).unwrap();
    assert_eq!(go(&core, &mut *lane, Op::Write, 0), Ok(()));
    std::fs::remove_file(&place.0).unwrap();
    // A replaced file is another file.
    let other = place.open();
    assert!(other.lane(&core).is_ok());
    wait(&core);
    let mut late = volume.lane(&core).unwrap();
    for lane in [&mut lane, &mut late] {
        let (fault, words) = go(&core, &mut **lane, Op::Write, 0).unwrap_err();
        assert_eq!(fault, Fault::Medium);
        assert!(words.contains("was deleted"), "{words}");
        // Data in the removed file can still be saved.
        assert_eq!(go(&core, &mut **lane, Op::Read, 0), Ok(()));
    }
    let written = std::fs::metadata(&place.0).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::blocks(&written), 0, "nothing went to the other");
}

#[test]
fn after_a_sync_that_failed_nothing_is_called_durable_until_the_file_is_opened_anew() {
    let (core, place) = (core(), Place::new("sync"));
    let volume = place.open();
    let mut lanes = [volume.lane(&core).unwrap(), volume.lane(&core).unwrap()];
    assert_eq!(go(&core, &mut *lanes[0], Op::Flush, 0), Ok(()));
    let why = (Fault::Medium, Cause(5));
    assert_eq!(volume.sync.after_flush(Err(why)), Err(why));
    assert_eq!(volume.sync.after_flush(Ok(())), Err(why), "one that was in flight");
    let news = volume.news();
    assert!(news.len() == 1 && news[0].contains("EIO (5)"), "once: {news:?}");
    assert!(news[0].contains("until the file is reopened"), "{news:?}");
    assert!(volume.news().is_empty() && volume.own_incidents() == news);
    for lane in &mut lanes {
        for _ in 0..2 {
            let (fault, words) = go(&core, &mut **lane, Op::Flush, 0).unwrap_err();
            assert_eq!((fault, words.contains("nput/output")), (Fault::Medium, true), "{words}");
        }
        let buf = core.pool().take(4096);
        let io = Io { tag: Tag(1), op: Op::Write, offset: 0, len: 4096, fua: true, buf };
        let mut done = Vec::new();
        lane.submit(core.now(), &mut VecDeque::from([io]));
        lane.poll(core.now(), &mut done);
        assert_eq!(done[0].result, Err(Fault::Medium));
        assert_eq!(go(&core, &mut **lane, Op::Write, 0), Ok(()), "which promises nothing");
        assert_eq!(go(&core, &mut **lane, Op::Read, 0), Ok(()));
    }
    drop((volume, lanes));
    let anew = place.open();
    assert_eq!(go(&core, &mut *anew.lane(&core).unwrap(), Op::Flush, 0), Ok(()));
}

#[test]
fn causes_have_their_faults() {
    let of = |errno| fault_of(&std::io::Error::from_raw_os_error(errno));
    // ENOSPC, EDQUOT, EROFS, EPERM, EOPNOTSUPP, EIO.
    let faults = [28, 122, 30, 1, 95, 5].map(of);
    let [space, quota, protected, device, unsupported, medium] = faults;
    assert_eq!((space, quota), (Fault::NoSpace, Fault::NoSpace));
    assert_eq!((protected, device), (Fault::ReadOnly, Fault::ReadOnly));
    assert_eq!((unsupported, medium), (Fault::Unsupported, Fault::Medium));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Random writes, truncations and extensions of the file: no write extends it.
    #[test]
    fn nobody_else_makes_it_longer(steps in prop::collection::vec((0..64_u64, 0..4_u8), 1..40)) {
        let (core, place) = (core(), Place::new("steps"));
        let mut lane = place.open().lane(&core).unwrap();
        let mut bytes = BYTES;
        for (block, what) in steps {
            let op = [Op::Write, Op::WriteZeroes, Op::Trim].get(usize::from(what));
            match op {
                Some(op) => {
                    let fits = (block + 1) * BLOCK <= bytes;
                    let done = go(&core, &mut *lane, *op, block * BLOCK);
                    prop_assert_eq!(done.is_ok(), fits, "{:?} {} of {}", op, block, bytes);
                }
                None => {
                    bytes = (block + 1) * BLOCK;
                    place.cut(bytes);
                    wait(&core);
                }
            }
            prop_assert_eq!(place.bytes(), bytes);
        }
    }
}
