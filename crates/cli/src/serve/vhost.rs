//! `drumfire serve --vhost-user`: a Unix socket for each volume.

use std::path::Path;

use ::serve::{Log, VhostConfig, VhostServer, VhostVolume};
use anyhow::Result;

use super::opening::{self, Opened};
use crate::args::Serve;
use crate::exit::{Exit, UsageError};
use crate::output::{note, print_line};
use crate::{placement, signal};

/// Serves in `folder` until a stop is requested.
pub(super) fn main(serve: &Serve, folder: &Path) -> Result<Exit> {
    let texts: Vec<&String> = serve.volume.iter().collect();
    if texts.is_empty() {
        let message = "no volume to serve: give --volume NAME=URI, such as --volume disk=ram:1g";
        return Err(UsageError(message.to_owned()).into());
    }
    if !folder.is_dir() {
        let message = format!("--vhost-user {0}: no such folder; fix: mkdir {0}", folder.display());
        return Err(UsageError(message).into());
    }
    let signals = signal::on_signal()?;
    let cores = placement::chosen(&serve.cores, usize::MAX)?;
    let opened = opening::open(&texts)?;
    if let Some(one) = opened.iter().find(|one| !one.volume.flushes_all()) {
        let message = format!(
            "--volume {}: a flush of one driver would not cover the writes of another",
            one.named.name()
        );
        return Err(UsageError(message).into());
    }
    let lanes = opened.iter().map(|one| (&*one.named.text, &*one.volume));
    let cores = placement::of_lanes(cores, lanes);
    let volumes = named(serve, opened)?;
    let watched: Vec<_> = volumes
        .iter()
        .map(|one| (one.name.clone(), std::sync::Arc::clone(&one.export.volume)))
        .collect();
    let config = VhostConfig { volumes, folder: folder.to_owned(), cores };
    let log = Log::new(|line| note(format_args!("drumfire: {line}")));
    let server = VhostServer::start(config, log, |why| {
        note(format_args!("drumfire: {why}: the server stops"));
        std::process::exit(Exit::Failed.number().into());
    })?;
    let sockets = server.sockets().iter();
    let sockets: Vec<String> =
        sockets.map(|path| format!("vhost-user={}", path.display())).collect();
    print_line(format_args!("ready {}", sockets.join(" ")))?;
    // The channel closes only with the thread that sends to it; then no signal could stop the
    // server.
    let _ = signals.recv();
    drop(server);
    for (name, volume) in &watched {
        if let Some(incidents) = volume.incidents() {
            note(format_args!("drumfire: {name}: {incidents}"));
        }
    }
    Ok(Exit::Good)
}

/// The volumes with the names of their sockets.
fn named(serve: &Serve, opened: Vec<Opened>) -> Result<Vec<VhostVolume>> {
    let identity = opening::own(&opened);
    let mut volumes: Vec<VhostVolume> = Vec::new();
    for one in opened {
        let (text, name) = (one.named.text.clone(), one.named.name().to_owned());
        let wrong = |why: &str| UsageError(format!("--volume {text}: {why}"));
        if name.contains('/') {
            return Err(wrong("--vhost-user has no LUNs: write NAME=URI").into());
        }
        if volumes.iter().any(|other| other.name == name) {
            return Err(wrong("another volume has this name").into());
        }
        let read_only = serve.read_only.contains(&name);
        let export = opening::export(&identity, one, None, false)?;
        volumes.push(VhostVolume { name, export, read_only });
    }
    let unknown = |name: &&String| !volumes.iter().any(|one| one.name == **name);
    if let Some(name) = serve.read_only.iter().find(unknown) {
        return Err(UsageError(format!("--read-only: no volume is called '{name}'")).into());
    }
    Ok(volumes)
}
