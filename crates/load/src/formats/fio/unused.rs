//! What settings that are left out may say: a slip of the pen in one of them is found all the same.

use super::value::{self, KbBase};

/// Looks at the value of a setting that is left out. `None`: what it says is not known.
pub(super) fn value(name: &str, value: Option<&str>, kb: KbBase) -> Option<Result<(), String>> {
    Some(match name {
        "create_serialize"
        | "create_fsync"
        | "create_on_open"
        | "unlink"
        | "unlink_each_loop"
        | "overwrite"
        | "allow_file_create"
        | "allow_mounted_write"
        | "disable_lat"
        | "disable_clat"
        | "disable_slat"
        | "disable_bw_measurement"
        | "gtod_reduce"
        | "softrandommap"
        | "randrepeat"
        | "verify_fatal"
        | "verify_dump"
        | "log_prio"
        | "slat_percentiles"
        | "disk_util" => value::switch(value).map(|_| ()),
        _ if stands_alone(name) => value::flag(value).map(|_| ()),
        "verify_interval" | "verify_offset" => number(value, kb),
        "random_generator" => one_of(value, &["tausworthe", "lfsr", "tausworthe64"]),
        "fallocate" => one_of(value, &["none", "native", "posix", "keep", "truncate", "0", "1"]),
        "unit_base" => one_of(value, &["0", "1", "8"]),
        _ => return None,
    })
}

/// Whether the name alone says 1.
pub(super) fn stands_alone(name: &str) -> bool {
    let ours = matches!(name, "thread" | "exitall_on_error");
    ours || matches!(name, "fixedbufs" | "registerfiles" | "userspace_reap")
}

fn number(value: Option<&str>, kb: KbBase) -> Result<(), String> {
    let value = value.ok_or_else(|| "a value is missing".to_owned())?;
    kb.size(value).map(|_| ())
}

fn one_of(value: Option<&str>, words: &[&str]) -> Result<(), String> {
    let value = value.unwrap_or_default();
    match words.contains(&value) {
        true => Ok(()),
        false => Err(format!("'{value}' is none of {}", words.join(", "))),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn slips_are_found() {
        let of = |name, text| value(name, text, KbBase(1024));
        for (name, right, wrong) in [
            ("unlink", Some("0"), Some("x")),
            ("unlink", Some("1"), None),
            ("fixedbufs", None, Some("")),
            ("thread", None, Some("2")),
            ("random_generator", Some("lfsr"), Some("lsfr")),
            ("fallocate", Some("none"), None),
            ("unit_base", Some("8"), Some("3")),
            ("verify_interval", Some("4k"), Some("(4k")),
        ] {
            assert_eq!(of(name, right), Some(Ok(())), "{name}");
            assert!(matches!(of(name, wrong), Some(Err(_))), "{name}");
        }
        assert_eq!(of("comm", Some("x")), None);
    }
}
