//! Protects this host's devices from being overwritten by mistake. For files `--destroy` is enough;
//! on a device a slip costs a system.

mod signature;

use std::fs::{File, FileType};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use os::{Device, OpenFile};

use crate::{OpenError, Purpose, Uri};

/// Refuses a device that is in use, or that a job would overwrite without permission. The returned
/// file keeps others from mounting the device; `None` for anything else, and for reading.
pub(crate) fn claim(path: &Path, purpose: Purpose) -> Result<Option<File>, OpenError> {
    let fail = |error| OpenError::File { path: path.to_owned(), error };
    let kind = std::fs::metadata(path).map(|about| about.file_type());
    let is = |of: fn(&FileType) -> bool| kind.as_ref().is_ok_and(of);
    if !purpose.writes() || !is(is_device) {
        return Ok(None);
    }
    // NVMe passthrough does not check for users of the block device.
    let shown = os::block_twin(path);
    if shown.is_none() && is(FileTypeExt::is_char_device) {
        return Ok(None);
    }
    let shown = shown.as_deref().unwrap_or(path);
    let plain = File::open(shown).map_err(fail)?;
    let device = Device::under(&plain);
    let users = device.as_ref().map(Device::users).unwrap_or_default();
    let in_use = |by| OpenError::InUse { path: path.to_owned(), by };
    if !users.is_empty() {
        return Err(in_use(users.join(", ")));
    }
    let claim = OpenFile::claim(shown).map_err(|error| match error.kind() {
        std::io::ErrorKind::ResourceBusy => in_use("opened exclusively (O_EXCL)".to_owned()),
        _ => fail(error),
    })?;
    if purpose == Purpose::Write {
        let what = holds(&plain).map_err(fail)?;
        let serial = device.and_then(|device| device.serial());
        return Err(OpenError::Precious { path: path.to_owned(), what, serial });
    }
    Ok(Some(claim))
}

/// Content of a device, in words.
fn holds(device: &File) -> std::io::Result<String> {
    let bytes = { device }.seek(SeekFrom::End(0))?;
    let found = signature::find(bytes, |at, into| device.read_exact_at(into, at))?;
    Ok(match found.is_empty() {
        true => "no known signature, but possibly data".to_owned(),
        false => found.join(" and "),
    })
}

/// Whether `named` allows the volume's data to be lost. An empty name allows every volume except
/// devices; a device must be named by its path, through whichever link, or its serial number.
pub fn may_destroy(uri: &Uri, named: &[String]) -> bool {
    let path = match uri {
        Uri::Delay { inner, .. } | Uri::Fault { inner, .. } => return may_destroy(inner, named),
        Uri::Stripe { parts, .. } => return parts.iter().all(|part| may_destroy(part, named)),
        Uri::File(file) => &file.path,
        _ => return !named.is_empty(),
    };
    let about = std::fs::metadata(path);
    if !about.is_ok_and(|about| is_device(&about.file_type())) {
        let is = |name: &String| name.is_empty() || same(Path::new(name), path);
        return named.iter().any(is);
    }
    let shown = os::block_twin(path);
    let shown = File::open(shown.as_ref().unwrap_or(path));
    let serial = shown.ok().and_then(|file| Device::under(&file)?.serial());
    let mut names = named.iter().filter(|name| !name.is_empty());
    names.any(|name| Some(name) == serial.as_ref() || same(Path::new(name), path))
}

/// Whether a name refers to this volume: path or serial number of a file or device, or the URI of
/// any other volume.
pub fn is_named(uri: &Uri, name: &str) -> bool {
    match uri {
        Uri::Delay { inner, .. } | Uri::Fault { inner, .. } => is_named(inner, name),
        Uri::Stripe { parts, .. } => {
            uri.to_string() == name || parts.iter().any(|part| is_named(part, name))
        }
        Uri::File(_) => may_destroy(uri, &[name.to_owned()]),
        other => other.to_string() == name,
    }
}

/// A block device, or the character device of an NVMe namespace.
fn is_device(kind: &FileType) -> bool {
    kind.is_block_device() || kind.is_char_device()
}

fn same(one: &Path, other: &Path) -> bool {
    let real = |path| std::fs::canonicalize(path).ok();
    one == other || real(one).is_some_and(|one| Some(one) == real(other))
}
