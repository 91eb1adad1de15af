//! Reads files into the page cache before a run, if the job requests that.

use std::collections::BTreeSet;

use block::print_size;

use super::RunError;
use crate::engine::Stop;
use crate::run::Prepared;

/// Reads the workers' ranges into the page cache, each part of a volume once, until the user stops
/// it. Returns a note, if anything was read.
pub(super) fn read_in(run: &Prepared, stop: &Stop) -> Result<Option<String>, RunError> {
    let mut seen = BTreeSet::new();
    let mut bytes = 0;
    for worker in run.spec.workers.iter().filter(|worker| worker.shift.cache.read) {
        let (begin, length) = worker.workload.range.on(run.volume(worker).geometry());
        // Clones share a range.
        if !seen.insert((worker.volume, begin, length)) {
            continue;
        }
        let read = run.volume(worker).read_in(begin..begin + length, &|| stop.asked() == 0);
        bytes += read.map_err(|error| {
            RunError::Open(format!("{}: cannot be read into the page cache: {error}", worker.uri))
        })?;
    }
    Ok((bytes > 0).then(|| {
        let size = print_size(bytes);
        format!(
            "{size} of its files were read into the page cache before the run; the figures \
            do not include this"
        )
    }))
}
