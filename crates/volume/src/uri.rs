//! Names of volumes: `ram:64m`, `file:/tmp/x.img?size=1g`, `iscsi://host/iqn.2026-11.org:disk/1`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use block::{parse_size, print_size};

/// Names a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uri {
    /// `null:SIZE`: keeps nothing, answers at once.
    Null {
        /// Capacity.
        bytes: u64,
        /// Size of a block.
        block_bytes: u32,
    },
    /// `ram:SIZE`: memory of this process.
    Ram {
        /// Capacity.
        bytes: u64,
        /// Size of a block.
        block_bytes: u32,
        /// Filled with random data from this seed before use; untouched memory reads as zeroes
        /// from one shared page, faster than any data would.
        fill: Option<u64>,
    },
    /// `file:PATH`: a file or block device.
    File(FileUri),
    /// `iscsi://HOST[:PORT]/IQN/LUN`.
    Iscsi(IscsiUri),
    /// `nvme+tcp://HOST[:PORT]/NQN/NSID`.
    Nvme(NvmeUri),
    /// `delay:PROFILE(URI)`: another volume, as slow as a modelled drive.
    Delay {
        /// A profile that comes along, or the file of one.
        profile: String,
        /// Where the data are.
        inner: Box<Uri>,
    },
}

/// Names a file or block device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileUri {
    /// Where it is.
    pub path: PathBuf,
    /// Size of a block; that of the device by default, 512 for a file. 1, for any length and place,
    /// goes through the page cache.
    pub block_bytes: Option<u32>,
    /// Make the file with this size if there is none.
    pub size_bytes: Option<u64>,
    /// Go around the page cache: yes, no, or where it works.
    pub direct: Option<bool>,
    /// Poll the device for completions: `iopoll=yes`. Direct I/O on a device with poll queues.
    pub iopoll: bool,
    /// A thread of the kernel polls for submissions: `sqpoll=yes`.
    pub sqpoll: bool,
}

/// Names a logical unit of an iSCSI target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IscsiUri {
    /// Host and port, ready to be resolved.
    pub address: String,
    /// Name of the target.
    pub target: String,
    /// Logical unit number.
    pub lun: u16,
    /// CRC-32C over headers.
    pub header_digest: bool,
    /// CRC-32C over data.
    pub data_digest: bool,
    /// Try so long to come back when a connection breaks.
    pub reconnect_seconds: Option<u32>,
    /// How long an I/O may take, 1 to 86400 s, before its connection counts as lost; 30 s if not
    /// said.
    pub io_timeout_seconds: Option<u32>,
    /// What we are called there: `initiator=NAME`; by our own name if not said.
    pub initiator: Option<String>,
}

/// Names a namespace of an NVMe subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvmeUri {
    /// Host and port, ready to be resolved.
    pub address: String,
    /// Name of the subsystem, or [`NvmeUri::ONLY_SUBSYSTEM`].
    pub subsystem: String,
    /// Namespace identifier, from 1.
    pub nsid: u32,
    /// CRC-32C over headers.
    pub header_digest: bool,
    /// CRC-32C over data.
    pub data_digest: bool,
    /// Try so long to come back when a connection breaks.
    pub reconnect_seconds: Option<u32>,
    /// How long an I/O may take, 1 to 86400 s, before its connection counts as lost; 30 s if not
    /// said.
    pub io_timeout_seconds: Option<u32>,
    /// What we are called there: `initiator=NAME`; by our own name if not said.
    pub initiator: Option<String>,
}

impl NvmeUri {
    /// The name of discovery services: it stands for the only subsystem that the portal shows us.
    pub const ONLY_SUBSYSTEM: &str = proto::nvme::DISCOVERY_NQN;
}

/// A name that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{uri}' is not a volume: {reason}")]
pub struct UriError {
    uri: String,
    reason: String,
}

const KINDS: &str = "write null:SIZE, ram:SIZE, file:PATH, iscsi://HOST[:PORT]/IQN/LUN, \
                     nvme+tcp://HOST[:PORT]/NQN/NSID or delay:PROFILE(URI)";
/// Volumes within volumes.
const NESTED_MAX: usize = 8;
/// The value of an option that has none.
const SWITCHED_ON: &str = "yes";
const ISCSI_PORT: u16 = 3260;
const NVME_PORT: u16 = 4420;

impl Uri {
    /// Host and port of a volume elsewhere.
    pub fn address(&self) -> Option<&str> {
        match self {
            Uri::Iscsi(iscsi) => Some(&iscsi.address),
            Uri::Nvme(nvme) => Some(&nvme.address),
            Uri::Delay { inner, .. } => inner.address(),
            Uri::Null { .. } | Uri::Ram { .. } | Uri::File(_) => None,
        }
    }

    /// Name of the target that serves a volume elsewhere.
    pub fn target(&self) -> Option<&str> {
        match self {
            Uri::Iscsi(iscsi) => Some(&iscsi.target),
            Uri::Nvme(nvme) => Some(&nvme.subsystem),
            Uri::Delay { inner, .. } => inner.target(),
            Uri::Null { .. } | Uri::Ram { .. } | Uri::File(_) => None,
        }
    }
}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Uri, UriError> {
        parse(text, 0).map_err(|reason| UriError { uri: text.to_owned(), reason })
    }
}

fn parse(text: &str, nested: usize) -> Result<Uri, String> {
    if text.starts_with(['/', '.']) {
        return parse_file(text);
    }
    let (kind, rest) =
        text.split_once(':').ok_or_else(|| format!("{KINDS}; a file is file:{text}"))?;
    match kind {
        "null" => {
            let mut options = Options::split(rest)?;
            let bytes = parse_size(options.path).map_err(|e| e.to_string())?;
            let block_bytes = options.block()?.unwrap_or(512);
            options.end()?;
            Ok(Uri::Null { bytes, block_bytes })
        }
        "ram" => {
            let mut options = Options::split(rest)?;
            let bytes = parse_size(options.path).map_err(|e| e.to_string())?;
            let block_bytes = options.block()?.unwrap_or(512);
            let fill = match options.take("fill") {
                None => None,
                Some(seed) => Some(seed.parse().map_err(|_| "fill= wants a seed, such as 1")?),
            };
            options.end()?;
            Ok(Uri::Ram { bytes, block_bytes, fill })
        }
        "file" => parse_file(rest),
        "iscsi" => parse_iscsi(rest),
        "nvme+tcp" => parse_nvme(rest),
        "delay" => parse_delay(rest, nested),
        _ => Err(format!("unknown kind '{kind}'; {KINDS}")),
    }
}

fn parse_delay(rest: &str, nested: usize) -> Result<Uri, String> {
    let shape = "write delay:PROFILE(URI), as in delay:x25-m(ram:8g)";
    let (profile, inner) = rest.split_once('(').ok_or(shape)?;
    let inner = inner.strip_suffix(')').ok_or(shape)?;
    if profile.is_empty() {
        return Err(shape.to_owned());
    }
    if nested >= NESTED_MAX {
        return Err(format!("more than {NESTED_MAX} volumes within each other"));
    }
    let inner = Box::new(parse(inner, nested + 1)?);
    Ok(Uri::Delay { profile: profile.to_owned(), inner })
}

fn parse_file(rest: &str) -> Result<Uri, String> {
    let mut options = Options::split(rest)?;
    if options.path.is_empty() {
        return Err("file: wants a path".to_owned());
    }
    let block_bytes = match options.pairs.contains(&("block", "1")) {
        true => options.take("block").map(|_| 1),
        false => options.block()?,
    };
    let size = options.take("size").map(parse_size).transpose();
    let size_bytes = size.map_err(|e| e.to_string())?;
    let direct = options.switch("direct")?;
    let iopoll = options.switch("iopoll")?.unwrap_or(false);
    let sqpoll = options.switch("sqpoll")?.unwrap_or(false);
    options.end()?;
    if iopoll && direct == Some(false) {
        return Err("iopoll polls the device, and direct=no goes to the page cache".to_owned());
    }
    if block_bytes == Some(1) && direct != Some(false) {
        return Err("block=1 goes through the page cache: it wants direct=no".to_owned());
    }
    let path = options.path.into();
    Ok(Uri::File(FileUri { path, block_bytes, size_bytes, direct, iopoll, sqpoll }))
}

fn parse_iscsi(rest: &str) -> Result<Uri, String> {
    let far = Far::parse(rest, "write iscsi://HOST[:PORT]/IQN/LUN", ISCSI_PORT)?;
    proto::iscsi::check_name(far.name).map_err(|error| format!("target name: {error}"))?;
    let lun = far.number.parse().ok().filter(|lun| *lun < 16384).ok_or("a LUN is 0 to 16383")?;
    if let Some(name) = far.initiator {
        proto::iscsi::check_name(name).map_err(|error| format!("initiator= {name}: {error}"))?;
    }
    Ok(Uri::Iscsi(IscsiUri {
        target: far.name.to_owned(),
        lun,
        header_digest: far.header_digest,
        data_digest: far.data_digest,
        reconnect_seconds: far.reconnect_seconds,
        io_timeout_seconds: far.io_timeout_seconds,
        initiator: far.initiator.map(str::to_owned),
        address: far.address,
    }))
}

fn parse_nvme(rest: &str) -> Result<Uri, String> {
    let far = Far::parse(rest, "write nvme+tcp://HOST[:PORT]/NQN/NSID", NVME_PORT)?;
    proto::nvme::check_nqn(far.name).map_err(|error| format!("subsystem name: {error}"))?;
    let nsid = far.number.parse().ok().filter(|nsid| (1..u32::MAX).contains(nsid));
    let nsid = nsid.ok_or("a namespace identifier is 1 or more")?;
    // Targets take hosts by any name, and so people have given them any.
    let odd =
        |name: &str| name.len() > proto::nvme::NQN_MAX_BYTES || name.contains(char::is_control);
    if far.initiator.is_some_and(|name| name.is_empty() || odd(name)) {
        return Err("initiator= wants a name of 1 to 223 bytes".to_owned());
    }
    Ok(Uri::Nvme(NvmeUri {
        subsystem: far.name.to_owned(),
        nsid,
        header_digest: far.header_digest,
        data_digest: far.data_digest,
        reconnect_seconds: far.reconnect_seconds,
        io_timeout_seconds: far.io_timeout_seconds,
        initiator: far.initiator.map(str::to_owned),
        address: far.address,
    }))
}

/// What follows the kind of a volume on another host: `//HOST[:PORT]/NAME/NUMBER?options`.
struct Far<'a> {
    address: String,
    name: &'a str,
    number: &'a str,
    header_digest: bool,
    data_digest: bool,
    reconnect_seconds: Option<u32>,
    io_timeout_seconds: Option<u32>,
    initiator: Option<&'a str>,
}

impl<'a> Far<'a> {
    fn parse(rest: &'a str, shape: &str, port: u16) -> Result<Far<'a>, String> {
        let mut options = Options::split(rest.strip_prefix("//").ok_or(shape)?)?;
        let mut parts = options.path.split('/');
        let (host, name, number) = (parts.next(), parts.next(), parts.next());
        let (Some(host), Some(name), Some(number), None) = (host, name, number, parts.next())
        else {
            return Err(shape.to_owned());
        };
        if host.contains('@') {
            return Err("names and secrets do not belong in a URI".to_owned());
        }
        let header_digest = options.switch("header-digest")?.unwrap_or(false);
        let data_digest = options.switch("data-digest")?.unwrap_or(false);
        let reconnect_seconds = options.seconds("reconnect")?;
        let io_timeout_seconds = options.seconds("io_timeout")?;
        let initiator = options.take("initiator");
        options.end()?;
        let address = with_port(host, port)?;
        Ok(Far {
            address,
            name,
            number,
            header_digest,
            data_digest,
            reconnect_seconds,
            io_timeout_seconds,
            initiator,
        })
    }
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`, with the port filled in.
fn with_port(host: &str, default: u16) -> Result<String, String> {
    let after_v6 = host.rfind(']').map_or(0, |at| at + 1);
    match host[after_v6..].rsplit_once(':') {
        Some((name, port)) if after_v6 + name.len() > 0 => {
            port.parse::<u16>().map_err(|_| format!("'{port}' is not a port"))?;
            Ok(host.to_owned())
        }
        None if !host.is_empty() => Ok(format!("{host}:{default}")),
        _ => Err("the host is missing".to_owned()),
    }
}

/// `path?key=value&key=value`.
struct Options<'a> {
    path: &'a str,
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Options<'a> {
    fn split(text: &'a str) -> Result<Options<'a>, String> {
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        // A switch alone is on.
        let pair = |word: &'a str| word.split_once('=').unwrap_or((word, SWITCHED_ON));
        let pairs = query.split('&').filter(|word| !word.is_empty()).map(pair);
        Ok(Options { path, pairs: pairs.collect() })
    }

    fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.pairs.iter().position(|(name, _)| *name == key)?;
        Some(self.pairs.remove(at).1)
    }

    fn block(&mut self) -> Result<Option<u32>, String> {
        let Some(text) = self.take("block") else { return Ok(None) };
        let bytes = parse_size(text).map_err(|error| error.to_string())?;
        match bytes {
            512 | 4096 => Ok(Some(bytes as u32)),
            _ => Err(format!("a block has 512 or 4096 bytes, not {bytes}")),
        }
    }

    fn switch(&mut self, key: &str) -> Result<Option<bool>, String> {
        match self.take(key) {
            None => Ok(None),
            Some("1" | "yes" | "on" | "crc32c") => Ok(Some(true)),
            Some("0" | "no" | "off" | "none") => Ok(Some(false)),
            Some(other) => Err(format!("{key}= wants yes or no, not '{other}'")),
        }
    }

    fn seconds(&mut self, key: &str) -> Result<Option<u32>, String> {
        let Some(text) = self.take(key) else { return Ok(None) };
        let seconds = text.strip_suffix('s').unwrap_or(text).parse().ok();
        let seconds = seconds.filter(|seconds| (1..=86_400).contains(seconds));
        seconds
            .map(Some)
            .ok_or_else(|| format!("{key}= wants 1 to 86400 seconds, such as 30s, not '{text}'"))
    }

    fn end(&self) -> Result<(), String> {
        match self.pairs.first() {
            Some((key, _)) => Err(format!("unknown option '{key}', or given twice")),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = Vec::new();
        match self {
            Uri::Null { bytes, block_bytes } => {
                write!(f, "null:{}", print_size(*bytes))?;
                options.extend(block_option(Some(*block_bytes)));
            }
            Uri::Ram { bytes, block_bytes, fill } => {
                write!(f, "ram:{}", print_size(*bytes))?;
                options.extend(block_option(Some(*block_bytes)));
                options.extend(fill.map(|seed| format!("fill={seed}")));
            }
            Uri::File(file) => {
                write!(f, "file:{}", file.path.display())?;
                options.extend(file.block_bytes.map(|b| format!("block={}", print_size(b.into()))));
                options.extend(file.size_bytes.map(|b| format!("size={}", print_size(b))));
                options.extend(file.direct.map(|d| format!("direct={}", u8::from(d))));
                options.extend(file.iopoll.then(|| "iopoll=1".to_owned()));
                options.extend(file.sqpoll.then(|| "sqpoll=1".to_owned()));
            }
            Uri::Iscsi(iscsi) => {
                write!(f, "iscsi://{}/{}/{}", iscsi.address, iscsi.target, iscsi.lun)?;
                options.extend(digest_options(iscsi.header_digest, iscsi.data_digest));
                options.extend(seconds_option("reconnect", iscsi.reconnect_seconds));
                options.extend(seconds_option("io_timeout", iscsi.io_timeout_seconds));
                options.extend(iscsi.initiator.as_ref().map(|name| format!("initiator={name}")));
            }
            Uri::Nvme(nvme) => {
                write!(f, "nvme+tcp://{}/{}/{}", nvme.address, nvme.subsystem, nvme.nsid)?;
                options.extend(digest_options(nvme.header_digest, nvme.data_digest));
                options.extend(seconds_option("reconnect", nvme.reconnect_seconds));
                options.extend(seconds_option("io_timeout", nvme.io_timeout_seconds));
                options.extend(nvme.initiator.as_ref().map(|name| format!("initiator={name}")));
            }
            Uri::Delay { profile, inner } => write!(f, "delay:{profile}({inner})")?,
        }
        let mark = if options.is_empty() { "" } else { "?" };
        write!(f, "{mark}{}", options.join("&"))
    }
}

fn digest_options(header: bool, data: bool) -> impl Iterator<Item = String> {
    let header = header.then(|| "header-digest=1".to_owned());
    header.into_iter().chain(data.then(|| "data-digest=1".to_owned()))
}

fn seconds_option(key: &str, seconds: Option<u32>) -> Option<String> {
    Some(format!("{key}={}s", seconds?))
}

fn block_option(block_bytes: Option<u32>) -> Option<String> {
    let bytes = block_bytes.filter(|bytes| *bytes != 512)?;
    Some(format!("block={}", print_size(bytes.into())))
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_and_prints_each_kind() {
        for (text, printed) in [
            ("null:1t", "null:1t"),
            ("ram:64M?block=4096&fill=7", "ram:64m?block=4k&fill=7"),
            ("/dev/sdb?direct=no", "file:/dev/sdb?direct=0"),
            ("file:a b.img?size=1g&block=512", "file:a b.img?block=512&size=1g"),
            ("file:/x?sqpoll&iopoll=yes", "file:/x?iopoll=1&sqpoll=1"),
            ("file:/x?sqpoll=no", "file:/x"),
            ("file:/x?direct=no&block=1", "file:/x?block=1&direct=0"),
            ("iscsi://h/iqn.2026-11.x:d/1", "iscsi://h:3260/iqn.2026-11.x:d/1"),
            (
                "iscsi://h/iqn.1999-01.x/1?reconnect=9",
                "iscsi://h:3260/iqn.1999-01.x/1?reconnect=9s",
            ),
            (
                "iscsi://h/iqn.1999-01.x/1?io_timeout=2&reconnect=9",
                "iscsi://h:3260/iqn.1999-01.x/1?reconnect=9s&io_timeout=2s",
            ),
            (
                "nvme+tcp://h/nqn.2026-11.x:d/1?io_timeout=86400s",
                "nvme+tcp://h:4420/nqn.2026-11.x:d/1?io_timeout=86400s",
            ),
            ("iscsi://[::1]:99/iqn.2026-11.x:d/0", "iscsi://[::1]:99/iqn.2026-11.x:d/0"),
            ("nvme+tcp://h/nqn.2026-11.x:d/1", "nvme+tcp://h:4420/nqn.2026-11.x:d/1"),
            (
                "nvme+tcp://h:1/nqn.2026-11.x:d/1?initiator=me&header-digest",
                "nvme+tcp://h:1/nqn.2026-11.x:d/1?header-digest=1&initiator=me",
            ),
            (
                "iscsi://h/iqn.2026-11.x:d/1?initiator=iqn.2026-11.x:me",
                "iscsi://h:3260/iqn.2026-11.x:d/1?initiator=iqn.2026-11.x:me",
            ),
            (
                "iscsi://h:1/iqn.2026-11.x:d/2?data-digest=crc32c",
                "iscsi://h:1/iqn.2026-11.x:d/2?data-digest=1",
            ),
            ("delay:x25-m(ram:1G?fill=1)", "delay:x25-m(ram:1g?fill=1)"),
            ("delay:./a.toml(delay:x(null:1t))", "delay:./a.toml(delay:x(null:1t))"),
        ] {
            let uri: Uri = text.parse().unwrap();
            assert_eq!(uri.to_string(), printed, "{text}");
            assert_eq!(printed.parse(), Ok(uri), "{printed}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, part) in [
            ("", "write null:SIZE"),
            ("tape:1g", "unknown kind 'tape'"),
            ("ram:", "not a size"),
            ("ram:1g?block=1000", "512 or 4096"),
            ("ram:1g?colour=red", "unknown option 'colour'"),
            ("file:", "wants a path"),
            ("iscsi://h/iqn.2026-11.x:d", "/IQN/LUN"),
            ("iscsi://h/d/1", "target name"),
            ("iscsi://h/iqn.2026-11.x:d/99999", "LUN"),
            ("iscsi:///iqn.2026-11.x:d/1", "host is missing"),
            ("iscsi://h:x/iqn.2026-11.x:d/1", "not a port"),
            ("nvme+tcp://h/nqn.2026-11.x:d/0", "1 or more"),
            ("nvme+tcp://h/d/1", "subsystem name"),
            ("nvme+tcp://h/nqn.2026-11.x:d/1?initiator=", "1 to 223 bytes"),
            ("iscsi://h/iqn.2026-11.x:d/1?initiator=me", "initiator= me"),
            ("delay:x25-m", "delay:PROFILE(URI)"),
            ("delay:(ram:1g)", "delay:PROFILE(URI)"),
            ("delay:x(ram:1g", "delay:PROFILE(URI)"),
            ("delay:x(tape:1g)", "unknown kind 'tape'"),
            ("iscsi://h/iqn.2026-11.x:d/1?io_timeout=0", "io_timeout= wants 1 to 86400 seconds"),
            ("nvme+tcp://h/nqn.2026-11.x:d/1?io_timeout=1.5", "not '1.5'"),
            ("nvme+tcp://h/nqn.2026-11.x:d/1?reconnect", "reconnect= wants 1 to 86400"),
            ("ram:1g?io_timeout=3", "unknown option 'io_timeout'"),
            ("iscsi://me@h/iqn.2026-11.x:d/1", "secrets"),
        ] {
            let error = text.parse::<Uri>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let deep = "delay:a(".repeat(100_000) + "ram:1g" + &")".repeat(100_000);
        assert!(deep.parse::<Uri>().unwrap_err().to_string().contains("more than 8"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(null|ram|file|iscsi|delay)?:?/?/?[a-z0-9:/?&=.@()\\[\\]é]*") {
            let _ = text.parse::<Uri>();
        }
    }
}
