use block::Op;
use proptest::prelude::*;

use super::*;
use crate::{StationId, Step};

const TEXT: &str = "name = 'x'\nqueue_depth = 32\n[[stage]]\nname = 'medium'\nservers = 4\n\
    read = { each_s = 80e-6 }\nwrite = { each_s = 20e-6, per_byte_s = 1e-9 }\n\
    shape = { erlang = 4 }\n[[stage]]\nname = 'link'\nservers = 1\nshared = true\n\
    read = { per_byte_s = 4e-9 }\nwrite = { per_byte_s = 4e-9 }\nshape = 'fixed'\n";

#[test]
fn what_comes_along_is_right_and_what_is_written_is_read_again() {
    for name in shipped_names() {
        let profile = Profile::shipped(name).unwrap();
        assert_eq!(profile.name, name);
        assert_eq!(Profile::parse(&profile.print().unwrap()), Ok(profile));
    }
    let profile = Profile::parse(TEXT).unwrap();
    assert_eq!(Profile::parse(&profile.print().unwrap()), Ok(profile));
}

#[test]
fn drives_share_what_is_shared() {
    let profile = Profile::parse(TEXT).unwrap();
    let network = profile.closed(3, 64, 0.7, 4096);
    network.check().unwrap();
    let names: Vec<&str> = network.stations.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["medium 0", "medium 1", "medium 2", "link"]);
    let [Step::Visit(medium), Step::Visit(link)] = &profile.route(3, 2, Op::Write, 4096)[..] else {
        panic!("another way")
    };
    assert_eq!((medium.at[0], link.at[0]), (StationId(2), StationId(3)));
    assert!((medium.service.mean_s - 24.096e-6).abs() < 1e-15);
    // I/Os without data visit the command stage only, not the link.
    assert_eq!(profile.route(3, 0, Op::Trim, 1 << 30).len(), 1);
}

#[test]
fn nonsense_is_refused_with_its_key() {
    let says = |from: &str, to: &str| Profile::parse(&TEXT.replace(from, to)).unwrap_err();
    assert!(says("80e-6", "nan").contains("read.each_s"));
    assert!(says("80e-6", "-1.0").contains("stage 'medium': read.each_s = -1"));
    assert!(says("servers = 4", "servers = 0").contains("1 to 4096"));
    assert!(says("'link'", "'medium'").contains("two stages"));
    assert!(says("shared", "sharing").contains("sharing"));
    assert!(says("= 32", "= 0").contains("queue_depth"));
    assert!(says("'link'", "\"a\\u001b\"").contains("control characters"));
    assert!(says("erlang = 4", "erlang = 0").contains("1 to 1000"));
    let nothing = "name = 'x'\n[[stage]]\nname = 'a'\nservers = 1\n";
    assert!(Profile::parse(nothing).unwrap_err().contains("a read takes 0 s"));
    assert_eq!(Profile::shipped("/nowhere"), None);
}

proptest! {
    #[test]
    fn no_text_panics(text in "(name|stage|read|servers|\\[\\[|\\]\\]|[={}'0-9e.\n-])*") {
        let _ = Profile::parse(&text);
    }
}
