//! Archives: of the sources, and of the static program with all that belongs to it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::release::Release;
use super::tool;

/// Files of the repository that go with the static program.
const FILES: &[&str] = &[
    "README.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "packaging/drumfire.service",
    "packaging/serve.toml",
];

/// The path of the source archive.
pub fn path(release: &Release, folder: &Path) -> PathBuf {
    folder.join(format!("{}.tar.gz", release.name()))
}

/// Packs the sources: `drumfire-0.1.0.tar.gz`. Git writes the commit into `packaging/commit`.
pub fn source(release: &Release, folder: &Path) -> Result<PathBuf> {
    let name = release.name();
    let tar = folder.join(format!("{name}.tar"));
    let mut git = Command::new("git");
    git.arg("archive").arg(format!("--prefix={name}/")).arg("-o").arg(&tar).arg(&release.tree);
    tool(git.current_dir(&release.root))?;
    compress(&tar)?;
    Ok(path(release, folder))
}

/// Unpacks the sources below `folder`; returns their root.
pub fn unpack(source: &Path, folder: &Path, release: &Release) -> Result<PathBuf> {
    tool(Command::new("tar").arg("-xzf").arg(source).arg("-C").arg(folder))?;
    Ok(folder.join(release.name()))
}

/// Packs the static program with manual pages, completions, unit and documentation. Returns the
/// folder that was packed.
pub fn fixed(
    release: &Release,
    tree: &Path,
    program: &Path,
    third_party: &Path,
    folder: &Path,
) -> Result<PathBuf> {
    let name = format!("{}-{}-linux-static", release.name(), std::env::consts::ARCH);
    let staged = folder.join("work").join(&name);
    fs::create_dir_all(staged.join("completions"))?;
    copy(program, &staged.join("drumfire"))?;
    copy(third_party, &staged.join("THIRD-PARTY-LICENSES"))?;
    for file in FILES {
        let base = Path::new(file).file_name().context("a file has a name")?;
        copy(&tree.join(file), &staged.join(base))?;
    }
    tool(Command::new("cp").arg("-r").arg(tree.join("docs")).arg(&staged))?;
    tool(Command::new(program).args(["man", "--out"]).arg(staged.join("man/man1")))?;
    for (shell, file) in
        [("bash", "drumfire.bash"), ("zsh", "_drumfire"), ("fish", "drumfire.fish")]
    {
        let script = tool(Command::new(program).args(["completions", shell]))?;
        fs::write(staged.join("completions").join(file), script)?;
    }
    let tar = folder.join(format!("{name}.tar"));
    pack(release, &folder.join("work"), &name, &tar)?;
    compress(&tar)?;
    Ok(staged)
}

/// Packs `name` below `from`: nothing of this machine but contents and names is in the archive.
pub fn pack(release: &Release, from: &Path, name: &str, tar: &Path) -> Result<()> {
    let mut command = Command::new("tar");
    command.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    command.args(["--mode=u+rwX,go=rX", &format!("--mtime=@{}", release.epoch)]);
    command.arg("-C").arg(from).arg("-cf").arg(tar).arg(name);
    tool(&mut command).map(drop)
}

/// Replaces a file by one with `.gz`, in which neither name nor time is kept.
fn compress(path: &Path) -> Result<()> {
    tool(Command::new("gzip").args(["-9", "-n", "-f"]).arg(path)).map(drop)
}

/// Copies a file with its mode.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = fs::copy(from, to);
    copied.with_context(|| format!("{} to {}", from.display(), to.display())).map(drop)
}
