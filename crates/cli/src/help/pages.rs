//! Examples and main options of each command, for its help and its manual page.

/// Parts of a command's help that its clap definition lacks.
pub struct Page {
    /// Words of the command, without the program's name; empty for the program itself.
    pub command: &'static str,
    /// Description of each example, and its command line of at most [`LINE_MAX`] columns.
    pub examples: &'static [(&'static str, &'static str)],
    /// Options and arguments that `-h` shows, by their IDs; all if empty.
    pub brief: &'static [&'static str],
}

/// Maximum columns of an example's command line: on a terminal of 60 columns it stays on one line.
#[cfg(test)]
pub const LINE_MAX: usize = 58;

/// The page of a command.
pub fn page(command: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.command == command)
}

/// All pages, in the order of the help.
pub const PAGES: &[Page] = &[
    Page {
        command: "",
        examples: &[
            ("How many IOPS does this machine reach on loopback?", "drumfire race"),
            (
                "Drive a volume: 4 KiB, 70 % reads, all random",
                "drumfire run 'file:disk.img?size=4g' --read 70",
            ),
            ("Predict a system of 28 drives", "drumfire plan --drive x25-m --drives 28"),
        ],
        brief: &[],
    },
    Page {
        command: "serve",
        examples: &[
            (
                "A RAM volume over iSCSI, as LUN 1 of target disk",
                "drumfire serve --volume disk=ram:1g",
            ),
            ("A file over NVMe/TCP", "drumfire serve --nvme-tcp 127.0.0.1:4420 --volume a=/a.img"),
            ("Targets, volumes and hosts of a file", "drumfire serve targets.toml"),
        ],
        brief: &["iscsi", "nvme_tcp", "nbd", "volume"],
    },
    Page {
        command: "attach",
        examples: &[
            ("A volume as an ordinary file", "drumfire attach 'delay:x25-m(ram:8g)' /tmp/disk"),
            (
                "A remote volume, kept over lost connections",
                "drumfire attach 'nbd://host/disk?reconnect=60s' /tmp/disk",
            ),
            ("A block device", "drumfire attach --ublk ram:4g /dev/ublkb0"),
        ],
        brief: &[],
    },
    Page {
        command: "detach",
        examples: &[
            ("An attached file", "drumfire detach /tmp/disk"),
            ("A block device", "drumfire detach /dev/ublkb0"),
            ("Unmount first", "umount /mnt && drumfire detach /tmp/disk"),
        ],
        brief: &[],
    },
    Page {
        command: "ctl",
        examples: &[("One more volume", "drumfire ctl /run/drumfire.sock add b=ram:1g")],
        brief: &[],
    },
    Page {
        command: "ctl volumes",
        examples: &[
            ("Sizes, connections, I/Os", "drumfire ctl /run/drumfire.sock volumes"),
            ("The same for a program", "drumfire ctl /run/drumfire.sock volumes --json"),
        ],
        brief: &[],
    },
    Page {
        command: "ctl connections",
        examples: &[("Who is connected to what", "drumfire ctl /run/drumfire.sock connections")],
        brief: &[],
    },
    Page {
        command: "ctl add",
        examples: &[
            ("A volume in memory", "drumfire ctl /run/drumfire.sock add b=ram:1g"),
            ("LUN 2 of target b, a file", "drumfire ctl /run/drumfire.sock add b/2=/srv/b.img"),
        ],
        brief: &[],
    },
    Page {
        command: "ctl remove",
        examples: &[
            ("LUN 1 of target b", "drumfire ctl /run/drumfire.sock remove b"),
            ("LUN 2", "drumfire ctl /run/drumfire.sock remove b/2"),
        ],
        brief: &[],
    },
    Page {
        command: "ctl disconnect",
        examples: &[
            ("One connection", "drumfire ctl /run/drumfire.sock disconnect 7"),
            ("A host", "drumfire ctl /run/drumfire.sock disconnect 10.0.0.7"),
        ],
        brief: &[],
    },
    Page {
        command: "ctl set",
        examples: &[
            ("No host may change it", "drumfire ctl /run/drumfire.sock set b read-only"),
            ("Hosts may write again", "drumfire ctl /run/drumfire.sock set b writable"),
        ],
        brief: &[],
    },
    Page {
        command: "ctl reopen",
        examples: &[("Its file has grown", "drumfire ctl /run/drumfire.sock reopen b")],
        brief: &[],
    },
    Page {
        command: "ctl reload",
        examples: &[("serve.toml was changed", "drumfire ctl /run/drumfire.sock reload")],
        brief: &[],
    },
    Page {
        command: "ctl dump",
        examples: &[("Save the state", "drumfire ctl /run/drumfire.sock dump > serve.toml")],
        brief: &[],
    },
    Page {
        command: "discover",
        examples: &[
            ("Targets of an iSCSI portal", "drumfire discover 127.0.0.1"),
            ("Exports of an NBD server", "drumfire discover nbd://127.0.0.1"),
            (
                "Subsystems of an NVMe/TCP discovery service",
                "drumfire discover nvme+tcp://127.0.0.1:8009",
            ),
        ],
        brief: &[],
    },
    Page {
        command: "race",
        examples: &[
            ("10 targets, 50 volumes, iSCSI, 512 B reads", "drumfire race"),
            (
                "4 KiB over NVMe/TCP for 3 seconds",
                "drumfire race --protocol nvme-tcp --size 4k --seconds 3",
            ),
            ("Fail below 900k IOPS", "drumfire race --fail-if 'iops<900k'"),
        ],
        brief: &["protocol", "targets", "volumes", "size", "seconds"],
    },
    Page {
        command: "run",
        examples: &[
            (
                "A new file: 4 KiB, 70 % reads, all random",
                "drumfire run 'file:disk.img?size=4g' --read 70",
            ),
            (
                "A LUN at 50,000 I/Os per second, open loop",
                "drumfire run iscsi://host/iqn.x:disk/1 --rate 50k",
            ),
            ("A job file of fio, on a volume", "drumfire run jobs.fio file:disk.img"),
        ],
        brief: &["volumes", "size", "read", "outstanding", "seconds", "destroy"],
    },
    Page {
        command: "fio",
        examples: &[
            ("Job files", "drumfire fio jobs.fio"),
            ("A job by flags", "drumfire fio --name=a --rw=randread --bs=4k --size=1g"),
            ("What becomes of an option", "drumfire fio --cmdhelp=iodepth"),
        ],
        brief: &[],
    },
    Page {
        command: "sweep",
        examples: &[
            (
                "Two settings, all combinations",
                "drumfire sweep ./a.img --axis size=4k,8k --axis read=0,100",
            ),
            (
                "The highest rate with a p99 of at most 2 ms",
                "drumfire sweep iscsi://host/iqn.x:disk/1 --p99 2ms",
            ),
            ("How a race scales", "drumfire sweep race --axis targets=1,2,4,8"),
        ],
        brief: &["axis", "repeats"],
    },
    Page {
        command: "sweep race",
        examples: &[
            ("Number of targets", "drumfire sweep race --axis targets=1,2,4,8"),
            ("Both protocols", "drumfire sweep race --axis protocol=iscsi,nvme-tcp"),
            ("Highest rate, then 10 to 100 % of it", "drumfire sweep race --ladder"),
        ],
        brief: &["axis", "repeats", "protocol", "seconds", "out"],
    },
    Page {
        command: "sweep simulate",
        examples: &[
            ("Number of drives", "drumfire sweep simulate x25-m --axis drives=1,2,4,8"),
            (
                "Queue depth of a system",
                "drumfire sweep simulate intel-ssd --axis outstanding=1,32",
            ),
            ("Several drives", "drumfire sweep simulate cd6 --axis system=cd6,x25-m"),
        ],
        brief: &["system", "axis", "repeats"],
    },
    Page {
        command: "explain",
        examples: &[
            ("What of a job would run", "drumfire explain jobs.fio"),
            (
                "A job of fio in the form of Iometer",
                "drumfire explain --as icf jobs.fio > jobs.icf",
            ),
            ("In our own form, for a volume", "drumfire explain --as toml jobs.fio ram:1g"),
        ],
        brief: &[],
    },
    Page {
        command: "doctor",
        examples: &[
            ("This host", "drumfire doctor"),
            ("A volume, too: nothing is written", "drumfire doctor /dev/nvme0n1"),
            ("In scripts: exit code 3 if a check fails", "drumfire doctor --strict"),
        ],
        brief: &[],
    },
    Page {
        command: "report",
        examples: &[
            (
                "Rows for pandas, R or a spreadsheet",
                "drumfire report my-sweep --as csv > sweep.csv",
            ),
            ("A page with charts, in one file", "drumfire report my-sweep --as html > sweep.html"),
            ("Test cases for a build server", "drumfire report my-run --as junit > junit.xml"),
        ],
        brief: &["runs", "form", "fail_if"],
    },
    Page {
        command: "compare",
        examples: &[
            ("Two runs or sweeps", "drumfire compare before after"),
            ("Fail if B is 3 % slower", "drumfire compare before after --fail-if 'iops<-3%'"),
            ("Measure both in turn", "drumfire compare --run 'ram:1g --size 4k' 'ram:1g'"),
        ],
        brief: &["a", "b", "fail_if", "run"],
    },
    Page {
        command: "merge",
        examples: &[
            ("Parts of all hosts", "drumfire merge parts/*.json --out merged"),
            ("Four hosts; a lost host is reported", "drumfire merge a b c d --expect 4"),
            ("Results of fio with histograms", "drumfire merge client1.json client2.json"),
        ],
        brief: &["parts", "expect", "json", "out"],
    },
    Page {
        command: "plan",
        examples: &[
            ("A system of 28 drives", "drumfire plan --drive x25-m --drives 28"),
            ("Systems that reach a goal", "drumfire plan --goal 1M --size 4k --read 70"),
            (
                "Which of two bills is better",
                "drumfire plan --compare iodrive-duo sas-16 --money 20K",
            ),
        ],
        brief: &["drive", "drives", "adapter", "goal"],
    },
    Page {
        command: "plan verify",
        examples: &[("Errors of all predictions", "drumfire plan verify")],
        brief: &[],
    },
    Page {
        command: "simulate",
        examples: &[
            ("A system of 28 drives", "drumfire simulate intel-ssd --read 70 --outstanding 8"),
            (
                "4 drives, at 20,000 I/Os per second",
                "drumfire simulate x25-m --drives 4 --rate 20k",
            ),
            ("A drive of the catalogue", "drumfire simulate cd6 --rw randwrite --outstanding 16"),
        ],
        brief: &["system", "drives", "read", "outstanding"],
    },
    Page {
        command: "database",
        examples: &[
            ("A description to edit", "drumfire database --example > pgbench.toml"),
            ("Two drives", "drumfire database pgbench.toml x25-m disk-15k"),
            ("With 64 clients", "drumfire database pgbench.toml x25-m --clients 64"),
            ("For programs", "drumfire database pgbench.toml x25-m --json"),
        ],
        brief: &["file", "drives", "example", "clients", "prices", "sourced", "json"],
    },
    Page {
        command: "scenario",
        examples: &[
            ("Which there are", "drumfire scenario list"),
            ("All, as models", "drumfire scenario run all --modelled"),
            ("One on this machine", "drumfire scenario run intel-28-ssd --live"),
        ],
        brief: &[],
    },
    Page {
        command: "scenario list",
        examples: &[("All that come along", "drumfire scenario list")],
        brief: &[],
    },
    Page {
        command: "scenario show",
        examples: &[("A file to start from", "drumfire scenario show intel-iscsi > my.toml")],
        brief: &[],
    },
    Page {
        command: "scenario run",
        examples: &[
            ("All, as models", "drumfire scenario run all --modelled"),
            (
                "One on this machine, in short runs",
                "drumfire scenario run intel-28-ssd --live --seconds 1",
            ),
            ("Two scenarios", "drumfire scenario run intel-iscsi third-io-iris --modelled"),
            ("A file of your own", "drumfire scenario run my.toml"),
        ],
        brief: &["names", "modelled", "live", "seconds", "out", "json"],
    },
    Page {
        command: "calibrate",
        examples: &[
            ("A profile from sweeps", "drumfire calibrate runs --out drive.toml"),
            (
                "With a drive of the catalogue as the prior",
                "drumfire calibrate runs --part x25-m --out drive.toml",
            ),
            ("The sweep that it wants", "drumfire sweep ./a.img --axis outstanding=1,8 --out runs"),
        ],
        brief: &[],
    },
    Page {
        command: "audit",
        examples: &[
            ("A claim", "drumfire audit --iops 2.44M --size 512 --link 10gbe"),
            ("A claim about drives", "drumfire audit --iops 1M --drives 28 --drive x25-m"),
            ("All claims of the founding documents", "drumfire audit founding"),
        ],
        brief: &["iops", "size", "latency", "bandwidth", "link", "drives", "drive"],
    },
    Page {
        command: "catalogue",
        examples: &[
            ("Drives of a year", "drumfire catalogue list --class drive --year 2010"),
            ("All that is known of one", "drumfire catalogue show x25-m"),
            ("Its stages of service", "drumfire catalogue profile cd6"),
        ],
        brief: &[],
    },
    Page {
        command: "catalogue list",
        examples: &[
            ("All parts", "drumfire catalogue list"),
            ("SATA drives", "drumfire catalogue list --class drive --interface sata"),
            ("Drives of at least 3.84 TB", "drumfire catalogue list --capacity 3.84TB"),
        ],
        brief: &[],
    },
    Page {
        command: "catalogue show",
        examples: &[("A drive", "drumfire catalogue show x25-m")],
        brief: &[],
    },
    Page {
        command: "catalogue profile",
        examples: &[(
            "A file for delay:cd6.toml(URI)",
            "drumfire catalogue profile cd6 --out cd6.toml",
        )],
        brief: &[],
    },
    Page {
        command: "catalogue prices",
        examples: &[
            ("A file of prices to fill", "drumfire catalogue prices > prices.toml"),
            ("Of drives alone", "drumfire catalogue prices --class drive > prices.toml"),
        ],
        brief: &[],
    },
    Page {
        command: "catalogue check",
        examples: &[("A file of your own parts", "drumfire catalogue check parts.toml")],
        brief: &[],
    },
    Page {
        command: "volume",
        examples: &[
            (
                "Create a mirror of two files",
                "drumfire volume create mirror a --leg /a.img --leg /b.img",
            ),
            ("State of its legs", "drumfire volume show 'array:a?leg=/a.img&leg=/b.img'"),
            ("Compare its legs", "drumfire volume check 'array:a?leg=/a.img&leg=/b.img'"),
        ],
        brief: &[],
    },
    Page {
        command: "volume create",
        examples: &[
            ("A mirror of two files", "drumfire volume create mirror a --leg /a.img --leg /b.img"),
            (
                "A mirror with a leg on another host",
                "drumfire volume create mirror a --leg /a --leg nbd://h/b",
            ),
            ("With three legs", "drumfire volume create mirror a --leg /a --leg /b --leg /c"),
        ],
        brief: &[],
    },
    Page {
        command: "volume show",
        examples: &[("State of each leg", "drumfire volume show 'array:a?leg=/a.img&leg=/b.img'")],
        brief: &[],
    },
    Page {
        command: "volume add",
        examples: &[("A third leg", "drumfire volume add 'array:a?leg=/a&leg=/b' file:/c")],
        brief: &[],
    },
    Page {
        command: "volume remove",
        examples: &[("The second leg", "drumfire volume remove 'array:a?leg=/a&leg=/b' 2")],
        brief: &[],
    },
    Page {
        command: "volume replace",
        examples: &[(
            "A new disk for the second leg",
            "drumfire volume replace 'array:a?leg=/a&leg=/b' 2 file:/c",
        )],
        brief: &[],
    },
    Page {
        command: "volume check",
        examples: &[
            ("Compare, slowly", "drumfire volume check 'array:a?leg=/a&leg=/b' --rate 50m"),
            ("Make the legs equal", "drumfire volume check 'array:a?leg=/a&leg=/b' --repair"),
        ],
        brief: &[],
    },
    Page {
        command: "volume grow",
        examples: &[
            ("To what the legs have room for", "drumfire volume grow 'array:a?leg=/a&leg=/b'"),
            ("To a size", "drumfire volume grow 'array:a?leg=/a&leg=/b' --size 2t"),
        ],
        brief: &[],
    },
    Page {
        command: "backup",
        examples: &[
            (
                "A folder, read again and checked",
                "drumfire backup /data --to /mnt/data.backup --verify",
            ),
            ("Restore it", "drumfire backup --from /mnt/data.backup --into /again"),
            ("How fast can this host read?", "drumfire backup /data --to null --readers 8"),
        ],
        brief: &["sources", "to", "from", "into"],
    },
    Page {
        command: "completions",
        examples: &[
            ("bash, in ~/.bashrc", "source <(drumfire completions bash)"),
            ("zsh, in a folder of $fpath", "drumfire completions zsh > ~/.zfunc/_drumfire"),
            ("fish, in ~/.config/fish/config.fish", "drumfire completions fish | source"),
        ],
        brief: &[],
    },
    Page {
        command: "man",
        examples: &[
            ("Manual page of a command", "drumfire man run"),
            ("Of a command of a command", "drumfire man volume create"),
            ("All pages, for a package", "drumfire man --out man1"),
            ("All commands, for a website", "drumfire man --as markdown > cli.md"),
        ],
        brief: &[],
    },
];
