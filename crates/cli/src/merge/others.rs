//! Results of other tools: `merge` shows their merged histograms, and the error of averages of
//! their percentiles.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Result;
use report::others::{self, Entry, Together};
use serde::Serialize;

use super::Args;
use crate::args::Color;
use crate::exit::{Exit, UsageError, of_file};
use crate::{output, show};

/// Longest result that is read: fio's of a thousand jobs has 100 MB.
const MAX_BYTES: u64 = 256 << 20;
/// Bytes at the start of a file that identify its tool.
const HEAD_BYTES: u64 = 1 << 16;

/// The document of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    form: &'static str,
    files: usize,
    directions: &'a [Together],
}

/// A program whose results are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tool {
    Fio,
    Spdk,
    Elbencho,
}

impl Tool {
    /// Returns the tool of a file; `None` if the file is one of ours.
    fn of(path: &Path) -> Result<Option<Tool>> {
        if !path.is_file() {
            return Ok(None);
        }
        let head = start(path, HEAD_BYTES)?;
        Ok(match () {
            () if others::is_fio(&head) => Some(Tool::Fio),
            () if others::is_spdk(&head) => Some(Tool::Spdk),
            () if others::is_elbencho(&head) => Some(Tool::Elbencho),
            () => None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Tool::Fio => "fio",
            Tool::Spdk => "spdk_nvme_perf",
            Tool::Elbencho => "elbencho",
        }
    }

    fn read(self, file: &str, text: &[u8]) -> Result<Vec<Entry>, String> {
        match self {
            Tool::Fio => others::read_fio(file, text),
            Tool::Spdk => others::read_spdk(file, text),
            Tool::Elbencho => others::read_elbencho(file, text),
        }
    }
}

/// Merges results of another tool, if the files are such; `None` if they are parts of ours.
pub fn merge(args: &Args, color: Color) -> Result<Option<Exit>> {
    let known = args.parts.iter().map(|path| Tool::of(path)).collect::<Result<Vec<_>>>()?;
    let Some(tool) = known.iter().copied().flatten().next() else { return Ok(None) };
    let form = tool.name();
    if let Some(at) = known.iter().position(|one| *one != Some(tool)) {
        let name = args.parts[at].display();
        let why = format!("{name} is no result of {form}, and others are: merge each by itself");
        return Err(UsageError(why).into());
    }
    let unused = [
        ("--out", args.out.is_some()),
        ("--expect", args.expect.is_some()),
        ("--fail-if", !args.asked.fail_if.is_empty()),
    ];
    if let Some((flag, _)) = unused.iter().find(|(_, given)| *given) {
        let why = format!("{flag} is for parts of drumfire: results of {form} are printed");
        return Err(UsageError(why).into());
    }
    let mut entries: Vec<Entry> = Vec::new();
    for path in &args.parts {
        let text = start(path, MAX_BYTES)?;
        let name = path.display().to_string();
        entries.extend(tool.read(&name, &text).map_err(UsageError)?);
    }
    let all = others::together(&entries).map_err(UsageError)?;
    let files = args.parts.len();
    match args.json {
        true => output::document(&Document { form, files, directions: &all })?,
        false => {
            output::painted(&others::painted(form, files, &all, show::paint(color)))?;
        }
    }
    Ok(Some(Exit::Good))
}

/// The first bytes of a file.
fn start(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let file = File::open(path).map_err(|error| of_file(path.display(), error))?;
    file.take(most).read_to_end(&mut text).map_err(|error| of_file(path.display(), error))?;
    Ok(text)
}
