use super::*;

const SOURCE: &str = "[source.sheet]\ntitle = 'a data sheet'\ndate = '2009'\n";

fn one(figure: &str) -> Result<Catalogue, String> {
    let mut catalogue = Catalogue::default();
    let head = "[[part]]\nid = 'x'\nname = 'X'\nclass = 'drive'\ninterface = 'sata'\nfigures = [\n";
    let text = format!("{SOURCE}{head}{figure}\n]\n");
    catalogue.add("x.toml", &text).map_err(|error| error.to_string())?;
    Ok(catalogue)
}

#[test]
fn no_shipped_part_replaces_another() {
    let head = |text: &str| text.lines().filter(|line| *line == "[[part]]").count();
    let parts: usize = shipped::FILES.iter().map(|file| head(&file.text())).sum();
    let catalogue = Catalogue::shipped();
    assert_eq!(catalogue.parts.len(), parts, "two of them have one id");
    let mut names = std::collections::BTreeMap::new();
    for part in catalogue.parts.values() {
        for name in part.aliases.iter().chain([&part.id]) {
            let known = names.insert(name, &part.id);
            assert_eq!(known, None, "{name} is {} and {known:?}", part.id);
        }
    }
}

#[test]
fn a_drive_is_found_without_its_capacity_if_there_is_one() {
    let catalogue = Catalogue::shipped();
    assert_eq!(catalogue.part("870-EVO").unwrap().id, "870-evo-1000");
    let error = catalogue.part("980-pro").unwrap_err();
    assert_eq!(error.capacities, ["980-pro-1000", "980-pro-2000"]);
    assert!(error.to_string().contains("choose a capacity, 980-pro-1000, 980-pro-2000"), "{error}");
    for spelled in ["980pro", "980 PRO", "Samsung 980 PRO", "980-pro-"] {
        let error = catalogue.part(spelled).unwrap_err();
        assert_eq!(error.capacities, ["980-pro-1000", "980-pro-2000"], "{spelled}");
    }
    for (spelled, id) in
        [("870evo", "870-evo-1000"), ("980pro1000", "980-pro-1000"), ("X25 M", "x25-m")]
    {
        assert_eq!(catalogue.part(spelled).unwrap().id, id);
    }
    for wrong in ["", "-", "980 pr"] {
        assert!(catalogue.part(wrong).unwrap_err().capacities.is_empty(), "{wrong}");
    }
}

#[test]
fn the_shipped_catalogue_loads_and_holds_the_known_parts() {
    let catalogue = Catalogue::shipped();
    assert!(catalogue.parts.len() >= 60, "{} parts", catalogue.parts.len());
    let drive = catalogue.part("X25-M").unwrap();
    assert_eq!(drive.value("read_iops"), Some(35_000.0));
    assert_eq!(drive.known("read_iops").unwrap().kind, Kind::Spec);
    // The two sources differ, and both figures are kept.
    assert_eq!(drive.figures["write_bandwidth"].len(), 2);
    // Unpublished figures are absent.
    assert_eq!(catalogue.part("ioscale2-none").unwrap_err().near, Vec::<String>::new());
    // A vendor's name is in the full names of its parts, and a prefix of an id finds the part.
    assert_eq!(catalogue.part("Samsung").unwrap_err().near.len(), 5);
    assert_eq!(catalogue.part("x25").unwrap_err().near[..2], ["x25-e", "x25-m"]);
    assert_eq!(catalogue.part("iodrive-160-slc").unwrap().value("price"), None);
    assert_eq!(catalogue.part("p5800x").unwrap().value("price"), None);
    // Every source is used, and every source used exists.
    let used: std::collections::BTreeSet<&str> = catalogue
        .parts
        .values()
        .flat_map(|part| part.figures.values().flatten())
        .map(|figure| figure.source.as_str())
        .collect();
    for key in catalogue.sources.keys() {
        assert!(used.contains(key.as_str()), "source {key} is not used");
    }
    // No alias is ambiguous.
    let mut names: Vec<String> = Vec::new();
    for part in catalogue.parts.values() {
        names.push(part.id.to_lowercase());
        names.extend(part.aliases.iter().map(|alias| alias.to_lowercase()));
    }
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

/// Adapters by their names in results of third parties.
const CARDS: &str = "\
    9207-8i 9211-8i 9300-8i 9305-24i 9400-16i 9500-16i 9600-16i hba330 hba355i h220 h240 h200 \
    perc-5i perc-6i h310 h330 h700 h710 h730p h740p h750 h755 h755n h965i 9265-8i 9266-8i \
    9280-24i4e 9380-8e 9440-8i 9460-16i 9540-8i 9560-16i 9580-8i8e 9660-16i 9670w-16i 9650se \
    9690sa 9750-8i 5805 6805 7805 71605 8805 81605zq 3154-8i 3254-16i arc-1231ml arc-1680 \
    arc-1880 arc-1882 arc-1883 p400 p411 p800 p812 p816i-a mr416i-p ssd7505 ssd7540 ssd7580 \
    sr-1000 sr-1001 sr-1010 ich10r z87 z370 asm1061 jmb575";

#[test]
fn cards_that_people_name_are_known_and_make_parity_slower_than_they_read() {
    let catalogue = Catalogue::shipped();
    for name in CARDS.split_whitespace() {
        let part = catalogue.part(name).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!(part.class, Class::Adapter, "{name}");
        assert!(part.value("ports").is_some(), "{name}: how many drives it takes is not known");
    }
    for part in catalogue.parts.values() {
        for (made, read) in [("parity_iops", "iops"), ("parity_bandwidth", "bandwidth")] {
            if let (Some(made), Some(read)) = (part.value(made), part.value(read)) {
                assert!(made < read, "{}: {made} with parity, {read} without", part.id);
            }
        }
    }
    for software in ["linux-md", "vroc", "xiraid"] {
        assert!(catalogue.part(software).unwrap().value("parity_iops").is_some(), "{software}");
    }
}

#[test]
fn software_says_what_it_takes() {
    let catalogue = Catalogue::shipped();
    let software = catalogue.parts.values().filter(|part| part.class == Class::Software);
    let mut clusters = 0;
    for part in software {
        let known = |quantity: &str| part.known(quantity).is_some();
        let serves = known("daemon_read_iops") && known("daemon_write_iops");
        assert!(known("core_time") || serves, "{}: neither core time nor daemons", part.id);
        if part.value("cluster") == Some(1.0) {
            clusters += 1;
            assert!(serves, "{}", part.id);
            let (read, write) = (part.value("added_latency"), part.value("added_write_latency"));
            // A write waits for its replicas.
            assert!(read.unwrap() < write.unwrap(), "{}", part.id);
        }
    }
    assert!(clusters >= 12, "{clusters} clusters");
}

#[test]
fn takes_a_figure_with_a_source() {
    let text = "{ is = 'read_latency', value = 65, unit = 'us', kind = 'spec', source = 'sheet' },";
    let catalogue = one(text).unwrap();
    let known = catalogue.part("X").unwrap().known("read_latency").unwrap();
    assert!((known.value - 65e-6).abs() < 1e-12);
    assert!(known.low < known.value && known.value < known.high);
    assert_eq!(catalogue.parts["x"].figures["read_latency"][0].date, "2009");
}

#[test]
fn refuses_what_makes_no_sense_with_file_line_and_reason() {
    let cases = [
        ("{ is = 'read_iops', value = 35000, unit = 'IOPS', kind = 'spec' },", "without a source"),
        (
            "{ is = 'read_iops', value = 35, unit = 'IOPS', kind = 'spec', source = 'x' },",
            "source.x",
        ),
        (
            "{ is = 'read_iops', value = nan, unit = 'IOPS', kind = 'spec', source = 'sheet' },",
            "NaN",
        ),
        (
            "{ is = 'read_iops', value = inf, unit = 'IOPS', kind = 'spec', source = 'sheet' },",
            "inf",
        ),
        ("{ is = 'read_iops', value = -1, unit = 'IOPS', kind = 'spec', source = 'sheet' },", "-1"),
        (
            "{ is = 'read_iops', value = 1e12, unit = 'IOPS', kind = 'spec', source = 'sheet' },",
            "out of range",
        ),
        (
            "{ is = 'read_iops', value = 100, unit = 'MB/s', kind = 'spec', source = 'sheet' },",
            "MB/s where IOPS",
        ),
        (
            "{ is = 'read_latency', value = 65, kind = 'spec', source = 'sheet' },",
            "no unit where s",
        ),
        (
            "{ is = 'read_latency', value = 65, unit = 'ells', kind = 'spec', source = 'sheet' },",
            "not a unit",
        ),
        ("{ is = 'slots', value = 2.5, unit = '', kind = 'spec', source = 'sheet' },", "whole"),
        (
            "{ is = 'read_iops', value = 5, low = 6, unit = 'IOPS', kind = 'spec', \
             source = 'sheet' },",
            "between",
        ),
        ("{ is = 'colour', value = 1, kind = 'spec', source = 'sheet' },", "not a quantity"),
        ("{ is = 'slots', value = 1, kind = 'rumour', source = 'sheet' },", "rumour"),
        ("{ is = 'slots', valeu = 1, kind = 'spec', source = 'sheet' },", "valeu"),
    ];
    for (figure, reason) in cases {
        let error = one(figure).unwrap_err();
        assert!(error.starts_with("x.toml:10: "), "{error}");
        assert!(error.contains(reason), "'{error}' lacks '{reason}'");
    }
}

#[test]
fn what_is_printed_can_be_typed() {
    // `catalogue check` prints the unit of each quantity, and "number" for those without a unit.
    for quantity in QUANTITIES {
        let value = pretty_middle(quantity);
        let (name, unit) = (quantity.name, quantity.unit());
        let text = format!(
            "{{ is = '{name}', value = {value}, unit = '{unit}', kind = 'spec', \
             source = 'sheet' }},"
        );
        let catalogue = one(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!((catalogue.parts["x"].value(name).unwrap() / value - 1.0).abs() < 1e-9, "{name}");
    }
}

/// Returns a value within the plausible range, a whole number if the range goes beyond 1.
fn pretty_middle(quantity: &Quantity) -> f64 {
    let middle = match quantity.least > 0.0 {
        true => (quantity.least * quantity.most).sqrt(),
        false => quantity.most,
    };
    if quantity.most > 1.0 { middle.ceil() } else { middle }
}

#[test]
fn a_unit_that_is_none_is_told_those_that_are() {
    let latency =
        "{ is = 'read_latency', value = 65, unit = 'IO', kind = 'spec', source = 'sheet' },";
    let error = one(latency).unwrap_err();
    assert!(error.contains("'IO' is not a unit: s, ms, us"), "{error}");
    let thousands =
        "{ is = 'read_iops', value = 8, unit = 'kIOPS', kind = 'spec', source = 'sheet' },";
    assert_eq!(one(thousands).unwrap().parts["x"].value("read_iops"), Some(8000.0));
    let rate = thousands.replace("kIOPS", "ops");
    assert!(one(&rate).unwrap_err().contains("'ops' is not a unit: IOPS, kIOPS"));
    let ports = "{ is = 'ports', value = 6, unit = 'GB', kind = 'spec', source = 'sheet' },";
    let error = one(ports).unwrap_err();
    assert!(error.contains("GB where") && !error.contains('\n'), "{error}");
}

#[test]
fn interfaces_go_by_the_words_that_people_use() {
    let with = |class: &str, interface: &str| {
        let part = format!("[[part]]\nid = 'x'\nname = 'X'\nclass = '{class}'\n{interface}\n");
        let mut catalogue = Catalogue::default();
        let text = format!("{part}figures = []\n");
        catalogue.add("x.toml", &text).map_err(|error| error.to_string())?;
        Ok::<_, String>(catalogue.parts["x"].interface.clone())
    };
    for (word, meant) in [("nvme", "pcie"), ("NVMe", "pcie"), ("pcie", "pcie"), ("emmc", "mmc")] {
        assert_eq!(with("drive", &format!("interface = '{word}'")).unwrap(), meant);
    }
    let error = with("drive", "interface = 'scsi'").unwrap_err();
    assert!(
        error.contains("'scsi' is none of sata, sas, pcie") && error.contains("nvme"),
        "{error}"
    );
    assert!(with("drive", "").unwrap_err().contains("missing: one of sata"));
    assert!(with("link", "interface = 'pcie'").unwrap_err().contains("only drives"));
}

#[test]
fn a_refused_file_adds_nothing() {
    let mut catalogue = Catalogue::default();
    let part = "[[part]]\nid = 'bad id'\nname = ''\nclass = 'drive'\nfigures = []";
    let text = format!("{SOURCE}{part}");
    let error = catalogue.add("x.toml", &text).unwrap_err();
    assert_eq!(error.line, 5);
    assert_eq!(catalogue, Catalogue::default());
}

#[test]
fn prints_values_as_people_read_them() {
    let show = |name, value| pretty(value, quantity_named(name).unwrap());
    assert_eq!(show("read_iops", 35e3), "35.0k IOPS");
    assert_eq!(show("read_latency", 65e-6), "65 µs");
    assert_eq!(show("capacity", 1.2e12), "1.20 TB");
    assert_eq!(show("bandwidth", 2.5e9), "2.50 GB/s");
    assert_eq!(show("price", 440.0), "$440");
    assert_eq!(show("clock", 3.2e9), "3.20 GHz");
    assert_eq!(show("symbol_rate", 5e9), "5 GT/s");
}

#[test]
fn an_id_as_it_is_written_is_its_part_and_no_alias_of_another() {
    let catalogue = Catalogue::shipped();
    for part in catalogue.parts.values() {
        assert_eq!(catalogue.part(&part.id).unwrap().id, part.id);
        for alias in &part.aliases {
            let other = catalogue.parts.get(alias.as_str());
            assert!(other.is_none_or(|other| other.id == part.id), "{alias}");
        }
    }
}

#[test]
fn a_copy_shares_its_parts_until_it_changes() {
    let whole = Catalogue::shipped();
    let mut copy = whole.clone();
    assert!(Arc::ptr_eq(&whole.parts, &copy.parts));
    copy.set_price("x25-m", 5.0).unwrap();
    assert!(!Arc::ptr_eq(&whole.parts, &copy.parts));
    assert_ne!(whole.parts["x25-m"].value("price"), Some(5.0));
}
