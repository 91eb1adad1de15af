use super::*;

fn volume(name: &str) -> Seen {
    Seen {
        name: name.to_owned(),
        bytes: 1 << 30,
        block_bytes: 512,
        is_local: true,
        writes: Some((0, 1 << 30)),
        ..Seen::default()
    }
}

fn volumes(all: Vec<(u32, Seen)>) -> Volumes {
    let placed = |(rank, seen)| Placed { rank, number: 0, seen };
    Volumes { all: all.into_iter().map(placed).collect(), ..Volumes::default() }
}

fn hosts() -> Vec<String> {
    ["a", "b", "c"].map(str::to_owned).to_vec()
}

/// Marks of all volumes, and the pairs of a volume and one whose mark it shows.
fn with_marks(mut of: Volumes, pairs: &[(usize, usize)]) -> Volumes {
    let count = of.all.len();
    of.marked = (0..count).map(|at| (at as u32, at)).collect();
    of.read = (0..count).map(|at| (at, 0..count as u32)).collect();
    let seen = |at: usize| {
        let others = pairs.iter().filter(|(read, _)| *read == at);
        others.map(|(_, marked)| *marked as u32).chain([at as u32]).collect::<Vec<u32>>()
    };
    of.found = (0..count).map(|at| (at, seen(at))).collect();
    of
}

fn words(of: &Volumes) -> (Verdict, String) {
    let check = check(&of.findings(&hosts()));
    (check.verdict, check.evidence)
}

#[test]
fn one_name_may_be_two_drives() {
    let all = || volumes(vec![(0, volume("file:/dev/sdb")), (1, volume("file:/dev/sdb"))]);
    let (verdict, said) = words(&all());
    assert_eq!(verdict, Verdict::Unknown, "{said}");
    assert!(said.contains("nothing shows whether file:/dev/sdb"), "{said}");
    let shared = with_marks(all(), &[(0, 1), (1, 0)]);
    let (verdict, said) = words(&shared);
    assert_eq!(verdict, Verdict::Pass);
    assert!(said.contains("is one volume on 2 ranks, and 2 write to it"), "{said}");
    let apart = with_marks(all(), &[]);
    let (verdict, said) = words(&apart);
    assert!(verdict == Verdict::Pass && said.contains("a volume of each of 2 ranks"), "{said}");
    // The user may have meant one: it is said before the start.
    assert!(apart.findings(&hosts())[0].is_news && !shared.findings(&hosts())[0].is_news);
}

#[test]
fn a_host_that_sees_another_drive_is_named() {
    let all = (0..3).map(|rank| (rank, volume("file:/dev/sdb"))).collect();
    let (verdict, said) = words(&with_marks(volumes(all), &[(0, 1), (1, 0)]));
    assert!(verdict == Verdict::Warn && said.ends_with("another on c"), "{said}");
}

#[test]
fn sizes_digests_and_names_tell_volumes_apart() {
    let pair = |change: &dyn Fn(&mut Seen, &mut Seen)| {
        let (mut a, mut b) = (volume("file:/dev/sdb"), volume("file:/dev/sdb"));
        change(&mut a, &mut b);
        volumes(vec![(0, a), (1, b)]).relation(0, 1)
    };
    assert_eq!(pair(&|a, _| a.bytes = 1), Relation::Two);
    assert_eq!(pair(&|a, b| (a.digest, b.digest) = (Some(1), Some(2))), Relation::Two);
    // Equal data may be of two copies.
    assert_eq!(pair(&|a, b| (a.digest, b.digest) = (Some(1), Some(1))), Relation::Unknown);
    let named = |one: &str, other: &str| {
        let (one, other) = (Some(one.to_owned()), Some(other.to_owned()));
        pair(&|a, b| (a.world, b.world) = (one.clone(), other.clone()))
    };
    assert_eq!(
        (named("naa.1", "naa.1"), named("naa.1", "naa.2")),
        (Relation::Named, Relation::Two)
    );
    let keys = |one: &str, other: &str| {
        pair(&|a, b| (a.here, b.here) = (vec![one.to_owned()], vec![other.to_owned()]))
    };
    assert_eq!(keys("m device sdb", "m device sdb"), Relation::One);
    assert_eq!(keys("m device sdb", "m device sdc"), Relation::Two);
    assert_eq!(keys("m device sdb", "n device sdb"), Relation::Unknown);
    assert_eq!(pair(&|a, _| a.is_own = true), Relation::Two);
    // Two paths to one target may have other addresses.
    let far = |a: &mut Seen, b: &mut Seen| {
        (a.is_local, b.is_local) = (false, false);
        (a.world, b.world) = (Some("1/x".to_owned()), Some("2/x".to_owned()));
    };
    assert_eq!(pair(&far), Relation::Unknown);
}

#[test]
fn a_drive_listed_twice_is_named() {
    let key = |name: &str| Seen { here: vec!["m device sdb".to_owned()], ..volume(name) };
    let twice = volumes(vec![(0, key("file:/dev/sdb")), (0, key("file:/dev/disk/by-id/x"))]);
    let (verdict, said) = words(&twice);
    let wanted =
        "file:/dev/sdb on a and file:/dev/disk/by-id/x on a are one volume under two names";
    assert_eq!((verdict, &*said), (Verdict::Warn, wanted));
    // Drives that change places between hosts.
    let swapped = ["file:/dev/sdb", "file:/dev/sdc"];
    let all = (0..2).flat_map(|rank| swapped.map(|name| (rank, volume(name)))).collect();
    let (verdict, said) = words(&with_marks(volumes(all), &[(0, 3), (3, 0), (1, 2), (2, 1)]));
    assert_eq!(verdict, Verdict::Warn);
    assert!(said.contains("file:/dev/sdb on a and file:/dev/sdc on b are one volume"), "{said}");
}

#[test]
fn memory_is_of_each_rank() {
    let own = || Seen { is_own: true, ..volume("ram:1m") };
    let (verdict, said) = words(&volumes(vec![(0, own()), (1, own())]));
    assert!(verdict == Verdict::Pass && said.contains("no two ranks"), "{said}");
}

/// Two disks of virtual machines with one WWID and different data.
#[test]
fn equal_names_with_other_data_are_doubted() {
    let of = |digest| Seen {
        world: Some("naa.1".to_owned()),
        digest: Some(digest),
        ..volume("file:/dev/sdb")
    };
    let all = volumes(vec![(0, of(1)), (1, of(1)), (2, of(2))]);
    let (verdict, said) = words(&all);
    assert!(verdict == Verdict::Warn && said.contains("different data on 3 ranks"), "{said}");
}
