//! `drumfire backup`: database files, read in parallel, compressed, and written to a file, a volume
//! or nowhere; and read back.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::backup::format::TRANSFER_MAX_BYTES;
use ::backup::{
    BackupError, Checked, Codec, Destination, Entry, Options, Progress, Published, Skip, Target,
    add_volume, list, restore, run,
};
use anyhow::Result;
use block::{parse_size, print_size};
use clap::ValueEnum;
use load::Stop;
use os::cpu;
use rustix::fs::Mode;
use rustix::process::umask;
use volume::{DataLocation, FileUri, Purpose, Uri, Volume};

use crate::exit::{Exit, UsageError};
use crate::{opened, output, signal};

mod print;

/// Transfer sizes are multiples of this.
const TRANSFER_STEP_BYTES: u32 = 64 << 10;
/// Maximum threads of a stage.
const THREADS_MAX: u32 = 1024;
/// Maximum memory of all buffers before compression.
const BUFFERS_MAX_BYTES: u64 = 16 << 30;

/// `drumfire backup`.
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_long_help = "Files are read without coordination: first stop the database, or start its \
    own backup mode.\n\
    A file gets its name when the whole backup is durable: until then an older backup stays.\n\
    A volume has room for one backup: the old one is overwritten once the first data of the\n\
    sources is read, and the new one is complete when the command ends.\n\
    Exit code 5: data does not match its checksums. 6: sources, or parts of them, could not be\n\
    read; an incomplete backup does not replace a complete one, but is saved next to it (.partial)."
)]
pub struct Args {
    /// Folders with their whole content, files, and volumes.
    #[arg(value_name = "PATH|URI", required_unless_present = "from", conflicts_with = "from")]
    sources: Vec<String>,
    /// Destination: null, a new file, a device or the URI of a volume.
    #[arg(long, value_name = "PATH|URI", required_unless_present = "from")]
    #[arg(conflicts_with = "from")]
    to: Option<String>,
    /// Read a backup, check all of it against its checksums, and say what it lacks.
    #[arg(long, value_name = "PATH|URI")]
    from: Option<String>,
    /// Restore it into a new folder, which is called DIR.incomplete until it is whole.
    #[arg(long, value_name = "DIR", requires = "from")]
    into: Option<PathBuf>,
    /// Restore owners by their numbers, and set-user-ID and set-group-ID bits with them: needs
    /// root.
    #[arg(long, requires = "into")]
    owners: bool,
    /// Read the backup again and check it against its checksums.
    #[arg(long)]
    verify: bool,
    /// Reader threads, one file each while there are enough files.
    #[arg(long, value_name = "N", default_value_t = 4)]
    readers: u32,
    /// Compression threads [default: one per CPU].
    #[arg(long, value_name = "N")]
    compressors: Option<u32>,
    /// Writes in flight: one thread each for a file, one thread in all for a volume.
    #[arg(long, value_name = "N", default_value_t = 4)]
    writers: u32,
    /// Buffers in front of compression, and as many behind it.
    #[arg(long, value_name = "N", default_value_t = 16)]
    buffers: u32,
    /// Transfer size, 64k to 16m.
    #[arg(long, value_name = "SIZE", default_value = "1m")]
    transfer: String,
    /// Compression.
    #[arg(long, value_name = "METHOD", value_enum, default_value_t = Compress::Lz4)]
    compress: Compress,
    /// Size of a database page, to count pages.
    #[arg(long, value_name = "SIZE", default_value = "8k")]
    page: String,
    /// Use O_DIRECT where the file system allows it.
    #[arg(long)]
    direct: bool,
    /// Put the new backup in the place of an existing file, once it is whole.
    #[arg(long)]
    replace: bool,
    /// Overwrite a volume that holds data. An older backup in it is given up when the first data of
    /// the sources were read. A device needs its path or serial number, as
    /// --destroy=/dev/sdx; may be given several times.
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "")]
    destroy: Vec<String>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Compress {
    /// LZ4.
    Lz4,
    /// No compression.
    None,
}

/// Kind of a source or a target.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Medium {
    Null,
    Path(PathBuf),
    Volume(Uri),
}

/// Keeps, or reads back.
pub fn main(args: &Args) -> Result<Exit> {
    let stop = Stop::default();
    signal::stop_on_signal(&stop)?;
    match &args.from {
        Some(from) => read_back(args, from, &stop),
        None => keep(args, &stop),
    }
}

fn keep(args: &Args, stop: &Stop) -> Result<Exit> {
    let options = options(args)?;
    let page_bytes = size("--page", &args.page, 1..=1 << 30)?;
    let stopped = || stop.asked() > 0;
    let to = args.to.as_deref().expect("required without --from");
    let medium = place(to)?;
    if args.verify && medium == Medium::Null {
        return Err(UsageError("--verify: null has no data to verify".to_owned()).into());
    }
    // A new file is created before the old one is removed. A volume is opened after all sources.
    let begun = match &medium {
        Medium::Null => Some(Target::null()),
        Medium::Path(path) => Some(Target::create(path, args.replace, args.direct)?),
        Medium::Volume(_) => None,
    };
    let skip = skip(args, &medium, begun.as_ref())?;
    let (entries, emulated) = match sources(args, &skip, &stopped) {
        Err(error) if is_stopped(&error) => return interrupted(),
        found => found?,
    };
    let (target, emulated_target) = match (begun, &medium) {
        (Some(target), _) => (target, false),
        (None, Medium::Volume(uri)) => open_target(args, to, uri)?,
        (None, _) => unreachable!("all but volumes are begun"),
    };
    let outcome = match run(&entries, &target, options, &tell, &stopped) {
        Err(error) if error.is_stopped() => return interrupted(),
        found => found?,
    };
    let checked = args.verify.then(|| restore(&target, None, &tell_late, &stopped)).transpose();
    let is_partial = entries.iter().any(|entry| entry.fate().is_partial());
    let is_good = |checked: &Checked| checked.damaged == 0;
    let is_whole = !is_partial && checked.as_ref().is_ok_and(|it| it.as_ref().is_none_or(is_good));
    // A backup may have taken hours: it is published, whatever its verification found.
    let published = target.publish(is_whole)?;
    if let Published::Beside(path) = &published {
        let path = path.display();
        output::note(format_args!(
            "drumfire: this backup lacks data or is damaged: {to} was not replaced, and the \
            backup is in {path}"
        ));
    }
    let checked = match checked {
        Err(error) if error.is_stopped() => {
            output::note("drumfire: interrupted: the backup is complete, but not verified");
            return Ok(Exit::Interrupted);
        }
        found => found?,
    };
    let told = print::Told {
        entries: &entries,
        target: to,
        published: &published,
        options: &options,
        outcome: &outcome,
        checked: checked.as_ref(),
        page_bytes,
        emulated: emulated || emulated_target,
    };
    match args.json {
        true => output::document(&told.json())?,
        false => output::print(&told.text())?,
    }
    Ok(match checked {
        Some(checked) if checked.damaged > 0 => Exit::Mismatch,
        _ if is_partial => Exit::Partial,
        _ => Exit::Good,
    })
}

fn read_back(args: &Args, from: &str, stop: &Stop) -> Result<Exit> {
    if args.owners && !rustix::process::geteuid().is_root() {
        let words = "--owners: only root can set the owners of files: run it as root, or remove \
            --owners";
        return Err(UsageError(words.to_owned()).into());
    }
    let target = match place(from)? {
        Medium::Null => {
            return Err(UsageError("null has no data to read".to_owned()).into());
        }
        Medium::Path(path) => Target::open(&path)?,
        Medium::Volume(uri) => Target::volume(from, opened::open(&uri, Purpose::Read)?),
    };
    let into = args.into.as_deref();
    let into = into.map(|folder| Destination { folder, owners: args.owners });
    let checked = match restore(&target, into, &tell_late, &|| stop.asked() > 0) {
        Err(BackupError::Unfinished { error, left }) if error.is_stopped() => {
            let left = left.display();
            output::note(format_args!(
                "drumfire: interrupted: the files restored so far are in {left}"
            ));
            return Ok(Exit::Interrupted);
        }
        Err(error) if error.is_stopped() => return interrupted(),
        found => found?,
    };
    match args.json {
        true => output::document(&print::checked_json(&checked))?,
        false => output::print(&print::checked(&checked, target.name()))?,
    }
    Ok(match (checked.damaged, checked.partial) {
        (0, 0) => Exit::Good,
        (0, _) => Exit::Partial,
        _ => Exit::Mismatch,
    })
}

/// Says how far a backup is.
fn tell(progress: Progress) {
    match progress.is_tenth {
        true => output::note(format_args!("{} percent processed.", progress.percent)),
        false => tell_late(progress),
    }
}

/// Reports the progress of a long backup.
fn tell_late(progress: Progress) {
    let [done, total] = [progress.done_bytes, progress.total_bytes].map(|bytes| bytes >> 20);
    if !progress.is_tenth {
        let percent = progress.percent;
        output::note(format_args!("{percent} percent processed: {done} of {total} MiB."));
    }
}

fn is_stopped(error: &anyhow::Error) -> bool {
    error.downcast_ref::<BackupError>().is_some_and(BackupError::is_stopped)
}

fn interrupted() -> Result<Exit> {
    output::note("drumfire: interrupted: the backup or restore is incomplete");
    Ok(Exit::Interrupted)
}

fn options(args: &Args) -> Result<Options, UsageError> {
    let most = u64::from(TRANSFER_MAX_BYTES);
    let transfer_bytes = size("--transfer", &args.transfer, 1..=most)? as u32;
    if !transfer_bytes.is_multiple_of(TRANSFER_STEP_BYTES) {
        let text = &args.transfer;
        return Err(UsageError(format!("--transfer {text}: use a multiple of 64k, maximum 16m")));
    }
    let processors = cpu::allowed().len() as u32;
    let compressors = args.compressors.unwrap_or(processors.max(1));
    for (flag, count) in
        [("--readers", args.readers), ("--compressors", compressors), ("--writers", args.writers)]
    {
        if !(1..=THREADS_MAX).contains(&count) {
            return Err(UsageError(format!("{flag} {count}: 1 to {THREADS_MAX}")));
        }
    }
    let memory = u64::from(args.buffers) * u64::from(transfer_bytes);
    if args.buffers == 0 || memory > BUFFERS_MAX_BYTES {
        let (buffers, most) = (args.buffers, print_size(BUFFERS_MAX_BYTES));
        return Err(UsageError(format!(
            "--buffers {buffers}: at least 1, maximum {most} of \
            memory in total"
        )));
    }
    Ok(Options {
        readers: args.readers,
        compressors,
        writers: args.writers,
        buffers: args.buffers,
        transfer_bytes,
        codec: if args.compress == Compress::Lz4 { Codec::Lz4 } else { Codec::Stored },
        direct: args.direct,
    })
}

fn size(flag: &str, text: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, UsageError> {
    let bytes = parse_size(text).map_err(|error| UsageError(format!("{flag}: {error}")))?;
    if range.contains(&bytes) {
        return Ok(bytes);
    }
    let (least, most) = (print_size(*range.start()), print_size(*range.end()));
    Err(UsageError(format!("{flag} {text}: {least} to {most}")))
}

/// Finds files that must not be read because they are the target. A source that is the target is
/// refused.
fn skip(args: &Args, medium: &Medium, begun: Option<&Target>) -> Result<Skip> {
    let mut skip = begun.map(Target::skip).unwrap_or_default();
    let own = match medium {
        Medium::Null => None,
        Medium::Path(path) => {
            let path = path.clone();
            DataLocation::of(&Uri::File(FileUri { path, ..FileUri::default() }))
        }
        Medium::Volume(uri) => DataLocation::of(uri),
    };
    for source in &args.sources {
        let Ok(Medium::Volume(uri)) = place(source) else { continue };
        let other = DataLocation::of(&uri);
        if own.as_ref().zip(other.as_ref()).is_some_and(|(own, other)| own.overlaps(other)) {
            let to = args.to.as_deref().unwrap_or_default();
            return Err(UsageError(format!("{to} is also a source")).into());
        }
    }
    if let (Some(own), Medium::Volume(_)) = (own, medium) {
        skip.files.extend(own.files());
    }
    Ok(skip)
}

/// Opens a target volume, and returns whether it is emulated.
fn open_target(args: &Args, name: &str, uri: &Uri) -> Result<(Target, bool)> {
    let purpose = match volume::may_destroy(uri, &args.destroy) {
        true => Purpose::Destroy,
        false => Purpose::Write,
    };
    // A file created for the volume is private, like a backup file.
    let usual = umask(Mode::from_raw_mode(0o077));
    let volume = opened::open(uri, purpose);
    umask(usual);
    let volume = volume?;
    let emulated = volume.emulates().is_some();
    Ok((Target::volume(name, volume), emulated))
}

/// Opens and lists all sources: paths first, then volumes. Also returns whether one is emulated.
fn sources(args: &Args, skip: &Skip, stop: &dyn Fn() -> bool) -> Result<(Vec<Entry>, bool)> {
    let places = args.sources.iter().map(|source| place(source).map(|place| (source, place)));
    let places = places.collect::<Result<Vec<_>>>()?;
    let mut paths = Vec::new();
    let mut volumes: Vec<(Uri, Purpose)> = Vec::new();
    for (source, place) in places {
        match place {
            Medium::Null => {
                return Err(UsageError(format!("{source}: null has no data to back up")).into());
            }
            Medium::Path(path) => {
                fs::metadata(&path).map_err(|error| crate::exit::of_file(source, error))?;
                paths.push(path);
            }
            Medium::Volume(uri) => volumes.push((uri, Purpose::Read)),
        }
    }
    let opened: Vec<Arc<dyn Volume>> = opened::open_all(&volumes)?;
    let mut entries = list(&paths, skip, stop).map_err(|error| match error {
        BackupError::Itself(_) => UsageError(error.to_string()).into(),
        error => anyhow::Error::new(error),
    })?;
    let emulated = opened.iter().any(|volume| volume.emulates().is_some());
    for (number, volume) in (1..).zip(opened) {
        let mut name = format!("volume-{number}");
        while entries.iter().any(|entry| entry.path == Path::new(&name)) {
            name.push('_');
        }
        add_volume(&mut entries, &name, volume);
    }
    Ok((entries, emulated))
}

/// Medium of a name: an existing file, folder or device; otherwise a name with a colon is a volume.
fn place(text: &str) -> Result<Medium> {
    if text == "null" {
        return Ok(Medium::Null);
    }
    let path = PathBuf::from(text);
    let about = fs::metadata(&path);
    if about.as_ref().is_ok_and(|about| about.file_type().is_block_device()) {
        return Ok(Medium::Volume(Uri::File(FileUri { path, ..FileUri::default() })));
    }
    let is_volume = text.contains(':') || text.starts_with("mirror(");
    if about.is_ok() || text.starts_with(['/', '.']) || !is_volume {
        return Ok(Medium::Path(path));
    }
    Ok(Medium::Volume(text.parse()?))
}

#[cfg(test)]
mod test {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parsed(words: &str) -> Result<Args, String> {
        let words = ["backup"].into_iter().chain(words.split_whitespace());
        Line::try_parse_from(words).map(|line| line.args).map_err(|error| error.to_string())
    }

    #[test]
    fn names_are_paths_unless_they_are_volumes() {
        let path = |text: &str| Medium::Path(PathBuf::from(text));
        assert_eq!(place("null").unwrap(), Medium::Null);
        for text in ["data", "/no/such", "./a:b", "/"] {
            assert_eq!(place(text).unwrap(), path(text), "{text}");
        }
        for text in ["ram:4m", "null:1t", "file:x", "mirror(ram:1m,ram:2m)"] {
            assert!(matches!(place(text).unwrap(), Medium::Volume(_)), "{text}");
        }
        assert!(place("rm:4m").is_err());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let good = parsed("data --to null").unwrap();
        let options = options(&good).unwrap();
        assert_eq!((options.readers, options.transfer_bytes), (4, 1 << 20));
        let why = |words: &str| super::options(&parsed(words).unwrap()).unwrap_err().to_string();
        assert!(why("data --to null --transfer 100k").contains("multiple of 64k"));
        assert!(why("data --to null --transfer 32m").contains("--transfer"));
        assert!(why("data --to null --readers 0").contains("--readers"));
        assert!(why("data --to null --buffers 0").contains("--buffers"));
        assert!(why("data --to null --buffers 4000000000").contains("--buffers"));
        for words in [
            "",
            "data",
            "--to null",
            "data --from x",
            "--from x --to y",
            "--into x",
            "--from x --owners",
            "data --to x --owners",
        ] {
            assert!(parsed(words).is_err(), "{words}");
        }
        assert!(parsed("--from x --into y --owners").is_ok());
    }
}
