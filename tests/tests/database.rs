//! A database on an attached volume whose power is cut: on a good drive it comes back whole, on
//! one whose cache lies it does not, and its own tools say so.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Loop, Running, run, skip};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(300);
/// Debian's.
const POSTGRES: &str = "/usr/lib/postgresql/15/bin";
/// Cuts on the lying drive, of which one at least must be seen.
const ROUNDS: u32 = 8;

/// What goes on in the volume until the file is changed.
const QUIET: &str = "verb = 'error'\nchance = 0";
const OFF: &str = "verb = 'power-cut'\nsurvives = 0.5";

/// A database, what it lies on, and the drive below.
struct Rig<'a> {
    folder: &'a Folder,
    attached: Option<Running>,
    lies: bool,
    seed: u32,
    device: Option<Loop>,
}

impl<'a> Rig<'a> {
    fn new(drumfire: &Drumfire, folder: &'a Folder, lies: bool, seed: u32) -> Rig<'a> {
        switch(folder.path(), lies, seed, QUIET);
        let args = "attach fault:faults.toml(ram:512m) drive";
        let mut attached = Running::start(&mut drumfire.command(folder.path(), args));
        attached.await_stdout(LIMIT, |stdout| stdout.contains("ready ").then_some(()));
        Rig { folder, attached: Some(attached), lies, seed, device: None }
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    /// Runs a line of a shell as the user of the database, in whose words it ends well or not.
    fn shell(&self, line: &str) -> Result<String, String> {
        let place = self.place().display().to_string();
        let start = "pg_ctl -w -t 120 -D DATA -l DATA/log -o '-k SOCKETS' start";
        let line = line.replace("START", start);
        let line = line.replace("DATA", &format!("{place}/pg")).replace("SOCKETS", &place);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
        command.args(["sh", "-c", &format!("cd /; PATH={POSTGRES}:$PATH; {line}")]);
        command.env("PGHOST", &place).env("PGDATABASE", "postgres").env("LC_ALL", "C");
        let finished = run(&mut command, LIMIT);
        let said = format!("{line}: {}{}", finished.stdout, finished.stderr);
        if finished.code == Some(0) { Ok(said) } else { Err(said) }
    }

    /// Whether the file system can be mounted.
    fn mount(&mut self) -> Result<(), String> {
        let device = Loop::direct(&self.folder.path().join("drive")).ok_or("no loop device")?;
        std::fs::create_dir_all(self.place()).unwrap();
        let mounted = run(Command::new("mount").arg(device.path()).arg(self.place()), LIMIT);
        self.device = Some(device);
        if mounted.code == Some(0) { Ok(()) } else { Err(mounted.stderr) }
    }

    fn unmount(&mut self) {
        if run(Command::new("umount").arg(self.place()), LIMIT).code != Some(0) {
            run(Command::new("umount").arg("-l").arg(self.place()), LIMIT);
        }
        self.device = None;
    }

    /// A database is made, or copied as it was made before, and served.
    fn begin(&mut self, image: Option<&Path>) -> Result<(), String> {
        let Some(image) = image else { return self.make() };
        let drive = self.folder.path().join("drive");
        let copied = run(
            Command::new("dd")
                .args(["bs=1M", "conv=sparse,notrunc,fsync"])
                .args([format!("if={}", image.display()), format!("of={}", drive.display())]),
            LIMIT,
        );
        if copied.code != Some(0) {
            return Err(copied.stderr);
        }
        self.mount()?;
        self.shell("START").map(drop)
    }

    /// Ends the database in order and copies the drive that it is on.
    fn copy(mut self, image: &Path) -> Result<(), String> {
        self.shell("pg_ctl -w -m fast -D DATA stop")?;
        self.unmount();
        let drive = self.folder.path().join("drive");
        let copied = run(Command::new("cp").arg("--sparse=always").arg(drive).arg(image), LIMIT);
        if copied.code == Some(0) { Ok(()) } else { Err(copied.stderr) }
    }

    fn make(&mut self) -> Result<(), String> {
        let drive = self.folder.path().join("drive");
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(drive), LIMIT).ok();
        self.mount()?;
        run(Command::new("chown").arg("postgres").arg(self.place()), LIMIT).ok();
        self.shell(
            "initdb -k -A trust -D DATA && cat >> DATA/postgresql.conf <<END\n\
             listen_addresses = ''\n\
             shared_buffers = 16MB\ncheckpoint_timeout = 30s\nmax_wal_size = 64MB\nEND",
        )?;
        self.shell("START")?;
        self.shell(
            "psql -c 'create extension amcheck' && pgbench -q -i -s 4 && psql -c checkpoint",
        )?;
        // The settings are nobody's business but ours.
        self.shell("sync -f DATA/postgresql.conf")?;
        Ok(())
    }

    /// Cuts the power under load, and lets all that knew the drive end.
    fn cut(&mut self) {
        let line = "(pgbench -c 4 -T 60 >/dev/null 2>&1 &) ; sleep 3";
        self.shell(line).unwrap();
        switch(self.folder.path(), self.lies, self.seed, OFF);
        std::thread::sleep(Duration::from_secs(1));
        let _ = self.shell("kill -9 $(head -1 DATA/postmaster.pid); sleep 1");
        self.unmount();
        switch(self.folder.path(), self.lies, self.seed, QUIET);
        std::thread::sleep(Duration::from_secs(1));
    }

    /// What is wrong with the database after that, in the words of whoever found it.
    fn check(&mut self) -> Result<(), String> {
        if let Err(why) = self.mount() {
            if !self.lies {
                return Err(why);
            }
            // The file system is harmed, and mended as its administrator would; then the database
            // is asked.
            self.unmount();
            let drive = self.folder.path().join("drive");
            run(Command::new("fsck.ext4").args(["-f", "-y"]).arg(drive), LIMIT);
            self.mount().map_err(|again| format!("{why}; after fsck: {again}"))?;
        }
        self.shell(
            "rm -f DATA/postmaster.pid; START || \
             (tail -20 DATA/log; false)",
        )?;
        self.shell("pg_amcheck -a --heapallindexed")?;
        // Each transaction of pgbench adds to an account what it writes down.
        self.shell(
            "psql -At -c 'select sum(abalance) = (select coalesce(sum(delta), 0) \
             from pgbench_history) from pgbench_accounts' | grep -qx t",
        )?;
        self.shell("pg_ctl -w -m fast -D DATA stop && pg_checksums --check -D DATA")?;
        Ok(())
    }
}

impl Drop for Rig<'_> {
    fn drop(&mut self) {
        let _ = self.shell("pg_ctl -m immediate -D DATA stop");
        self.unmount();
        // One that is killed would leave its file attached.
        if let Some(attached) = self.attached.take() {
            attached.signal(Signal::TERM);
            attached.finish(LIMIT);
        }
    }
}

fn switch(folder: &Path, lies: bool, seed: u32, fault: &str) {
    let cache = format!("[cache]\nsize = '8m'\nlies = {lies}\n");
    let text = format!("name = 'test'\nseed = {seed}\n{cache}[[fault]]\n{fault}\n");
    std::fs::write(folder.join("new.toml"), text).unwrap();
    std::fs::rename(folder.join("new.toml"), folder.join("faults.toml")).unwrap();
}

/// A folder that the user of the database can enter.
fn folder() -> Folder {
    let folder = Folder::new();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// What a cut of the power has done to a database, a new one or a copy of the image.
fn cut_once(
    drumfire: &Drumfire,
    lies: bool,
    seed: u32,
    image: Option<&Path>,
) -> Result<(), String> {
    let folder = folder();
    let mut rig = Rig::new(drumfire, &folder, lies, seed);
    rig.begin(image).unwrap_or_else(|why| panic!("a good drive: {why}"));
    rig.cut();
    rig.check()
}

/// So many cuts of each drive: none harms a database on the honest one, some harm one on the other.
fn cut_many(drumfire: &Drumfire, count: u32) {
    let (made, images) = (folder(), folder());
    let image = images.path().join("image");
    let mut rig = Rig::new(drumfire, &made, false, 0);
    rig.begin(None).unwrap();
    rig.copy(&image).unwrap();
    let cut = |lies, seed| cut_once(drumfire, lies, seed, Some(&image));
    let harmed = std::thread::scope(|scope| {
        let honest = scope.spawn(|| {
            for seed in 1..=count {
                cut(false, seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
                eprintln!("the honest cache: {seed} cuts harmed no database");
            }
        });
        let mut harmed = 0;
        for seed in 1..=count {
            let found = cut(true, seed).err();
            harmed += u32::from(found.is_some());
            eprintln!("the lying cache: {seed} cuts harmed {harmed} databases");
            if let Some(why) = found {
                let tail = why.lines().rev().find(|line| !line.is_empty()).unwrap_or_default();
                eprintln!("  {}: {tail}", why.chars().take(24).collect::<String>());
            }
        }
        honest.join().expect("the honest cache harms none");
        harmed
    });
    assert!(harmed > 0, "{count} databases on a lying cache are whole");
}

#[test]
fn a_lying_cache_corrupts_a_database_and_an_honest_one_does_not() {
    let Some(drumfire) = Drumfire::find() else { return };
    if !Path::new(POSTGRES).join("postgres").exists() {
        return skip("no PostgreSQL 15: apt-get install postgresql-15");
    }
    let fuse = std::fs::File::options().read(true).write(true).open("/dev/fuse").is_ok();
    if !fuse || !rustix::process::geteuid().is_root() {
        return skip("a file system on an attached volume wants root and /dev/fuse");
    }
    let spare = Folder::new();
    if Loop::direct(&spare.file("drive", &[0; 1 << 20])).is_none() {
        return;
    }
    if let Ok(count) = std::env::var("DRUMFIRE_CUTS") {
        return cut_many(&drumfire, count.parse().expect("a number of cuts"));
    }
    for seed in 1..=2 {
        cut_once(&drumfire, false, seed, None).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    let found = (1..=ROUNDS).find_map(|seed| cut_once(&drumfire, true, seed, None).err());
    let found = found.unwrap_or_else(|| panic!("{ROUNDS} databases on a lying cache are whole"));
    eprintln!("the lying cache was seen: {found}");
}
