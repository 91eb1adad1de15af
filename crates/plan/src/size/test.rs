use super::*;

/// Returns a catalogue with a drive of a million reads and a tenth of writes, 4 TB, 100 us, for
/// 1000 dollars and 20 watts.
fn catalogue() -> Catalogue {
    let mut catalogue = Catalogue::default();
    catalogue.add("sources", include_str!("../../../catalogue/data/sources.toml")).unwrap();
    catalogue.add("links", include_str!("../../../catalogue/data/links.toml")).unwrap();
    let figures = |iops: u32| {
        format!(
            "figures = [\
             {{ is = 'read_iops', value = {iops}, unit = 'IOPS', kind = 'spec', source = 'me' }},\
             {{ is = 'write_iops', value = {}, unit = 'IOPS', kind = 'spec', source = 'me' }},\
             {{ is = 'read_latency', value = 100, unit = 'us', kind = 'spec', source = 'me' }},\
             {{ is = 'write_latency', value = 20, unit = 'us', kind = 'spec', source = 'me' }},\
             {{ is = 'capacity', value = 4, unit = 'TB', kind = 'spec', source = 'me' }},\
             {{ is = 'price', value = 1000, unit = 'USD', kind = 'spec', source = 'me' }},\
             {{ is = 'power_active', value = 20, unit = 'W', kind = 'spec', source = 'me' }}]\n",
            iops / 10
        )
    };
    let part = |id: &str, sold: &str, iops: u32| {
        format!(
            "[[part]]\nid = '{id}'\nname = '{id}'\nclass = 'drive'\ninterface = 'pcie'\n{sold}{}",
            figures(iops)
        )
    };
    let own = format!(
        "[source.me]\ntitle = 'made'\ndate = '2026'\n{}{}{}\
         [[part]]\nid = 'box'\nname = 'box'\nclass = 'server'\nfigures = [\
         {{ is = 'lanes', value = 96, kind = 'spec', source = 'me' }},\
         {{ is = 'height', value = 2, unit = 'U', kind = 'spec', source = 'me' }}]\n",
        part("new", "sold = '2025-'\n", 1_000_000),
        part("old", "sold = '2009-2011'\n", 100_000),
        part("mine", "", 500_000),
    );
    catalogue.add("own", &own).unwrap();
    catalogue
}

/// Answer for several drives of one host that do `iops` by their figures alone. Clusters have no
/// correction.
fn array(iops: f64) -> f64 {
    iops * crate::evidence::Class::Array.middle()
}

fn need(iops: f64, read: f64) -> Need {
    let work = Work { size_bytes: 4096.0, read_share: read, outstanding: 512, flush: None };
    Need { hosts_max: 64, server: Some("box".to_owned()), ..Need::rate(iops, work) }
}

fn of<'a>(sizing: &'a Sizing, drive: &str) -> &'a Sized {
    let found = sizing.found.iter().find(|sized| sized.drive == drive);
    found.unwrap_or_else(|| panic!("{drive}: {sizing:?}"))
}

#[test]
fn a_quick_decision_is_that_of_the_exact_response_time() {
    let parts = Catalogue::shipped();
    let drives = parts.parts.values().filter(|part| part.class == Class::Drive);
    let (mut yes, mut no) = (0, 0);
    for (number, drive) in drives.enumerate().filter(|(number, _)| number % 17 == 0) {
        let limit_s = [100e-6, 300e-6, 1e-3, 8e-3][number / 17 % 4];
        let work = Work { size_bytes: 4096.0, read_share: 0.7, outstanding: 32, flush: None };
        let adapter = Some("lsi-9211-8i".to_owned());
        let need = Need { latency_s: Some(limit_s), adapter, ..need(0.0, 0.7) };
        let need = Need { work, server: None, ..need };
        for (hosts, drives) in [(1, 1), (1, 8), (3, 4)] {
            let kit = |iops| {
                let solved = RefCell::default();
                Kit { need: &need, drive, catalogue: &parts, iops, capacity: None, solved }
            };
            let Ok(most) = kit(1.0).tried(hosts, drives) else { continue };
            for share in [0.2, 0.6, 0.95] {
                let kit = kit(most.whole.iops * share);
                let tried = kit.tried(hosts, drives).unwrap();
                let quick = kit.suffices(&tried);
                let exact = kit.lacks(&tried).is_none();
                let said = format!("{hosts} x {drives} x {}, {share}, {limit_s}", drive.id);
                assert_eq!(quick, exact, "{said}: {:?}", kit.latency_s(&tried));
                if exact { yes += 1 } else { no += 1 }
            }
        }
    }
    assert!(yes > 20 && no > 20, "{yes} suffice, {no} do not");
}

#[test]
fn hosts_and_drives_by_hand() {
    let parts = catalogue();
    let sizing = size(&need(30e6, 1.0), &parts);
    // 96 lanes suffice for 24 drives; 30 million need 30 drives, so two hosts of 15.
    let new = of(&sizing, "new");
    assert_eq!((new.hosts, new.drives), (2, 15));
    assert_eq!((new.price, new.power, new.height), (Some(30e3), Some(600.0), Some(4.0)));
    assert_eq!(new.prices.iter().map(|tag| tag.date.as_str()).collect::<Vec<_>>(), ["2026"]);
    assert_eq!((of(&sizing, "mine").hosts, of(&sizing, "mine").drives), (3, 20));
    // 300 drives of 100K, 24 to a host.
    assert_eq!((of(&sizing, "old").hosts, of(&sizing, "old").drives), (13, 24));
    assert!(new.pareto && !of(&sizing, "old").pareto);
}

#[test]
fn only_what_is_sold_in_the_year_is_offered() {
    let parts = catalogue();
    let sizing = size(&Need { year: Some(2026), ..need(1e6, 1.0) }, &parts);
    let ids: Vec<&str> = sizing.found.iter().map(|sized| sized.drive.as_str()).collect();
    assert_eq!((ids, sizing.not_sold), (vec!["new", "mine"], vec!["old".to_owned()]));
    let sizing = size(&Need { year: Some(2010), ..need(1e6, 1.0) }, &parts);
    assert_eq!(sizing.found.iter().filter(|sized| sized.drive == "old").count(), 1);
    let sas = Need { interface: Some("sas".to_owned()), ..need(1e6, 1.0) };
    assert!(size(&sas, &parts).found.is_empty());
}

#[test]
fn space_after_parity_spares_copies_and_growth() {
    let parts = catalogue();
    let mut wanted = Need { capacity: Some(40e12), ..need(1e6, 1.0) };
    assert_eq!(of(&size(&wanted, &parts), "new").drives, 10);
    wanted.raid = Raid::Single;
    assert_eq!(of(&size(&wanted, &parts), "new").drives, 11);
    wanted.raid = Raid::Double;
    wanted.setup.spares = 1;
    let found = size(&wanted, &parts);
    assert_eq!(of(&found, "new").drives, 13);
    assert!((of(&found, "new").usable_bytes.unwrap() / 40e12 - 1.0).abs() < 1e-9);
    // A fifth more each year: after two years 1.44 times as much.
    let grown = Need { growth: 0.2, years: 2.0, capacity: Some(40e12), ..need(1e6, 1.0) };
    let found = size(&grown, &parts);
    assert!((found.capacity.unwrap() / 57.6e12 - 1.0).abs() < 1e-9);
    assert_eq!(of(&found, "new").drives, 15);
    let mut copies = Need { capacity: Some(100e12), ..need(1e6, 1.0) };
    copies.setup.replicas = 3;
    // 300 TB raw are 75 drives, on four hosts of 24 at most.
    assert_eq!(
        (of(&size(&copies, &parts), "new").hosts, of(&size(&copies, &parts), "new").drives),
        (4, 19)
    );
}

#[test]
fn still_enough_with_a_host_or_a_drive_down() {
    let parts = catalogue();
    let mut wanted = need(30e6, 1.0);
    wanted.setup.replicas = 2;
    wanted.setup.down.hosts = 1;
    let found = size(&wanted, &parts);
    let new = of(&found, "new");
    // Two of three hosts do 30 million.
    assert_eq!((new.hosts, new.drives), (3, 15));
    assert!(new.iops_down.unwrap() >= 30e6 * REACHED && new.iops > 44e6, "{new:?}");
    let mut one = need(array(5e6), 1.0);
    (one.raid, one.setup.width, one.setup.down.drives) = (Raid::Single, Some(5), 1);
    let found = size(&one, &parts);
    let new = of(&found, "new");
    // One of d drives is lost: a share 1 / d of the reads needs four, so the others do (d - 1) / (1
    // + 3 / d) million: 4.2 with seven, 5.09 with eight.
    assert_eq!(new.drives, 8, "{new:?}");
    let parity = Need { raid: Raid::None, ..one };
    let short = size(&parity, &parts);
    assert!(short.short[0].reason.contains("loses data"), "{:?}", short.short);
}

#[test]
fn a_response_time_takes_more_drives() {
    let parts = catalogue();
    let any = size(&need(array(2e6), 1.0), &parts);
    let slow = of(&any, "new");
    assert!(slow.drives == 2 && slow.latency_s > 200e-6, "{slow:?}");
    let quick = Need { latency_s: Some(150e-6), ..need(array(2e6), 1.0) };
    let quick = size(&quick, &parts);
    assert!(of(&quick, "new").drives > 2 && of(&quick, "new").latency_s <= 150e-6);
    // Nothing is quicker than an idle drive.
    let never = Need { latency_s: Some(90e-6), ..need(array(2e6), 1.0) };
    let never = size(&never, &parts);
    assert!(never.found.is_empty() && never.short.iter().any(|s| s.reason.contains(" us at")));
    let tail = Need { p99_s: Some(250e-6), ..need(array(2e6), 1.0) };
    let tail = size(&tail, &parts);
    let new = of(&tail, "new");
    assert!(new.p99_s.unwrap() <= 250e-6 && new.p99_s.unwrap() > new.latency_s, "{new:?}");
}

#[test]
fn wires_and_limits_are_kept() {
    let parts = catalogue();
    let wired = Need { ports: Some(("ethernet-100".to_owned(), 2)), ..need(20e6, 1.0) };
    // Two ports carry 5.76 million reads of 4 KiB.
    assert_eq!(of(&size(&wired, &parts), "new").hosts, 4);
    let poor = Need { price_max: Some(10e3), ..need(30e6, 1.0) };
    assert!(size(&poor, &parts).found.is_empty());
    let flat = Need { height_max: Some(3.0), ..need(30e6, 1.0) };
    assert!(size(&flat, &parts).short.iter().any(|s| s.reason.contains("height 4")));
    let small = Need { hosts_max: 1, ..need(30e6, 1.0) };
    let short = size(&small, &parts).short;
    assert!(short.iter().any(|s| s.reason.contains("1 hosts of 24 drives: 21.4M")), "{short:?}");
}

/// Space for data in drives of one host each, by hand, of 1 to 6 hosts: what the hosts that are up
/// have, over the copies that can exist on them. A row for each number of copies and of hosts down;
/// 0 where hosts are fewer than copies. Rows that are missing lose data: as many hosts fail as
/// there are copies.
const SPACE: [((u32, u32), [f64; 6]); 10] = [
    ((1, 0), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    ((2, 0), [0.0, 1.0, 1.5, 2.0, 2.5, 3.0]),
    ((2, 1), [0.0, 1.0, 1.0, 1.5, 2.0, 2.5]),
    ((3, 0), [0.0, 0.0, 1.0, 4.0 / 3.0, 5.0 / 3.0, 2.0]),
    ((3, 1), [0.0, 0.0, 1.0, 1.0, 4.0 / 3.0, 5.0 / 3.0]),
    ((3, 2), [0.0, 0.0, 1.0, 1.0, 1.0, 4.0 / 3.0]),
    ((4, 0), [0.0, 0.0, 0.0, 1.0, 1.25, 1.5]),
    ((4, 1), [0.0, 0.0, 0.0, 1.0, 1.0, 1.25]),
    ((4, 2), [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]),
    ((4, 3), [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]),
];

#[test]
fn copies_live_on_different_hosts() {
    let parts = catalogue();
    // 24 drives of 4 TB are in a host.
    let whole = 24.0 * 4e12;
    for (hosts, copies, down) in
        (1..=6).flat_map(|h| (1..=4).flat_map(move |c| (0..=3).map(move |d| (h, c, d))))
    {
        let said = format!("{hosts} hosts, {copies} copies, {down} down");
        let sizing = |capacity: f64| {
            let mut wanted = need(1e6, 1.0);
            (wanted.hosts_max, wanted.capacity) = (hosts, Some(capacity * whole));
            (wanted.setup.replicas, wanted.setup.down.hosts) = (copies, down);
            size(&wanted, &parts)
        };
        let refused = |sizing: &Sizing, of: &str| {
            assert!(sizing.found.is_empty(), "{said}: {sizing:?}");
            let reason = &sizing.short.iter().find(|short| short.drive == "new").unwrap().reason;
            assert!(reason.contains(of), "{said}: {reason}");
        };
        let Some((_, space)) = SPACE.iter().find(|(at, _)| *at == (copies, down)) else {
            refused(&sizing(0.01), &format!("{} may fail; --replicas {}", copies - 1, down + 1));
            continue;
        };
        let most = space[hosts as usize - 1];
        if most == 0.0 {
            refused(&sizing(0.01), &format!("{copies} hosts would do"));
            continue;
        }
        // As much as there is takes the fewest hosts that have it, and all their drives.
        let found = sizing(most * (1.0 - 1e-9));
        let new = of(&found, "new");
        let fewest = space.iter().position(|have| *have >= most).unwrap() as u32 + 1;
        assert_eq!((new.hosts, new.drives), (fewest, 24), "{said}");
        assert!((new.usable_bytes.unwrap() / whole / most - 1.0).abs() < 1e-9, "{said}: {new:?}");
        // The goal holds with the hosts that are down, too.
        assert!(new.iops_down.unwrap_or(new.iops) >= 1e6 * REACHED, "{said}: {new:?}");
        // More than that takes more hosts, and the refusal says how many.
        let more = sizing(most * (1.0 + 1e-6));
        match space.iter().position(|have| *have > most * (1.0 + 1e-6)) {
            Some(at) => refused(&more, &format!("; {} hosts would do", at + 1)),
            None => refused(&more, " hosts would do"),
        }
    }
    // 96 TB twice on two hosts: each has all of it, alive or alone.
    let mut two = Need { hosts_max: 2, capacity: Some(96e12), ..need(1e6, 1.0) };
    (two.setup.replicas, two.setup.down.hosts) = (2, 1);
    let found = size(&two, &parts);
    assert_eq!((of(&found, "new").hosts, of(&found, "new").drives), (2, 24));
}
