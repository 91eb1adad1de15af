//! An incomplete backup records this, and reports it whenever it is read.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{Cause, Done, Fault, Geometry, Io, Lane, Nanos};
use os::Core;
use volume::OpenError;

use super::*;
use crate::{Fate, add_volume};

/// A volume of `bytes` of which these ranges cannot be read.
fn bad_volume(scratch: &Scratch, bytes: u64, bad: &[Range<u64>]) -> Arc<dyn Volume> {
    let mut text = "name='bad'\nseed=1\n".to_owned();
    for range in bad {
        let Range { start, end } = range;
        text += &format!("[[fault]]\nverb='error'\nop='read'\nrange=['{start}','{end}']\n");
    }
    let name = format!("bad-{:x}.toml", os::random());
    let path = scratch.file(&name, text.as_bytes());
    open_volume(&format!("fault:{}(ram:{bytes}?fill=3)", path.display()))
}

/// The content of a volume filled like that.
fn content(bytes: u64) -> Vec<u8> {
    let good = Target::volume("good", open_volume(&format!("ram:{bytes}?fill=3")));
    let mut way = good.way(&|| false).unwrap();
    let buf = block::Buf::new(bytes as usize).unwrap();
    way.read(0, buf, bytes as usize).ok().unwrap().to_vec()
}

#[test]
fn a_bad_extent_is_told_by_its_range_and_all_around_it_is_kept() {
    const BYTES: u64 = 2 << 20;
    let scratch = Scratch::new();
    let bad = 102_400..307_200;
    for readers in [1, 4] {
        let mut entries = Vec::new();
        let volume = bad_volume(&scratch, BYTES, std::slice::from_ref(&bad));
        add_volume(&mut entries, "volume-1", volume);
        let target = volume_target();
        let outcome = keep(&entries, &target, Options { readers, ..OPTIONS });
        assert!(matches!(entries[0].fate(), Fate::Unreadable(_)));
        assert_eq!(entries[0].unread(), std::slice::from_ref(&bad));
        assert_eq!(outcome.source_bytes, BYTES - (bad.end - bad.start));
        let checked = verify(&target).unwrap();
        assert_eq!((checked.damaged, checked.partial), (0, 1), "{:?}", checked.damages);
        assert_eq!(checked.missing[0].ranges, std::slice::from_ref(&bad));
        let into = scratch.at(&format!("back-{readers}"));
        let checked = restored(&target, &into).unwrap();
        assert_eq!((checked.damaged, checked.partial), (0, 1));
        // The folder's name still marks it as incomplete.
        let left = scratch.at(&format!("back-{readers}.incomplete"));
        assert_eq!(checked.in_folder.as_ref(), Some(&left));
        assert!(!into.exists());
        let mut right = content(BYTES);
        right[bad.start as usize..bad.end as usize].fill(0);
        assert!(fs::read(left.join("volume-1")).unwrap() == right);
    }
}

fn volume_target() -> Target {
    volume("ram:8m")
}

#[test]
fn ranges_of_chance_that_cannot_be_read_are_those_that_are_told() {
    for seed in 0..12 {
        let scratch = Scratch::new();
        let mut state = seed;
        let mut chance = |below: u64| block::splitmix(&mut state) % below;
        let bytes = 65_536 * (1 + chance(24)) + 4096 * chance(16);
        let bad: Vec<Range<u64>> = (0..1 + chance(4))
            .map(|_| {
                let start = 4096 * chance(bytes / 4096);
                start..bytes.min(start + 4096 * (1 + chance(60)))
            })
            .collect();
        let mut entries = Vec::new();
        add_volume(&mut entries, "volume-1", bad_volume(&scratch, bytes, &bad));
        let target = volume_target();
        let transfer_bytes = [65_536, 131_072, 1 << 20][chance(3) as usize];
        let readers = 1 + chance(4) as u32;
        let buffers = 1 + chance(3) as u32;
        keep(&entries, &target, Options { transfer_bytes, readers, buffers, ..OPTIONS });
        let checked = verify(&target).unwrap();
        assert_eq!((checked.damaged, checked.partial), (0, 1), "seed {seed}");
        let told = &checked.missing[0].ranges;
        let is_bad = |at: u64| bad.iter().any(|range| range.contains(&at));
        let is_told = |at: u64| told.iter().any(|range| range.contains(&at));
        let blocks = (0..bytes).step_by(4096);
        let (mut lost, mut right) = (0, content(bytes));
        for at in blocks {
            assert!(is_told(at) || !is_bad(at), "seed {seed}: {at} is bad and not told");
            lost += u64::from(is_told(at) && !is_bad(at));
            if is_told(at) {
                right[at as usize..at as usize + 4096].fill(0);
            }
        }
        // Good blocks that are lost are in a piece with bad ones on both sides.
        assert!(lost <= 32 * bad.len() as u64, "seed {seed}: {lost} good blocks are lost");
        let checked = restored(&target, &scratch.at("back")).unwrap();
        let back = fs::read(checked.in_folder.unwrap().join("volume-1"));
        // A file that cannot be read at all is not made.
        let is_right = if *told == only(0..bytes) { back.is_err() } else { back.unwrap() == right };
        assert!(is_right, "seed {seed}");
    }
}

#[test]
fn files_that_change_meanwhile_are_told_then_and_later() {
    let scratch = Scratch::new();
    let data = database(&scratch);
    let entries = listed(&data);
    fs::remove_file(data.join("base/2")).unwrap();
    fs::write(data.join("base/4"), [1; 70_000]).unwrap();
    fs::File::options().write(true).open(data.join("base/1")).unwrap().set_len(99_999).unwrap();
    fs::remove_file(data.join("PG_VERSION")).unwrap();
    std::os::unix::fs::symlink("base/1", data.join("PG_VERSION")).unwrap();
    let target = volume_target();
    let outcome = keep(&entries, &target, OPTIONS);
    let fate = |name: &str| {
        let path = Path::new("data").join(name);
        entries.iter().find(|entry| entry.path == path).unwrap().fate()
    };
    assert_eq!(fate("base/1"), Fate::Shrank);
    assert_eq!(fate("base/2"), Fate::Vanished);
    assert_eq!(fate("base/4"), Fate::Grew { to: 70_000 });
    assert!(matches!(fate("PG_VERSION"), Fate::Changed(_)));
    assert_eq!(outcome.source_bytes, 99_999 + 65_536);
    let checked = restored(&target, &scratch.at("back")).unwrap();
    assert_eq!((checked.damaged, checked.partial), (0, 1));
    let told = |name: &str| {
        let path = Path::new("data").join(name);
        let found = checked.missing.iter().find(|missing| missing.path == path).unwrap();
        assert_eq!(found.fate, fate(name));
        found.ranges.clone()
    };
    assert_eq!(told("base/1"), only(99_999..1_000_000));
    assert_eq!(told("base/2"), only(0..150_000));
    assert_eq!((told("base/4"), told("PG_VERSION")), (vec![], only(0..3)));
    let into = checked.in_folder.unwrap();
    assert!(!into.join("data/base/2").exists());
    assert_eq!(fs::metadata(into.join("data/base/1")).unwrap().len(), 99_999);
}

#[test]
fn each_damaged_byte_is_told_and_the_rest_is_restored() {
    use crate::format::{FRAME_HEAD_BYTES, FrameHead, Head};
    let scratch = Scratch::new();
    let data = database(&scratch);
    let path = scratch.at("to");
    let target = Target::create(&path, false, false).unwrap();
    let outcome = keep(&listed(&data), &target, OPTIONS);
    target.publish(true).unwrap();
    let right = fs::read(&path).unwrap();
    let head = Head::take(&right).unwrap();
    let check = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        verify(&Target::open(&path).unwrap())
    };
    assert_eq!(check(&right).unwrap().damaged, 0);
    // A byte of the head, of the data, and of a later frame's head.
    for at in [4096 + 20, 4096 + 70, 4096 + 3000] {
        let mut wrong = right.clone();
        wrong[at] ^= 1;
        let frame = FrameHead::take(&right[4096..], 4096, &head).unwrap();
        let padding = at >= 4096 + FRAME_HEAD_BYTES + frame.stored_bytes as usize;
        let found = check(&wrong).unwrap();
        assert!((found.damaged > 0) != padding, "{at}: {:?}", found.damages);
        assert!(found.frames + 1 >= outcome.frames, "others are found: {at}");
        if !padding {
            let range = frame.offset..frame.offset + u64::from(frame.source_bytes);
            assert_eq!(found.damages.last().unwrap().ranges, only(range));
            let into = scratch.at(&format!("back-{at}"));
            let found = restored(&Target::open(&path).unwrap(), &into).unwrap();
            assert!(found.damaged > 0 && !into.exists());
        }
    }
    let mut wrong = right.clone();
    wrong[head.index_at as usize + 3] ^= 1;
    assert!(check(&wrong).unwrap_err().to_string().contains("index is damaged"));
    let cut = &right[..right.len() - 4096];
    assert!(check(cut).unwrap_err().to_string().contains("is truncated"));
    assert!(check(b"").unwrap_err().to_string().contains("no backup"));
    assert!(check(&[0; 8192]).unwrap_err().to_string().contains("no backup"));
}

/// A volume with a lane of the test's choice.
struct Odd(fn() -> Box<dyn Lane>);

impl Volume for Odd {
    fn geometry(&self) -> Geometry {
        Geometry::new(8 << 20, 4096)
    }

    fn lane(&self, _: &Core) -> Result<Box<dyn Lane>, OpenError> {
        Ok((self.0)())
    }

    fn kind(&self) -> &'static str {
        "odd"
    }
}

/// A lane that keeps the buffers of reads, which all fail, or panics.
#[derive(Default)]
struct Keeps {
    panics: bool,
    held: Vec<Option<block::Buf>>,
    done: Vec<Done>,
}

impl Lane for Keeps {
    fn geometry(&self) -> Geometry {
        Geometry::new(8 << 20, 4096)
    }

    fn submit(&mut self, _: Nanos, ios: &mut VecDeque<Io>) {
        assert!(!self.panics, "a lane that panics");
        for io in ios.drain(..) {
            self.held.push(io.buf);
            let (result, cause) = (Err(Fault::Medium), Cause::NONE);
            self.done.push(Done { tag: io.tag, result, cause, buf: None });
        }
    }

    fn poll(&mut self, _: Nanos, done: &mut Vec<Done>) {
        done.append(&mut self.done);
    }

    fn wake(&self) -> Option<Nanos> {
        Some(Nanos(0))
    }
}

#[test]
fn a_reader_whose_buffers_are_kept_goes_on_with_others() {
    let scratch = Scratch::new();
    let mut entries = listed(&database(&scratch));
    let keeps: fn() -> Box<dyn Lane> = || Box::new(Keeps::default());
    add_volume(&mut entries, "volume-1", Arc::new(Odd(keeps)));
    let target = volume_target();
    keep(&entries, &target, Options { readers: 1, buffers: 1, ..OPTIONS });
    let checked = verify(&target).unwrap();
    assert_eq!((checked.damaged, checked.partial, checked.files), (0, 1, 5));
    assert_eq!(checked.missing[0].ranges, only(0..8 << 20));
}

#[test]
fn a_stage_that_panics_fails_the_backup_and_hangs_nobody() {
    let scratch = Scratch::new();
    let data = database(&scratch);
    let panics: fn() -> Box<dyn Lane> = || Box::new(Keeps { panics: true, ..Keeps::default() });
    let options = Options { readers: 2, writers: 2, buffers: 1, ..OPTIONS };
    // A reader, a stop callback, and a writer.
    let mut entries = listed(&data);
    add_volume(&mut entries, "volume-1", Arc::new(Odd(panics)));
    let reading = try_keep(&entries, &volume_target(), options).unwrap_err();
    assert!(matches!(reading, BackupError::Panicked(crate::Stage::Reading)), "{reading}");
    let asked = AtomicBool::new(false);
    let stop = || !asked.swap(true, Ordering::Relaxed) && panic!("asked whether to stop");
    let stopping = run(&listed(&data), &volume_target(), options, &|_| (), &stop).unwrap_err();
    assert!(matches!(stopping, BackupError::Panicked(crate::Stage::Reading)), "{stopping}");
    let target = Target::volume("odd", Arc::new(Odd(panics)));
    let writing = try_keep(&listed(&data), &target, options).unwrap_err();
    assert!(matches!(writing, BackupError::Panicked(crate::Stage::Writing)), "{writing}");
}
