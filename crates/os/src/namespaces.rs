//! Namespaces of this process: in a namespace other than the host's, the kernel shows only a part
//! of the host.

/// A kind of namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// User namespace: its root is an unprivileged user of the host.
    User,
    /// PID namespace: processes outside are invisible, and so are kernel threads.
    Pid,
    /// Cgroup namespace: cgroups above its root are invisible, but their limits apply.
    Cgroup,
}

/// Kinds whose initial namespace, the host's, has a fixed number (`include/linux/proc_ns.h`; other
/// kinds have one since Linux 6.18). Names are those in `/proc/self/ns`.
const FIRST: [(Kind, &str, u32); 3] = [
    (Kind::User, "user", 0xeffffffd),
    (Kind::Pid, "pid", 0xeffffffc),
    (Kind::Cgroup, "cgroup", 0xeffffffb),
];

impl Kind {
    /// Name in `/proc/self/ns`.
    pub fn word(self) -> &'static str {
        FIRST.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, word, _)| word)
    }
}

/// Namespaces of this process that are not the host's, without kinds that this kernel does not
/// support.
pub fn own() -> Vec<Kind> {
    let told = |word: &str| std::fs::read_link(format!("/proc/self/ns/{word}")).ok();
    let is_own = |(kind, word, first): (Kind, &'static str, u32)| {
        let link = told(word)?;
        is_other(&link.to_string_lossy(), word, first).then_some(kind)
    };
    FIRST.into_iter().filter_map(is_own).collect()
}

/// Whether a link such as `pid:[4026531836]` names another namespace than the first.
fn is_other(link: &str, word: &str, first: u32) -> bool {
    link != format!("{word}:[{first}]")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_first_namespace_is_the_hosts() {
        for (kind, word, first) in FIRST {
            assert_eq!(kind.word(), word);
            assert!(!is_other(&format!("{word}:[{first}]"), word, first));
            assert!(is_other(&format!("{word}:[4026532312]"), word, first));
        }
        assert!(!is_other("user:[4026531837]", "user", FIRST[0].2));
    }
}
