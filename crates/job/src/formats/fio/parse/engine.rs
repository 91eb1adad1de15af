//! Engines: the equivalent of each here, and the reason why another has none.

use super::super::calls;
use super::super::option::Wrong;
use super::super::settings::Engine;

/// Returns the names of the supported engines, each once.
pub fn engines() -> impl Iterator<Item = &'static str> {
    let others = [
        "sync",
        "psync",
        "vsync",
        "pvsync",
        "pvsync2",
        "mmap",
        "splice",
        "io_uring",
        "io_uring_cmd",
        "posixaio",
        "libaio",
        "null",
        "libiscsi",
        "nbd",
        "spdk",
        "spdk_bdev",
    ];
    others.into_iter().chain(calls::ENGINES.map(|(name, _)| name))
}

/// Reads `ioengine=`.
pub fn engine(text: &str) -> Result<Engine, Wrong> {
    match text {
        "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" | "mmap" | "splice" => {
            Ok(Engine::Synchronous)
        }
        "io_uring" | "posixaio" => Ok(Engine::Kernel),
        "io_uring_cmd" => Ok(Engine::Passthrough),
        "libaio" => Ok(Engine::Libaio),
        // fio compares only the prefix of these two names.
        _ if text.starts_with("linuxaio") || text.starts_with("aio") => Ok(Engine::Libaio),
        "null" => Ok(Engine::Nothing),
        _ if let Some((_, kind)) = calls::ENGINES.iter().find(|(name, _)| *name == text) => {
            Ok(Engine::Calls(kind))
        }
        "libiscsi" => Ok(Engine::Remote),
        "nbd" => Ok(Engine::Nbd),
        _ if plugin(text) == Some("spdk") => Ok(Engine::Spdk),
        _ if plugin(text) == Some("spdk_bdev") => Ok(Engine::Bdev),
        _ => Err(Wrong::Unsupported(format!(
            "the engine {text} is not supported: {}; use io_uring, io_uring_cmd, libaio, \
             posixaio, psync, null, libiscsi, nbd, spdk or spdk_bdev",
            other_engine(text)
        ))),
    }
}

/// Returns the plugin of SPDK with this name, or with this file name.
fn plugin(text: &str) -> Option<&'static str> {
    let external = text.strip_prefix("external:");
    let path = external.unwrap_or(text);
    let is_file = external.is_some() || path.contains('/');
    match path.rsplit('/').next()? {
        "spdk" if !is_file => Some("spdk"),
        "spdk_bdev" => Some("spdk_bdev"),
        "spdk_nvme" if is_file => Some("spdk"),
        // Before SPDK 20.01 both had this name, in separate folders.
        "fio_plugin" if path.contains("bdev") => Some("spdk_bdev"),
        "fio_plugin" => Some("spdk"),
        _ => None,
    }
}

/// Returns the difference of an engine whose I/O is emulated by reads and writes.
pub fn other_manner(engine: &str) -> Option<&'static str> {
    match engine {
        "mmap" => {
            Some("buffered reads and writes, one system call each; fio accesses pages of a mapping")
        }
        "splice" => Some("reads and writes; fio moves pages through a pipe"),
        _ => None,
    }
}

/// Returns the kind of load of an engine that has no equivalent here.
fn other_engine(name: &str) -> &'static str {
    match name {
        "libpmem" | "dev-dax" | "page_fault" => {
            "memory accesses are not I/Os and have other costs than reads and writes"
        }
        "sg" | "xnvme" | "libzbc" | "mtd" | "libblkio" => {
            "it bypasses the block layer, as io_uring_cmd does"
        }
        "net" | "netsplice" | "rdma" | "http" | "nfs" | "libhdfs" | "gfapi" | "gfapi_async"
        | "glusterfs" | "rbd" | "rados" | "dfs" | "ime_psync" | "ime_psyncv" | "ime_aio" => {
            "its protocol is not supported"
        }
        "exec" => "it runs programs, not I/O",
        "dircreate" | "dirstat" | "dirdelete" | "e4defrag" => "it changes metadata, not data",
        _ => "unknown engine",
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn those_that_are_listed_are_known() {
        assert!(engines().all(|name| engine(name).is_ok()));
    }

    #[test]
    fn plugins_are_known_by_their_files() {
        for name in [
            "spdk",
            "external:spdk_nvme",
            "external:/opt/spdk/build/fio/spdk_nvme",
            "./build/fio/spdk_nvme",
            "../examples/nvme/fio_plugin/fio_plugin",
        ] {
            assert_eq!(engine(name), Ok(Engine::Spdk), "{name}");
        }
        for name in ["spdk_bdev", "/x/build/fio/spdk_bdev", "examples/bdev/fio_plugin/fio_plugin"] {
            assert_eq!(engine(name), Ok(Engine::Bdev), "{name}");
        }
        for name in ["spdk_nvme", "external:/x/other", "/spdk", "external:"] {
            assert!(engine(name).unwrap_err().to_string().contains("unknown engine"), "{name}");
        }
    }
}
