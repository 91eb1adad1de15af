//! URIs of volumes: `ram:64m`, `file:/tmp/x.img?size=1g`, `iscsi://host/iqn.2026-11.org:disk/1`.

mod parse;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use block::{Nanos, print_size};

use crate::call::Call;

/// Names a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uri {
    /// `null:SIZE`: stores nothing, completes at once.
    Null {
        /// Capacity.
        bytes: u64,
        /// Size of a block.
        block_bytes: u32,
        /// System call that replaces each I/O.
        call: Option<Call>,
    },
    /// `ram:SIZE`: memory of this process.
    Ram {
        /// Capacity.
        bytes: u64,
        /// Size of a block.
        block_bytes: u32,
        /// Fill with random data from this seed before use; untouched memory reads as zeroes from
        /// one shared page, faster than real data would.
        fill: Option<u64>,
        /// Distinguishes otherwise equal volumes: the same name is the same volume.
        name: Option<String>,
    },
    /// `file:PATH`: a file or block device.
    File(FileUri),
    /// `iscsi://HOST[:PORT]/IQN/LUN`.
    Iscsi(IscsiUri),
    /// `nvme+tcp://HOST[:PORT]/NQN/NSID`.
    Nvme(NvmeUri),
    /// `nbd://HOST[:PORT]/EXPORT`.
    Nbd(NbdUri),
    /// `vhost-user:SOCKET`: a device of another process on this host.
    VhostUser {
        /// Path of the Unix socket.
        path: PathBuf,
    },
    /// `delay:PROFILE(URI)`: another volume, as slow as a drive of this profile or catalogue name.
    Delay {
        /// A shipped profile, a file of one, or a drive of the catalogue.
        profile: String,
        /// The volume with the data.
        inner: Box<Uri>,
    },
    /// `stripe:CHUNK(URI,URI,…)`: several volumes striped (RAID-0).
    Stripe {
        /// Bytes of a chunk: a power of two from 4096 to 1 GiB.
        chunk_bytes: u64,
        /// Two or more.
        parts: Vec<Uri>,
    },
    /// `mirror(URI,URI,…)`: a mirror (RAID-1) without metadata.
    Mirror {
        /// Two to 16.
        legs: Vec<Uri>,
    },
    /// `array:NAME?leg=URI&leg=URI…`: a mirror with persistent metadata.
    Array(ArrayUri),
    /// `fault:SCHEDULE(URI)`: another volume, with injected faults.
    Fault {
        /// A shipped schedule, or the file of one.
        schedule: String,
        /// The volume with the data.
        inner: Box<Uri>,
    },
}

/// Names an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArrayUri {
    /// Name of the array when created: 1 to 64 of a-z, A-Z, 0-9, `.`, `_` and `-`.
    pub name: String,
    /// The legs that are present, in any order: 1 to 16.
    pub legs: Vec<Uri>,
    /// Open the array without missing members.
    pub degraded: bool,
    /// Maximum time for which a leg may leave an I/O unanswered, 1 to 86400 s; by default 30 s, or
    /// slightly more than the timeouts of remote legs.
    pub leg_timeout_seconds: Option<u32>,
    /// Compare the legs while the array is used, again this many seconds after each check.
    pub check_seconds: Option<u32>,
}

/// Names a file or block device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileUri {
    /// Path of the file.
    pub path: PathBuf,
    /// Size of a block; by default that of the device, or 512 for a file. 1 allows any offset and
    /// length, through the page cache.
    pub block_bytes: Option<u32>,
    /// Create the file with this size if it does not exist.
    pub size_bytes: Option<u64>,
    /// Direct I/O: yes, no, or where it works.
    pub direct: Option<bool>,
    /// `iopoll=yes`: poll for completions. Direct I/O on a device with poll queues.
    pub iopoll: bool,
    /// `sqpoll=yes`: a kernel thread polls for submissions.
    pub sqpoll: bool,
    /// `lock=off`: other processes may use the file meanwhile.
    pub unlocked: bool,
    /// The last partial block is used, too, as [`Uri::to_the_byte`] requests.
    pub to_the_byte: bool,
}

/// Names a logical unit of an iSCSI target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IscsiUri {
    /// Host and port, to be resolved.
    pub address: String,
    /// Name of the target.
    pub target: String,
    /// Logical unit number.
    pub lun: u16,
    /// Session options.
    pub session: Session,
}

/// Names a namespace of an NVMe subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvmeUri {
    /// Host and port, to be resolved.
    pub address: String,
    /// Name of the subsystem, or [`NvmeUri::ONLY_SUBSYSTEM`].
    pub subsystem: String,
    /// Namespace identifier, from 1.
    pub nsid: u32,
    /// Session options.
    pub session: Session,
}

/// Names an export of an NBD server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdUri {
    /// Host and port, to be resolved.
    pub address: String,
    /// Name of the export; empty for the default one.
    pub export: String,
    /// Session options; NBD has neither digests nor an initiator name.
    pub session: Session,
}

/// Options of a session with a target, whatever the protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// CRC-32C header digests.
    pub header_digest: bool,
    /// CRC-32C data digests.
    pub data_digest: bool,
    /// Reconnect for this long when a connection breaks.
    pub reconnect_seconds: Option<u32>,
    /// Time-out of an I/O, 1 to 86400 s, after which its connection counts as lost; 30 s by
    /// default.
    pub io_timeout_seconds: Option<u32>,
    /// Time after a lost connection for which its unanswered changes are in doubt, 0 to 86400 s, if
    /// the target cannot confirm that it has ended them; 30 s by default.
    pub grace_seconds: Option<u32>,
    /// `initiator=NAME`: the initiator name or host NQN to use instead of our own.
    pub initiator: Option<String>,
    /// `chap=FILE`: secrets of CHAP, for iSCSI.
    pub chap: Option<PathBuf>,
}

/// Time for which changes of a lost connection are in doubt: the timeout of the kernel's SCSI layer
/// for a command of a disk.
const GRACE: Nanos = Nanos::from_secs(30);

impl Session {
    /// Time-out of an I/O.
    pub(crate) fn io_timeout(&self) -> Nanos {
        self.io_timeout_seconds
            .map_or(proto::IO_TIMEOUT, |seconds| Nanos::from_secs(seconds.into()))
    }

    /// Time for which changes of a lost connection are in doubt.
    pub(crate) fn grace(&self) -> Nanos {
        self.grace_seconds.map_or(GRACE, |seconds| Nanos::from_secs(seconds.into()))
    }

    /// Time limit of reconnecting; `None`: no reconnection.
    pub(crate) fn patience(&self) -> Option<Nanos> {
        self.reconnect_seconds.map(|seconds| Nanos::from_secs(seconds.into()))
    }

    /// Options of the URI.
    fn options(&self) -> impl Iterator<Item = String> {
        let seconds = |key: &str, seconds: Option<u32>| Some(format!("{key}={}s", seconds?));
        let options = [
            self.header_digest.then(|| "header-digest=1".to_owned()),
            self.data_digest.then(|| "data-digest=1".to_owned()),
            seconds("reconnect", self.reconnect_seconds),
            seconds("io_timeout", self.io_timeout_seconds),
            seconds("grace", self.grace_seconds),
            self.initiator.as_ref().map(|name| format!("initiator={name}")),
            self.chap.as_ref().map(|path| format!("chap={}", path.display())),
        ];
        options.into_iter().flatten()
    }
}

impl NvmeUri {
    /// Discovery NQN; in a URI, a placeholder for the only subsystem that the portal lists.
    pub const ONLY_SUBSYSTEM: &str = proto::nvme::DISCOVERY_NQN;
}

/// An invalid URI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{uri}' is not a volume: {reason}")]
pub struct UriError {
    uri: String,
    reason: String,
}

impl Uri {
    /// Whether I/Os of this volume or of one below are metadata calls on files.
    pub fn calls_on_files(&self) -> bool {
        match self {
            Uri::Null { call, .. } => call.as_ref().is_some_and(|call| !call.path.is_empty()),
            Uri::Delay { inner, .. } | Uri::Fault { inner, .. } => inner.calls_on_files(),
            Uri::Stripe { parts: legs, .. }
            | Uri::Mirror { legs }
            | Uri::Array(ArrayUri { legs, .. }) => legs.iter().any(Uri::calls_on_files),
            _ => false,
        }
    }

    /// Uses the volume to its last byte, if it is a file whose size is no multiple of the block:
    /// the last block is padded then. Any other URI is unchanged.
    #[must_use]
    pub fn to_the_byte(&self) -> Uri {
        match self {
            Uri::File(file) => Uri::File(FileUri { to_the_byte: true, ..file.clone() }),
            other => other.clone(),
        }
    }

    /// Leaves out the locks on files and devices, to look at the volume's properties alone.
    #[must_use]
    pub fn unlocked(&self) -> Uri {
        let mut uri = self.clone();
        uri.unlock();
        uri
    }

    fn unlock(&mut self) {
        match self {
            Uri::File(file) => file.unlocked = true,
            Uri::Delay { inner, .. } | Uri::Fault { inner, .. } => inner.unlock(),
            Uri::Stripe { parts: legs, .. }
            | Uri::Mirror { legs }
            | Uri::Array(ArrayUri { legs, .. }) => legs.iter_mut().for_each(Uri::unlock),
            _ => {}
        }
    }

    /// Host and port of a remote volume.
    pub fn address(&self) -> Option<&str> {
        self.remote().map(|(address, _)| address)
    }

    /// Target or subsystem name of a remote volume.
    pub fn target(&self) -> Option<&str> {
        self.remote().map(|(_, target)| target)
    }

    /// Address and name of the first remote volume.
    fn remote(&self) -> Option<(&str, &str)> {
        match self {
            Uri::Iscsi(iscsi) => Some((&iscsi.address, &iscsi.target)),
            Uri::Nvme(nvme) => Some((&nvme.address, &nvme.subsystem)),
            Uri::Nbd(nbd) => Some((&nbd.address, &nbd.export)),
            Uri::Delay { inner, .. } | Uri::Fault { inner, .. } => inner.remote(),
            Uri::Stripe { parts: legs, .. }
            | Uri::Mirror { legs }
            | Uri::Array(ArrayUri { legs, .. }) => legs.iter().find_map(Uri::remote),
            Uri::Null { .. } | Uri::Ram { .. } | Uri::File(_) | Uri::VhostUser { .. } => None,
        }
    }
}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Uri, UriError> {
        parse::parse(text, 0).map_err(|reason| UriError { uri: text.to_owned(), reason })
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = Vec::new();
        match self {
            Uri::Null { bytes, block_bytes, call } => {
                write!(f, "null:{}", print_size(*bytes))?;
                options.extend(block_option(Some(*block_bytes)));
                options.extend(call.as_ref().map(Call::to_string));
            }
            Uri::Ram { bytes, block_bytes, fill, name } => {
                write!(f, "ram:{}", print_size(*bytes))?;
                options.extend(block_option(Some(*block_bytes)));
                options.extend(fill.map(|seed| format!("fill={seed}")));
                options.extend(name.as_ref().map(|name| format!("name={name}")));
            }
            Uri::File(file) => {
                write!(f, "file:{}", file.path.display())?;
                options.extend(file.block_bytes.map(|b| format!("block={}", print_size(b.into()))));
                options.extend(file.size_bytes.map(|b| format!("size={}", print_size(b))));
                options.extend(file.direct.map(|d| format!("direct={}", u8::from(d))));
                options.extend(file.iopoll.then(|| "iopoll=1".to_owned()));
                options.extend(file.sqpoll.then(|| "sqpoll=1".to_owned()));
                options.extend(file.unlocked.then(|| "lock=off".to_owned()));
            }
            Uri::Iscsi(iscsi) => {
                write!(f, "iscsi://{}/{}/{}", iscsi.address, iscsi.target, iscsi.lun)?;
                options.extend(iscsi.session.options());
            }
            Uri::Nvme(nvme) => {
                write!(f, "nvme+tcp://{}/{}/{}", nvme.address, nvme.subsystem, nvme.nsid)?;
                options.extend(nvme.session.options());
            }
            Uri::Nbd(nbd) => {
                write!(f, "nbd://{}/{}", nbd.address, nbd.export)?;
                options.extend(nbd.session.options());
            }
            Uri::VhostUser { path } => write!(f, "vhost-user:{}", path.display())?,
            Uri::Delay { profile, inner } => write!(f, "delay:{profile}({inner})")?,
            Uri::Fault { schedule, inner } => write!(f, "fault:{schedule}({inner})")?,
            Uri::Array(array) => {
                write!(f, "array:{}", array.name)?;
                options.extend(array.legs.iter().map(|leg| format!("leg={leg}")));
                options.extend(array.degraded.then(|| "degraded=1".to_owned()));
                let limit = array.leg_timeout_seconds;
                options.extend(limit.map(|seconds| format!("leg_timeout={seconds}s")));
                options.extend(array.check_seconds.map(|seconds| format!("check={seconds}s")));
            }
            Uri::Mirror { legs } => {
                let legs: Vec<String> = legs.iter().map(ToString::to_string).collect();
                write!(f, "mirror({})", legs.join(","))?;
            }
            Uri::Stripe { chunk_bytes, parts } => {
                let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
                write!(f, "stripe:{}({})", print_size(*chunk_bytes), parts.join(","))?;
            }
        }
        let mark = if options.is_empty() { "" } else { "?" };
        write!(f, "{mark}{}", options.join("&"))
    }
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
            ("file:/x?lock=no&block=4k", "file:/x?block=4k&lock=off"),
            ("file:/x?lock=on", "file:/x"),
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
            ("nbd://h/disk", "nbd://h:10809/disk"),
            ("nbd://[::1]:9/a/b?reconnect=9", "nbd://[::1]:9/a/b?reconnect=9s"),
            ("nbd://h/a?grace=0&reconnect=9s", "nbd://h:10809/a?reconnect=9s&grace=0s"),
            (
                "array:a?check=60&leg=nbd://h/a?grace=2s&leg_timeout=9&leg=file:/x",
                "array:a?leg=nbd://h:10809/a?grace=2s&leg=file:/x&leg_timeout=9s&check=60s",
            ),
            ("nbd://h", "nbd://h:10809/"),
            ("delay:x25-m(ram:1G?fill=1)", "delay:x25-m(ram:1g?fill=1)"),
            ("delay:./a.toml(delay:x(null:1t))", "delay:./a.toml(delay:x(null:1t))"),
            ("fault:./f.toml(delay:x(ram:1G))", "fault:./f.toml(delay:x(ram:1g))"),
            (
                "array:a?leg=file:/x?size=1g&block=4k&leg=mirror(ram:1g,ram:1g)&degraded=yes",
                "array:a?leg=file:/x?block=4k&size=1g&leg=mirror(ram:1g,ram:1g)&degraded=1",
            ),
            (
                "stripe:64k(array:a?leg=/x&leg=/y,array:b?leg=/z)",
                "stripe:64k(array:a?leg=file:/x&leg=file:/y,array:b?leg=file:/z)",
            ),
            ("stripe:64K(ram:1G, delay:x(ram:1g))", "stripe:64k(ram:1g,delay:x(ram:1g))"),
            (
                "stripe:4k(stripe:1m(null:1g,null:1g),null:2g)",
                "stripe:4k(stripe:1m(null:1g,null:1g),null:2g)",
            ),
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
            ("ram:1g?colour=red", "unknown option 'colour': one of block, fill, name"),
            ("ram:1g?blok=4k", "unknown option 'blok': did you mean 'block'?"),
            ("ram:1g?fill=1&fill=2", "'fill' is given twice"),
            ("file:x?siez=1g", "did you mean 'size'?"),
            ("nbd://h/x?recconect=3s", "did you mean 'reconnect'?"),
            ("iscsi://h/iqn.2026-11.x:d/1?io-timeout=3s", "did you mean 'io_timeout'?"),
            ("rma:1g", "unknown kind 'rma': did you mean 'ram'?"),
            ("array:a?lag=/x", "leg=/b.img (did you mean 'leg'?)"),
            ("file:", "needs a path"),
            ("iscsi://h/iqn.2026-11.x:d", "/IQN/LUN"),
            ("iscsi://h/d/1", "target name"),
            ("iscsi://h/iqn.2026-11.x:d/99999", "LUN"),
            ("iscsi:///iqn.2026-11.x:d/1", "host is missing"),
            ("nvme+tcp://[::1]x:5/nqn.2026-11.x:d/1", "only :PORT may follow ]"),
            ("nvme+tcp://[::1]é/nqn.2026-11.x:d/1", "only :PORT may follow ]"),
            ("iscsi://h:x/iqn.2026-11.x:d/1", "not a port"),
            ("nvme+tcp://h/nqn.2026-11.x:d/0", "at least 1"),
            (&format!("nvme+tcp://h/{}/1", "x".repeat(224)), "subsystem name"),
            ("nvme+tcp://h//1", "subsystem name"),
            ("iscsi://[::1/iqn.2026-11.x:d/1", "']' is missing"),
            ("nvme+tcp://[::1/nqn.2026-11.x:d/1", "']' is missing"),
            ("iscsi://::1]/iqn.2026-11.x:d/1", "'[' is missing"),
            ("iscsi://[h]:1/iqn.2026-11.x:d/1", "'h' is not an IPv6 address"),
            ("nvme+tcp://h/nqn.2026-11.x:d/1?initiator=", "1 to 223 bytes"),
            ("iscsi://h/iqn.2026-11.x:d/1?initiator=me", "initiator= me"),
            ("delay:x25-m", "delay:PROFILE(URI)"),
            ("delay:(ram:1g)", "delay:PROFILE(URI)"),
            ("delay:x(ram:1g", "delay:PROFILE(URI)"),
            ("delay:x(tape:1g)", "unknown kind 'tape'"),
            ("fault:fail-slow", "fault:SCHEDULE(URI), as in fault:fail-slow(ram:8g)"),
            ("fault:(ram:1g)", "fault:SCHEDULE(URI)"),
            ("array:a", "array:NAME?leg=URI&leg=URI"),
            ("array:?leg=/x", "a name of"),
            ("array:a?leg=tape:1g", "unknown kind 'tape'"),
            ("array:a?colour=red", "array:NAME?leg=URI&leg=URI"),
            ("stripe:64k", "stripe:CHUNK(URI,URI,…)"),
            ("stripe:64k(ram:1g)", "at least two volumes"),
            ("stripe:60k(ram:1g,ram:1g)", "a power of two"),
            ("stripe:512(ram:1g,ram:1g)", "a power of two"),
            ("stripe:64k(ram:1g,,ram:1g)", "write null:SIZE"),
            ("stripe:64k(ram:1g,tape:1g)", "unknown kind 'tape'"),
            ("iscsi://h/iqn.2026-11.x:d/1?io_timeout=0", "io_timeout= needs 1 to 86400 seconds"),
            ("nvme+tcp://h/nqn.2026-11.x:d/1?io_timeout=1.5", "not '1.5'"),
            ("nvme+tcp://h/nqn.2026-11.x:d/1?reconnect", "reconnect= needs 1 to 86400"),
            ("ram:1g?io_timeout=3", "unknown option 'io_timeout'"),
            ("nbd:h/x", "nbd://HOST[:PORT]/EXPORT"),
            ("nbd://h/x?header-digest=1", "unknown option 'header-digest'"),
            ("iscsi://me@h/iqn.2026-11.x:d/1", "user names or passwords"),
        ] {
            let error = text.parse::<Uri>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        for plain in [
            "nvme+tcp://h/plain-name/1",
            "nvme+tcp://h/nqn.test:disk/1",
            "iscsi://[fe80::1%eth0]:3260/iqn.2026-11.x:d/1",
        ] {
            assert!(plain.parse::<Uri>().is_ok(), "{plain}");
        }
        let deep = "delay:a(".repeat(100_000) + "ram:1g" + &")".repeat(100_000);
        assert!(deep.parse::<Uri>().unwrap_err().to_string().contains("more than 8"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(null|ram|file|delay|fault)?:?/?/?[a-z0-9:/?&=.@()\\[\\]é]*") {
            let _ = text.parse::<Uri>();
        }
    }
}
