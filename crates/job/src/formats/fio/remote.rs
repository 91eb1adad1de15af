//! Volumes on other hosts: what the engines spdk and libiscsi call files, and what their own
//! options say of a connection.

use super::convert::Converter;
use super::job::FioJob;
use super::option::Says::{self, Anything};
use super::option::{Row, sets};
use super::settings::Engine;
use super::transport;
use super::treated::{self, ignored, refused};
use crate::formats::note::Treatment::{self, Differs, Ignored};
use crate::formats::reading::{Remote, Storage};

/// What a job says of its connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// What we are called, `hostnqn` of spdk and `initiator` of libiscsi.
    pub initiator: Option<String>,
    /// The volume, `uri` of nbd.
    pub uri: Option<String>,
    /// CRC-32C over headers, `digest_enable`.
    pub header_digest: bool,
    /// CRC-32C over data, `digest_enable`.
    pub data_digest: bool,
}

/// The options that say so, and those of SPDK's plugin that set nothing.
pub(super) const ROWS: &[Row] = &[
    sets!("hostnqn", connection.initiator, |v| Some(v.text()?.to_owned())),
    sets!("initiator", connection.initiator, |v| Some(v.text()?.to_owned())),
    sets!("uri", connection.uri, |v| Some(v.text()?.to_owned())),
    Row::new(&["digest_enable"], false, |s, v| {
        (s.connection.header_digest, s.connection.data_digest) = digests(v.text()?)?;
        Ok(None)
    }),
    ignored!(["mem_size_mb", "shm_id"], "buffers are in memory of our own"),
    ignored!(
        ["enable_sgl", "sge_size", "disable_pcie_sgl_merge"],
        "how SPDK is told where data lie; what is sent is the same"
    ),
    ignored!(["print_qid_mappings", "spdk_tracing", "log_flags"], "only about messages"),
    ignored!(["enable_vmd"], "only about devices of PCIe"),
    ignored!(["enable_interrupts"], "a worker polls first and sleeps where nothing comes"),
    ignored!(
        ["arbitration_burst", "low_weight", "medium_weight", "high_weight", "wrr_priority"],
        "it means something only beside enable_wrr=1"
    ),
    refused!(["enable_wrr"], "queues have no priorities: take it away"),
    refused!(["bit_bucket_data_len"], "reads bring all of their data: take it away"),
    refused!(["initial_zone_reset", "zone_append"], "zoned devices are not supported"),
    ignored!(
        ["pi_act", "pi_chk", "apptag", "apptag_mask", "md_per_io_size"],
        "only about namespaces with protection information or metadata, which are refused when \
         they are opened"
    ),
];

/// Reads `digest_enable=`: whether headers have one, and data.
fn digests(text: &str) -> Result<(bool, bool), String> {
    match text.to_ascii_uppercase().as_str() {
        "NONE" => Ok((false, false)),
        "HEADER" => Ok((true, false)),
        "DATA" => Ok((false, true)),
        "BOTH" => Ok((true, true)),
        _ => Err(format!("'{text}' is none of NONE, HEADER, DATA, BOTH")),
    }
}

/// Options of an engine stand beside that engine.
pub(super) fn check(converter: &mut Converter<'_>, job: &FioJob) {
    let of = [
        ("hostnqn", Engine::Spdk, "ioengine=spdk"),
        ("digest_enable", Engine::Spdk, "ioengine=spdk"),
        ("initiator", Engine::Remote, "ioengine=libiscsi"),
        ("uri", Engine::Nbd, "ioengine=nbd"),
    ];
    for (key, engine, whose) in of {
        if job.settings.engine != engine && job.sets(key) {
            converter.refuse(job, key, &format!("only {whose} has it: take it away"));
        }
    }
}

/// The volumes of a job on other hosts. `None`: they were refused.
pub(super) fn storages(converter: &mut Converter<'_>, job: &FioJob) -> Option<Vec<Storage>> {
    let connection = &job.settings.connection;
    let names = match (job.settings.engine, &connection.uri) {
        // fio's files are only names then.
        (Engine::Nbd, uri) => &uri.iter().cloned().collect(),
        _ => &job.settings.files,
    };
    if names.is_empty() {
        // Volumes on the command line stand for what a file does not name, too.
        if !converter.options.volumes.is_empty() {
            return Some(vec![Storage::Uri(String::new())]);
        }
        let why = match job.settings.engine {
            Engine::Spdk => {
                "spdk wants a volume: filename=trtype=TCP adrfam=IPv4 traddr=192.0.2.1 \
                 trsvcid=4420 subnqn=NQN ns=1, or a URI behind the name of this file"
            }
            Engine::Nbd => "nbd wants a volume: uri=nbd://192.0.2.1/EXPORT",
            _ => "libiscsi wants the URI of a volume",
        };
        converter.refuse(job, named_by(job), why);
        return None;
    }
    names.iter().map(|name| storage(converter, job, name)).collect()
}

/// The volume on another host that is called by this name. `None`: it was refused.
pub(super) fn storage(converter: &mut Converter<'_>, job: &FioJob, name: &str) -> Option<Storage> {
    // What is given instead of it need not be like it.
    if !converter.options.volumes.is_empty() {
        return Some(Storage::Uri(name.to_owned()));
    }
    let found = match job.settings.engine {
        Engine::Spdk => by_identifier(converter, job, name),
        Engine::Nbd => Ok(Storage::Uri(name.to_owned())),
        _ => by_uri(converter, job, name),
    };
    found.map_err(|why| converter.refuse(job, named_by(job), &why)).ok()
}

/// The setting that names the volume.
fn named_by(job: &FioJob) -> &'static str {
    let replays = job.sets("read_iolog") && job.sets("replay_redirect");
    match (replays, job.settings.engine) {
        (true, _) => "replay_redirect",
        (false, Engine::Nbd) => "uri",
        (false, _) => "filename",
    }
}

fn by_identifier(
    converter: &mut Converter<'_>,
    job: &FioJob,
    name: &str,
) -> Result<Storage, String> {
    let found = transport::parse(name)?;
    if !found.has_unit {
        let why = "namespace 1 is meant; SPDK takes the first that is active";
        converter.note(job, named_by(job), Differs, why);
    }
    if found.has_priority {
        converter.note(job, named_by(job), Differs, "packets have no priority");
    }
    if found.remote.target.is_empty() {
        let why = "the only subsystem there is meant, whatever its name; of several SPDK takes \
                   one, and here a subnqn is wanted: drumfire discover prints them";
        converter.note(job, named_by(job), Differs, why);
    }
    let connection = &job.settings.connection;
    Ok(Storage::Remote(Remote {
        header_digest: connection.header_digest,
        data_digest: connection.data_digest,
        initiator: found.remote.initiator.clone().or_else(|| connection.initiator.clone()),
        ..found.remote
    }))
}

/// A URI in libiscsi's manner: a name and a secret may stand before the host, and in the name of
/// the target `%3A` is a colon.
fn by_uri(converter: &mut Converter<'_>, job: &FioJob, name: &str) -> Result<Storage, String> {
    let (scheme, rest) = name.split_once("://").ok_or("libiscsi wants the URI of a volume")?;
    let (portal, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, portal) = portal.rsplit_once('@').unwrap_or(("", portal));
    if !login.is_empty() {
        let why = "no name and secret are sent; fio reads them and does not send them either";
        converter.note(job, named_by(job), Ignored, why);
    }
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let path = unescape(path)?;
    let initiator = job.settings.connection.initiator.as_ref();
    let initiator = initiator.map(|name| format!("initiator={name}"));
    let query: Vec<&str> = [query, initiator.as_deref().unwrap_or("")]
        .into_iter()
        .filter(|words| !words.is_empty())
        .collect();
    let mark = if query.is_empty() { "" } else { "?" };
    Ok(Storage::Uri(format!("{scheme}://{portal}/{path}{mark}{}", query.join("&"))))
}

/// Replaces `%3A` and its kin by the letters that they stand for.
fn unescape(text: &str) -> Result<String, String> {
    let mut plain = String::new();
    let mut parts = text.split('%');
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let byte = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.map(char::from).filter(|c| c.is_ascii_graphic() && !"/?%".contains(*c)) {
            Some(c) => plain.push(c),
            None => {
                let digits: String = part.chars().take(2).collect();
                return Err(format!("'%{digits}': write %3A for a colon, and no / or ?"));
            }
        }
        plain.push_str(&part[2..]);
    }
    Ok(plain)
}

#[cfg(test)]
mod test;
