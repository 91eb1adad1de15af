//! The folder of a run: the result first, then its renderings.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use stats::RunResult;

/// Makes the folder of a run before the run, so that no result is lost for want of one.
pub fn make(out: Option<&Path>, name: &str) -> Result<PathBuf> {
    let path = match out {
        Some(path) => path.to_owned(),
        None => {
            let time = jiff::Zoned::now().strftime("%Y-%m-%dT%H-%M-%S").to_string();
            unused(Path::new("drumfire-runs"), &format!("{time}-{name}"))
        }
    };
    fs::create_dir_all(&path)
        .with_context(|| format!("cannot make the run's folder {}", path.display()))?;
    Ok(path)
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

/// Writes beside and renames: a reader never sees half a file.
pub fn write_file(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    let beside = path.with_extension("part");
    let write = || -> Result<()> {
        let mut out = BufWriter::new(File::create(&beside)?);
        content(&mut out)?;
        out.into_inner().map_err(|error| error.into_error())?.sync_all()?;
        fs::rename(&beside, path)?;
        Ok(())
    };
    write()
        .inspect_err(|_| {
            // On a full disk it would be in the way of what comes next. It may not even be there.
            let _ = fs::remove_file(&beside);
        })
        .with_context(|| format!("cannot write {}", path.display()))
}
