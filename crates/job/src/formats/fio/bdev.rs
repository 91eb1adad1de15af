//! SPDK's configuration, which its plugin `spdk_bdev` reads (`spdk_json_conf`): the block devices
//! that jobs name.

use std::iter;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::transport::{self, Words};
use crate::formats::reading::{Remote, Storage};

/// Maximum nesting of devices.
const NESTED_MAX: u32 = 8;
/// Secrets of a connection; without them it would be a different connection.
const SECRETS: [&str; 3] = ["psk", "dhchap_key", "dhchap_ctrlr_key"];
/// Settings that change no I/O: other names of the same device, and SPDK's reaction to a lost host.
const NO_LOAD: [&str; 3] = ["uuid", "multipath", "optimal_io_boundary"];

/// The block devices of a configuration, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bdevs {
    devices: Vec<(String, Device)>,
    /// Unknown methods, which may create devices.
    pub(super) unknown: Vec<String>,
    /// Ignored settings of devices, such as "hdgst of Nvme0".
    pub(super) left_out: Vec<String>,
}

/// A device, or the namespaces of a controller.
#[derive(Clone, Debug, PartialEq)]
enum Device {
    /// A single device.
    Storage(Storage),
    /// Namespaces of a controller: `Nvme0n1` is the first of `Nvme0`.
    Controller(Remote),
    /// Several devices as one: striped with chunks of this many bytes, or mirrored.
    Raid { chunk_bytes: Option<u64>, parts: Vec<String> },
    /// An unsupported device, with the reason.
    Refused(String),
}

#[derive(Deserialize)]
struct Document {
    subsystems: Vec<Subsystem>,
}

#[derive(Deserialize)]
struct Subsystem {
    subsystem: String,
    config: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    method: String,
    #[serde(default)]
    params: Map<String, Value>,
}

#[derive(Deserialize)]
struct Controller {
    name: String,
    #[serde(default)]
    trtype: String,
    #[serde(default)]
    adrfam: String,
    #[serde(default)]
    traddr: String,
    #[serde(default)]
    trsvcid: String,
    #[serde(default)]
    subnqn: String,
    #[serde(default)]
    hostnqn: String,
    #[serde(default)]
    hdgst: bool,
    #[serde(default)]
    ddgst: bool,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize)]
struct Iscsi {
    name: String,
    url: String,
    #[serde(default)]
    initiator_iqn: String,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// Parameters of `bdev_malloc_create` and `bdev_null_create`.
#[derive(Deserialize)]
struct Blocks {
    name: String,
    num_blocks: u64,
    block_size: u32,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// Parameters of `bdev_aio_create` and `bdev_uring_create`.
#[derive(Deserialize)]
struct File {
    name: String,
    filename: String,
    #[serde(default)]
    block_size: u32,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize)]
struct Raid {
    name: String,
    raid_level: Value,
    #[serde(default, alias = "strip_size")]
    strip_size_kb: u64,
    base_bdevs: Vec<String>,
    #[serde(default)]
    superblock: bool,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Bdevs {
    /// Reads a configuration, which may have comments as in SPDK.
    pub(super) fn parse(text: &str) -> Result<Bdevs, String> {
        let document: Document =
            serde_json::from_str(&without_comments(text)).map_err(|error| error.to_string())?;
        let mut bdevs = Bdevs::default();
        let of_bdevs = document.subsystems.into_iter().filter(|it| it.subsystem == "bdev");
        for call in of_bdevs.flat_map(|subsystem| subsystem.config.unwrap_or_default()) {
            let method = call.method.clone();
            bdevs.take(call).map_err(|error| format!("{method}: {error}"))?;
        }
        Ok(bdevs)
    }

    fn take(&mut self, Call { method, params }: Call) -> serde_json::Result<()> {
        let named = params.get("name").and_then(Value::as_str).map(str::to_owned);
        let params = Value::Object(params);
        match method.as_str() {
            "bdev_nvme_attach_controller" => {
                let controller: Controller = serde_json::from_value(params)?;
                let name = controller.name.clone();
                self.leave_out(&name, &controller.rest);
                let known = self.devices.iter().any(|(other, _)| *other == name);
                let device = match known {
                    true => Device::Refused("multipath is not supported: attach one path".into()),
                    false => remote(controller).map_or_else(Device::Refused, Device::Controller),
                };
                self.add(name, device);
            }
            "bdev_iscsi_create" => {
                let Iscsi { name, url, initiator_iqn, rest } = serde_json::from_value(params)?;
                self.leave_out(&name, &rest);
                let initiator = Some(initiator_iqn).filter(|name| !name.is_empty());
                let uri = super::remote::libiscsi(&url, initiator.as_deref());
                let storage = uri.map(|(uri, _)| Device::Storage(Storage::Uri(uri)));
                self.add(name, storage.unwrap_or_else(Device::Refused));
            }
            "bdev_malloc_create" | "bdev_null_create" => {
                let Blocks { name, num_blocks, block_size, rest } = serde_json::from_value(params)?;
                self.leave_out(&name, &rest);
                let (size_bytes, block_bytes) =
                    (num_blocks.saturating_mul(block_size.into()), block_size);
                let storage = match method.as_str() {
                    "bdev_null_create" => Storage::Nothing { size_bytes, block_bytes },
                    _ => Storage::Memory { size_bytes, block_bytes, name: name.clone() },
                };
                self.add(name, Device::Storage(storage));
            }
            "bdev_aio_create" | "bdev_uring_create" => {
                let File { name, filename, block_size, rest } = serde_json::from_value(params)?;
                self.leave_out(&name, &rest);
                let storage = Storage::File {
                    path: filename,
                    block_bytes: Some(block_size).filter(|bytes| *bytes > 0),
                    size_bytes: None,
                    direct: true,
                    iopoll: false,
                    sqpoll: false,
                };
                self.add(name, Device::Storage(storage));
            }
            "bdev_raid_create" => {
                let raid: Raid = serde_json::from_value(params)?;
                self.leave_out(&raid.name, &raid.rest);
                self.add(raid.name.clone(), of_raid(raid));
            }
            // Methods that configure SPDK for all devices.
            "bdev_set_options" | "bdev_wait_for_examine" => {}
            _ if method.ends_with("_set_options") || method == "bdev_nvme_set_hotplug" => {}
            _ => {
                let why = format!("{method} is not supported");
                match named {
                    Some(name) => self.add(name, Device::Refused(why)),
                    None => self.unknown.push(method),
                }
            }
        }
        Ok(())
    }

    /// Adds a device; the last one of a name counts: a limit set on a device is a device with a
    /// limit.
    fn add(&mut self, name: String, device: Device) {
        self.devices.retain(|(other, _)| *other != name);
        self.devices.push((name, device));
    }

    fn leave_out(&mut self, name: &str, rest: &Map<String, Value>) {
        let words = rest.keys().filter(|key| !NO_LOAD.contains(&key.as_str()));
        self.left_out.extend(words.map(|key| format!("{key} of {name}")));
    }

    /// Returns the storage of the device with this name.
    pub(super) fn storage(&self, name: &str) -> Result<Storage, String> {
        self.find(name, 0)
    }

    fn find(&self, name: &str, nested: u32) -> Result<Storage, String> {
        if nested > NESTED_MAX {
            return Err(format!("{name}: devices nested more than {NESTED_MAX} deep"));
        }
        let exact = self.devices.iter().find(|(other, _)| other == name);
        let Some((_, device)) = exact else { return self.namespace(name) };
        match device {
            Device::Storage(storage) => Ok(storage.clone()),
            Device::Controller(_) => {
                Err(format!("{name} is a controller: name one of its namespaces, such as {name}n1"))
            }
            Device::Refused(why) => Err(format!("{name}: {why}")),
            Device::Raid { chunk_bytes, parts } => {
                let parts: Result<_, _> =
                    parts.iter().map(|part| self.find(part, nested + 1)).collect();
                Ok(match *chunk_bytes {
                    Some(chunk_bytes) => Storage::Stripe { chunk_bytes, parts: parts? },
                    None => Storage::Mirror { legs: parts? },
                })
            }
        }
    }

    /// Returns a namespace of a controller, by the names of both.
    fn namespace(&self, name: &str) -> Result<Storage, String> {
        for (controller, device) in &self.devices {
            let rest = name.strip_prefix(controller.as_str()).and_then(|it| it.strip_prefix('n'));
            let unit = rest.and_then(|digits| digits.parse().ok()).filter(|unit| *unit > 0);
            match (unit, device) {
                (Some(unit), Device::Controller(remote)) => {
                    return Ok(Storage::Remote(Remote { unit, ..remote.clone() }));
                }
                (Some(_), Device::Refused(why)) => return Err(format!("{controller}: {why}")),
                _ => {}
            }
        }
        let known = |(name, device): &(String, Device)| match device {
            Device::Controller(_) => format!("{name}n1"),
            _ => name.clone(),
        };
        let known: Vec<String> = self.devices.iter().map(known).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let mut why = format!("there is no block device {name}: the configuration has {known}");
        if !self.unknown.is_empty() {
            why.push_str(&format!("; not supported: {}", self.unknown.join(", ")));
        }
        Err(why)
    }

    /// Returns every device that is not part of another, for `filename=*`.
    pub(super) fn leaves(&self) -> Result<Vec<String>, String> {
        let parts: Vec<&String> = self
            .devices
            .iter()
            .filter_map(|(_, device)| match device {
                Device::Raid { parts, .. } => Some(parts),
                _ => None,
            })
            .flatten()
            .collect();
        let mut leaves = Vec::new();
        for (name, device) in &self.devices {
            match device {
                Device::Controller(_) => {
                    return Err(format!(
                        "* includes all namespaces of {name}, whose number is unknown: name them, \
                         such as {name}n1"
                    ));
                }
                _ if parts.contains(&name) => {}
                _ => leaves.push(name.clone()),
            }
        }
        Ok(leaves)
    }
}

fn remote(of: Controller) -> Result<Remote, String> {
    if let Some(secret) = SECRETS.iter().find(|key| of.rest.contains_key(**key)) {
        return Err(format!("{secret} is not supported"));
    }
    let found = transport::identify(&Words {
        transport: &of.trtype,
        family: &of.adrfam,
        host: &of.traddr,
        port: &of.trsvcid,
        target: &of.subnqn,
        initiator: &of.hostnqn,
        ..Words::default()
    })?;
    let (header_digest, data_digest) = (of.hdgst, of.ddgst);
    Ok(Remote { header_digest, data_digest, ..found.remote })
}

fn of_raid(raid: Raid) -> Device {
    if raid.superblock {
        let why = "a RAID with superblock=true has its data at other offsets: create the RAID \
                   without a superblock";
        return Device::Refused(why.to_owned());
    }
    let level = match &raid.raid_level {
        Value::String(level) => level.trim_start_matches("raid").to_owned(),
        level => level.to_string(),
    };
    let (chunk_bytes, parts) = (raid.strip_size_kb.saturating_mul(1024), raid.base_bdevs);
    match level.as_str() {
        "0" => Device::Raid { chunk_bytes: Some(chunk_bytes), parts },
        "1" => Device::Raid { chunk_bytes: None, parts },
        _ => Device::Refused(format!("raid_level={level} is not supported: use raid0 or raid1")),
    }
}

/// Returns the text without `//` and `/* */` comments, which are outside of strings.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['"', '/']) {
        plain.push_str(&rest[..at]);
        let here = &rest[at..];
        let (kept, length) = match () {
            () if here.starts_with('"') => (true, string_length(here)),
            // The line feed remains: errors name lines.
            () if here.starts_with("//") => (false, here.find('\n').unwrap_or(here.len())),
            () if here.starts_with("/*") => {
                (false, here.find("*/").map_or(here.len(), |at| at + 2))
            }
            () => (true, 1),
        };
        let part = &here[..length];
        match kept {
            true => plain.push_str(part),
            false => plain.extend(iter::repeat_n('\n', part.matches('\n').count())),
        }
        rest = &here[length..];
    }
    plain.push_str(rest);
    plain
}

/// Returns the length of the string at the beginning of a text, its quotation marks included.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod test;
