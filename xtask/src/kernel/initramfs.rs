//! The guest's first and only file system, put together from unpacked packages: programs, the
//! libraries and kernel modules that they need, settings.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::cpio::Archive;
use crate::process::{self, Show};

/// Programs, by where a package has them below `/` or `/usr`.
const PROGRAMS: &[&str] = &[
    "bin/busybox",
    "sbin/nvme",
    "sbin/iscsid",
    "sbin/iscsiadm",
    "sbin/mke2fs",
    "sbin/e2fsck",
    "bin/sg_reset",
];

/// Settings that packages bring.
const SETTINGS: &[&str] = &["etc/iscsi/iscsid.conf", "etc/mke2fs.conf"];

/// Modules in the order in which they are loaded; their dependencies come before.
const MODULES: &[&str] = &[
    // The network of the guest.
    "virtio_pci",
    "virtio_net",
    // Both protocols request a CRC by name from the kernel's crypto, which no dependency lists.
    "crc32c_generic",
    "crc32c_intel",
    "crct10dif_generic",
    "sd_mod",
    "nvme_tcp",
    "iscsi_tcp",
    "ext4",
    // Devices that can be polled for completions.
    "nvme",
    "null_blk",
];

/// The driver that makes our volumes block devices.
pub const UBLK: &str = "ublk_drv";

/// Modules that newer kernels have made a part of something else.
const PERHAPS: &[&str] = &["crc32c_generic", "crc32c_intel", "crct10dif_generic"];

/// Dynamic loader, which every program needs.
const LOADER: &str = "ld-linux-x86-64.so.2";
/// Folder of the libraries, in packages as in the guest.
const LIBRARIES: &str = "lib/x86_64-linux-gnu";

/// All choices in this file, to detect an outdated file system.
pub fn recipe() -> String {
    format!("{PROGRAMS:?} {SETTINGS:?} {MODULES:?} {UBLK}")
}

/// Packs the file system out of the programs' packages below `root` and the kernel's below another,
/// with these additional modules. Files that differ from run to run are in another archive, which
/// is unpacked over this one.
pub fn pack(root: &Path, kernel: &Path, more: &[&str]) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for folder in ["proc", "sys", "dev", "run", "tmp", "var/lock", "mnt", "root"] {
        archive.folder(folder);
    }
    let libraries = libraries(root);
    let mut needed = BTreeSet::from([LOADER.to_owned()]);
    for program in PROGRAMS {
        let content = read(root, program)?;
        needed.extend(named_in(&content, &libraries));
        let name = program.rsplit('/').next().unwrap_or(program);
        archive.file(&format!("bin/{name}"), &content);
    }
    archive.link("bin/mkfs.ext4", "mke2fs");
    archive.link("lib64", LIBRARIES);
    let mut packed = BTreeSet::new();
    while let Some(name) = needed.pop_first() {
        let Some(path) = libraries.get(&name) else { bail!("no package brings {name}") };
        let content = fs::read(path).with_context(|| path.display().to_string())?;
        archive.file(&format!("{LIBRARIES}/{name}"), &content);
        packed.insert(name);
        needed.extend(named_in(&content, &libraries));
        needed = &needed - &packed;
    }
    for setting in SETTINGS {
        archive.file(setting, &read(root, setting)?);
    }
    let modules = modules(kernel, &[MODULES, more].concat())?;
    // Numbered in the order of loading.
    for (index, (name, content)) in modules.into_iter().enumerate() {
        archive.file(&format!("modules/{index:02}-{name}.ko"), &content);
    }
    Ok(archive.finish())
}

/// The kernel image below `root`, for a boot loader.
pub fn kernel(root: &Path) -> Result<PathBuf> {
    let files = fs::read_dir(root.join("boot")).context("no package brought a kernel")?;
    let mut paths = files.flatten().map(|entry| entry.path());
    let is_kernel = |path: &PathBuf| name_of(path).starts_with("vmlinuz-");
    paths.find(is_kernel).context("no package brought a kernel")
}

/// Reads a file that packages have below `/` or, since the merge, below `/usr`.
fn read(root: &Path, path: &str) -> Result<Vec<u8>> {
    let places = [root.join(path), root.join("usr").join(path)];
    let found = places.iter().find(|path| path.is_file());
    let found = found.with_context(|| format!("no package brings {path}"))?;
    fs::read(found).with_context(|| found.display().to_string())
}

/// Finds all libraries, by name.
fn libraries(root: &Path) -> BTreeMap<String, PathBuf> {
    let folders = [root.join(LIBRARIES), root.join("usr").join(LIBRARIES)];
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let named = entries.map(|entry| (name_of(&entry.path()), entry.path()));
    named.filter(|(name, path)| name.contains(".so") && path.is_file()).collect()
}

/// Libraries that a program names. Their names are in the binary as NUL-terminated strings.
fn named_in(program: &[u8], libraries: &BTreeMap<String, PathBuf>) -> BTreeSet<String> {
    let strings = program.split(|byte| *byte == 0).filter_map(|text| str::from_utf8(text).ok());
    strings.filter(|text| libraries.contains_key(*text)).map(str::to_owned).collect()
}

/// The requested modules, by name, each after its dependencies.
fn modules(root: &Path, wanted: &[&str]) -> Result<Vec<(String, Vec<u8>)>> {
    let folder = ["lib/modules", "usr/lib/modules"].map(|path| root.join(path));
    let folder = folder.iter().find(|path| path.is_dir()).context("no package brought modules")?;
    let mut files = BTreeMap::new();
    let mut builtin = String::new();
    let mut folders = vec![folder.clone()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder)?.flatten().map(|entry| entry.path()) {
            let name = name_of(&path);
            if path.is_dir() {
                folders.push(path);
            } else if let Some((module, "" | ".xz" | ".zst")) = name.split_once(".ko") {
                files.insert(module.replace('-', "_"), path);
            } else if name == "modules.builtin" {
                builtin = fs::read_to_string(&path)?.replace('-', "_");
            }
        }
    }
    let mut modules = Modules { files, builtin, order: Vec::new(), seen: BTreeSet::new() };
    wanted.iter().try_for_each(|name| modules.add(name))?;
    Ok(modules.order)
}

/// Modules being put into their order.
struct Modules {
    files: BTreeMap<String, PathBuf>,
    /// Built-in modules of the kernel: a path per line.
    builtin: String,
    order: Vec<(String, Vec<u8>)>,
    seen: BTreeSet<String>,
}

impl Modules {
    /// Adds a module after all its dependencies.
    fn add(&mut self, name: &str) -> Result<()> {
        if !self.seen.insert(name.to_owned()) {
            return Ok(());
        }
        let Some(path) = self.files.get(name) else {
            let there = self.builtin.contains(&format!("/{name}.ko"));
            ensure!(there || PERHAPS.contains(&name), "the kernel has no module {name}");
            return Ok(());
        };
        let content = plain(path).with_context(|| path.display().to_string())?;
        for dependency in depends(&content) {
            self.add(&dependency)?;
        }
        self.order.push((name.to_owned(), content));
        Ok(())
    }
}

/// Dependencies listed in a module: `depends=nvme-core,nvme-fabrics`.
fn depends(module: &[u8]) -> Vec<String> {
    let mut strings = module.split(|byte| *byte == 0);
    let list = strings.find_map(|text| text.strip_prefix(b"depends="));
    let list = String::from_utf8_lossy(list.unwrap_or_default()).replace('-', "_");
    list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Content of a module, decompressed: newer kernels compress theirs.
fn plain(path: &Path) -> Result<Vec<u8>> {
    let program = match path.extension().and_then(|ending| ending.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return Ok(fs::read(path)?),
    };
    let copy = path.with_extension("");
    let mut command = Command::new(program);
    command.arg("--decompress").arg("--keep").arg("--force").arg(path);
    let outcome = process::run(&mut command, Duration::from_secs(300), Show::Nothing)?;
    ensure!(outcome.success(), "{program}: {}", outcome.stderr.trim());
    Ok(fs::read(copy)?)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod test {
    use super::*;

    /// A folder with files, removed at the end.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &[u8])]) -> Tree {
            let folder = std::env::temp_dir().join(format!("xtask-{}-{name}", std::process::id()));
            for (path, content) in files {
                let path = folder.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
            Tree(folder)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn module(depends: &str) -> Vec<u8> {
        format!("\x7fELF\0license=GPL\0depends={depends}\0name=x\0").into_bytes()
    }

    #[test]
    fn modules_come_behind_what_they_depend_on() {
        let at = |name: &str| format!("lib/modules/6.1/kernel/{name}.ko");
        let all = [
            ("drivers/virtio-net", "net_failover"),
            ("net/net_failover", "failover"),
            ("net/failover", ""),
            ("scsi/sd_mod", "t10-pi"),
            ("block/t10-pi", ""),
            ("nvme/nvme-tcp", "nvme-fabrics,nvme-core"),
            ("nvme/nvme-fabrics", "nvme-core"),
            ("nvme/nvme-core", "t10-pi"),
            ("scsi/iscsi_tcp", ""),
            ("fs/ext4", ""),
            ("nvme/nvme", "nvme-core"),
            ("block/null_blk/null_blk", "configfs"),
            ("fs/configfs/configfs", ""),
        ];
        let mut files: Vec<(String, Vec<u8>)> =
            all.iter().map(|(name, depends)| (at(name), module(depends))).collect();
        let builtin = b"kernel/drivers/virtio/virtio-pci.ko\n".to_vec();
        files.push(("lib/modules/6.1/modules.builtin".into(), builtin));
        let refs: Vec<_> = files.iter().map(|(path, bytes)| (path.as_str(), &bytes[..])).collect();
        let tree = Tree::new("modules", &refs);
        let order = modules(&tree.0, MODULES).unwrap();
        let names: Vec<&str> = order.iter().map(|(name, _)| name.as_str()).collect();
        let wanted = [
            "failover",
            "net_failover",
            "virtio_net",
            "t10_pi",
            "sd_mod",
            "nvme_core",
            "nvme_fabrics",
            "nvme_tcp",
            "iscsi_tcp",
            "ext4",
            "nvme",
            "configfs",
            "null_blk",
        ];
        assert_eq!(names, wanted);
        fs::remove_file(tree.0.join(at("fs/ext4"))).unwrap();
        let error = modules(&tree.0, MODULES).unwrap_err();
        assert!(error.to_string().contains("no module ext4"), "{error}");
    }

    #[test]
    fn libraries_are_found_by_their_names_in_programs() {
        let one = format!("usr/{LIBRARIES}/libone.so.1");
        let tree = Tree::new("libraries", &[(&one, b"x"), ("usr/sbin/tool", b"y")]);
        let libraries = libraries(&tree.0);
        let program = b"\x7fELF\0libone.so.1\0libtwo.so.2\0libone.so.10\0";
        assert_eq!(named_in(program, &libraries), BTreeSet::from(["libone.so.1".to_owned()]));
        assert_eq!(read(&tree.0, "sbin/tool").unwrap(), b"y");
        assert!(read(&tree.0, "sbin/other").unwrap_err().to_string().contains("sbin/other"));
    }
}
