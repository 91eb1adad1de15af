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
    // What is recalled never counts.
    assert_eq!(asked.rows.len() + asked.recalled, Evidence::shipped().rows.len());
    // A publisher that was left out taught nothing: one outlier changes the others, not itself.
    let mut all = samples(&Evidence::shipped(), &Catalogue::shipped()).unwrap();
    let before = learn(&all, all[1].class, |other| other.source != all[1].source);
    all[1].residual = 9.0;
    let after = learn(&all, all[1].class, |other| other.source != all[1].source);
    assert_eq!(before, after);
}

#[test]
fn a_class_without_rows_learns_nothing_and_a_small_one_says_so() {
    let all = samples(&Evidence::shipped(), &Catalogue::shipped()).unwrap();
    let few: Vec<Sample> = all
        .iter()
        .filter(|s| s.class != Class::WireBound && s.class != Class::Cluster)
        .cloned()
        .collect();
    assert_eq!(learn(&few, Class::WireBound, |_| true), None);
    assert_eq!(learn(&few, Class::Cluster, |_| true), None);
    let wire = learn(&all, Class::WireBound, |_| true).unwrap();
    assert!(wire.pooled && wire.rows < all.len(), "{wire:?}");
    // The middle is inside its ends, in every class.
    for class in Class::ALL {
        let Some(learned) = learn(&all, class, |_| true) else { continue };
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
