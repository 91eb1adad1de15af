use super::*;

#[test]
fn every_row_has_an_answer_and_a_source() {
    let evidence = Evidence::shipped();
    let all = samples(&evidence, &Catalogue::shipped()).unwrap_or_else(|error| panic!("{error}"));
    assert!(all.iter().all(|sample| sample.residual.is_finite()));
    for (key, source) in &evidence.sources {
        let rows = evidence.rows.iter().filter(|row| row.source == *key && !row.recalled).count();
        assert!(rows <= 5, "{key} has {rows} rows");
        assert!(!source.publisher.is_empty() && source.url.contains('.'), "{key}");
    }
}

#[test]
fn each_row_is_asked_from_the_others() {
    let asked = table(&Evidence::shipped(), &Catalogue::shipped()).unwrap();
    assert!(asked.all.met, "{:?}", asked.all);
    assert!(asked.single.met, "{:?}", asked.single);
    for Total { class, rows, median, covered, width, covered_without_publisher, .. } in
        asked.classes.iter().chain([&asked.single, &asked.all])
    {
        println!(
            "{class:?}: {rows} rows, {median:.3} off, {covered:.3} held, {covered_without_publisher:.3} \
             without the publisher, {width:.1} wide"
        );
    }
    let missed: Vec<_> = asked.classes.iter().filter(|class| !class.met).collect();
    assert!(missed.is_empty(), "{missed:?}");
    // What is recalled never counts.
    assert_eq!(asked.rows.len() + asked.recalled, Evidence::shipped().rows.len());
    // A publisher that was left out taught nothing: one outlier changes the others, not itself.
    let mut all = samples(&Evidence::shipped(), &Catalogue::shipped()).unwrap();
    let before = learn(&all, all[1].alike, |other| other.source != all[1].source);
    all[1].residual = 9.0;
    let after = learn(&all, all[1].alike, |other| other.source != all[1].source);
    assert_eq!(before, after);
}

/// Whether there is one left, which is taken.
fn counts_down(left: &mut usize) -> bool {
    let had = *left > 0;
    *left = left.saturating_sub(1);
    had
}

fn sure_of(class: Class) -> Alike {
    Alike { class, guessed: false }
}

#[test]
fn a_class_without_rows_learns_nothing_and_a_small_one_says_so() {
    let all = samples(&Evidence::shipped(), &Catalogue::shipped()).unwrap();
    let few: Vec<Sample> = all
        .iter()
        .filter(|s| s.alike.class != Class::WireBound && s.alike.class != Class::Cluster)
        .cloned()
        .collect();
    assert_eq!(learn(&few, sure_of(Class::WireBound), |_| true), None);
    assert_eq!(learn(&few, sure_of(Class::Cluster), |_| true), None);
    let mut left = 2;
    let some: Vec<Sample> = all
        .iter()
        .filter(|s| s.alike.class != Class::WireBound || counts_down(&mut left))
        .cloned()
        .collect();
    let wire = learn(&some, sure_of(Class::WireBound), |_| true).unwrap();
    assert!(wire.pooled && wire.rows == 2, "{wire:?}");
    // The middle is inside its ends, in every class.
    for class in Class::ALL {
        let Some(learned) = learn(&all, sure_of(class), |_| true) else { continue };
        let (low, middle, high) = interval(&learned);
        assert!(low <= middle && middle <= high, "{class:?}");
    }
}

#[test]
fn drives_beside_ports_are_behind_them() {
    let text = "name = 'x'\nsize = '4k'\noutstanding = 128\n\
        [[group]]\ndrive = 'pm1743'\ncount = 24\n\
        [[group]]\nadapter = 'e810-cqda2'\nports = 1\nlink = 'ethernet-100'\n\
        protocol = 'nvme-tcp'\n";
    let bill = Bill::read("b.toml", text, &Catalogue::shipped()).unwrap();
    let found = predict(&bill, &Tweak::default()).unwrap();
    assert!((2.8e6..2.9e6).contains(&found.iops), "{}", found.iops);
    assert_eq!(Class::of(&bill, &found), Class::WireBound);
}

#[test]
fn parity_copies_hosts_and_caches_cost_what_they_take() {
    let iops = |more: &str, group: &str| {
        let text = format!(
            "name = 'x'\nsize = '4k'\nread = 0\noutstanding = 256\n{more}[[group]]\n\
             drive = 'micron-9550-max-6400'\ncount = 8\n{group}"
        );
        let bill = Bill::read("b.toml", &text, &Catalogue::shipped()).unwrap();
        predict(&bill, &Tweak::default()).unwrap().iops
    };
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.01, "{a} for {b}");
    let plain = iops("", "");
    near(iops("", "raid = '10'\n"), plain / 2.0);
    // Two reads at 3.3M and two writes at 640K.
    near(iops("", "raid = '5'\n"), 8.0 / (2.0 / 3.3e6 + 2.0 / 640e3));
    near(iops("hosts = 4\nreplicas = 3\n", ""), plain * 4.0 / 3.0);
    near(iops("cache_hit = 50\ncache_latency_us = 1\n", ""), plain * 2.0);
    assert!(iops("state = 'fresh'\n", "") > plain * 2.0);
}

fn answer(text: &str) -> (Bill, crate::predict::Prediction) {
    let bill = Bill::read("b.toml", text, &Catalogue::shipped()).unwrap();
    let found = predict(&bill, &Tweak::default()).unwrap();
    (bill, found)
}

#[test]
fn disks_choose_what_is_near() {
    let iops = |more: &str, group: &str| {
        let text = format!(
            "name = 'x'\nsize = '4k'\n{more}[[group]]\nadapter = 'any-adapter'\n\
             drive = 'hdd-7k2'\ndrives = 4\n{group}"
        );
        answer(&text).1.iops
    };
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.03, "{a} for {b}");
    let alone = iops("outstanding = 1\n", "");
    near(iops("outstanding = 16\n", ""), 4.0 * 87.5 * 2.0);
    assert!(alone < 4.0 * 87.5 * 1.03, "{alone}");
    let cached = iops("outstanding = 1\nread = 0\n", "write_cache = true\n");
    assert!((2.0..4.0).contains(&(cached / alone)), "{cached} for {alone}");
}

#[test]
fn a_long_read_flows_through_drive_and_slot_at_once() {
    let text = "name = 'x'\nsize = '1m'\noutstanding = 1\n[[group]]\ndrive = 'any-nvme'\n\
        [source.me]\ntitle = 'me'\n[[figure]]\npart = 'any-nvme'\nis = 'read_bandwidth'\n\
        value = 5000\nunit = 'MB/s'\nkind = 'guess'\nsource = 'me'\n[[figure]]\n\
        part = 'any-nvme'\nis = 'generation'\nvalue = 2\nkind = 'guess'\nsource = 'me'\n\
        [[figure]]\npart = 'any-nvme'\nis = 'lanes'\nvalue = 1\nkind = 'guess'\nsource = 'me'\n";
    let (_, found) = answer(text);
    assert!((380e6..460e6).contains(&found.bytes_per_s), "{}", found.bytes_per_s);
    let levels: Vec<_> = found.uses.iter().map(|used| used.level).collect();
    assert!(levels.contains(&Level::Drive) && levels[0] == Level::Slot, "{levels:?}");
}

#[test]
fn a_kernel_target_takes_what_it_takes() {
    let text = |target: &str| {
        format!(
            "name = 'x'\nsize = '4k'\noutstanding = 128\n{target}[[group]]\n\
             drive = 'pm1743'\ncount = 4\n[[group]]\nports = 1\nlink = 'ethernet-100'\n\
             protocol = 'nvme-tcp'\n"
        )
    };
    let (bill, bare) = answer(&text(""));
    assert_eq!(Class::of(&bill, &bare), Class::WireBound);
    assert!(bare.remarks.iter().any(|remark| remark.contains("no target software")));
    let (_, served) = answer(&text("target_software = 'nvmet'\ntarget_cores = 16\n"));
    assert!((1.25e6..1.32e6).contains(&served.iops), "{}", served.iops);
    let wrong = text("target_software = 'nvmet'\n");
    let error = Bill::read("b.toml", &wrong, &Catalogue::shipped()).unwrap_err().to_string();
    assert!(error.contains("target_server or target_cores"), "{error}");
}

#[test]
fn what_arrives_waits_as_theory_says() {
    let text = "name = 'x'\nsize = '4k'\noutstanding = 32\n[[group]]\ndrive = 'x25-m'\n";
    let bill = Bill::read("b.toml", text, &Catalogue::shipped()).unwrap();
    let (slow, fast) = (
        crate::predict::arriving(&bill, 1.0).unwrap(),
        crate::predict::arriving(&bill, 17_500.0).unwrap(),
    );
    // 65 us when idle; half busy, its queue adds as much again as its service of 1/35,000 s.
    assert!((slow.response_s / 65e-6 - 1.0).abs() < 0.01, "{slow:?}");
    assert!((fast.response_s - slow.response_s - 1.0 / 35e3).abs() < 1e-6, "{fast:?}");
    assert!((fast.uses[0].utilisation - 0.5).abs() < 0.01);
    assert!(crate::predict::arriving(&bill, 36_000.0).unwrap_err().is_overload());
}

#[test]
fn strangers_are_held_by_what_other_publishers_taught() {
    let all = samples(&Evidence::shipped(), &Catalogue::shipped()).unwrap();
    let held = |sample: &&Sample| {
        let off = sample.asked_blind.unwrap_or_default();
        let learned = learn(&all, sample.alike, |other| other.publisher != sample.publisher);
        learned.is_some_and(|l| (off - l.center).abs() <= l.half)
    };
    let blind: Vec<&Sample> = all.iter().filter(|sample| sample.asked_blind.is_some()).collect();
    let share = blind.iter().copied().filter(held).count() as f64 / blind.len() as f64;
    assert!(blind.len() >= 86 && (0.65..=0.95).contains(&share), "{share} of {}", blind.len());
}

#[test]
fn a_publisher_weighs_as_much_with_one_row_as_with_five() {
    let made = |row: usize, publisher: &str, residual: f64, asked_blind: Option<f64>| Sample {
        row,
        alike: sure_of(Class::DriveAtLimit),
        source: publisher.to_owned(),
        publisher: publisher.to_owned(),
        published: 1.0,
        model: 1.0,
        residual,
        asked_blind,
    };
    let halves = |repeats: usize| {
        let mut all: Vec<Sample> =
            (0..9).map(|n| made(n, &format!("p{n}"), [0.1, -0.1][n % 2], None)).collect();
        all.extend((0..repeats).map(|n| made(9 + n, "far off", 0.5, None)));
        all.push(made(90, "blind", 0.0, Some(0.2)));
        learn(&all, sure_of(Class::DriveAtLimit), |_| true).unwrap().half
    };
    // Ten publishers at hand, a quarter each, one that was asked blind, and one to come: 0.8 of 4.5
    // is beyond all of them, however often the farthest says it.
    let (one, five) = (halves(1), halves(5));
    assert!((one - five).abs() < 1e-9 && (one - 0.5).abs() < 1e-9, "{one}, {five}");
    let alone = [made(0, "a", 0.1, None), made(1, "b", 0.3, None)];
    let half = learn(&alone, sure_of(Class::DriveAtLimit), |_| true).unwrap().half;
    assert!((half - 0.3).abs() < 1e-9, "the rank of so few is the last: {half}");
}

#[test]
fn a_kind_of_few_publishers_is_as_wide_as_its_own_errors_in_their_scale() {
    let made = |row: usize, class: Class, residual: f64| Sample {
        row,
        alike: sure_of(class),
        source: format!("s{row}"),
        publisher: format!("p{row}"),
        published: 1.0,
        model: 1.0,
        residual,
        asked_blind: Some(residual),
    };
    // Forty of one server, evenly off by up to 0.4, and five clusters off ten times as far.
    let mut all: Vec<Sample> =
        (1..=40).map(|n| made(n, Class::Array, 0.01 * n as f64 * [1.0, -1.0][n % 2])).collect();
    all.extend((1..=5).map(|n| made(40 + n, Class::Cluster, 0.8 * n as f64 * [1.0, -1.0][n % 2])));
    let half = |class| learn(&all, sure_of(class), |_| true).unwrap().half;
    let (array, cluster) = (half(Class::Array), half(Class::Cluster));
    assert!((0.32..0.36).contains(&array), "{array}");
    // Its own mean is 2.4; the ranks are those of all 45, not the last of five, which is 4.
    assert!((cluster / array / (2.4 / 0.205) - 1.0).abs() < 1e-6, "{cluster} for {array}");
    assert!(cluster < 4.0);
}
