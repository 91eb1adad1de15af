//! Engines with their own names for volumes: the file names of spdk, spdk_bdev and libiscsi, and
//! the options of their connections.

use std::path::Path;
use std::rc::Rc;

use super::bdev::Bdevs;
use super::convert::Converter;
use super::job::FioJob;
use super::option::Says::{self, Anything};
use super::option::{Row, sets, some_word};
use super::settings::Engine;
use super::transport;
use super::treated::{self, ignored, refused};
use super::value;
use crate::formats::note::Treatment::{self, Differs, Ignored};
use crate::formats::reading::{Remote, Storage};

/// Connection options of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// Name of the initiator or host, `hostnqn` of spdk and `initiator` of libiscsi.
    pub initiator: Option<String>,
    /// The volume, `uri` of nbd.
    pub uri: Option<String>,
    /// CRC-32C over headers, `digest_enable`.
    pub header_digest: bool,
    /// CRC-32C over data, `digest_enable`.
    pub data_digest: bool,
    /// The file of SPDK's configuration, `spdk_json_conf`.
    pub configuration: Option<String>,
}

/// The options of connections, and those of SPDK's plugin that set nothing.
pub(super) const ROWS: &[Row] = &[
    sets!("hostnqn", connection.initiator, |v| Some(v.text()?.to_owned()))
        .writes(|w| some_word(w.way.initiator.as_ref().filter(|_| w.way.engine == "spdk"))),
    sets!("initiator", connection.initiator, |v| Some(v.text()?.to_owned()))
        .writes(|w| some_word(w.way.initiator.as_ref().filter(|_| w.way.engine != "spdk"))),
    sets!("uri", connection.uri, |v| Some(v.text()?.to_owned())),
    Row::new(&["digest_enable"], false, |s, v| {
        let digests = value::one_of(&v.text()?.to_ascii_uppercase(), &DIGESTS)?;
        [s.connection.header_digest, s.connection.data_digest] = digests;
        Ok(None)
    })
    .writes(|w| {
        let word = DIGESTS.iter().find(|(_, digests)| *digests == w.way.digests);
        some_word(word.filter(|_| w.way.digests != [false; 2]).map(|(word, _)| word))
    }),
    sets!("spdk_json_conf", connection.configuration, |v| Some(v.text()?.to_owned())),
    refused!(
        ["spdk_conf"],
        "SPDK removed this format: write the configuration as JSON and set spdk_json_conf"
    ),
    ignored!(
        ["mem_size_mb", "shm_id", "spdk_mem", "spdk_single_seg", "env_context"],
        "Drumfire allocates its own buffers"
    ),
    ignored!(["spdk_rpc_listen_addr"], "there is no SPDK RPC server"),
    ignored!(
        ["enable_sgl", "sge_size", "disable_pcie_sgl_merge"],
        "affects how SPDK describes buffers; the commands are the same"
    ),
    ignored!(["print_qid_mappings", "spdk_tracing", "log_flags"], "affects messages only"),
    ignored!(["enable_vmd"], "affects PCIe devices only"),
    ignored!(["enable_interrupts"], "a worker polls first and sleeps if nothing completes"),
    ignored!(
        ["arbitration_burst", "low_weight", "medium_weight", "high_weight", "wrr_priority"],
        "has an effect with enable_wrr=1 only"
    ),
    refused!(["enable_wrr"], "queues have no priorities: remove this option"),
    refused!(["bit_bucket_data_len"], "reads transfer all of their data: remove this option"),
    refused!(["initial_zone_reset", "zone_append"], "zoned devices are not supported"),
    ignored!(
        ["pi_act", "pi_chk", "apptag", "apptag_mask", "md_per_io_size"],
        "affects only namespaces with protection information or metadata, which cannot be opened"
    ),
];

/// Values of `digest_enable=`: digests of headers, and of data.
const DIGESTS: [(&str, [bool; 2]); 4] = [
    ("NONE", [false, false]),
    ("HEADER", [true, false]),
    ("DATA", [false, true]),
    ("BOTH", [true, true]),
];

/// Refuses options of one engine in jobs of another.
pub(super) fn check(converter: &mut Converter<'_>, job: &FioJob) {
    let of = [
        ("hostnqn", Engine::Spdk, "ioengine=spdk"),
        ("digest_enable", Engine::Spdk, "ioengine=spdk"),
        ("spdk_json_conf", Engine::Bdev, "ioengine=spdk_bdev"),
        ("initiator", Engine::Remote, "ioengine=libiscsi"),
        ("uri", Engine::Nbd, "ioengine=nbd"),
    ];
    for (key, engine, whose) in of {
        if job.settings.engine != engine && job.sets(key) {
            converter.refuse(job, key, &format!("only {whose} has this option: remove it"));
        }
    }
}

/// Returns the volumes of a job that its engine names. `None` if they were refused.
pub(super) fn storages(converter: &mut Converter<'_>, job: &FioJob) -> Option<Vec<Storage>> {
    let connection = &job.settings.connection;
    let files = &job.settings.files;
    let names = match job.settings.engine {
        // fio's files are only names then.
        Engine::Nbd => &connection.uri.iter().cloned().collect(),
        Engine::Bdev if *files == ["*"] && converter.options.volumes.is_empty() => {
            let leaves = bdevs(converter, job).and_then(|bdevs| bdevs.leaves());
            &leaves.map_err(|why| converter.refuse(job, "filename", &why)).ok()?
        }
        _ => files,
    };
    if names.is_empty() {
        // Volumes on the command line also replace volumes that a file does not name.
        if !converter.options.volumes.is_empty() {
            return Some(vec![Storage::Uri(String::new())]);
        }
        let why = match job.settings.engine {
            Engine::Spdk => {
                "spdk needs a volume: filename=trtype=TCP adrfam=IPv4 traddr=192.0.2.1 \
                 trsvcid=4420 subnqn=NQN ns=1, or a URI after the name of this file"
            }
            Engine::Bdev => "spdk_bdev needs a volume: filename=Nvme0n1, one of spdk_json_conf",
            Engine::Nbd => "nbd needs a volume: uri=nbd://192.0.2.1/EXPORT",
            _ => "libiscsi needs the URI of a volume",
        };
        converter.refuse(job, named_by(job), why);
        return None;
    }
    names.iter().map(|name| storage(converter, job, name)).collect()
}

/// Returns the volume of this name. `None` if it was refused.
pub(super) fn storage(converter: &mut Converter<'_>, job: &FioJob, name: &str) -> Option<Storage> {
    // A volume given instead may be of any kind.
    if !converter.options.volumes.is_empty() {
        return Some(Storage::Uri(name.to_owned()));
    }
    let found = match job.settings.engine {
        Engine::Spdk => by_identifier(converter, job, name),
        Engine::Bdev => bdevs(converter, job).and_then(|bdevs| bdevs.storage(name)),
        Engine::Nbd => Ok(Storage::Uri(name.to_owned())),
        _ => by_uri(converter, job, name),
    };
    found.map_err(|why| converter.refuse(job, named_by(job), &why)).ok()
}

/// Returns the option that names the volume.
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
        let why = "namespace 1 is used; SPDK uses the first active namespace";
        converter.note(job, named_by(job), Differs, why);
    }
    if found.has_priority {
        converter.note(job, named_by(job), Differs, "packets are sent without a priority");
    }
    if found.remote.target.is_empty() {
        let why = "the only subsystem of the target is used; SPDK picks one of several, where \
                   Drumfire needs a subnqn: `drumfire discover` lists them";
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

/// Returns the block devices of the configuration that a job names.
fn bdevs(converter: &mut Converter<'_>, job: &FioJob) -> Result<Rc<Bdevs>, String> {
    let wanted = "spdk_bdev needs spdk_json_conf=FILE, which configures its volumes";
    let path = job.settings.connection.configuration.as_ref().ok_or(wanted)?;
    if let Some(known) = converter.bdevs.get(path) {
        return Ok(Rc::clone(known));
    }
    let text = (converter.around.read)(Path::new(path));
    let text = text.map_err(|error| format!("cannot read {path}: {error}"))?;
    let bdevs = Rc::new(Bdevs::parse(&text).map_err(|why| format!("{path}: {why}"))?);
    converter.bdevs.insert(path.clone(), Rc::clone(&bdevs));
    if !bdevs.left_out.is_empty() {
        let why = format!("affects SPDK itself only: {}", bdevs.left_out.join(", "));
        converter.note(job, "spdk_json_conf", Ignored, &why);
    }
    Ok(bdevs)
}

fn by_uri(converter: &mut Converter<'_>, job: &FioJob, name: &str) -> Result<Storage, String> {
    let initiator = job.settings.connection.initiator.as_deref();
    let (uri, has_login) = libiscsi(name, initiator)?;
    if has_login {
        let why = "the user name and the secret are not sent, as in fio";
        converter.note(job, named_by(job), Ignored, why);
    }
    Ok(Storage::Uri(uri))
}

/// Reads a URI in libiscsi's syntax: a name and a secret may precede the host, and in the name of
/// the target `%3A` is a colon. The second value is true if they do.
pub(super) fn libiscsi(name: &str, initiator: Option<&str>) -> Result<(String, bool), String> {
    let (scheme, rest) = name.split_once("://").ok_or("libiscsi needs the URI of a volume")?;
    let (portal, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, portal) = portal.rsplit_once('@').unwrap_or(("", portal));
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let path = unescape(path)?;
    let initiator = initiator.map(|name| format!("initiator={name}"));
    let query: Vec<&str> = [query, initiator.as_deref().unwrap_or("")]
        .into_iter()
        .filter(|words| !words.is_empty())
        .collect();
    let mark = if query.is_empty() { "" } else { "?" };
    let uri = format!("{scheme}://{portal}/{path}{mark}{}", query.join("&"));
    Ok((uri, !login.is_empty()))
}

/// Decodes `%3A` and other percent escapes.
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
                return Err(format!(
                    "'%{digits}' is not supported: use %3A for a colon, and no / or ?"
                ));
            }
        }
        plain.push_str(&part[2..]);
    }
    Ok(plain)
}

#[cfg(test)]
mod test;
