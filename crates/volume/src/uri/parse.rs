//! Parses URIs of volumes.

use std::path::PathBuf;

use block::{hint, nearest, parse_size};

use crate::call::Call;
use crate::mirror::LEGS_MAX;

use super::{ArrayUri, FileUri, IscsiUri, NbdUri, NvmeUri, Session, Uri};

const KINDS: &str = "write null:SIZE, ram:SIZE, file:PATH, iscsi://HOST[:PORT]/IQN/LUN, \
                     nvme+tcp://HOST[:PORT]/NQN/NSID, nbd://HOST[:PORT]/EXPORT, \
                     vhost-user:SOCKET, \
                     delay:PROFILE(URI), fault:SCHEDULE(URI), stripe:CHUNK(URI,URI,…), \
                     mirror(URI,URI,…) or array:NAME?leg=URI&leg=URI";
/// Kinds of volumes: the word before the first colon, or before the bracket of a mirror.
const KIND_WORDS: [&str; 12] = [
    "null",
    "ram",
    "file",
    "iscsi",
    "nvme+tcp",
    "nbd",
    "vhost-user",
    "delay",
    "fault",
    "stripe",
    "mirror",
    "array",
];
/// Maximum depth of nested volumes.
const NESTED_MAX: usize = 8;
/// The value of an option without one.
const SWITCHED_ON: &str = "yes";
const ISCSI_PORT: u16 = 3260;
const NVME_PORT: u16 = 4420;
const NBD_PORT: u16 = 10809;

/// Parses the URI of a volume nested in `nested` others; the error is the reason.
pub(super) fn parse(text: &str, nested: usize) -> Result<Uri, String> {
    if text.starts_with(['/', '.']) {
        return parse_file(text);
    }
    if let Some(legs) = text.strip_prefix("mirror(") {
        return parse_mirror(legs, nested);
    }
    let (kind, rest) =
        text.split_once(':').ok_or_else(|| format!("{KINDS}; a file is file:{text}"))?;
    match kind {
        "null" => {
            let mut options = Options::split(rest)?;
            let bytes = parse_size(options.path).map_err(|e| e.to_string())?;
            let block_bytes = options.block()?.unwrap_or(512);
            let call = options.take("call").map(Call::parse).transpose()?;
            options.end()?;
            Ok(Uri::Null { bytes, block_bytes, call })
        }
        "ram" => {
            let mut options = Options::split(rest)?;
            let bytes = parse_size(options.path).map_err(|e| e.to_string())?;
            let block_bytes = options.block()?.unwrap_or(512);
            let fill = match options.take("fill") {
                None => None,
                Some(seed) => Some(seed.parse().map_err(|_| "fill= needs a seed, for example 1")?),
            };
            let name = options.take("name").map(str::to_owned);
            options.end()?;
            Ok(Uri::Ram { bytes, block_bytes, fill, name })
        }
        "file" => parse_file(rest),
        "iscsi" => parse_iscsi(rest),
        "nvme+tcp" => parse_nvme(rest),
        "nbd" => parse_nbd(rest),
        "vhost-user" => parse_vhost_user(rest),
        "delay" => {
            let (profile, inner) =
                around(rest, nested, "delay:PROFILE(URI)", "delay:x25-m(ram:8g)")?;
            Ok(Uri::Delay { profile, inner })
        }
        "fault" => {
            let example = "fault:fail-slow(ram:8g)";
            let (schedule, inner) = around(rest, nested, "fault:SCHEDULE(URI)", example)?;
            Ok(Uri::Fault { schedule, inner })
        }
        "stripe" => parse_stripe(rest, nested),
        "array" => parse_array(rest, nested),
        _ => match nearest(kind, KIND_WORDS) {
            Some(near) => Err(format!("unknown kind '{kind}': did you mean '{near}'?")),
            None => Err(format!("unknown kind '{kind}'; {KINDS}")),
        },
    }
}

/// Parses `NAME(URI)`: a volume around another one.
fn around(
    rest: &str,
    nested: usize,
    shape: &str,
    example: &str,
) -> Result<(String, Box<Uri>), String> {
    let shape = || format!("write {shape}, as in {example}");
    let (name, inner) = rest.split_once('(').ok_or_else(shape)?;
    let inner = inner.strip_suffix(')').ok_or_else(shape)?;
    if name.is_empty() {
        return Err(shape());
    }
    if nested >= NESTED_MAX {
        return Err(format!("volumes nested more than {NESTED_MAX} deep"));
    }
    Ok((name.to_owned(), Box::new(parse(inner, nested + 1)?)))
}

/// Smallest and largest chunk.
const CHUNKS: std::ops::RangeInclusive<u64> = 4096..=1 << 30;
/// Maximum number of parts.
const PARTS_MAX: usize = 4096;

fn parse_stripe(rest: &str, nested: usize) -> Result<Uri, String> {
    let shape = "write stripe:CHUNK(URI,URI,…), as in stripe:64k(ram:8g,ram:8g)";
    let (chunk, parts) = rest.split_once('(').ok_or(shape)?;
    let chunk_bytes = parse_size(chunk).map_err(|error| error.to_string())?;
    if !chunk_bytes.is_power_of_two() || !CHUNKS.contains(&chunk_bytes) {
        return Err(format!("chunk size {chunk}: use a power of two from 4k to 1g"));
    }
    let parts = several(parts, nested, ("a stripe", shape, PARTS_MAX))?;
    Ok(Uri::Stripe { chunk_bytes, parts })
}

fn parse_mirror(legs: &str, nested: usize) -> Result<Uri, String> {
    let shape = "write mirror(URI,URI), as in mirror(ram:8g,ram:8g)";
    Ok(Uri::Mirror { legs: several(legs, nested, ("a mirror", shape, LEGS_MAX))? })
}

fn parse_array(rest: &str, nested: usize) -> Result<Uri, String> {
    let shape = "write array:NAME?leg=URI&leg=URI, as in array:disk?leg=/a.img&leg=/b.img";
    let (name, options) = rest.split_once('?').ok_or(shape)?;
    if !crate::array::is_name(name) {
        return Err(format!("array:{name}: use a name of 1 to 64 letters, digits, . _ and -"));
    }
    if nested >= NESTED_MAX {
        return Err(format!("volumes nested more than {NESTED_MAX} deep"));
    }
    let mut array = ArrayUri { name: name.to_owned(), ..ArrayUri::default() };
    for option in options_of_array(options) {
        match option.split_once('=') {
            Some(("leg", leg)) => array.legs.push(parse(leg, nested + 1)?),
            Some(("degraded", "1" | "yes")) => array.degraded = true,
            Some(("degraded", "0" | "no")) => array.degraded = false,
            Some((key @ "leg_timeout", text)) => {
                array.leg_timeout_seconds = Some(seconds(text, 1, key)?);
            }
            Some((key @ "check", text)) => array.check_seconds = Some(seconds(text, 1, key)?),
            _ => {
                let key = option.split('=').next().unwrap_or_default();
                let known = OPTIONS_OF_ARRAY.map(|key| &key[..key.len() - 1]);
                return Err(format!("{shape}{}", hint(key, known)));
            }
        }
    }
    if array.legs.is_empty() || array.legs.len() > LEGS_MAX {
        return Err(format!("an array of {} legs: 1 to {LEGS_MAX}", array.legs.len()));
    }
    Ok(Uri::Array(array))
}

/// Prefixes of the options of an array.
const OPTIONS_OF_ARRAY: [&str; 4] = ["leg=", "degraded=", "leg_timeout=", "check="];

/// Splits `leg=URI&leg=URI&degraded=1`: a leg's own options may contain the separator.
fn options_of_array(text: &str) -> Vec<&str> {
    split_outside(text, '&', |rest| OPTIONS_OF_ARRAY.iter().any(|key| rest.starts_with(key)))
}

/// Splits at the separators outside of brackets that something fit follows.
fn split_outside(text: &str, separator: char, fits: impl Fn(&str) -> bool) -> Vec<&str> {
    let (mut found, mut deep, mut begin) = (Vec::new(), 0_i32, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => deep += 1,
            ')' => deep -= 1,
            _ if letter == separator && deep == 0 && fits(&text[at + 1..]) => {
                found.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(&text[begin..]);
    found
}

/// Parses `URI,URI,…)`: two volumes or more.
fn several(
    text: &str,
    nested: usize,
    (what, shape, most): (&str, &str, usize),
) -> Result<Vec<Uri>, String> {
    let text = text.strip_suffix(')').ok_or(shape)?;
    if nested >= NESTED_MAX {
        return Err(format!("volumes nested more than {NESTED_MAX} deep"));
    }
    let parts = split_outside(text, ',', |_| true);
    if parts.len() > most {
        return Err(format!("{what}: maximum {most} volumes"));
    }
    if parts.len() < 2 {
        return Err(format!("{what} needs at least two volumes"));
    }
    parts.into_iter().map(|part| parse(part.trim(), nested + 1)).collect()
}

fn parse_file(rest: &str) -> Result<Uri, String> {
    let mut options = Options::split(rest)?;
    if options.path.is_empty() {
        return Err("file: needs a path".to_owned());
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
    let unlocked = options.switch("lock")? == Some(false);
    options.end()?;
    if iopoll && direct == Some(false) {
        return Err("iopoll needs direct I/O: remove direct=0".to_owned());
    }
    if block_bytes == Some(1) && direct != Some(false) {
        return Err("block=1 needs the page cache: add direct=no".to_owned());
    }
    let path = options.path.into();
    Ok(Uri::File(FileUri {
        path,
        block_bytes,
        size_bytes,
        direct,
        iopoll,
        sqpoll,
        unlocked,
        to_the_byte: false,
    }))
}

fn parse_iscsi(rest: &str) -> Result<Uri, String> {
    let far = Far::parse(rest, "write iscsi://HOST[:PORT]/IQN/LUN", ISCSI_PORT)?;
    proto::iscsi::check_name(far.name).map_err(|error| format!("target name: {error}"))?;
    let lun =
        far.number.parse().ok().filter(|lun| *lun < 16384).ok_or("a LUN is from 0 to 16383")?;
    if far.session.chap.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
        return Err("chap= needs a file with secrets".to_owned());
    }
    if let Some(name) = &far.session.initiator {
        proto::iscsi::check_name(name).map_err(|error| format!("initiator= {name}: {error}"))?;
    }
    Ok(Uri::Iscsi(IscsiUri {
        target: far.name.to_owned(),
        lun,
        session: far.session,
        address: far.address,
    }))
}

fn parse_nvme(rest: &str) -> Result<Uri, String> {
    let far = Far::parse(rest, "write nvme+tcp://HOST[:PORT]/NQN/NSID", NVME_PORT)?;
    proto::nvme::check_peer_nqn(far.name).map_err(|error| format!("subsystem name: {error}"))?;
    let nsid = far.number.parse().ok().filter(|nsid| (1..u32::MAX).contains(nsid));
    let nsid = nsid.ok_or("a namespace ID is at least 1")?;
    if far.session.chap.is_some() {
        return Err("chap= is for iscsi:// only".to_owned());
    }
    // Targets accept any host name, so users may have chosen any.
    let odd =
        |name: &str| name.len() > proto::nvme::NQN_MAX_BYTES || name.contains(char::is_control);
    if far.session.initiator.as_deref().is_some_and(|name| name.is_empty() || odd(name)) {
        return Err("initiator= needs a name of 1 to 223 bytes".to_owned());
    }
    Ok(Uri::Nvme(NvmeUri {
        subsystem: far.name.to_owned(),
        nsid,
        session: far.session,
        address: far.address,
    }))
}

fn parse_vhost_user(rest: &str) -> Result<Uri, String> {
    let options = Options::split(rest)?;
    let path = PathBuf::from(options.path);
    options.end()?;
    if path.as_os_str().is_empty() {
        return Err("write vhost-user:SOCKET, such as vhost-user:/run/disks/disk.sock".to_owned());
    }
    Ok(Uri::VhostUser { path })
}

fn parse_nbd(rest: &str) -> Result<Uri, String> {
    let shape = "write nbd://HOST[:PORT]/EXPORT";
    let mut options = Options::split(rest.strip_prefix("//").ok_or(shape)?)?;
    let (host, export) = options.path.split_once('/').unwrap_or((options.path, ""));
    if host.contains('@') {
        return Err("a URI cannot contain user names or passwords".to_owned());
    }
    if export.len() > proto::nbd::EXPORT_MAX_BYTES {
        return Err("an export's name has at most 4096 bytes".to_owned());
    }
    let session = Session {
        reconnect_seconds: options.seconds("reconnect")?,
        io_timeout_seconds: options.seconds("io_timeout")?,
        grace_seconds: options.seconds_from(0, "grace")?,
        ..Session::default()
    };
    options.end()?;
    Ok(Uri::Nbd(NbdUri { address: with_port(host, NBD_PORT)?, export: export.to_owned(), session }))
}

/// The rest of a remote volume's URI: `//HOST[:PORT]/NAME/NUMBER?options`.
struct Far<'a> {
    address: String,
    name: &'a str,
    number: &'a str,
    session: Session,
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
            return Err("a URI cannot contain user names or passwords".to_owned());
        }
        let session = Session {
            header_digest: options.switch("header-digest")?.unwrap_or(false),
            data_digest: options.switch("data-digest")?.unwrap_or(false),
            reconnect_seconds: options.seconds("reconnect")?,
            io_timeout_seconds: options.seconds("io_timeout")?,
            grace_seconds: options.seconds_from(0, "grace")?,
            initiator: options.take("initiator").map(str::to_owned),
            chap: options.take("chap").map(PathBuf::from),
        };
        options.end()?;
        let address = with_port(host, port)?;
        Ok(Far { address, name, number, session })
    }
}

/// Completes `host`, `host:port`, `[v6]` or `[v6]:port` by the default port.
fn with_port(host: &str, default: u16) -> Result<String, String> {
    let after_v6 = host.rfind(']').map_or(0, |at| at + 1);
    if host.starts_with('[') && after_v6 == 0 {
        return Err(format!("']' is missing after the address {host}"));
    }
    if let Some(inside) = host[..after_v6].strip_suffix(']') {
        let inside = inside.strip_prefix('[').ok_or_else(|| format!("'[' is missing in {host}"))?;
        // The resolver checks a zone, as in fe80::1%eth0.
        let address = inside.split('%').next().unwrap_or_default();
        if address.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(format!("'{inside}' is not an IPv6 address"));
        }
    }
    let behind = &host[after_v6..];
    if after_v6 > 0 && !behind.is_empty() && !behind.starts_with(':') {
        return Err(format!("{host}: only :PORT may follow ], for example [::1]:3260"));
    }
    match behind.rsplit_once(':') {
        Some((name, port)) if after_v6 + name.len() > 0 => {
            port.parse::<u16>().map_err(|_| format!("'{port}' is not a port"))?;
            Ok(host.to_owned())
        }
        None if !host.is_empty() => Ok(format!("{host}:{default}")),
        _ => Err("the host is missing".to_owned()),
    }
}

/// Maximum seconds of an option.
const SECONDS_MAX: u32 = 86_400;

/// Parses seconds, with or without an `s`.
fn seconds(text: &str, least: u32, key: &str) -> Result<u32, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse().ok();
    let seconds = seconds.filter(|seconds| (least..=SECONDS_MAX).contains(seconds));
    seconds.ok_or_else(|| {
        format!("{key}= needs {least} to {SECONDS_MAX} seconds, for example 30s, not '{text}'")
    })
}

/// `path?key=value&key=value`.
struct Options<'a> {
    path: &'a str,
    pairs: Vec<(&'a str, &'a str)>,
    /// Keys queried so far.
    known: Vec<&'static str>,
}

impl<'a> Options<'a> {
    fn split(text: &'a str) -> Result<Options<'a>, String> {
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        // An option without a value is on.
        let pair = |word: &'a str| word.split_once('=').unwrap_or((word, SWITCHED_ON));
        let pairs = query.split('&').filter(|word| !word.is_empty()).map(pair);
        Ok(Options { path, pairs: pairs.collect(), known: Vec::new() })
    }

    fn take(&mut self, key: &'static str) -> Option<&'a str> {
        self.known.push(key);
        let at = self.pairs.iter().position(|(name, _)| *name == key)?;
        Some(self.pairs.remove(at).1)
    }

    fn block(&mut self) -> Result<Option<u32>, String> {
        let Some(text) = self.take("block") else { return Ok(None) };
        let bytes = parse_size(text).map_err(|error| error.to_string())?;
        match bytes {
            512 | 4096 => Ok(Some(bytes as u32)),
            _ => Err(format!("block size {bytes}: 512 or 4096")),
        }
    }

    fn switch(&mut self, key: &'static str) -> Result<Option<bool>, String> {
        match self.take(key) {
            None => Ok(None),
            Some("1" | "yes" | "on" | "crc32c") => Ok(Some(true)),
            Some("0" | "no" | "off" | "none") => Ok(Some(false)),
            Some(other) => Err(format!("{key}= needs yes or no, not '{other}'")),
        }
    }

    fn seconds(&mut self, key: &'static str) -> Result<Option<u32>, String> {
        self.seconds_from(1, key)
    }

    fn seconds_from(&mut self, least: u32, key: &'static str) -> Result<Option<u32>, String> {
        let Some(text) = self.take(key) else { return Ok(None) };
        seconds(text, least, key).map(Some)
    }

    fn end(&self) -> Result<(), String> {
        match self.pairs.first() {
            None => Ok(()),
            Some((key, _)) if self.known.contains(key) => Err(format!("'{key}' is given twice")),
            Some((key, _)) => match nearest(key, self.known.iter().copied()) {
                Some(near) => Err(format!("unknown option '{key}': did you mean '{near}'?")),
                None => {
                    let known = self.known.join(", ");
                    Err(format!("unknown option '{key}': one of {known}"))
                }
            },
        }
    }
}
