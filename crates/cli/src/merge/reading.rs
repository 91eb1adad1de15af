//! Reads many parts on all CPUs, and passes them on in their order. A part is in memory only until
//! it is merged.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

use anyhow::Result;
use stats::RunResult;

use crate::part;

/// Threads that read: more need more memory, and merging is one thread.
const READERS_MAX: usize = 8;

/// Reads all files; `take` gets one after the other.
pub fn in_order(
    files: &[PathBuf],
    mut take: impl FnMut(&PathBuf, RunResult) -> Result<()>,
) -> Result<()> {
    let readers = os::cpu::allowed().len().clamp(1, READERS_MAX).min(files.len());
    let next = AtomicUsize::new(0);
    // A reader is ahead of the others by at most the channel's capacity.
    let (send, parts) = sync_channel(readers);
    std::thread::scope(|scope| {
        for _ in 0..readers {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(file) = files.get(at) else { return };
                    // The other end is gone after a refusal.
                    if send.send((at, part::read(file))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let parts = parts;
        let mut early = BTreeMap::new();
        for (expected, file) in files.iter().enumerate() {
            while !early.contains_key(&expected) {
                let Ok((at, read)) = parts.recv() else { break };
                early.insert(at, read);
            }
            let read = early.remove(&expected);
            let read = read.unwrap_or_else(|| Err(anyhow::anyhow!("a thread that reads ended")));
            take(file, read?)?;
        }
        Ok(())
    })
}
