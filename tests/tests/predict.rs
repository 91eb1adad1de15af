//! The commands that predict, as a user calls them: answers, exit codes, refusals.

use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
/// The million of 28 drives.
const MILLION: &str = "audit --iops 1M --size 4k --latency 0.88ms --outstanding 896 --drives 28 \
    --drive x25-m --cpu-percent 82 --cores 8 --bandwidth 4GB/s";

fn drumfire(args: &str) -> Option<Finished> {
    let drumfire = Drumfire::find()?;
    let folder = Folder::new();
    Some(drumfire.run(folder.path(), args, LIMIT))
}

fn ends(args: &str, code: i32, last: &str) {
    let Some(done) = drumfire(args) else { return };
    assert_eq!((done.code, done.stdout.lines().last()), (Some(code), Some(last)), "{done:?}");
}

#[test]
fn audits_end_with_a_verdict_and_its_code() {
    ends(MILLION, 0, "possible");
    ends(&format!("{MILLION} --link 10gbe"), 4, "impossible");
    ends("audit --iops 2.44M --size 512 --link 10gbe", 4, "impossible");
    ends("audit --iops 2M --size 512 --link 10gbe --protocol iscsi", 0, "possible");
    ends("audit --iops 1M", 0, "unclear");
    ends("audit --iops 1M --latency 0.88 --outstanding 896", 0, "unclear");
    ends("audit founding", 4, "impossible");
}

#[test]
fn every_rule_shows_its_arithmetic() {
    let Some(done) = drumfire(MILLION) else { return };
    let little = done.stdout.lines().find(|line| line.contains(" little ")).unwrap();
    assert!(little.starts_with("holds") && little.contains("= 880 outstanding"), "{little}");
    assert_eq!(done.stdout.lines().count(), 8, "{}", done.stdout);
}

#[test]
fn a_file_of_claims_is_refused_with_its_line() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let file = folder.path().join("claims.toml");
    std::fs::write(&file, "title = 'x'\n[[claim]]\niops = 'many'\n").unwrap();
    let done = drumfire.run(folder.path(), "audit claims.toml", LIMIT);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stderr.contains("claims.toml:2: iops: 'many'"), "{done:?}");
}

#[test]
fn the_catalogue_shows_sources_and_refuses_figures_without_one() {
    let Some(shown) = drumfire("catalogue show x25-m") else { return };
    assert!(shown.ok().stdout.contains("35.0k IOPS"));
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let text = "[[part]]\nid = 'x'\nname = 'x'\nclass = 'server'\nfigures = [\n\
        { is = 'slots', value = 5, kind = 'spec' },\n]\n";
    std::fs::write(folder.path().join("parts.toml"), text).unwrap();
    let done = drumfire.run(folder.path(), "catalogue check parts.toml", LIMIT);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stderr.contains("parts.toml:6: x: slots: a figure without a source"), "{done:?}");
    let json = drumfire.run(folder.path(), "catalogue list --json", LIMIT).ok();
    let parts: Value = serde_json::from_str(&json.stdout).unwrap();
    assert!(parts["parts"].as_object().unwrap().len() >= 60);
}

#[test]
fn a_drive_of_the_catalogue_is_a_profile_for_simulation_and_emulation() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |line: &str| drumfire.run(folder.path(), line, LIMIT);
    run("catalogue profile micron-9200 --out drive.toml").ok();
    let text = std::fs::read_to_string(folder.path().join("drive.toml")).unwrap();
    assert_eq!(run("catalogue profile micron-9200").ok().stdout, text);
    assert!(text.contains("# No source says what a flush takes"));
    let iops = |line: &str| {
        let done = run(line).ok();
        let found: Value = serde_json::from_str(&done.stdout).unwrap();
        found["uncorrected"]["iops"].as_f64().unwrap()
    };
    let planned = iops("plan drive.toml --outstanding 1 --json");
    // A drive that is named is the same as one of a flag.
    let answer = |line: &str| run(line).ok().json()["answer"].clone();
    let named = answer("plan micron-9200 --outstanding 1 --json");
    assert_eq!(named, answer("plan --drive micron-9200 --outstanding 1 --json"));
    assert!(named["p50"]["iops"].is_number(), "{named}");
    // 92 us of a lone read.
    assert!((planned * 92e-6 - 1.0).abs() < 0.02, "{planned}");
    let emulated = "run delay:micron-9200(ram:64m) --outstanding 1 --seconds 1 --out r";
    let stdout = run(emulated).ok().stdout;
    assert!(stdout.contains("emulates micron-9200"), "{stdout}");
    let missing = run("run delay:csd5310(ram:64m) --seconds 1");
    assert_eq!(missing.code, Some(2), "{missing:?}");
    assert!(missing.stderr.contains("the catalogue has no write_iops; "), "{missing:?}");
    assert_eq!(missing.stderr.trim_end().lines().count(), 1, "{missing:?}");
}

#[test]
fn plans_answer_the_same_each_time_and_refuse_what_cannot_be_built() {
    let bill = "plan --drive x25-m --drives 28 --adapter lsi-9210-8i --adapters 5 \
        --server sr2625urlx --software windows-lsi-iometer --draws 20 --json";
    let Some(first) = drumfire(bill) else { return };
    let document: Value = serde_json::from_str(&first.ok().stdout).unwrap();
    let iops = document["prediction"]["iops"].as_f64().unwrap();
    let alone = document["uncorrected"]["iops"].as_f64().unwrap();
    assert!((970e3..985e3).contains(&alone), "{alone}");
    assert_eq!(document["answer"]["p50"]["iops"], document["prediction"]["iops"]);
    assert!(iops < alone, "published arrays do less than their ratings: {iops} of {alone}");
    let again = drumfire(bill).unwrap().ok();
    assert_eq!(serde_json::from_str::<Value>(&again.stdout).unwrap(), document);
    let missed = drumfire(&format!("{bill} --goal 1.2M")).unwrap();
    assert_eq!(missed.code, Some(4));
    for (args, word) in [
        ("plan --drive x25-m --drives 28 --adapter lsi-9210-8i --adapters 3", "9"),
        ("plan --drive iodrive-duo --drives 6 --server sr2625urlx", "5 slots"),
        ("plan --drive any-sata-ssd", "read_iops of any-sata-ssd is not known"),
        ("plan --drive x25-m --adapter sr2625urlx", "is a server"),
        ("plan --drive x25-m --drives 0", "0 drives"),
        ("plan --drive x25-m --draws 8", "--draws: 10 to 10000"),
        ("plan --drive x25-m --read nan", "--read: 0 to 100"),
        ("plan --goal 1M --price-max nan", "--price-max: 'nan' is no amount"),
        ("plan --goal 4GB/s", "GB/s where IOPS belongs"),
        ("plan --goal 1M --html page.html", "--html: give a bill"),
        ("plan --drive x25-m --money 20K", "--money"),
    ] {
        let done = drumfire(args).unwrap();
        assert_eq!(done.code, Some(2), "{done:?}");
        assert!(done.stderr.contains(word), "`{word}` in {done:?}");
    }
}

#[test]
fn alternatives_stand_beside_each_other_for_the_same_money_and_the_same_iops() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let bill = |name: &str, group: &str| {
        let work = "size = '4k'\noutstanding = 32\n[[group]]\n";
        let text = format!("name = '{name} <b>'\n{work}{group}\n");
        std::fs::write(folder.path().join(format!("{name}.toml")), text).unwrap();
    };
    bill("sata", "adapter = 'lsi-9210-8i'\ndrive = 'x25-m'\ndrives = 4");
    bill("optane", "drive = 'p4800x-375'");
    bill("unknown", "drive = 'pm1743'");
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    let compare = "plan --compare sata.toml optane.toml unknown.toml --draws 20";
    let json = run(&format!("{compare} --money 4000 --json --html page.html")).ok();
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    let found = document["comparison"]["alternatives"].as_array().unwrap();
    let of = |name: &str| found.iter().find(|one| one["name"] == format!("{name} <b>")).unwrap();
    // Four drives and an adapter cost 1980, a P4800X 1520.
    assert_eq!(
        (of("sata")["systems"].as_f64(), of("optane")["systems"].as_f64()),
        (Some(2.0), Some(2.0))
    );
    assert!(of("unknown")["systems"].is_null() && of("unknown")["break_even"].is_number());
    assert_eq!(found[0]["name"], "optane <b>");
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("<svg role=\"img\"") && page.contains("sata &lt;b&gt;"), "{page}");
    assert!(!page.contains("<b>") && !page.contains("http:") && !page.contains("NaN"), "{page}");
    let text = run(&format!("{compare} --goal 1M")).ok().stdout;
    assert!(text.contains("sata <b> (9 systems)") && text.contains("(2 systems)"), "{text}");
    let details = run(&format!("{compare} --goal 1M --details")).ok().stdout;
    assert!(details.contains("for 9 systems") && details.contains("rests on"), "{details}");
    assert_eq!(run(&format!("{compare} --money 100")).code, Some(0), "no price, no verdict");
    assert_eq!(run("plan --compare sata.toml optane.toml --money 100").code, Some(4));
    for (args, word) in [
        ("plan --compare sata.toml", "2 values"),
        ("plan --compare sata.toml optane.toml --size 8k", "--size: sata.toml sets it"),
        ("plan --compare sata.toml optane.toml --money 5GB", "GB where USD belongs"),
        ("plan sata.toml --size 8k", "--size: sata.toml sets it"),
        ("plan sata.toml --money 5", "--money"),
    ] {
        let done = run(args);
        assert_eq!(done.code, Some(2), "{args}: {done:?}");
        assert!(done.stderr.contains(word), "`{word}` in {done:?}");
    }
}

/// Answers of all forms are one screen of 24 lines and 80 columns.
#[test]
fn an_answer_is_a_screen() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    let search = "plan --goal 1M --size 4k --read 70 --draws 10";
    let sizing = "plan --goal 5M --hosts 8 --replicas 2 --down-hosts 1 --capacity 200TB \
        --growth 20 --years 3 --server m50cyp --draws 10";
    for args in [
        "plan intel-ssd --draws 10",
        "plan thirdio-fc --draws 10 --goal 2M",
        "plan 980-pro-1000 --read 0 --flush 1 --draws 10",
        "plan --compare iodrive-duo sas-16 --money 20K --draws 10",
        "plan --compare pm9a3-960 p5800x-1600 980-pro-1000 870-evo cd6 x25-m --draws 10",
        search,
        sizing,
        "plan --goal 1G --draws 10",
    ] {
        let done = run(args);
        assert!(matches!(done.code, Some(0 | 4)), "{args}: {done:?}");
        let lines: Vec<&str> = done.stdout.lines().collect();
        assert!((4..=24).contains(&lines.len()), "{args}: {}", done.stdout);
        let wide = lines.iter().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{args}");
        for word in ["IOPS", "recalled", "price"] {
            let said = done.stdout.contains(word) || args.contains("1G");
            assert!(said, "{args}: no {word} in {}", done.stdout);
        }
    }
    let refused = run(&format!("{search} --why")).ok().stdout;
    assert!(refused.contains("drives hang on an adapter"), "{refused}");
    let sized = run(&format!("{sizing} --json")).ok().json();
    let limits: Vec<&str> =
        sized["found"].as_array().unwrap().iter().filter_map(|one| one["limit"].as_str()).collect();
    assert!(limits.contains(&"capacity"), "small drives need more for 200 TB: {limits:?}");
    // A name without an answer costs the others none.
    let several = run("plan --compare 980-pro cd6 nosuch --draws 10");
    assert_eq!(several.code, Some(6), "{several:?}");
    let choose = "choose a capacity, 980-pro-1000, 980-pro-2000";
    assert!(several.stderr.contains(choose), "{several:?}");
    assert!(several.stderr.contains("cannot read nosuch"), "{several:?}");
    assert!(several.stdout.starts_with("1 alternative, "), "{several:?}");
    let document = run("plan --compare 980-pro cd6 --draws 10 --json").json();
    assert_eq!(document["left_out"][0]["name"], "980-pro");
    assert_eq!(run("plan --compare 980-pro nosuch").code, Some(2));
    // A drive is the same next to others as alone.
    let alone = run("plan 980-pro-1000 --draws 10 --json").ok().json();
    let both = run("plan --compare 980-pro-1000 cd6 --draws 10 --json").ok().json();
    let all = both["comparison"]["alternatives"].as_array().unwrap();
    let one = all.iter().find(|one| one["name"] == "1 x 980-pro-1000").unwrap();
    assert_eq!(one["one"]["iops"], alone["prediction"]["iops"]);
    assert_eq!(one["one"]["range"], alone["prediction"]["range"]);
}

/// Figures without a document are left out, and the answer says so.
#[test]
fn sourced_answers_rest_on_documents_alone() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    let sourced = run("plan --drive x25-m --drives 4 --adapter lsi-9210-8i --draws 10 --sourced");
    let text = sourced.ok().stdout;
    assert!(text.contains(" 0 of them recalled") && text.contains("(--sourced)"), "{text}");
    // All of this drive's figures are recalled.
    let whole = run("plan 970-pro-512 --draws 10").ok().stdout;
    assert!(!whole.contains(" 0 of them recalled"), "{whole}");
    let refused = run("plan 970-pro-512 --draws 10 --sourced");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("recalled, and --sourced leaves it out"), "{refused:?}");
    // An assumption is no document.
    let assumed = run("plan 870-evo --read 0 --draws 10").ok().stdout;
    assert!(assumed.contains("write_iops of full flash unknown"), "{assumed}");
    assert_eq!(run("plan 870-evo --read 0 --draws 10 --sourced").code, Some(2));
    let search = "plan --goal 1M --draws 10 --json";
    let recalled = |document: &Value| -> u64 {
        let found = document["candidates"].as_array().unwrap().iter();
        found.map(|one| one["recalled"].as_u64().unwrap()).sum()
    };
    let (all, few) = (run(search).ok().json(), run(&format!("{search} --sourced")).ok().json());
    assert!(recalled(&all) > 0);
    assert_eq!(recalled(&few), 0, "{few}");
    let screen = run("plan --goal 1M --draws 10 --sourced").ok().stdout;
    assert!(screen.contains("drives cannot be judged by sourced figures"), "{screen}");
    let show = run("catalogue show 970-pro-512 --sourced").ok().stdout;
    assert!(show.contains("left out by --sourced: ") && !show.contains("guess"), "{show}");
    let counts = run("catalogue check --json").ok().json();
    let basis = &counts["basis"];
    let sum: u64 = ["published", "cited", "derived", "recalled"]
        .iter()
        .map(|word| basis[word].as_u64().unwrap())
        .sum();
    assert_eq!(Some(sum), counts["figures"].as_u64());
    assert_eq!(run("catalogue check --sourced --json").ok().json()["basis"]["recalled"], 0);
}

/// `catalogue prices` makes the file that `--prices` reads.
#[test]
fn prices_have_a_date_and_an_origin_everywhere() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    let template = run("catalogue prices --class drive").ok().stdout;
    let line = "# { name = \"pm1743\", price = , currency = \"USD\", date = \"\", source = \"\" },";
    assert!(template.contains(line), "{template}");
    let mine = template.replace(
        line,
        "{ name = \"pm1743\", price = 900, currency = \"EUR\", usd = 1.1, date = \"2026-11\", \
         source = \"our shop\" },",
    );
    folder.file("prices.toml", mine.as_bytes());
    folder
        .file("prices.csv", b"name,price,currency,date,source\npm1743,990,USD,2026-11,our shop\n");
    for file in ["prices.toml", "prices.csv"] {
        for args in [
            "plan --drive pm1743 --draws 10",
            "plan --drive pm1743 --draws 10 --details",
            "plan --compare pm1743 cd6 --draws 10",
            "plan --goal 1M --draws 10",
            "plan --goal 1M --hosts 2 --draws 10 --details",
            "catalogue show pm1743",
        ] {
            let text = run(&format!("{args} --prices {file}")).ok().stdout;
            for word in ["$990", "2026-11", "our shop"] {
                assert!(text.contains(word), "{args} {file}: no {word} in {text}");
            }
        }
        let line = run(&format!("plan pm1743 --draws 10 --json --prices {file}")).ok().json();
        let price = &line["cost"]["lines"][0]["price"];
        assert_eq!((&price["date"], &price["source"]), (&"2026-11".into(), &"our shop".into()));
    }
    folder.file("wrong.csv", b"name,price,currency,date,source\npm1734,9,USD,2026,shop\n");
    let refused = run("plan pm1743 --prices wrong.csv");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.stderr.contains("wrong.csv:2: no part is called 'pm1734', but pm17"),
        "{refused:?}"
    );
}

#[test]
fn the_error_table_passes() {
    let Some(done) = drumfire("plan verify --json") else { return };
    let document: Value = serde_json::from_str(&done.ok().stdout).unwrap();
    assert_eq!(document["passed"], true);
    let rows = document["report"]["rows"].as_array().unwrap();
    let held_out = rows.iter().filter(|row| row["tag"] == "PRED").count();
    assert_eq!(held_out, 31);
}

/// Numbers from the request, and counts of items; they are no predictions.
const GIVEN: [&str; 12] = [
    "work", "spec", "draws", "seed", "goal", "count", "drives", "cards", "systems", "number",
    "equal", "bill",
];
/// Words for the origin of a number.
const KINDS: [&str; 9] =
    ["spec", "measured", "derived", "fit", "guess", "FIT", "PRED", "ALT", "ARITH"];
/// Parts of a document whose numbers state their origin themselves, not by their context.
const OWN: [&str; 13] = [
    "inputs",
    "uses",
    "lines",
    "waterfall",
    "next",
    "price",
    "power",
    "height",
    "parameters",
    "points",
    "rows",
    "figures",
    "findings",
];

/// Numbers in `value` without a stated origin: by `kind` or `tag` in their object or a parent, or
/// in their list.
fn without_origin(value: &Value, at: &str, known: bool, missing: &mut Vec<String>) {
    let is_kind = |value: &Value| value.as_str().is_some_and(|word| KINDS.contains(&word));
    match value {
        Value::Number(_) if !known => missing.push(at.to_owned()),
        Value::Array(all) => {
            let known = known || all.iter().any(is_kind);
            all.iter().for_each(|each| without_origin(each, at, known, missing));
        }
        Value::Object(fields) => {
            let known =
                known || ["kind", "tag"].iter().any(|key| fields.get(*key).is_some_and(is_kind));
            for (key, value) in fields {
                if !GIVEN.contains(&key.as_str()) {
                    let inner = known && (value.is_number() || !OWN.contains(&key.as_str()));
                    let own = fields.get(&format!("{key}_kind")).is_some_and(is_kind);
                    without_origin(value, &format!("{at}.{key}"), inner || own, missing);
                }
            }
        }
        _ => {}
    }
}

#[test]
fn every_number_says_where_it_is_from() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let bill = |name: &str, group: &str| {
        let work = "size = '4k'\noutstanding = 32\nread = 100\n[[group]]\n";
        let text = format!("name = '{name}'\n{work}{group}\n");
        std::fs::write(folder.path().join(format!("{name}.toml")), text).unwrap();
    };
    bill("optane", "drive = 'p4800x-375'\n[[extra]]\nwhat = 'a box'\nprice = 5");
    bill("unknown", "drive = 'pm1743'");
    let server = "--server sr2625urlx --software windows-lsi-iometer";
    for (args, least) in [
        (format!("plan --drive x25-m --drives 28 --adapter lsi-9210-8i --adapters 5 {server}"), 60),
        ("plan optane.toml".to_owned(), 40),
        (format!("plan --goal 1M --adapter lsi-9210-8i {server}"), 20),
        ("plan --goal 5M --hosts 9 --replicas 2 --down-hosts 1 --server m50cyp".to_owned(), 60),
        ("plan --compare optane.toml unknown.toml".to_owned(), 60),
        ("plan --compare optane.toml unknown.toml --money 20K".to_owned(), 60),
        ("plan verify".to_owned(), 300),
        (MILLION.to_owned(), 0),
        ("audit founding".to_owned(), 0),
        ("catalogue list".to_owned(), 1000),
        ("catalogue show x25-m".to_owned(), 20),
        ("simulate optane.toml --seconds 0.2 --ramp 0.1 --out bill".to_owned(), 60),
        ("simulate x25-m --seconds 0.2 --ramp 0.1 --out profile".to_owned(), 60),
    ] {
        let Finished { stdout, .. } = drumfire.run(folder.path(), &format!("{args} --json"), LIMIT);
        let document: Value = serde_json::from_str(&stdout).unwrap();
        let mut missing = Vec::new();
        without_origin(&document, "", false, &mut missing);
        assert_eq!(missing, Vec::<String>::new(), "{args}");
        // Tests the test: without the words for kinds all numbers lack an origin.
        let blind = stdout.replace("\"kind\"", "\"x\"").replace("\"tag\"", "\"x\"");
        let mut numbers = Vec::new();
        without_origin(&serde_json::from_str(&blind).unwrap(), "", false, &mut numbers);
        assert!(numbers.len() >= least, "{args}: {} numbers", numbers.len());
    }
    // Each finding of an audit states the origin for the figures in its line.
    let audit = drumfire.run(folder.path(), &format!("{MILLION} --json"), LIMIT);
    let audit: Value = serde_json::from_str(&audit.stdout).unwrap();
    let findings = audit["findings"].as_array().unwrap();
    let said = |finding: &Value| finding["kind"].as_str().is_some_and(|kind| KINDS.contains(&kind));
    assert!(findings.len() >= 7 && findings.iter().all(said), "{findings:?}");
    // Built-in bills have names.
    let plan = "plan --compare iodrive-duo sas-16 --money 20K --json";
    let found = drumfire.run(folder.path(), plan, LIMIT).ok().json();
    let systems = |at: usize| found["comparison"]["alternatives"][at]["systems"].as_f64();
    // $20,000 buy one card, or three times 16 x $300 + $1000.
    assert_eq!((systems(0), systems(1)), (Some(1.0), Some(3.0)), "{found}");
    let missing = drumfire.run(folder.path(), "plan nothing", LIMIT);
    assert!(missing.stderr.contains("intel-ssd"), "{}", missing.stderr);
    // Texts state the origin, too: the heading, the result, a sweep and a comparison.
    let simulate = "simulate optane.toml --seconds 0.2 --ramp 0.1 --out text";
    let done = drumfire.run(folder.path(), simulate, LIMIT).ok();
    assert!(done.stdout.contains("IOPS simulated (figures: measured)"), "{}", done.stdout);
    assert!(done.stdout.contains("rests on 3 figures, 0 of them recalled"), "{}", done.stdout);
    assert!(done.stderr.contains("simulated (figures: measured)"), "{}", done.stderr);
    let done = drumfire.run(folder.path(), "compare bill profile", LIMIT).ok();
    let both = ["simulated (figures: measured)", "simulated (figures: guess)"];
    assert!(both.iter().all(|word| done.stdout.contains(word)), "{}", done.stdout);
    let sweep = "sweep simulate x25-m --axis outstanding=1,2 --seconds 0.1 --ramp 0 --out sweep";
    let done = drumfire.run(folder.path(), sweep, LIMIT).ok();
    assert!(done.stdout.contains("simulated (figures: guess)"), "{}", done.stdout);
}

#[test]
fn names_do_not_steer_the_terminal() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    let evil = r"a\u001b[2Jb";
    write(
        "bill.toml",
        format!(
            "name = \"{evil}\"\nsize = '4k'\noutstanding = 1\n[[group]]\ndrive = 'x25-m'\n\
             [[extra]]\nwhat = \"{evil}\"\nprice = 1\n"
        ),
    );
    write(
        "parts.toml",
        format!(
            "[source.s]\ntitle = \"{evil}\"\n[[part]]\nid = 'p'\nname = \"{evil}\"\n\
             class = 'drive'\ninterface = 'pcie'\nnote = \"{evil}\"\nfigures = [{{ is = \
             'read_iops', value = 1000, unit = 'IOPS', kind = 'spec', source = 's' }}]\n"
        ),
    );
    write(
        "claims.toml",
        format!("title = \"{evil}\"\n[[claim]]\nsays = \"{evil}\"\niops = '1M'\n"),
    );
    write("broken.toml", format!("name = 'x'\n\"{evil}\" = 1\n"));
    for args in [
        "plan bill.toml --draws 10",
        "simulate bill.toml --seconds 0.1 --ramp 0 --out kept",
        "catalogue show p --parts parts.toml",
        "catalogue list --parts parts.toml",
        "audit claims.toml",
        "plan broken.toml",
        "audit broken.toml",
        "catalogue check broken.toml",
    ] {
        let done = drumfire.run(folder.path(), args, LIMIT);
        let told = format!("{}{}", done.stdout, done.stderr);
        assert!(told.contains("a·[2Jb"), "{args}: {told}");
        assert!(!told.contains('\u{1b}'), "{args}: {told:?}");
    }
}

#[test]
fn hosts_are_sized_with_one_of_them_down() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    let prices = "source = 'a quote'\ndate = '2026-11-20'\n[price]\npm1743 = 1000\n";
    std::fs::write(folder.path().join("prices.toml"), prices).unwrap();
    let sizing = "plan --goal 30M --hosts 9 --replicas 2 --down-hosts 1 --server m50cyp \
        --outstanding 128 --prices prices.toml --details";
    let text = run(sizing).ok().stdout;
    let line = text.lines().find(|line| line.contains(" pm1743 ")).unwrap();
    // Four lanes of generation 4 carry 1.44 million of each; one host must remain.
    assert!(line.contains("2 hosts x  21 x") && line.contains("of 2026-11-20"), "{line}");
    assert!(line.contains("$42000 (spec"), "{line}");
    assert!(text.contains("drives were not sold in 2026"), "{text}");
    let old = run(&format!("{sizing} --year 2010")).stdout;
    assert!(old.contains("x25-m") && !old.contains(" pm1743 "), "{old}");
    for (more, why) in [
        ("--down-hosts 3", "hosts down lose data: of 2 copies 1 may fail"),
        ("--year soon", "--year: 'soon'"),
        ("--price pm1743", "a part and dollars"),
        ("--price nosuch=1", "no part is called"),
        ("--capacity 5GB/s", "gb/s where b belongs"),
        ("--growth 2000 --years 1", "--growth"),
        ("--link pm1743 --ports 1", "is a drive"),
    ] {
        let sizing = sizing.replace("--down-hosts 1", "");
        let done = run(&format!("{sizing} {more}"));
        let said = format!("{}{}", done.stdout, done.stderr).to_lowercase();
        assert!(said.contains(&why.to_lowercase()) && done.code != Some(0), "{more}: {said}");
    }
}

#[test]
fn a_goal_that_no_system_reaches_says_what_would_do() {
    let few = "plan --goal 1M --replicas 3 --hosts 2 --draws 10";
    let Some(refused) = drumfire(few) else { return };
    let text = refused.stdout.replace('\n', " ");
    assert!(text.contains("no system reaches it; "), "{text}");
    assert!(text.contains("3 copies live on as many hosts: 3 hosts would do"), "{text}");
    let down = drumfire("plan --goal 1M --replicas 2 --hosts 2 --down-hosts 2 --draws 10").unwrap();
    assert!(down.stdout.replace('\n', " ").contains("--replicas 3"), "{}", down.stdout);
}

#[test]
fn drives_are_found_by_the_names_that_they_report() {
    for (name, id) in
        [("INTEL SSDPE2KX010T8", "p4510-1000"), ("Samsung SSD 980 PRO 1TB", "980-pro-1000")]
    {
        let Some(drive) = Drumfire::find() else { return };
        let args = ["plan", "--drive", name, "--json"];
        let out = std::process::Command::new(drive.path()).args(args).output().unwrap();
        assert!(String::from_utf8_lossy(&out.stdout).contains(id), "{name}: {out:?}");
    }
}

/// A log that flushes each write, concurrent with reads: `simulate` flushes according to the bill.
#[test]
fn a_bills_flushes_are_simulated_as_they_are_planned() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let log = "name = 'log'\nsize = '4k'\nstate = 'fresh'\noutstanding = 16\n[[group]]\n\
        drive = '980-pro-1000'\n[[stream]]\nsize = '4k'\nread = 0\noutstanding = 1\n\
        sequential = true\nfsync = 1\n";
    folder.file("log.toml", log.as_bytes());
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT).ok().json();
    let planned = run("plan log.toml --json")["mixed"]["flows"][1]["iops"].as_f64().unwrap();
    let simulated = run("simulate log.toml --seconds 5 --json");
    let writes = simulated["totals"]["write"]["iops"].as_f64().unwrap();
    assert!((0.9..1.1).contains(&(writes / planned)), "{writes} for {planned}");
    assert!(planned < 1000.0, "a flush takes two milliseconds: {planned}");
    // Flags with the same settings.
    let flags = run("plan --drive optane-900p-480 --read 0 --in-flight 1 --fsync 1 --json");
    assert_eq!((&flags["work"]["flush"], &flags["in_flight"]), (&1.into(), &1.into()), "{flags}");
}
