//! Job files of fio and Iometer: names of volumes are made here, everything else in `job`.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use anyhow::Result;
use job::formats::{Reading, Remote, Storage, Surroundings, fio, icf, read_old_text};
use volume::{FileUri, NvmeUri, Purpose, Session, Uri, UriError};

use crate::exit::{UsageError, of_file};
use crate::output;

/// The format of a job file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Drumfire's format.
    Toml,
    /// fio's.
    Fio,
    /// Iometer's.
    Icf,
}

impl Format {
    /// Format of a file by its extension, or by its content: fio's job files have any name. `None`
    /// for a volume.
    pub fn of(name: &str) -> Option<Format> {
        if name.starts_with("file:") {
            return None;
        }
        let ending = Path::new(name).extension().and_then(|ending| ending.to_str());
        match ending.unwrap_or_default().to_ascii_lowercase().as_str() {
            "toml" => Some(Format::Toml),
            "fio" | "job" | "ini" => Some(Format::Fio),
            "icf" => Some(Format::Icf),
            _ => looks_like_fio(Path::new(name)).then_some(Format::Fio),
        }
    }
}

/// Longest file that may be fio's, whatever its name, in bytes.
const ODD_NAME_MAX: u64 = 1 << 20;

/// Whether a file is text and starts with a section, after blank lines and comments.
fn looks_like_fio(path: &Path) -> bool {
    let small = std::fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() <= ODD_NAME_MAX);
    let text = if small { std::fs::read_to_string(path).ok() } else { None };
    let Some(text) = text else { return false };
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    let is_section = |line: &str| line.starts_with('[') && line.contains(']');
    first.is_some_and(is_section) && !text.contains('\0')
}

/// Reads a file of fio or Iometer. `volumes` replace the targets that the file names, in order of
/// their appearance; `seconds` replaces the length of each step.
pub fn read(
    format: Format,
    name: &str,
    volumes: &[String],
    seconds: Option<f64>,
) -> Result<Reading> {
    // Targets in an Iometer configuration are devices of another machine.
    let only_words = |line: &str| match format {
        Format::Icf => true,
        Format::Fio => line.trim_start().starts_with(['#', ';']),
        Format::Toml => false,
    };
    let text = read_old_text(Path::new(name), only_words);
    let text = text.map_err(|error| of_file(name, error))?;
    read_as(format, name, &text, volumes, seconds)
}

/// Like [`read`], with text that was read before.
pub fn read_as(
    format: Format,
    name: &str,
    text: &str,
    volumes: &[String],
    seconds: Option<f64>,
) -> Result<Reading> {
    let reading = match format {
        Format::Icf => icf::read(
            name,
            text,
            &icf::Options {
                volumes,
                is_volume: &is_volume,
                seconds,
                sector_bytes: sector_bytes(volumes),
            },
        ),
        Format::Fio | Format::Toml => {
            fio::read(name, text, &surroundings(), &fio_options(volumes, seconds))
        }
    };
    reading.map_err(|error| UsageError(error.to_string()).into())
}

/// Reads fio's input: job files, or a command line as one. Selects the sections in `wanted`; all if
/// it is empty.
pub fn read_fio(files: &[fio::Source<'_>], wanted: &[String]) -> Result<Reading> {
    let options = fio::Options { is_fio: true, ..fio_options(&[], None) };
    fio::read_all(files, wanted, &surroundings(), &options)
        .map_err(|error| UsageError(error.to_string()).into())
}

/// Properties of this host on which the meaning of a job file depends.
fn surroundings() -> Surroundings<'static> {
    let memory_bytes = os::sample::memory_total_bytes().unwrap_or(0);
    Surroundings::of_host(memory_bytes >> 20, os::cpu::allowed().len() as u64)
}

fn fio_options(volumes: &[String], seconds: Option<f64>) -> fio::Options<'_> {
    fio::Options {
        volumes,
        volume: &name_volume,
        capacity: &capacity,
        is_far: &is_far,
        node: &os::cpu::of_node,
        polls: &polls,
        is_fio: false,
        seconds,
    }
}

/// One spelling of a URI.
pub fn plain_uri(text: &str) -> String {
    text.parse::<Uri>().map_or_else(|_| text.to_owned(), |uri| uri.to_string())
}

/// URI of the storage that a file names.
pub fn name_volume(storage: &Storage) -> Result<String, String> {
    let uri = uri_of(storage)?.to_string();
    // A name that does not fit in a URI would name another volume, or none.
    uri.parse::<Uri>().map_err(|error| error.to_string())?;
    Ok(uri)
}

fn uris_of(parts: &[Storage]) -> Result<Vec<Uri>, String> {
    parts.iter().map(uri_of).collect()
}

fn uri_of(storage: &Storage) -> Result<Uri, String> {
    Ok(match storage {
        Storage::Uri(text) => text.parse::<Uri>().map_err(|error| error.to_string())?,
        Storage::Remote(remote) => remote_uri(remote)?,
        Storage::File { path, .. } if is_no_storage(path) => {
            return Err(format!("{path} is not a file or a block device"));
        }
        Storage::Nothing { size_bytes, block_bytes } => {
            Uri::Null { bytes: *size_bytes, block_bytes: *block_bytes, call: None }
        }
        Storage::Calls { size_bytes, call } => format!("null:{size_bytes}?call={call}")
            .parse()
            .map_err(|error: UriError| error.to_string())?,
        Storage::Memory { size_bytes, block_bytes, name } => Uri::Ram {
            bytes: *size_bytes,
            block_bytes: *block_bytes,
            fill: None,
            name: Some(name.clone()),
        },
        Storage::Stripe { chunk_bytes, parts } => {
            Uri::Stripe { chunk_bytes: *chunk_bytes, parts: uris_of(parts)? }
        }
        Storage::Mirror { legs } => Uri::Mirror { legs: uris_of(legs)? },
        Storage::File { path, block_bytes, size_bytes, direct, iopoll, sqpoll } => {
            Uri::File(FileUri {
                path: path.into(),
                block_bytes: *block_bytes,
                size_bytes: *size_bytes,
                direct: Some(*direct),
                iopoll: *iopoll,
                sqpoll: *sqpoll,
                unlocked: false,
                to_the_byte: false,
            })
        }
    })
}

/// Another tool's name for a volume; `None` if it has none.
pub fn storage_of(uri: &str) -> Option<Storage> {
    match uri.parse::<Uri>().ok()? {
        Uri::Null { bytes, block_bytes: 512, call: None } => {
            Some(Storage::Nothing { size_bytes: bytes, block_bytes: 512 })
        }
        Uri::File(file) if file.block_bytes.is_none_or(|bytes| bytes == 1) && !file.unlocked => {
            let FileUri { path, block_bytes, size_bytes, direct, iopoll, sqpoll, .. } = file;
            let (path, direct) = (path.to_str()?.to_owned(), direct?);
            Some(Storage::File { path, block_bytes, size_bytes, direct, iopoll, sqpoll })
        }
        // fio's iSCSI engine accepts a URL and the initiator's name, and no other session
        // setting.
        Uri::Iscsi(iscsi) => {
            let plain =
                Session { initiator: iscsi.session.initiator.clone(), ..Session::default() };
            (iscsi.session == plain).then(|| Storage::Uri(Uri::Iscsi(iscsi).to_string()))
        }
        Uri::Nvme(nvme) => remote_of(nvme).map(Storage::Remote),
        _ => None,
    }
}

/// The URI of a volume on another host.
fn remote_uri(remote: &Remote) -> Result<Uri, String> {
    let Remote { host, port, target, unit, .. } = remote;
    let uri = Uri::Nvme(NvmeUri {
        address: match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        },
        subsystem: if target.is_empty() {
            NvmeUri::ONLY_SUBSYSTEM.to_owned()
        } else {
            target.clone()
        },
        nsid: *unit,
        session: Session {
            header_digest: remote.header_digest,
            data_digest: remote.data_digest,
            initiator: remote.initiator.clone(),
            ..Session::default()
        },
    });
    // A name that a URI cannot express would name another volume.
    match uri.to_string().parse::<Uri>() {
        Ok(read) if read == uri => Ok(uri),
        Ok(_) => Err(format!("{target}: names cannot contain /, ? or &")),
        Err(error) => Err(error.to_string()),
    }
}

/// Inverse of the conversion from a remote volume; `None` if only our own initiator has the
/// requested options.
fn remote_of(nvme: NvmeUri) -> Option<Remote> {
    let NvmeUri { address, subsystem, nsid, session } = nvme;
    if session.reconnect_seconds.is_some() || session.io_timeout_seconds.is_some() {
        return None;
    }
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some(Remote {
        host: host.to_owned(),
        port: port.parse().ok()?,
        target: if subsystem == NvmeUri::ONLY_SUBSYSTEM { String::new() } else { subsystem },
        unit: nsid,
        header_digest: session.header_digest,
        data_digest: session.data_digest,
        initiator: session.initiator,
    })
}

/// Whether the path is not a file or a block device: a folder, `/dev/null`.
fn is_no_storage(path: &str) -> bool {
    let kind = std::fs::metadata(path).map(|there| there.file_type());
    let is_file = |kind: std::fs::FileType| kind.is_file() || kind.is_block_device();
    kind.is_ok_and(|kind| !is_file(kind)) && os::block_twin(Path::new(path)).is_none()
}

fn is_volume(name: &str) -> bool {
    name.parse::<Uri>().is_ok()
}

/// Whether the device that a file is on, or will be on, has poll queues.
fn polls(path: &str) -> bool {
    let path = Path::new(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let there = if path.exists() { path } else { folder.unwrap_or(Path::new(".")) };
    let twin = os::block_twin(there);
    let file = std::fs::File::open(twin.as_deref().unwrap_or(there)).ok();
    let device = file.and_then(|file| os::Device::under(&file));
    device.is_some_and(|device| device.settings().polls == Some(true))
}

fn is_far(uri: &str) -> bool {
    uri.parse().is_ok_and(|uri: Uri| uri.address().is_some())
}

/// Capacity of an existing file or device, or of a remote volume; if that does not respond, the
/// reason is reported at once.
fn capacity(uri: &str) -> Option<u64> {
    let uri = match uri.parse().ok()? {
        // Flags of opening do not change the size of the file.
        Uri::File(file) => {
            Uri::File(FileUri { direct: None, size_bytes: None, iopoll: false, ..file })
        }
        remote @ (Uri::Iscsi(_) | Uri::Nvme(_) | Uri::Nbd(_) | Uri::VhostUser { .. }) => {
            let opened = volume::open(&remote, Purpose::Read);
            let note = |error: &volume::OpenError| output::note(format_args!("drumfire: {error}"));
            return opened.inspect_err(note).ok().map(|volume| volume.geometry().bytes());
        }
        Uri::Null { bytes, .. } | Uri::Ram { bytes, .. } => return Some(bytes),
        several @ (Uri::Stripe { .. } | Uri::Mirror { .. }) => several,
        Uri::Delay { .. } | Uri::Fault { .. } | Uri::Array(_) => return None,
    };
    volume::open(&uri.unlocked(), Purpose::Read).ok().map(|volume| volume.geometry().bytes())
}

/// The largest block of volumes that say theirs without being opened.
fn sector_bytes(volumes: &[String]) -> u32 {
    let block = |text: &String| match text.parse() {
        Ok(Uri::Null { block_bytes, .. } | Uri::Ram { block_bytes, .. }) => block_bytes,
        Ok(Uri::File(file)) => {
            let opened = volume::open(&Uri::File(file).unlocked(), Purpose::Read);
            opened.map_or(512, |volume| volume.geometry().block_bytes)
        }
        _ => 512,
    };
    volumes.iter().map(block).max().unwrap_or(512)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn knows_files_by_their_names() {
        for (name, format) in [
            ("a.fio", Some(Format::Fio)),
            ("/x/b.ICF", Some(Format::Icf)),
            ("job.toml", Some(Format::Toml)),
            ("file:a.fio", None),
            ("null:1t", None),
            ("iscsi://h/iqn.2026-11.x:fio/1", None),
        ] {
            assert_eq!(Format::of(name), format, "{name}");
        }
    }

    #[test]
    fn a_file_that_begins_with_a_section_is_fios() {
        let folder = std::env::temp_dir().join(format!("drumfire-odd-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (text, is) in [
            ("[a]\nrw=read\n", true),
            ("\n; jobs\n# of mine\n  [global]\nbs=4k\n", true),
            ("a=1\n[b]\n", false),
            ("", false),
            ("[a]\0", false),
        ] {
            let path = folder.join("jobs.conf");
            std::fs::write(&path, text).unwrap();
            let found = Format::of(path.to_str().unwrap());
            assert_eq!(found, is.then_some(Format::Fio), "{text:?}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_named_is_what_was_meant() {
        for uri in ["null:1t", "file:/a b?size=1g&direct=1", "file:c?direct=0"] {
            assert_eq!(name_volume(&storage_of(uri).unwrap()).unwrap(), uri);
        }
        let null = storage_of("file:/dev/null?size=1g&direct=0").unwrap();
        assert!(name_volume(&null).unwrap_err().contains("not a file or a block device"));
        for uri in [
            "ram:1g",
            "file:/x",
            "nvme+tcp://h/nqn.2026-11.x:d/1?reconnect=9",
            "iscsi://h/iqn.2026-11.x:d/1?header-digest",
            "iscsi://h/iqn.2026-11.x:d/1?reconnect=9",
            "nvme+tcp://h/nqn.2026-11.x:d/1?io_timeout=9",
            "iscsi://h/iqn.2026-11.x:d/1?io_timeout=9",
            "tape:1",
        ] {
            assert_eq!(storage_of(uri), None, "{uri}");
        }
    }

    #[test]
    fn volumes_on_other_hosts_have_both_kinds_of_names() {
        for uri in [
            "nvme+tcp://h:4420/nqn.2026-11.x:d/1",
            "nvme+tcp://[::1]:1/nqn.2026-11.x:d/7?header-digest=1&data-digest=1&initiator=me",
            "nvme+tcp://10.0.0.1:4420/nqn.2014-08.org.nvmexpress.discovery/1",
            "iscsi://h:1/iqn.2026-11.x:d/1?initiator=iqn.2026-11.x:me",
        ] {
            assert_eq!(name_volume(&storage_of(uri).unwrap()).unwrap(), uri);
        }
        let remote = |target: &str, initiator: &str| {
            let (host, port, unit) = ("h".to_owned(), 1, 1);
            let (target, initiator) = (target.to_owned(), Some(initiator.to_owned()));
            name_volume(&Storage::Remote(Remote {
                host,
                port,
                target,
                unit,
                initiator,
                ..Remote::default()
            }))
        };
        for (target, initiator, part) in [
            (&*"x".repeat(224), "me", "subsystem name"),
            ("nqn.2026-11.x:a/b", "me", "nvme+tcp://"),
            ("nqn.2026-11.x:a?reconnect=9s", "me", "not a volume"),
            ("nqn.2026-11.x:a", "me&reconnect=9s", "names cannot contain"),
        ] {
            let why = remote(target, initiator).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
