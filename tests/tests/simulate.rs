//! Simulated drives, and profiles fitted to them, from the command line.

use std::time::Duration;

use drumfire_tests::{Drumfire, Folder};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
const KNOWN: &str = "name = 'known'\n[calibration]\nsource = 'a test'\nfitted = 1\nheld_out = 1\n\
    fit_error_percent = 0\nheld_out_error_percent = 0\nscatter = true\n\
    [[stage]]\nname = 'medium'\nservers = 8\n\
    read = { each_s = 80e-6 }\nwrite = { each_s = 40e-6 }\n\
    [[stage]]\nname = 'controller'\nservers = 1\n\
    read = { each_s = 8e-6 }\nwrite = { each_s = 12e-6 }\n\
    [[stage]]\nname = 'link'\nservers = 1\n\
    read = { per_byte_s = 1e-9 }\nwrite = { per_byte_s = 1e-9 }\n";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_sweep_is_simulated_fitted_and_predicted() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    std::fs::write(folder.path().join("known.toml"), KNOWN).unwrap();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    let mut runs = String::new();
    for size in ["4k", "64k"] {
        for read in [100, 0] {
            for outstanding in [1, 4, 16, 64] {
                let out = format!("{size}-{read}-{outstanding}");
                let args = format!(
                    "simulate known.toml --size {size} --read {read} --outstanding {outstanding} \
                     --seconds 0.5 --ramp 0.1 --json --out {out}"
                );
                let result = json(&run(&args).ok().stdout);
                assert_eq!(result["origin"], "simulated", "{out}");
                assert!(result["totals"]["latency_ns"]["p90"].is_u64(), "{out}");
                runs += &format!(" {out}");
            }
        }
    }
    // A seed gives the same numbers again, except for the command, which names another folder, and
    // the digest.
    let again = |out: &str| {
        let args =
            format!("simulate known.toml --read 70 --rate 20k --seconds 0.2 --json --out {out}");
        let mut result = json(&run(&args).ok().stdout);
        result["spec"]["command"] = Value::Null;
        result["digest"] = Value::Null;
        result
    };
    assert_eq!(again("a"), again("b"));
    assert!(run("report 4k-100-16").ok().stdout.contains("simulated"));
    let fitted = json(&run(&format!("calibrate{runs} --out fitted.toml --json")).ok().stdout);
    let error = &fitted["profile"]["calibration"]["held_out_error_percent"];
    assert!(error.as_f64().unwrap() < 2.0, "{fitted}");
    // The folder of a sweep provides its runs.
    let sweep = "sweep simulate known.toml --axis size=4k,64k --axis read=100,0 \
        --axis outstanding=1,4,16,64 --seconds 0.5 --ramp 0.1 --repeats 1 --out swept";
    run(sweep).ok();
    let swept = json(&run("calibrate swept --out swept.toml --json").ok().stdout);
    assert_eq!(swept["points"].as_array().unwrap().len(), 16);
    let error = &swept["profile"]["calibration"]["held_out_error_percent"];
    assert!(error.as_f64().unwrap() < 2.0, "{swept}");
    let of = |profile: &str| {
        let done = run(&format!("plan {profile} --size 16k --outstanding 32 --json"));
        json(&done.ok().stdout)["uncorrected"]["iops"].as_f64().unwrap()
    };
    let (known, found) = (of("known.toml"), of("fitted.toml"));
    assert!((found / known - 1.0).abs() < 0.03, "{found} for {known}");
    let done =
        run("run delay:fitted.toml(ram:64m) --size 4k --outstanding 4 --seconds 1 --ramp 0 --json");
    let emulated = json(&done.ok().stdout);
    assert_eq!(emulated["origin"], "emulated");
    // Four at a time of 88 µs and more: no drive is faster than its model.
    assert!(emulated["totals"]["iops"].as_f64().unwrap() < 4.0 / 85e-6, "{emulated}");
}

#[test]
fn what_is_not_calibrated_says_so_and_what_is_wrong_is_refused() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    folder.file("known.toml", KNOWN.as_bytes());
    let done = run("simulate x25-m --size 4k --seconds 0.5 --ramp 0.1").ok();
    assert!(done.stdout.contains("uncorrected: the network of the parts alone"), "{done:?}");
    assert!(done.stdout.contains("not calibrated"), "{}", done.stdout);
    for (args, says) in [
        ("simulate nothing.toml", "nothing.toml"),
        ("simulate x25-m --drives 0", "1 to 2048"),
        ("run delay:nothing(ram:1m)", "profile nothing"),
        ("calibrate . --out x.toml", "no result.json"),
        ("plan known.toml --html x.html", "--html: not used by a profile"),
    ] {
        let done = run(args);
        assert!(matches!(done.code, Some(1 | 2)), "{args}: {done:?}");
        assert!(done.stderr.contains(says), "{args}: {done:?}");
    }
}

/// A file truncated by a full disk is removed; an earlier one stays.
#[test]
fn a_full_disk_leaves_no_half_of_a_profile_or_a_page() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    std::fs::write(folder.path().join("known.toml"), KNOWN).unwrap();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = |words: &[&str]| {
        let done = std::process::Command::new(words[0]).args(&words[1..]).arg(&disk).output();
        done.is_ok_and(|done| done.status.success())
    };
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    run("sweep simulate known.toml --axis size=4k,64k --axis read=100,0 --axis \
        outstanding=1,4,16,64 --seconds 0.5 --ramp 0.1 --repeats 1 --out swept")
    .ok();
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs"]) {
        return drumfire_tests::skip("no tmpfs may be mounted");
    }
    // Room for a name, and for no page.
    std::fs::write(disk.join("drive.toml"), b"before").unwrap();
    std::fs::write(disk.join("rest"), [7; 4096]).unwrap();
    let profile = run("calibrate swept --out disk/drive.toml");
    let kept = std::fs::read(disk.join("drive.toml"));
    let page = run("plan intel-ssd --html disk/page.html");
    let left: Vec<_> = std::fs::read_dir(&disk).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(mount(&["umount"]));
    for done in [&profile, &page] {
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.stderr.contains("No space left on device"), "{done:?}");
    }
    assert_eq!(kept.unwrap(), b"before");
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_fit_that_is_not_usable_is_refused_by_all() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let slow = KNOWN.replace("80e-6", "900e-6").replace("8e-6", "150e-6");
    std::fs::write(folder.path().join("known.toml"), KNOWN).unwrap();
    std::fs::write(folder.path().join("slow.toml"), slow).unwrap();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    // Runs of two drives alternately, which no single drive explains.
    let mut runs = String::new();
    for (at, outstanding) in [1, 2, 4, 8, 16, 32, 64, 128].iter().enumerate() {
        let (of, out) = (["known", "slow"][at % 2], format!("run-{outstanding}"));
        run(&format!(
            "simulate {of}.toml --outstanding {outstanding} --seconds 0.3 --ramp 0.1 --out {out}"
        ))
        .ok();
        runs += &format!(" {out}");
    }
    let fitted = run(&format!("calibrate{runs} --out off.toml"));
    assert_eq!(fitted.code, Some(4), "{fitted:?}");
    assert!(folder.path().join("off.toml").exists(), "it is written all the same");
    for (refused, taken) in [
        ("plan off.toml", "plan off.toml --anyway"),
        ("simulate off.toml --seconds 0.1", "simulate off.toml --seconds 0.1 --anyway"),
        (
            "run delay:off.toml(ram:64m) --seconds 0.2 --ramp 0",
            "run delay:off.toml,anyway(ram:64m) --seconds 0.2 --ramp 0",
        ),
    ] {
        let done = run(refused);
        assert_eq!(done.code, Some(2), "{refused}: {done:?}");
        assert!(done.stderr.contains("not usable"), "{refused}: {done:?}");
        let done = run(taken);
        assert!(done.code != Some(2) && !done.stderr.contains("not usable"), "{taken}: {done:?}");
    }
}

#[test]
fn one_core_and_all_simulate_a_fabric_to_the_same_bits() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    // Eighty appliances of twelve disks each with its own adapter and cores, ten clients a disk.
    let fabric = "name = 'fabric'\nhosts = 80\nsize = '4k'\noutstanding = 1\n\
        server = 'sr2625urlx'\nsoftware = 'windows-lsi-iometer'\n[[group]]\n\
        adapter = 'any-adapter'\ndrive = 'hdd-15k'\ndrives = 12\n";
    std::fs::write(folder.path().join("fabric.toml"), fabric).unwrap();
    let args = |out: &str| {
        format!("simulate fabric.toml --workers 10 --seconds 2 --ramp 0.5 --json --out {out}")
    };
    let told = |text: &str| {
        let mut result = json(text);
        // The command names another folder, and the digest is that of all.
        result["spec"]["command"] = Value::Null;
        result["digest"] = Value::Null;
        result
    };
    let all = told(&drumfire.run(folder.path(), &args("all"), LIMIT).ok().stdout);
    let one = told(&drumfire.run_on("0", folder.path(), &args("one"), LIMIT).ok().stdout);
    assert_eq!(one["workers"].as_array().unwrap().len(), 9600);
    assert!(one["totals"]["iops"].as_f64().unwrap() > 100_000.0, "{}", one["totals"]["iops"]);
    assert_eq!(one, all);
}
