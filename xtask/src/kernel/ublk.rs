//! The guest's last checks: our volumes as block devices, by the kernel's ublk driver.
//!
//! Debian 12's kernel is built without that driver; the kernel in its backports has the driver.
//! `ublk.sh` has the checks.

/// Script that the guest's script sources at its end.
pub const CHECKS: &str = include_str!("ublk.sh");

/// The names of all checks.
pub fn names() -> impl Iterator<Item = String> {
    let made = CHECKS.lines().filter_map(|line| line.strip_prefix("check "));
    made.filter_map(|rest| rest.split(' ').next()).map(str::to_owned)
}

#[cfg(test)]
mod test {
    use super::super::SCRIPT;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_check_is_made_once_with_the_guests_tools() {
        for tool in ["check() {", "make_files() {", "check_files() {", "plug_in() {", "none() {"] {
            let all = format!("\n{SCRIPT}\n{CHECKS}");
            assert_eq!(all.matches(&format!("\n{tool}")).count(), 1, "{tool}");
        }
        let all: Vec<String> = names().collect();
        assert!(all.len() > 20 && all.iter().all(|name| name.starts_with("ublk-")), "{all:?}");
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert!(SCRIPT.contains(". /ublk.sh\nsay ended\n"));
    }
}
