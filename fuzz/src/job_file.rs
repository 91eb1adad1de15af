//! Malformed job files.

use std::io::Cursor;
use std::path::Path;

use job::formats::{FormatError, Reading, Storage, Surroundings, fio, icf};
use job::spec::JobSpec;

/// Parses a fio job file; `included` is the content of every file it includes or replays as a
/// trace. A job that parses is plausible, and survives a round trip.
pub fn read_fio(text: &str, included: &str) {
    let around = Surroundings {
        read: Box::new(|_: &Path| Ok(included.to_owned())),
        open: Box::new(|_: &Path| Ok(Box::new(Cursor::new(included.as_bytes().to_vec())))),
        variable: Box::new(|name| (name.len() < 3).then(|| "4k:$ncpus".to_owned())),
        ..Surroundings::none()
    };
    let longest = text.lines().count().max(included.lines().count());
    let job = check(fio_of(text, &around), longest.max(1));
    let Some(written) = job.as_ref().and_then(|job| fio::write(job, &storage_of).ok()) else {
        return;
    };
    // Not all of it survives, but it parses.
    check(fio_of(&written, &Surroundings::none()), written.lines().count());
}

/// Parses an Iometer configuration.
pub fn read_icf(text: &str) {
    let job = check(icf_of(text), text.lines().count() + 1);
    let Some(written) = job.as_ref().and_then(|job| icf::write(job).ok()) else { return };
    let again = check(icf_of(&written), written.lines().count() + 1);
    let again = again.unwrap_or_else(|| panic!("cannot be read: {written}"));
    assert_eq!(plain(&again), plain(&job.expect("it was written")), "{written}");
}

fn fio_of(text: &str, around: &Surroundings<'_>) -> Result<Reading, FormatError> {
    let options = fio::Options {
        volumes: &[],
        volume: &name,
        capacity: &|uri| uri.contains("/dev").then_some(1 << 30),
        is_far: &|uri| uri.contains("Remote"),
        node: &|number| (number < 8).then(|| vec![number]),
        polls: &|path| !path.contains("null"),
        is_fio: true,
        seconds: None,
    };
    fio::read("noise.fio", text, around, &options)
}

fn icf_of(text: &str) -> Result<Reading, FormatError> {
    let options =
        icf::Options { volumes: &[], is_volume: &|_| true, seconds: None, sector_bytes: 512 };
    icf::read("noise.icf", text, &options)
}

/// An error names a line of the file, without control characters; a job is plausible.
fn check(read: Result<Reading, FormatError>, lines: usize) -> Option<JobSpec> {
    let said = |line: u32, text: &str| {
        assert!((1..=lines + 1).contains(&(line as usize)), "line {line} of {lines}");
        assert!(!text.chars().any(char::is_control), "{text:?}");
    };
    match read {
        Err(error) => {
            said(error.at.line, &error.text);
            None
        }
        Ok(reading) => {
            reading.notes.iter().for_each(|note| said(note.at.line, &note.text));
            if let Some(job) = &reading.job {
                assert_eq!(job.check(), Ok(()));
            }
            reading.job
        }
    }
}

/// Without names.
fn plain(job: &JobSpec) -> JobSpec {
    let mut job = JobSpec { name: String::new(), ..job.clone().without_options() };
    for step in &mut job.steps {
        step.name.clear();
        step.groups.iter_mut().for_each(|group| group.name.clear());
    }
    job
}

fn name(storage: &Storage) -> Result<String, String> {
    match storage {
        Storage::File { path, .. } if path.len() > 4000 => Err("too long".to_owned()),
        Storage::File { path, size_bytes, block_bytes, direct, iopoll, sqpoll } => {
            let (size, block) = (size_bytes.unwrap_or(0), block_bytes.unwrap_or(0));
            Ok(format!("file:{direct}:{iopoll}:{sqpoll}:{size}:{block}:{path}"))
        }
        Storage::Nothing { size_bytes, .. } => Ok(format!("null:{size_bytes}")),
        Storage::Calls { .. }
        | Storage::Memory { .. }
        | Storage::Stripe { .. }
        | Storage::Mirror { .. } => Ok(format!("{storage:?}")),
        Storage::Uri(uri) => Ok(uri.clone()),
        Storage::Remote(remote) => Ok(format!("{remote:?}")),
    }
}

fn storage_of(uri: &str) -> Option<Storage> {
    if let Some(size) = uri.strip_prefix("null:") {
        return Some(Storage::Nothing { block_bytes: 512, size_bytes: size.parse().ok()? });
    }
    let mut parts = uri.strip_prefix("file:")?.splitn(6, ':');
    let mut switch = || parts.next()?.parse().ok();
    let (direct, iopoll, sqpoll) = (switch()?, switch()?, switch()?);
    let size_bytes = parts.next()?.parse().ok().filter(|size| *size > 0);
    let block_bytes = parts.next()?.parse().ok().filter(|bytes| *bytes > 0);
    let path = parts.next()?.to_owned();
    Some(Storage::File { path, size_bytes, block_bytes, direct, iopoll, sqpoll })
}
