//! Volumes of a job in the words of a fio job file, and the engine that reaches them.

use super::{set, whole};
use crate::formats::fio::{passthrough, replay, transport};
use crate::formats::reading::{Remote, Storage};
use crate::spec::{Expect, Extent, Group};

/// How volumes are reached: what all of a job have in common.
#[derive(PartialEq)]
struct Way {
    engine: &'static str,
    /// Settings with their values.
    words: Vec<(&'static str, String)>,
}

/// Which volumes, and which part of them. Returns how many files one clone goes through: sizes,
/// depths and rates are those of all of them.
pub(super) fn write(
    text: &mut String,
    group: &Group,
    storage: &dyn Fn(&str) -> Option<Storage>,
) -> Result<u64, String> {
    let traced = group.workload.access.trace.is_some();
    let mut names = Vec::new();
    let mut way: Option<Way> = None;
    for uri in &group.volumes {
        let why = "it has no word for this volume; files want ?direct=0 or ?direct=1";
        let storage = storage(uri).ok_or_else(|| format!("{uri}: {why}"))?;
        let (name, this) = named(&storage).map_err(|why| format!("{uri}: {why}"))?;
        if way.as_ref().is_some_and(|way| *way != this) {
            return Err(format!("{uri} is reached otherwise than the volumes before it"));
        }
        way = Some(this);
        names.extend(name.map(|name| if traced { name } else { name.replace(':', "\\:") }));
    }
    let way = way.ok_or("a job without a volume")?;
    set(text, "ioengine", way.engine);
    let files = match &group.workload.access.trace {
        Some(replay) => {
            replay::write_volumes(text, replay, &names)?;
            1
        }
        None => {
            if !names.is_empty() {
                set(text, "filename", names.join(":"));
            }
            names.len().max(1) as u64
        }
    };
    for (key, value) in way.words {
        set(text, key, value);
    }
    let range = &group.workload.range;
    match range.start {
        Extent::Bytes(0) => {}
        Extent::Bytes(bytes) => set(text, "offset", bytes),
        Extent::Percent(percent) => set(text, "offset", format!("{}%", whole(percent, "offset")?)),
    }
    match range.length {
        None => {}
        Some(Extent::Bytes(bytes)) => set(text, "size", bytes * files),
        Some(Extent::Percent(percent)) => {
            set(text, "size", format!("{}%", whole(percent, "size")?));
        }
    }
    Ok(files)
}

/// The name of a volume, and how it is reached.
fn named(storage: &Storage) -> Result<(Option<String>, Way), String> {
    let on = |key, on: bool| on.then(|| (key, "1".to_owned()));
    Ok(match storage {
        Storage::File { path, direct, iopoll, sqpoll, .. } => {
            let commands = passthrough::is_namespace(path);
            let mut words = match commands {
                true => vec![("cmd_type", "nvme".to_owned())],
                false => vec![("direct", u8::from(*direct).to_string())],
            };
            words.extend(on("hipri", *iopoll));
            words.extend(on("sqthread_poll", *sqpoll));
            let engine = if commands { "io_uring_cmd" } else { "io_uring" };
            (Some(path.clone()), Way { engine, words })
        }
        Storage::Nothing { .. } => (None, Way { engine: "null", words: Vec::new() }),
        Storage::Uri(uri) => {
            let (uri, initiator) = match uri.split_once("?initiator=") {
                Some((uri, initiator)) => (uri, Some(initiator)),
                None => (uri.as_str(), None),
            };
            let words = initiator.map(|name| ("initiator", name.to_owned()));
            let words = words.into_iter().collect();
            (Some(uri.to_owned()), Way { engine: "libiscsi", words })
        }
        Storage::Remote(remote) => {
            let words = connection(remote);
            (Some(transport::write(remote)?), Way { engine: "spdk", words })
        }
        Storage::Memory { .. } | Storage::Stripe { .. } | Storage::Mirror { .. } => {
            return Err("fio has a word neither for memory nor for several volumes as one".into());
        }
    })
}

/// What SPDK's plugin is told of a connection.
fn connection(remote: &Remote) -> Vec<(&'static str, String)> {
    // It takes no job without it.
    let mut words = vec![("thread", "1".to_owned())];
    let digests = match (remote.header_digest, remote.data_digest) {
        (false, false) => None,
        (true, false) => Some("HEADER"),
        (false, true) => Some("DATA"),
        (true, true) => Some("BOTH"),
    };
    words.extend(digests.map(|digests| ("digest_enable", digests.to_owned())));
    words.extend(remote.initiator.as_ref().map(|name| ("hostnqn", name.clone())));
    words
}

/// What fio does with the page cache unless it is told not to.
pub(super) fn cache(
    text: &mut String,
    group: &Group,
    storage: &dyn Fn(&str) -> Option<Storage>,
) -> Result<(), String> {
    let first = group.volumes.first().and_then(|uri| storage(uri));
    if !matches!(first, Some(Storage::File { direct: false, .. })) {
        let nothing = group.cache == Default::default();
        return if nothing { Ok(()) } else { Err("no page cache is between".to_owned()) };
    }
    set(text, "invalidate", u8::from(group.cache.drop));
    if group.cache.read {
        set(text, "pre_read", 1);
    }
    match group.cache.expect {
        Expect::Unknown => set(text, "fadvise_hint", 0),
        Expect::Random => set(text, "fadvise_hint", "random"),
        Expect::Sequential => set(text, "fadvise_hint", "sequential"),
    }
    Ok(())
}
