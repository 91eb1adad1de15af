//! The folder of a run: the result first, then its renderings.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use stats::RunResult;

/// The folder of a run, made before the run so that no result is lost for want of one. If nothing
/// came into it, it goes again, and so do those above that were made for it.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Those that were not there before, from the inside.
    made: Vec<PathBuf>,
}

impl Folder {
    /// In a place that the user names, or one of its own that tells `name` and time.
    pub fn new(out: Option<&Path>, name: &str) -> Result<Folder> {
        match out {
            Some(path) => Folder::at(path),
            None => {
                let time = jiff::Zoned::now().strftime("%Y-%m-%dT%H-%M-%S").to_string();
                Folder::at(&unused(Path::new("drumfire-runs"), &format!("{time}-{name}")))
            }
        }
    }

    /// In a certain place.
    pub fn at(path: &Path) -> Result<Folder> {
        let made = path.ancestors().take_while(|above| !above.exists()).map(Path::to_owned);
        let folder = Folder { path: path.to_owned(), made: made.collect() };
        fs::create_dir_all(path)
            .with_context(|| format!("cannot make the run's folder {}", path.display()))?;
        Ok(folder)
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Only empty ones can be removed.
        let _ = self.made.iter().try_for_each(fs::remove_dir);
    }
}

/// A name that no other run of the same second has.
fn unused(parent: &Path, name: &str) -> PathBuf {
    let numbered = (2..).map(|n| parent.join(format!("{name}-{n}")));
    let mut names = std::iter::once(parent.join(name)).chain(numbered);
    names.find(|path| !path.exists()).expect("numbers do not end")
}

/// Writes `result.json`, then `report.txt` and `job.toml`.
pub fn write(folder: &Path, result: &RunResult) -> Result<()> {
    write_file(&folder.join("result.json"), |out| {
        report::json::write(result, out)?;
        Ok(())
    })?;
    render(folder, result)
}

/// Writes `result.json` of a run that goes on. It does not wait for the disk, which may be the one
/// that is measured; what ends the program does not end the system.
pub fn write_draft(folder: &Path, result: &RunResult) -> Result<()> {
    replace(&folder.join("result.json"), |out| {
        report::json::write(result, out)?;
        Ok(out.flush()?)
    })
}

/// Writes what is made of a result that is kept already.
pub fn render(folder: &Path, result: &RunResult) -> Result<()> {
    write_file(&folder.join("report.txt"), |out| {
        report::text::write(result, report::Paint::PLAIN, out)?;
        Ok(())
    })?;
    write_job(folder, &result.spec)
}

/// Writes `job.toml`.
pub fn write_job(folder: &Path, job: &serde_json::Value) -> Result<()> {
    write_file(&folder.join("job.toml"), |out| {
        writeln!(out, "# This run again: the job as it was, with every default filled in.")?;
        let job = toml::to_string_pretty(job).context("the job as TOML")?;
        out.write_all(job.as_bytes())?;
        Ok(())
    })
}

/// Writes beside and renames: a reader never sees half a file, and what was there before stays if
/// the disk is full. What is no plain file, as /dev/stdout, is written to.
pub fn write_file(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    let told = || format!("cannot write {}", path.display());
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        let write = || -> Result<()> {
            let mut out = BufWriter::new(File::options().write(true).open(path)?);
            content(&mut out)?;
            Ok(out.flush()?)
        };
        return write().with_context(told);
    }
    let durable = |out: &mut BufWriter<File>| {
        content(out)?;
        out.flush()?;
        Ok(out.get_ref().sync_all()?)
    };
    replace(path, durable).with_context(told)
}

/// Writes beside and renames.
fn replace(path: &Path, content: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let beside = path.with_extension("part");
    let write = || -> Result<()> {
        content(&mut BufWriter::new(File::create(&beside)?))?;
        Ok(fs::rename(&beside, path)?)
    };
    write().inspect_err(|_| {
        // On a full disk it would be in the way of what comes next. It may not even be there.
        let _ = fs::remove_file(&beside);
    })
}
