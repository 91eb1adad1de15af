//! `drumfire plan`: every flag of every form changes the answer or is refused by name.

use std::collections::HashMap;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder};

const LIMIT: Duration = Duration::from_secs(120);

const BILL: &str = "name = 'four'\nsize = '4k'\noutstanding = 32\n[[group]]\ndrive = 'x25-m'\n\
    count = 4\n";
const PROFILE: &str = "name = 'known'\nqueue_depth = 64\n[[stage]]\nname = 'server'\nservers = 1\n\
    shape = 'exponential'\nread = { each_s = 1e-3, per_byte_s = 1e-8 }\n\
    write = { each_s = 2e-3 }\n";
const PRICES: &str = "source = 'quote'\ndate = '2026-11-20'\n[price]\nx25-m = 77\n";
/// The drive of all forms with another rating.
const PARTS: &str = "[source.me]\ntitle = 'me'\n[[part]]\nid = 'x25-m'\nname = 'X'\n\
    class = 'drive'\ninterface = 'sata'\nsold = '2009-2011'\nfigures = [\n\
    { is = 'read_iops', value = 50000, unit = 'IOPS', kind = 'spec', source = 'me' },\n\
    { is = 'write_iops', value = 5000, unit = 'IOPS', kind = 'spec', source = 'me' },\n\
    { is = 'read_latency', value = 70, unit = 'us', kind = 'spec', source = 'me' },\n\
    { is = 'read_bandwidth', value = 250, unit = 'MB/s', kind = 'spec', source = 'me' },\n\
    { is = 'write_bandwidth', value = 100, unit = 'MB/s', kind = 'spec', source = 'me' },\n\
    { is = 'capacity', value = 160, unit = 'GB', kind = 'spec', source = 'me' },\n]\n";

/// Each form by a command of it.
const FORMS: [(&str, &str); 10] = [
    ("profile", "plan known.toml"),
    ("bill", "plan bill.toml"),
    ("streams", "plan streams.toml"),
    ("bill, arriving", "plan bill.toml --rate 1000"),
    ("compare", "plan --compare bill.toml other.toml"),
    ("drive", "plan --drive x25-m --drives 4 --adapter lsi-9210-8i"),
    ("drive by name", "plan x25-m --drives 4"),
    ("drive, arriving", "plan --drive x25-m --drives 4 --adapter lsi-9210-8i --rate 1000"),
    ("search", "plan --goal 100k --adapter lsi-9210-8i --interface sata --year 2010"),
    (
        "sizing",
        "plan --goal 100k --adapter lsi-9210-8i --interface sata --year 2010 --spares 0 \
         --drives-max 8",
    ),
];

/// Each flag: what a command has without it, and with it.
const FLAGS: [(&str, &str, &str); 54] = [
    ("--compare", "", "--compare bill.toml other.toml"),
    ("--money", "", "--money 4000"),
    ("--goal", "", "--goal 200k"),
    ("--drive", "", "--drive x25-m"),
    ("--drives", "", "--drives 2"),
    ("--adapter", "", "--adapter lsi-9211-8i"),
    ("--adapters", "", "--adapters 2"),
    ("--server", "--software linux-libaio", "--software linux-libaio --server sr2625urlx"),
    ("--software", "--server sr2625urlx", "--server sr2625urlx --software linux-libaio"),
    ("--size", "", "--size 64k"),
    ("--read", "", "--read 50"),
    ("--outstanding", "", "--outstanding 2"),
    ("--price-max", "", "--price-max 1"),
    ("--power-max", "", "--power-max 1"),
    ("--jobs", "--software linux-libaio", "--software linux-libaio --jobs 1"),
    ("--sequential", "", "--sequential"),
    ("--in-flight", "", "--in-flight 2"),
    ("--flush", "--read 0", "--read 0 --flush 1"),
    ("--state", "--read 0", "--read 0 --state burst"),
    (
        "--record",
        "--server sr2625urlx --software zfs",
        "--server sr2625urlx --software zfs --record 16k",
    ),
    (
        "--buffered",
        "--read 0 --size 16k --server sr2625urlx --software linux-libaio",
        "--read 0 --size 16k --server sr2625urlx --software linux-libaio --buffered",
    ),
    ("--write-cache", "--read 0 --flush 1", "--read 0 --flush 1 --write-cache"),
    (
        "--target",
        "--link ethernet-10",
        "--link ethernet-10 --target linux-nvmet-tcp --target-cores 1",
    ),
    (
        "--target-cores",
        "--link ethernet-10 --target linux-nvmet-tcp --target-cores 1",
        "--link ethernet-10 --target linux-nvmet-tcp --target-cores 2",
    ),
    ("--rate", "", "--rate 2000"),
    ("--hosts", "", "--hosts 9"),
    ("--drives-max", "", "--drives-max 6"),
    ("--latency", "", "--latency 1us"),
    ("--p99", "", "--p99 1us"),
    ("--capacity", "", "--capacity 1TB"),
    ("--growth", "--growth 1 --years 3", "--growth 30 --years 3"),
    ("--years", "--growth 20 --years 1", "--growth 20 --years 3"),
    ("--raid", "--read 50", "--read 50 --raid 1"),
    ("--width", "--raid 5", "--raid 5 --width 4"),
    ("--spares", "", "--spares 1"),
    ("--replicas", "--hosts 9", "--hosts 9 --replicas 3"),
    ("--down-drives", "--raid 5", "--raid 5 --down-drives 1"),
    ("--down-hosts", "--hosts 9 --replicas 2", "--hosts 9 --replicas 2 --down-hosts 1"),
    ("--link", "", "--link ethernet-1"),
    ("--ports", "--link ethernet-1", "--link ethernet-1 --ports 2"),
    ("--height-max", "--server sr2625urlx", "--server sr2625urlx --height-max 1"),
    ("--year", "", "--year any"),
    ("--interface", "", "--interface sas"),
    ("--price", "", "--price x25-m=99"),
    ("--prices", "", "--prices prices.toml"),
    ("--sourced", "", "--sourced"),
    ("--confident", "", "--confident"),
    ("--draws", "--parts wide.toml", "--parts wide.toml --draws 11"),
    ("--seed", "--parts wide.toml", "--parts wide.toml --seed 2"),
    ("--parts", "", "--parts parts.toml"),
    ("--why", "TEXT", "TEXT --why"),
    ("--details", "TEXT", "TEXT --details"),
    ("--html", "", "--html page.html"),
    ("--anyway", "", "--anyway"),
];

/// Flags that every command has, or that print the answer.
const COMMON: [&str; 3] = ["--help", "--color", "--json"];

#[test]
fn every_flag_of_every_form_is_used_or_refused() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    folder.file("bill.toml", BILL.as_bytes());
    folder.file("other.toml", BILL.replace("four", "eight").replace("= 4\n", "= 8\n").as_bytes());
    let stream = format!("{BILL}[[stream]]\nsize = '64k'\noutstanding = 4\n");
    folder.file("streams.toml", stream.as_bytes());
    folder.file("known.toml", PROFILE.as_bytes());
    folder.file("prices.toml", PRICES.as_bytes());
    folder.file("parts.toml", PARTS.as_bytes());
    // An interval that is wider than that of published results shows the draws.
    let wide = PARTS.replace("value = 50000,", "value = 50000, low = 1000, high = 55000,");
    folder.file("wide.toml", wide.as_bytes());
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    let help = run("plan --help").ok().stdout;
    let words = help.split_whitespace().filter(|word| word.starts_with("--"));
    let letter = |c: char| !c.is_ascii_lowercase() && c != '-' && !c.is_ascii_digit();
    let mut missing: Vec<&str> = words.map(|word| word.trim_matches(letter)).collect();
    missing.retain(|flag| flag.len() > 2 && !COMMON.contains(flag));
    missing.retain(|flag| !FLAGS.iter().any(|(known, ..)| known == flag));
    assert_eq!(missing, Vec::<&str>::new(), "flags of the help that this test lacks");
    let mut ignored: Vec<String> = std::thread::scope(|scope| {
        let of = |(form, base): (&'static str, &'static str)| {
            let (drumfire, folder) = (&drumfire, &folder);
            scope.spawn(move || unused(drumfire, folder, form, base))
        };
        let all: Vec<_> = FORMS.into_iter().map(of).collect();
        all.into_iter().flat_map(|form| form.join().expect("a form")).collect()
    });
    // A fit that is not usable is used with the flag alone.
    let calibration = "[calibration]\nsource = 'a law'\nfitted = 1\nheld_out = 1\n\
        fit_error_percent = 90\nheld_out_error_percent = 90\nscatter = true\n";
    folder.file(
        "off.toml",
        PROFILE.replace("[[stage]]", &format!("{calibration}[[stage]]")).as_bytes(),
    );
    assert_eq!(run("plan off.toml").code, Some(2));
    run("plan off.toml --anyway").ok();
    ignored.retain(|line| !line.starts_with("profile: --anyway"));
    assert!(ignored.is_empty(), "neither used nor refused:\n{}", ignored.join("\n"));
}

/// The flags that a form neither uses nor refuses by name.
fn unused(drumfire: &Drumfire, folder: &Folder, form: &str, base: &str) -> Vec<String> {
    // Few draws, and a document, where the form has them.
    let draws = ["profile", "streams", "bill, arriving", "drive, arriving"];
    let draws = if draws.contains(&form) { "" } else { "--draws 10" };
    let page = format!("page-{}.html", form.replace([' ', ','], "-"));
    let ask = |base: &str, more: &str| {
        let (as_text, more) = (more.starts_with("TEXT"), more.trim_start_matches("TEXT"));
        let json = if as_text { "" } else { "--json" };
        let draws = if more.contains("draws") { "" } else { draws };
        let more = more.replace("page.html", &page);
        drumfire.run(folder.path(), &format!("{base} {draws} {more} {json}"), LIMIT)
    };
    let mut known: HashMap<(String, &str), String> = HashMap::new();
    let mut ignored = Vec::new();
    for (flag, without, with) in FLAGS {
        if base.split_whitespace().any(|word| word == flag) {
            continue;
        }
        // Flash has no heads that sequential I/O would spare.
        let drive = if flag == "--sequential" { "hdd-7k2" } else { "x25-m" };
        let base = base.replace("x25-m", drive);
        let found = ask(&base, with);
        // By its name, or by that of a flag that it comes with.
        let flags = with.split_whitespace().filter(|word| word.starts_with("--"));
        let mut words = flags.chain([flag, "required", "cannot be used"]);
        let refused = found.code == Some(2) && words.any(|word| found.stderr.contains(word));
        if refused || (flag == "--html" && folder.path().join(&page).exists()) {
            continue;
        }
        let before = known.entry((base.clone(), without));
        let before = before.or_insert_with(|| ask(&base, without).stdout);
        if found.code == Some(1) || found.stdout == *before {
            ignored.push(format!("{form}: {flag}: {:?} {}", found.code, found.stderr));
        }
    }
    ignored
}
