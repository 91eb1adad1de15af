//! Dispositions of signals in this process before it handles them.

/// Signals that request a stop.
const HEEDED: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];

/// Resets the signals that request a stop to their default action, and unblocks them. A process
/// inherits ignored and blocked signals: a shell ignores SIGINT in commands started with `&`, and a
/// signal before its handler is installed would be lost. SIGHUP stays as it is, because `nohup`
/// ignores it on purpose.
///
/// Must be the first call of a program, before it has threads or handlers.
pub fn heed_signals() {
    for signal in HEEDED {
        // SAFETY: a system call with numbers. The default action runs no code of this program, and
        // a signal with a handler is not changed.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, std::ptr::null(), &mut before) == 0;
            if known && before.sa_sigaction == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
    // SAFETY: a set of signals for which zeroes are a value, and which this function owns.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in HEEDED {
            libc::sigaddset(&mut set, signal);
        }
        // New threads inherit the mask from this one.
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
}

#[cfg(test)]
mod test {
    use std::process::Command;

    use super::*;

    /// Actions of SIGINT and SIGTERM, and whether they are blocked.
    fn state() -> Vec<(usize, bool)> {
        // SAFETY: calls with numbers and structures of this function.
        let one = |signal: &libc::c_int| unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut mask: libc::sigset_t = std::mem::zeroed();
            assert_eq!(libc::sigaction(*signal, std::ptr::null(), &mut action), 0);
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask);
            (action.sa_sigaction, libc::sigismember(&mask, *signal) == 1)
        };
        HEEDED.iter().map(one).collect()
    }

    /// Runs in a separate process: other tests of this one may be interrupted.
    #[test]
    fn signals_that_are_ignored_or_blocked_are_heeded() {
        const VARIABLE: &str = "DRUMFIRE_TEST_SIGNALS";
        if std::env::var_os(VARIABLE).is_none() {
            let test = "signals::test::signals_that_are_ignored_or_blocked_are_heeded";
            let mut command = Command::new(std::env::current_exe().unwrap());
            let done = command.args(["--exact", test]).env(VARIABLE, "1").output().unwrap();
            assert!(done.status.success(), "{done:?}");
            return;
        }
        // SAFETY: calls with numbers and a set of this function.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGTERM);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            libc::signal(libc::SIGINT, libc::SIG_IGN);
        }
        assert_eq!(state(), [(libc::SIG_IGN, false), (libc::SIG_DFL, true)]);
        heed_signals();
        assert_eq!(state(), [(libc::SIG_DFL, false), (libc::SIG_DFL, false)]);
    }
}
