//! NVMe commands past the block layer: `ioengine=io_uring_cmd` on a generic character device.
//!
//! The name of the device determines its engine: nothing is opened here. A command has the bytes of
//! an I/O, unless these exceed the controller's maximum.

use super::convert::Converter;
use super::job::FioJob;
use super::settings::Engine;
use crate::formats::note::Treatment::Differs;
use crate::formats::reading::Storage;

/// Returns whether a path has the name that Linux gives such devices: `ng0n1`.
pub(super) fn is_namespace(path: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let name = path.rsplit('/').next().unwrap_or(path);
    let parts = name.strip_prefix("ng").and_then(|name| name.split_once('n'));
    parts.is_some_and(|(controller, namespace)| number(controller) && number(namespace))
}

/// Refuses a file of one engine in a job of another: fio would not open it.
pub(super) fn check(converter: &mut Converter<'_>, job: &FioJob, paths: &[String]) -> Option<()> {
    let settings = &job.settings;
    let commands = settings.engine == Engine::Passthrough;
    if let Some(other) = paths.iter().find(|path| is_namespace(path) != commands) {
        let (key, why) = match commands {
            true => {
                let why = "io_uring_cmd sends NVMe commands to a generic character device: name \
                           /dev/ngXnY, or set ioengine=io_uring";
                ("filename", format!("{other}: {why}"))
            }
            false => {
                let why = "accepts NVMe commands only: set ioengine=io_uring_cmd, or name the \
                           block device, /dev/nvmeXnY";
                ("ioengine", format!("{other} {why}"))
            }
        };
        converter.refuse(job, key, &why);
        return None;
    }
    if commands && settings.durable && settings.mix.writes {
        let why = "each write has FUA; in fio the option has no effect on a character device";
        converter.note(job, "sync", Differs, why);
    }
    Some(())
}

/// Returns the storage of a job with this device path.
pub(super) fn storage(job: &FioJob, path: String) -> Storage {
    let settings = &job.settings;
    Storage::File {
        path,
        block_bytes: None,
        // A device exists or not: it is never created.
        size_bytes: None,
        direct: true,
        iopoll: settings.hipri,
        sqpoll: settings.sqthread_poll,
    }
}

#[cfg(test)]
mod test {
    use super::super::test::{job, of, refused};
    use super::*;
    use crate::formats::note::Treatment;

    #[test]
    fn a_namespace_is_known_by_its_name() {
        for name in ["/dev/ng0n1", "/dev/ng10n32", "ng1n2"] {
            assert!(is_namespace(name), "{name}");
        }
        for name in ["/dev/nvme0n1", "/dev/ng0", "/dev/ng0n", "/dev/ngn1", "/dev/ng0n1p1", ""] {
            assert!(!is_namespace(name), "{name}");
        }
    }

    #[test]
    fn its_volume_is_the_device() {
        let volume = |words: &str| {
            let text = format!("[a]\nfilename=/dev/ng0n1\nioengine=io_uring_cmd\n{words}\n");
            let group = job(&text).steps[0].groups[0].clone();
            (group.volumes[0].clone(), group.workload.outstanding)
        };
        let plain = "file:/dev/ng0n1?size=0&direct=true";
        let said = "cmd_type=nvme\niodepth=8\nsize=1m\nfixedbufs=1";
        assert_eq!(volume(said), (plain.to_owned(), 8));
        assert_eq!(volume("direct=0").0, plain);
        assert_eq!(volume("hipri\nsqthread_poll").0, format!("{plain}&both"));
    }

    #[test]
    fn each_engine_has_files_of_its_own() {
        for (words, why) in [
            ("filename=/dev/nvme0n1\nioengine=io_uring_cmd", "name /dev/ngXnY"),
            ("filename=/dev/ng0n1\nioengine=io_uring", "set ioengine=io_uring_cmd"),
            ("filename=/dev/ng0n1\nioengine=libaio", "/dev/nvmeXnY"),
        ] {
            let said = refused(&format!("[a]\n{words}\n"));
            assert!(said.contains(why), "{words}: {said}");
        }
        let words = "[a]\nfilename=/dev/ng0n1\nioengine=io_uring_cmd\nrw=write\nsync=1\n";
        assert_eq!(of(words).notes_of(Treatment::Differs).count(), 1);
    }
}
