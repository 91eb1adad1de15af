//! fio-plot, which draws fio's results, also draws ours.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, require, run, skip};

const LIMIT: Duration = Duration::from_secs(300);
/// Version that is known to read fio 3.33's documents.
const VERSION: &str = "fio-plot==1.1.21";

/// Python and the folder with fio-plot: a separate one below the target folder, created once.
/// Without Python or a package index, the calling test is recorded as skipped.
fn fio_plot() -> Option<(PathBuf, PathBuf)> {
    let python = require("python3")?;
    let test = std::env::current_exe().expect("a running program has a path");
    // target/debug/deps/this-test
    let target = test.ancestors().nth(3).expect("cargo builds three folders deep");
    let folder = target.join("foreign").join(VERSION);
    if folder.join("fio_plot").is_dir() {
        return Some((python, folder));
    }
    // Installed in a separate folder first: an interrupted installation is not mistaken for a
    // complete one.
    let beside = folder.with_extension(format!("part-{}", std::process::id()));
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
    // Python compiles modules at their first use; compiling all takes as long as all charts.
    pip.args(["--no-compile", "--timeout", "20", "--retries", "1", "--target"]);
    pip.arg(&beside).arg(VERSION);
    let installed = run(&mut pip, LIMIT);
    if installed.code != Some(0) {
        // Leftovers of the folder are harmless.
        let _ = std::fs::remove_dir_all(&beside);
        let why = installed.stderr.lines().last().unwrap_or_default().to_owned();
        skip(&format!("pip cannot install {VERSION}: {why}"));
        return None;
    }
    std::fs::rename(&beside, &folder).expect("the target folder can be written");
    Some((python, folder))
}

/// Width and height of a PNG.
fn png_size(path: &Path) -> Option<(u32, u32)> {
    let bytes = std::fs::read(path).ok()?;
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    bytes.starts_with(b"\x89PNG\r\n\x1a\n").then_some((number(16)?, number(20)?))
}

#[test]
fn fio_plot_draws_what_we_measured() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some((python, installed)) = fio_plot() else { return };
    for (job, rw, filter) in
        [("--rw randread", "randread", ""), ("--rw randrw --rwmixread 70", "randrw", "-f read")]
    {
        let folder = Folder::new();
        for depth in [1, 4] {
            let args = format!(
                "run ram:16m {job} --bs 4k --iodepth {depth} --seconds 1 --ramp 0 --out o{depth}"
            );
            drumfire.run(folder.path(), &args, LIMIT).ok();
            let args = format!("report o{depth} --as fio");
            let document = drumfire.run(folder.path(), &args, LIMIT).ok().stdout;
            folder.file(&format!("{depth}.json"), document.as_bytes());
        }
        for chart in [
            "-l -d 1 4 -n 1",
            "-N -d 4 -n 1",
            "-L -d 1 4 -n 1 -t iops",
            "-L -d 1 4 -n 1 -t lat",
            "-H -d 4 -n 1",
        ] {
            let mut command = Command::new(&python);
            command.env("PYTHONPATH", &installed).env("MPLBACKEND", "Agg");
            command.env("MPLCONFIGDIR", folder.path()).current_dir(folder.path());
            // The tests may run with Python's bytecode cache disabled.
            command.env("PYTHONDONTWRITEBYTECODE", "");
            command.args(["-m", "fio_plot", "-i", ".", "-T", "ours", "-o", "out.png", "-r", rw]);
            command.args(chart.split(' ')).args(filter.split_whitespace());
            let finished = run(&mut command, LIMIT);
            let size = png_size(&folder.path().join("out.png"));
            let drawn = size.is_some_and(|(width, height)| width > 300 && height > 200);
            assert!(drawn, "{rw} {chart}: {size:?}, {finished:?}");
            std::fs::remove_file(folder.path().join("out.png")).unwrap();
        }
    }
}
