//! Tests that a drive of the catalogue has the same rate by its bill and by its profile, which
//! `delay:` emulates.

use catalogue::{Catalogue, Class, Part};
use plan::bill::{Bill, Group, Setup, Work};
use plan::predict::predict;
use plan::simulate::theory;
use plan::system::Tweak;

/// Returns the bill of `drumfire plan --drive` for one drive.
fn bill(catalogue: &Catalogue, drive: &Part, work: Work) -> Bill {
    Bill {
        name: drive.id.clone(),
        server: None,
        software: None,
        work,
        groups: vec![Group::of_drives(None, 1, &drive.id, 1)],
        catalogue: catalogue.clone(),
        setup: Setup::default(),
        extras: Vec::new(),
    }
}

#[test]
fn a_drive_does_the_same_by_its_profile_as_by_plan() {
    let catalogue = Catalogue::shipped();
    let drives = catalogue.parts.values().filter(|part| part.class == Class::Drive);
    let (mut compared, mut apart) = (0, Vec::new());
    for drive in drives {
        let Ok(profile) = catalogue.profile(drive) else { continue };
        // A bill has an HDD by its ratings, which do not include an arm that reorders.
        if profile.stages.iter().any(|stage| stage.head.is_some()) {
            continue;
        }
        for read_share in [1.0, 0.0] {
            for (size_bytes, outstanding) in [
                (4096.0, 1),
                (4096.0, 4),
                (4096.0, 32),
                (4096.0, 128),
                (4096.0, 2048),
                (131_072.0, 1),
                (131_072.0, 32),
            ] {
                let work = Work { size_bytes, read_share, outstanding, flush: None };
                let bill = bill(&catalogue, drive, work);
                let planned = predict(&bill, &Tweak::default()).unwrap();
                let emulated = theory(&profile, 1, &work).unwrap();
                let off = (emulated.iops / planned.iops - 1.0) * 100.0;
                compared += 1;
                // Collisions of reads on banks are within 7 % of the formula that a bill uses. Only
                // a bill knows that one large read alone does not get all of the bandwidth; a large
                // write is transferred after its latency in a bill, within it in a profile; and few
                // writes near the rating wait for each other in a profile only.
                let most = match (size_bytes > 65_536.0, outstanding) {
                    (true, 1) => 50.0,
                    (false, 4) if read_share == 0.0 => 17.0,
                    _ => 7.5,
                };
                if off.abs() > most {
                    let planned = planned.iops;
                    apart.push(format!("{}, {work:?}: {off:+.1} % of {planned:.0} IOPS", drive.id));
                }
            }
        }
    }
    assert!(apart.is_empty(), "{apart:#?}");
    assert!(compared >= 100, "{compared}");
}
