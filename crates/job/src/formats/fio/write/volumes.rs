//! Volumes of a job as options of a fio job file, and the engine that reaches them.

use super::Written;
use crate::formats::fio::{passthrough, transport};
use crate::formats::reading::Storage;

/// Access method that all volumes of a job have in common.
#[derive(Default, PartialEq)]
pub(in crate::formats::fio) struct Way {
    pub engine: &'static str,
    /// True for direct I/O; `None` if there is no page cache.
    pub direct: Option<bool>,
    pub iopoll: bool,
    pub sqpoll: bool,
    /// Name of the initiator or host.
    pub initiator: Option<String>,
    /// Digests of headers and of data.
    pub digests: [bool; 2],
}

/// Finds the volumes, and their access method.
pub(super) fn find(
    written: &mut Written<'_>,
    storage: &dyn Fn(&str) -> Option<Storage>,
) -> Result<(), String> {
    let group = written.group;
    let traced = group.workload.access.trace.is_some();
    let mut way: Option<Way> = None;
    for uri in &group.volumes {
        let why = "fio has no equivalent of this volume; files need ?direct=0 or ?direct=1";
        let storage = storage(uri).ok_or_else(|| format!("{uri}: {why}"))?;
        let (name, this) = named(&storage).map_err(|why| format!("{uri}: {why}"))?;
        if way.as_ref().is_some_and(|way| *way != this) {
            return Err(format!(
                "{uri} needs another ioengine or other connection options than the previous volumes"
            ));
        }
        way = Some(this);
        let name = name.map(|name| if traced { name } else { name.replace(':', "\\:") });
        written.names.extend(name);
    }
    written.way = way.ok_or("the job has no volume")?;
    written.files = if traced { 1 } else { written.names.len().max(1) as u64 };
    written.cached = written.way.direct == Some(false);
    match written.cached || group.cache == Default::default() {
        true => Ok(()),
        false => Err("cache options need files in the page cache: use ?direct=0".to_owned()),
    }
}

/// Returns the name of a volume, and its access method.
fn named(storage: &Storage) -> Result<(Option<String>, Way), String> {
    Ok(match storage {
        Storage::File { path, direct, iopoll, sqpoll, .. } => {
            let commands = passthrough::is_namespace(path);
            let engine = if commands { "io_uring_cmd" } else { "io_uring" };
            let (direct, iopoll, sqpoll) = ((!commands).then_some(*direct), *iopoll, *sqpoll);
            (Some(path.clone()), Way { engine, direct, iopoll, sqpoll, ..Way::default() })
        }
        Storage::Nothing { .. } => (None, Way { engine: "null", ..Way::default() }),
        Storage::Uri(uri) => {
            let (uri, initiator) = match uri.split_once("?initiator=") {
                Some((uri, initiator)) => (uri, Some(initiator.to_owned())),
                None => (uri.as_str(), None),
            };
            (Some(uri.to_owned()), Way { engine: "libiscsi", initiator, ..Way::default() })
        }
        Storage::Remote(remote) => {
            let digests = [remote.header_digest, remote.data_digest];
            let initiator = remote.initiator.clone();
            let way = Way { engine: "spdk", initiator, digests, ..Way::default() };
            (Some(transport::write(remote)?), way)
        }
        Storage::Calls { .. }
        | Storage::Memory { .. }
        | Storage::Stripe { .. }
        | Storage::Mirror { .. } => {
            return Err(
                "fio has no equivalent of memory volumes and of several volumes as one".into()
            );
        }
    })
}
