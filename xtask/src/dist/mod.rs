//! Packages of the committed state, in `target/dist`: `cargo xtask dist`.
//!
//! Recipes are files below `packaging`; distributions can use them without this command. The tools
//! are those of the formats: `dpkg-buildpackage` with debhelper, `rpmbuild`, GNU tar, `buildah`.
//! The bytes depend only on commit, compiler and tools, as `--twice` shows.

mod archive;
pub mod build;
mod container;
mod debian;
mod formula;
mod licences;
mod release;
mod rpm;
mod sbom;
mod symbols;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process::{self, Show};
use crate::say::say;
use crate::target_folder;
use crate::test::Build;
use crate::test::tally::Tally;
use release::Release;

/// Longest time of a tool: rpmbuild compresses a program in a minute.
const LIMIT: Duration = Duration::from_secs(10 * 60);
/// Bytes of the static program, at most.
const STATIC_LIMIT: u64 = 15_000_000;
/// Variable that makes the static program small: crates without a level of their own in
/// `Cargo.toml`, which are those off the path of an I/O, are optimized for size.
const SMALL: (&str, &str) = ("CARGO_PROFILE_DIST_OPT_LEVEL", "z");
/// The package to build, and the feature of a small one.
const PACKAGE: &[&str] = &["-p", "drumfire"];
const PACKED: &[&str] = &["-p", "drumfire", "--features", "packed"];

/// Linkage of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// With the libraries of the system.
    Shared,
    /// Without any library.
    Static,
}

#[derive(Debug, Default, PartialEq)]
struct Options {
    /// Install, use and remove the packages.
    test: bool,
    /// Pack quickly and try a debug build, as `cargo xtask test` does; without other files.
    quick: bool,
    /// Build a second time in another folder and compare.
    twice: bool,
    /// The working tree may differ from the commit.
    dirty: bool,
    /// A built program to pack.
    drumfire: Option<PathBuf>,
    /// A built static program to pack.
    fixed: Option<PathBuf>,
    /// The one kind to build; both if absent.
    only: Option<Kind>,
    /// Base URL of the release's files.
    base_url: Option<String>,
}

/// Makes the packages, and tries them if asked to. True if all is well.
pub fn main(args: &[String]) -> Result<bool> {
    let options = parse(args)?;
    if options.quick {
        let built = options.drumfire.unwrap_or_else(|| Build::Checked.drumfire());
        let tally = test(&built, options.fixed.as_deref())?;
        tally.skipped.iter().for_each(|(name, reason)| say!("skipped: {name}: {reason}"));
        return Ok(tally.failed.is_empty());
    }
    let release = Release::read(&crate::root())?;
    if release.dirty && !options.dirty {
        bail!("the working tree differs from the commit: commit it, or --dirty");
    }
    let folder = target_folder().join("dist");
    let programs = Programs::provide(&options, &crate::root(), &release)?;
    make(&release, &programs, &folder, options.base_url.as_deref())?;
    if options.twice {
        twice(&release, &folder, &options)?;
    }
    if options.test { trial::all(&folder) } else { Ok(true) }
}

fn parse(args: &[String]) -> Result<Options> {
    let mut options = Options::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--test" => options.test = true,
            "--quick" => options.quick = true,
            "--twice" => options.twice = true,
            "--dirty" => options.dirty = true,
            "--drumfire" => options.drumfire = Some(PathBuf::from(value()?)),
            "--static" => options.fixed = Some(PathBuf::from(value()?)),
            "--only" => {
                options.only = Some(match value()?.as_str() {
                    "shared" => Kind::Shared,
                    "static" => Kind::Static,
                    other => bail!("--only shared or static, not `{other}`"),
                });
            }
            "--base-url" => options.base_url = Some(value()?.trim_end_matches('/').to_owned()),
            arg => bail!(
                "dist knows --test, --quick, --twice, --dirty, --only KIND, --drumfire FILE, \
                 --static FILE and --base-url URL, not `{arg}`"
            ),
        }
    }
    ensure!(
        options.only.is_none() || options.drumfire.is_none() && options.fixed.is_none(),
        "--only builds a program, --drumfire and --static pack built ones"
    );
    Ok(options)
}

/// Programs to pack: at least one.
struct Programs {
    /// With the libraries of the system.
    shared: Option<PathBuf>,
    /// Without any library.
    fixed: Option<PathBuf>,
}

impl Programs {
    /// The programs that the options name, or else builds of the sources in `root`.
    fn provide(options: &Options, root: &Path, release: &Release) -> Result<Programs> {
        let named = |path: &Option<PathBuf>| -> Result<Option<PathBuf>> {
            let Some(path) = path else { return Ok(None) };
            Ok(Some(path.canonicalize().with_context(|| path.display().to_string())?))
        };
        let programs =
            Programs { shared: named(&options.drumfire)?, fixed: named(&options.fixed)? };
        if programs.shared.is_some() || programs.fixed.is_some() {
            return Ok(programs);
        }
        Programs::build(options.only, root, release)
    }

    /// Builds one kind, or both, from the sources in `root`. A static program that is not asked for
    /// by name is left out where its target is not installed.
    fn build(only: Option<Kind>, root: &Path, release: &Release) -> Result<Programs> {
        let commit = ("DRUMFIRE_COMMIT", release.commit_and_date());
        let build = |target: &str, what: &[&str], more: &[(&'static str, String)]| {
            say!("building for {target}");
            let variables = [std::slice::from_ref(&commit), more].concat();
            let folder = build::build_in(root, target, what, &variables)?;
            let program = folder.join("drumfire");
            let version = tool(Command::new(&program).arg("--version"))?;
            let of_commit = version.contains(&release.commit_and_date());
            ensure!(of_commit, "the program says {}, not its commit", version.trim());
            Ok(program)
        };
        let shared = match only {
            Some(Kind::Static) => None,
            _ => Some(build(&build::host()?, PACKAGE, &[])?),
        };
        let target = static_target()?;
        let fixed = match only {
            Some(Kind::Shared) => None,
            None if !build::is_installed(&target)? => {
                say!("no static program: rustup target add {target}");
                None
            }
            _ => Some(build(&target, PACKED, &[(SMALL.0, SMALL.1.to_owned())])?),
        };
        Ok(Programs { shared, fixed })
    }
}

/// The target of static programs on this kind of machine.
pub fn static_target() -> Result<String> {
    Ok(build::host()?.replace("-gnu", "-musl"))
}

/// Makes everything of built programs in a folder, which is emptied first.
fn make(
    release: &Release,
    programs: &Programs,
    folder: &Path,
    base_url: Option<&str>,
) -> Result<()> {
    let parts = prepare(release, folder)?;
    if let Some(shared) = &programs.shared {
        let program = symbols::split(shared, &build::host()?, release, folder)?;
        packages(release, &program, &parts, folder, Packing::Small)?;
    }
    sbom::make(release, &parts.tree, folder)?;
    if let Some(fixed) = &programs.fixed {
        let target = static_target()?;
        let fixed = symbols::split(fixed, &target, release, folder)?;
        let len = fs::metadata(&fixed)?.len();
        say!("the static program has {len} bytes");
        ensure!(len <= STATIC_LIMIT, "the static program has more than {STATIC_LIMIT} bytes");
        image(release, &parts, &fixed, folder)?;
    }
    formula::make(release, &parts.tree, &parts.source, base_url, folder)?;
    fs::remove_dir_all(folder.join("work"))?;
    sums(folder)
}

/// Compression of packages.
#[derive(Clone, Copy)]
enum Packing {
    /// For those that are downloaded.
    Small,
    /// For those of a test.
    Fast,
}

/// Input of all packages.
struct Parts {
    /// The source archive.
    source: PathBuf,
    /// The unpacked sources.
    tree: PathBuf,
    /// Licences of libraries.
    third_party: PathBuf,
}

/// Empties the folder, packs the sources there, and collects licences in its folder `work`.
fn prepare(release: &Release, folder: &Path) -> Result<Parts> {
    let work = folder.join("work");
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(&work).with_context(|| folder.display().to_string())?;
    let source = archive::source(release, folder)?;
    let tree = archive::unpack(&source, &work, release)?;
    let third_party = licences::write(&tree, &work)?;
    Ok(Parts { source, tree, third_party })
}

/// Makes `.deb` and `.rpm` of a program without symbols.
fn packages(
    release: &Release,
    program: &Path,
    parts: &Parts,
    folder: &Path,
    packing: Packing,
) -> Result<()> {
    debian::make(release, parts, program, folder, packing)?;
    rpm::make(release, parts, program, folder, packing)
}

/// Makes the static archive and the container image of a static program without symbols.
fn image(release: &Release, parts: &Parts, fixed: &Path, folder: &Path) -> Result<()> {
    let staged = archive::fixed(release, &parts.tree, fixed, &parts.third_party, folder)?;
    container::make(release, &parts.tree, &staged, folder)
}

/// Writes SHA256SUMS, as `sha256sum --check` reads it, and prints it.
fn sums(folder: &Path) -> Result<()> {
    let names = names(folder)?;
    let sums = tool(Command::new("sha256sum").args(&names).current_dir(folder))?;
    fs::write(folder.join("SHA256SUMS"), &sums)?;
    say!("{}", sums.trim_end());
    say!("in {}", folder.display());
    Ok(())
}

/// Names of the files in a folder, in order.
fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Builds again from the source archive, in another folder, and compares all files. Programs that
/// an option names are packed again.
fn twice(release: &Release, folder: &Path, options: &Options) -> Result<()> {
    let elsewhere = std::env::temp_dir().join(format!("drumfire-dist-{}", std::process::id()));
    fs::create_dir(&elsewhere).with_context(|| elsewhere.display().to_string())?;
    let compared = (|| {
        let tree = archive::unpack(&archive::path(release, folder), &elsewhere, release)?;
        let programs = Programs::provide(options, &tree, release)?;
        let second = elsewhere.join("dist");
        make(release, &programs, &second, options.base_url.as_deref())?;
        let [one, other] =
            [folder, &second].map(|folder| fs::read_to_string(folder.join("SHA256SUMS")));
        let (one, other) = (one?, other?);
        let differ: Vec<&str> = one.lines().filter(|line| !other.contains(line)).collect();
        ensure!(differ.is_empty(), "two builds differ:\n{}", differ.join("\n"));
        say!("two builds in two folders: the same {} files", one.lines().count());
        Ok(())
    })();
    let _ = fs::remove_dir_all(&elsewhere);
    compared
}

/// Packs a program, and installs, uses and removes the packages in a clean root; packs and runs a
/// static program and its container image too, if there is one.
pub fn test(drumfire: &Path, fixed: Option<&Path>) -> Result<Tally> {
    const NAME: &str = "packages in a clean root";
    let mut tally = Tally::default();
    if let Some(missing) = trial::missing() {
        tally.skip(NAME, missing);
        return Ok(tally);
    }
    let release = match Release::read(&crate::root()) {
        Ok(release) => release,
        // A source archive has no commit.
        Err(error) => {
            tally.skip(NAME, format!("{error:#}"));
            return Ok(tally);
        }
    };
    let (began, folder) = (Instant::now(), target_folder().join("dist-test"));
    std::thread::scope(|scope| -> Result<()> {
        // The root comes from a network.
        let root = scope.spawn(trial::prepare);
        let parts = prepare(&release, &folder)?;
        let program = symbols::strip(drumfire, &folder.join("work"))?;
        packages(&release, &program, &parts, &folder, Packing::Fast)?;
        if let Some(fixed) = fixed {
            let own = folder.join("work/fixed");
            fs::create_dir_all(&own)?;
            image(&release, &parts, &symbols::strip(fixed, &own)?, &folder)?;
        }
        root.join().expect("a root is made or not")
    })?;
    say!("packages made in {:.1} s", began.elapsed().as_secs_f64());
    match trial::all(&folder)? {
        true => tally.passed += 1,
        false => tally.failed.push(NAME.to_owned()),
    }
    Ok(tally)
}

/// Runs a tool that must succeed; returns its stdout.
fn tool(command: &mut Command) -> Result<String> {
    let outcome = process::run(command, LIMIT, Show::Nothing)?;
    if !outcome.success() {
        let name = command.get_program().to_string_lossy().into_owned();
        let said: Vec<&str> = outcome.stderr.trim_end().lines().rev().take(20).collect();
        let said: Vec<&str> = said.into_iter().rev().collect();
        bail!("{name}: {}\n{}", outcome.ending(), said.join("\n"));
    }
    Ok(outcome.stdout)
}

#[cfg(test)]
mod unit {
    use super::*;

    fn options(args: &str) -> Result<Options> {
        parse(&args.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_checked() {
        assert_eq!(options("").unwrap(), Options::default());
        let all = options("--test --dirty --base-url https://example.org/x/").unwrap();
        assert!(all.test && all.dirty && !all.twice && !all.quick);
        assert_eq!(all.base_url.as_deref(), Some("https://example.org/x"));
        assert_eq!(options("--only static --twice").unwrap().only, Some(Kind::Static));
        for bad in ["--base-url", "--fast", "--only musl", "--only shared --drumfire x"] {
            assert!(options(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_tool_that_fails_says_why() {
        let mut command = Command::new("sh");
        let error = tool(command.args(["-c", "echo why >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("sh: exit status: 3\nwhy"), "{error}");
    }
}
