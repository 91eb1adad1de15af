//! Page cache before a job: invalidated, or filled by `pre_read`; and mapped files.

use super::convert::Converter;
use super::job::FioJob;
use super::lengths;
use super::settings::Hint;
use crate::formats::note::Treatment::{Differs, Ignored};
use crate::spec::{Cache, Expect};

/// Returns the cache options of files that use the page cache.
pub(super) fn cache(converter: &mut Converter<'_>, job: &FioJob) -> Cache {
    let settings = &job.settings;
    if settings.direct || !settings.engine.has_files() {
        if settings.before.read {
            let why = "I/Os of the job bypass the page cache, so nothing is pre-read; fio ends \
                       with an error";
            converter.note(job, "pre_read", Ignored, why);
        }
        return Cache::default();
    }
    let expect = match (settings.hint, settings.mix.random) {
        (Hint::None, _) => Expect::Unknown,
        (Hint::Random, _) | (Hint::ByMix, true) => Expect::Random,
        (Hint::Sequential, _) | (Hint::ByMix, false) => Expect::Sequential,
    };
    // Nothing is invalidated if something was to be read, as in fio.
    let drop = settings.invalidate && !settings.before.read;
    Cache { drop, read: settings.before.read && reads_before(converter, job), expect }
}

/// Refuses partial pages of a mapping, as fio does: they are neither synced separately nor direct.
pub(super) fn check(converter: &mut Converter<'_>, job: &FioJob) {
    let settings = &job.settings;
    let page = converter.around.page_bytes.max(1);
    let whole = lengths::least(settings).is_multiple_of(page);
    if !settings.mapped.on || whole || (settings.flush_every == 0 && !settings.mapped.direct) {
        return;
    }
    let key = ["bs", "bsrange", "bssplit"].into_iter().find(|key| job.sets(key));
    let why = format!(
        "with ioengine=mmap, fsync, fdatasync and direct need multiples of the page size, {page} \
         bytes: set such a bs, or ioengine=psync"
    );
    converter.refuse(job, key.unwrap_or("ioengine"), &why);
}

/// Returns whether anything is read before the job, as in fio.
fn reads_before(converter: &mut Converter<'_>, job: &FioJob) -> bool {
    let settings = &job.settings;
    if !settings.replays.files.is_empty() {
        let why = "nothing is pre-read for a trace, as in fio";
        converter.note(job, "pre_read", Ignored, why);
        return false;
    }
    if job.line_of("ioengine").1.ends_with("splice") {
        let why = "with splice nothing is pre-read, as in fio; the page cache is not invalidated \
                   either";
        converter.note(job, "pre_read", Ignored, why);
        return false;
    }
    if settings.delay_us != (0, 0) || settings.wait_for.is_some() {
        let why = "files are pre-read before any job up to the next stonewall starts; fio \
                   pre-reads when this job starts";
        converter.note(job, "pre_read", Differs, why);
    }
    true
}

#[cfg(test)]
mod test {
    use super::super::test::{job, of};
    use crate::formats::note::Treatment;
    use crate::spec::Cache;

    const FILE: &str = "[a]\nfilename=/dev/x\nsize=8m\nioengine=psync\n";

    #[test]
    fn what_is_read_before_is_not_dropped() {
        let of = |words: &str| job(&format!("{FILE}{words}\n")).steps[0].groups[0].cache;
        let Cache { drop, read, .. } = of("pre_read=1\ninvalidate=1");
        assert!(read && !drop);
        let Cache { drop, read, .. } = of("pre_read=1\nioengine=splice");
        assert!(!read && !drop);
        let Cache { drop, read, .. } = of("pre_read=0");
        assert!(!read && drop);
        assert_eq!(of("pre_read=1\ndirect=1"), Cache::default());
    }

    #[test]
    fn what_nothing_is_read_for_is_named() {
        let notes = |words: &str, treatment| {
            let reading = of(&format!("[z]\nioengine=null\nsize=1m\n{FILE}pre_read=1\n{words}\n"));
            assert!(reading.job.is_some());
            reading.notes_of(treatment).filter(|note| note.text == "pre_read=1").count()
        };
        assert_eq!(notes("direct=1", Treatment::Ignored), 1);
        assert_eq!(notes("ioengine=splice", Treatment::Ignored), 1);
        assert_eq!(notes("startdelay=1", Treatment::Differs), 1);
        assert_eq!(notes("wait_for=z", Treatment::Differs), 1);
        assert_eq!(notes("", Treatment::Differs) + notes("", Treatment::Ignored), 0);
    }
}
