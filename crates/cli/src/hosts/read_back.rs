//! Data that a rank wrote and did not read: it is read after the run, on the rank that wrote it.

use anyhow::Result;
use load::{Asked, Prepared, Recheck};
use stats::{Check, RunResult, Verdict};

use crate::folder::Folder;
use crate::recheck;

/// A run whose written data are read after its end. Its ledgers are in a folder until then.
pub(super) struct ReadBack {
    run: Prepared,
    folder: Folder,
    asked: Asked,
}

impl ReadBack {
    /// Keeps the ledgers of a run that only writes; `None` of any other.
    pub fn of(run: &mut Prepared, samples: bool) -> Result<Option<ReadBack>> {
        if !run.spec.workers.iter().any(|worker| worker.workload.is_unread()) {
            return Ok(None);
        }
        // The random name cannot exist already.
        let folder = std::env::temp_dir().join(format!("drumfire-rank-{:016x}", os::random()));
        let folder = Folder::at(&folder)?;
        run.spec.ledgers = Some(folder.to_path_buf());
        let asked = if samples { Asked::UnreadSample } else { Asked::Unread };
        Ok(Some(ReadBack { run: run.clone(), folder, asked }))
    }

    /// Reads the data, and judges the part of this rank.
    pub fn judge(&self, result: &mut RunResult) {
        match load::recheck(&self.run, &self.folder, self.asked) {
            Ok(found) => {
                if !found.iter().all(Recheck::is_right) {
                    recheck::tell(&found);
                }
                load::judge_read_back(&self.run, &found, result);
            }
            Err(error) => {
                let words = format!("written data could not be read back: {error}");
                result.set_check(Check::new("H05", "data", Verdict::Warn, words));
            }
        }
    }
}

impl Drop for ReadBack {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&*self.folder);
    }
}
