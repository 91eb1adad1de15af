//! Hosts that may use volumes, and the secrets that they prove.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ::serve::{Chap, HostLists, Network};

use super::config::Config;
use super::opening::{Named, Names};
use crate::exit::UsageError;

/// Lists and secrets of a file of settings. `chap`, a file on the command line, is for discovery
/// and all `targets` without secrets.
pub(super) fn of<'a>(
    file: &Config,
    chap: Option<&Path>,
    targets: impl IntoIterator<Item = &'a str>,
) -> Result<HostLists, UsageError> {
    let by_name = file.nvme_hosts.iter();
    let by_name = by_name.map(|(name, hosts)| (Names::of(name).subsystem, hosts.clone()));
    let mut lists = HostLists {
        nvme: by_name.collect(),
        iscsi: networks("iscsi_hosts", &file.iscsi_hosts)?,
        nbd: networks("nbd_hosts", &file.nbd_hosts)?,
        chap: secrets(&file.iscsi_chap)?,
        discovery_chap: file.discovery_chap.as_deref().map(secret).transpose()?,
        read_only: file.read_only.iter().map(|name| full(name)).collect::<Result<_, _>>()?,
    };
    if let Some(all) = chap.map(secret).transpose()? {
        for target in targets {
            lists.chap.entry(target.to_owned()).or_insert_with(|| all.clone());
        }
        lists.discovery_chap.get_or_insert(all);
    }
    Ok(lists)
}

/// The target of NAME, or NAME/LUN with the target for NAME.
pub(super) fn full(name: &str) -> Result<String, UsageError> {
    let Some((name, lun)) = name.split_once('/') else { return Ok(Names::of(name).target) };
    let wrong = |_| UsageError(format!("{name}/{lun}: a LUN is from 0 to 255"));
    let lun: u8 = lun.parse().map_err(wrong)?;
    Ok(format!("{}/{lun}", Names::of(name).target))
}

/// Whether one of these names, NAME or NAME/LUN, means a volume.
pub(super) fn means(names: &[String], one: &Named) -> bool {
    names.iter().any(|name| covers(name, one))
}

/// Whether NAME or NAME/LUN means a volume.
pub(super) fn covers(name: &str, one: &Named) -> bool {
    let lun = format!("{}/{}", one.names.target, one.lun);
    full(name).is_ok_and(|full| full == one.names.target || full == lun)
}

/// Refuses lists for volumes that are not served: names, each with its LUN.
pub(super) fn check_names<'a>(
    file: &Config,
    served: impl Iterator<Item = (&'a Names, u8)> + Clone,
) -> Result<(), UsageError> {
    let read_only = file.read_only.iter().map(|name| ("read_only", name));
    for (key, name) in read_only.chain(file.removable.iter().map(|name| ("removable", name))) {
        let full = full(name)?;
        let is_it = |(one, lun): (&Names, u8)| {
            one.target == full || format!("{}/{lun}", one.target) == full
        };
        if !served.clone().any(is_it) {
            return Err(UsageError(format!("{key}: no volume is called '{name}'")));
        }
    }
    let lists = [
        ("nvme_hosts", file.nvme_hosts.keys().collect::<Vec<_>>()),
        ("iscsi_hosts", file.iscsi_hosts.keys().collect()),
        ("nbd_hosts", file.nbd_hosts.keys().collect()),
        ("iscsi_chap", file.iscsi_chap.keys().collect()),
    ];
    for (table, names) in lists {
        let unknown = |name: &&&String| served.clone().all(|(one, _)| *one != Names::of(name));
        if let Some(name) = names.iter().find(unknown) {
            return Err(UsageError(format!("[{table}] {name}: no volume is called so")));
        }
    }
    Ok(())
}

/// Secrets of CHAP in a file.
fn secret(path: &Path) -> Result<Chap, UsageError> {
    volume::read_chap(path).map_err(UsageError)
}

/// Secrets of CHAP, by the names of iSCSI targets.
fn secrets(files: &BTreeMap<String, PathBuf>) -> Result<BTreeMap<String, Chap>, UsageError> {
    files.iter().map(|(name, path)| Ok((Names::of(name).target, secret(path)?))).collect()
}

/// Lists of addresses, by the names of iSCSI targets.
fn networks(
    word: &str,
    lists: &BTreeMap<String, Vec<String>>,
) -> Result<BTreeMap<String, Vec<Network>>, UsageError> {
    let of = |(name, list): (&String, &Vec<String>)| {
        let list = list.iter().map(|text| text.parse()).collect::<Result<_, String>>();
        let list = list.map_err(|why| UsageError(format!("[{word}] {name}: {why}")))?;
        Ok((Names::of(name).target, list))
    };
    lists.iter().map(of).collect()
}
