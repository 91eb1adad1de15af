//! Jobs that continue until the device or file system is full, `fill_device` and `fill_fs`.

use super::convert::Converter;
use super::job::FioJob;
use super::settings::Settings;
use super::value::Amount;
use crate::formats::note::Treatment::{Differs, Ignored};

/// Returns whether the job ends when a write finds no space: on a file, since a device has a fixed
/// size.
pub(super) fn ends(settings: &Settings) -> bool {
    settings.fill && settings.mix.writes && settings.engine.has_files() && !is_device(settings)
}

fn is_device(settings: &Settings) -> bool {
    !settings.files.is_empty() && settings.files.iter().all(|name| name.starts_with("/dev/"))
}

/// Notes the effect of the option.
pub(super) fn check(converter: &mut Converter<'_>, job: &FioJob) {
    let settings = &job.settings;
    if !settings.fill {
        return;
    }
    let sizes = [settings.size, settings.file_size];
    let sized = sizes.iter().any(|size| matches!(size, Some(Amount::Bytes(_))));
    let rereads = settings.mix.reads && settings.verify.method().is_some();
    let both = settings.verify.reads && !settings.verify.only;
    if is_device(settings) || !settings.engine.has_files() {
        let why = "the job ends at its size or at that of the device";
        converter.note(job, "fill_device", Ignored, why);
    } else if !sized {
        let why = "the file needs a size in bytes: set one above the free space of the file \
                   system, and the job ends at ENOSPC";
        converter.refuse(job, "fill_device", why);
    } else if !settings.mix.writes {
        let why = "fio fills the file system before it reads; here the job ends at its size";
        converter.note(job, "fill_device", Differs, why);
    } else if rereads && both {
        let why = "verified reads need the whole range written before the run: with fill_device \
                   set rw=write";
        converter.refuse(job, "fill_device", why);
    } else {
        let why = "the file retains its configured size, without blocks past the last write; in \
                   fio the file ends there";
        converter.note(job, "fill_device", Differs, why);
    }
}

#[cfg(test)]
mod test {
    use super::super::test::{job, of, refused, storage};
    use super::super::write;
    use crate::formats::note::Treatment;

    const FILE: &str = "[a]\nioengine=psync\nfilename=x\nfill_fs=1\n";

    #[test]
    fn a_file_with_a_size_is_written_until_no_room_is_left() {
        for (words, until) in [
            ("size=1g\nrw=write", true),
            ("filesize=1g\nrw=randrw", true),
            ("size=1g\nrw=write\nverify=md5", true),
            ("size=1g\nrw=read", false),
            ("size=1g\nrw=write\nfill_device=0", false),
            ("size=1g\nrw=write\nioengine=null", false),
        ] {
            let made = job(&format!("{FILE}{words}\n"));
            assert_eq!(made.steps[0].groups[0].workload.until_full, until, "{words}");
            let written = write(&made, &storage).unwrap();
            assert_eq!(job(&written), made, "{written}");
        }
        let device = FILE.replace("=x", "=/dev/x");
        let made = job(&format!("{device}size=1g\nrw=write\n"));
        assert!(!made.steps[0].groups[0].workload.until_full);
        let reading = of(&format!("{FILE}size=1g\nrw=write\n"));
        let notes = reading.notes_of(Treatment::Differs).map(ToString::to_string);
        assert!(notes.collect::<String>().contains("without blocks past the last write"));
    }

    #[test]
    fn without_an_end_it_is_refused() {
        let said = refused(&format!("{FILE}rw=write\n"));
        assert!(said.contains("x.fio:4: `fill_fs=1`: the file needs a size in bytes"), "{said}");
        let said = refused(&format!("{FILE}rw=randrw\nsize=1m\nverify=md5\n"));
        assert!(said.contains("with fill_device set rw=write"), "{said}");
    }
}
