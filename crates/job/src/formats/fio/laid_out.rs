//! Jobs that only make their files, `create_only`.

use std::collections::HashMap;
use std::fmt::Write;

use super::append;
use super::convert::Converter;
use super::job::FioJob;
use super::storage;
use super::write::{self, Written, set};
use super::{data, lengths};
use crate::formats::note::Treatment::{Differs, Ignored};
use crate::formats::reading::Storage;
use crate::spec::{Access, Content, Group, JobSpec, LaidOut, Workload};

/// Maximum I/O size at which a pattern starts again with each write.
const WRITE_MAX_BYTES: u32 = 16 << 20;

/// Lays out the files of a job before all others, as fio does.
pub(super) fn lay_out(converter: &mut Converter<'_>, job: &FioJob) {
    let settings = &job.settings;
    if !converter.counts(job) {
        return;
    }
    // Clones of the job have numbers, as in fio.
    converter.jobs += settings.clones;
    if !converter.options.volumes.is_empty() {
        let why = "the command line names the volumes, so no file is created";
        converter.note(job, "create_only", Ignored, why);
        return;
    }
    if settings.exit_all {
        let why = "a job that only creates files does not end other jobs";
        converter.note(job, "exitall", Differs, why);
    }
    if !settings.mix.reads {
        let why = "a file that is only written gets its size but no blocks; fio allocates them";
        converter.note(job, "create_only", Differs, why);
    }
    for clone in 0..settings.clones {
        let Some(offset) = append::offset(converter, job, clone) else { return };
        let all = storage::storages(converter, job, offset, clone..clone + 1);
        let Some((all, _)) = all else { return };
        for file in all {
            if !take(converter, job, file) {
                return;
            }
        }
    }
}

/// Adds one file; false if its size is unknown.
fn take(converter: &mut Converter<'_>, job: &FioJob, storage: Storage) -> bool {
    let named = (converter.options.volume)(&storage);
    let Storage::File { path, size_bytes, .. } = storage else { return true };
    let uri = match named {
        Ok(uri) => uri,
        Err(why) => {
            converter.refuse(job, "filename", &why);
            return false;
        }
    };
    let Some(bytes) = size_bytes else {
        let there = (converter.options.capacity)(&uri).is_some();
        if !there {
            let why = format!("{path} does not exist and has no size: set a size in bytes");
            converter.refuse(job, "create_only", &why);
        }
        return there;
    };
    if bytes == 0 {
        converter.refuse(job, "size", "the file has 0 bytes: set a size");
        return false;
    }
    let settings = &job.settings;
    let written = settings.mix.reads;
    // Verified data were not written: nobody must find them.
    let compared = settings.verify.method().is_some();
    let content = match written && !compared {
        true => data::buffers(converter, job, Some(bytes)),
        false => Content::default(),
    };
    // Writes have the size of the largest one, as in fio.
    let most = u32::try_from(lengths::most(settings)).ok();
    let write_bytes = most.filter(|bytes| content.pattern.is_some() && *bytes <= WRITE_MAX_BYTES);
    let made = converter.made.entry(path.clone()).or_default();
    *made = bytes.max(*made);
    converter.laid_out.take(LaidOut {
        grows: job.settings.appends,
        written,
        content,
        write_bytes,
        ..file_of(path, bytes)
    });
    true
}

/// Returns a file with a size and no content.
pub(super) fn file_of(path: String, size_bytes: u64) -> LaidOut {
    let (written, grows, content, write_bytes) = Default::default();
    LaidOut { path, size_bytes, written, grows, content, write_bytes }
}

/// Files that are only laid out, each once, in order of appearance.
#[derive(Default)]
pub(super) struct Files {
    all: Vec<LaidOut>,
    numbers: HashMap<String, usize>,
}

impl Files {
    pub(super) fn take(&mut self, file: LaidOut) {
        let number = *self.numbers.entry(file.path.clone()).or_insert(self.all.len());
        match self.all.get_mut(number) {
            Some(known) => {
                known.size_bytes = known.size_bytes.max(file.size_bytes);
                if file.written && !known.written {
                    (known.content, known.write_bytes) = (file.content, file.write_bytes);
                }
                known.written |= file.written;
                known.grows |= file.grows;
            }
            None => self.all.push(file),
        }
    }

    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns all files.
    pub(super) fn into_vec(self) -> Vec<LaidOut> {
        self.all
    }
}

/// Writes laid-out files as `create_only` jobs.
pub(super) fn write(text: &mut String, files: &[LaidOut]) -> Result<(), String> {
    if let Some(file) = files.iter().find(|file| file.grows) {
        return Err(format!(
            "{}: the file grows, so its size depends on when fio starts",
            file.path
        ));
    }
    for (number, file) in (1..).zip(files) {
        let _ = writeln!(text, "\n[made{number}]");
        set(text, "filename", file.path.replace(':', "\\:"));
        set(text, "size", file.size_bytes);
        set(text, "rw", if file.written { "read" } else { "write" });
        set(text, "create_only", 1);
        if let Some(bytes) = file.write_bytes {
            set(text, "bs", bytes);
        }
        let mut workload = Workload::new(Access::of(Vec::new()), 1);
        workload.content = file.content.clone();
        let job = JobSpec::of(0, 0.0, 0.0, Group::new(Vec::new(), 1, workload));
        let step = &job.steps[0];
        write::rows(text, data::ROWS, &Written::of(step, &step.groups[0]))?;
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::super::test::{job, of, refused, storage};
    use super::super::write;
    use super::file_of;
    use crate::formats::note::Treatment;
    use crate::spec::{Content, LaidOut};

    const GLOBAL: &str = "[global]\nioengine=psync\nsize=1m\n";

    fn file(path: &str, size_bytes: u64, written: bool) -> LaidOut {
        LaidOut { written, ..file_of(path.to_owned(), size_bytes) }
    }

    #[test]
    fn files_are_made_and_the_other_jobs_run() {
        let text = "[a]\nrw=read\nnumjobs=2\nnrfiles=2\ncreate_only=1\n[b]\nfilename=x\nrw=write\n\
                    create_only=1\noffset=4k\noffset_increment=8k\nnumjobs=3\n[c]\nwait_for=b\n\
                    filename=x\nrw=read\n";
        let made = job(&format!("{GLOBAL}{text}"));
        let half = 512 << 10;
        let each = ["a.0.0", "a.0.1", "a.1.0", "a.1.1"].map(|name| file(name, half, true));
        assert_eq!(made.laid_out[..4], each);
        assert_eq!(made.laid_out[4..], [file("x", (1 << 20) + 5 * 4096, false)]);
        assert_eq!((made.steps.len(), made.steps[0].groups.len()), (1, 1));
        assert_eq!(made.steps[0].groups[0].name, "c");
        let written = write(&made, &storage).unwrap();
        assert_eq!(job(&written), made, "{written}");
    }

    #[test]
    fn a_file_holds_what_its_job_would_write() {
        let text = "create_only=1\n[a]\nbuffer_compress_percentage=60\nbuffer_compress_chunk=4k\n\
                    [b]\nbuffer_pattern=0xab\nbs=64k\n[c]\nzero_buffers\n[d]\nverify=md5\n\
                    buffer_pattern=1\n[e]\nrw=write\nbuffer_pattern=1\n[f]\nfilename=e.0.0\n\
                    dedupe_percentage=30\n";
        let made = job(&format!("{GLOBAL}{text}"));
        let [a, b, c, d, e] = &made.laid_out[..] else { panic!("{made:?}") };
        assert_eq!((a.content.compress_percent, a.write_bytes), (60.0, None));
        assert_eq!(b.content.pattern.as_ref().unwrap().to_string(), "0xab");
        assert_eq!((b.write_bytes, c.content.compress_percent), (Some(65536), 100.0));
        assert_eq!(d.content, Content::default());
        assert!(e.written && e.content.dedupe_percent == 30.0 && e.write_bytes.is_none());
        let written = write(&made, &storage).unwrap();
        assert_eq!(job(&written), made, "{written}");
    }

    #[test]
    fn a_file_may_do_nothing_but_make_files() {
        let made = job(&format!("{GLOBAL}create_only=1\n[a]\n[b]\nstonewall\nfilename=x\n"));
        assert_eq!(made.laid_out, [file("a.0.0", 1 << 20, true), file("x", 1 << 20, true)]);
        assert!(made.steps.is_empty());
        let written = write(&made, &storage).unwrap();
        assert_eq!(job(&written), made, "{written}");
    }

    #[test]
    fn what_waits_behind_it_waits_all_the_same() {
        let text = "[a]\nfilename=x\n[b]\nstonewall\ncreate_only=1\n[c]\nfilename=x\n";
        assert_eq!(job(&format!("{GLOBAL}{text}")).steps.len(), 2);
        let off = "[a]\nfilename=x\ncreate_only=0\n";
        assert!(job(&format!("{GLOBAL}{off}")).laid_out.is_empty());
    }

    #[test]
    fn what_cannot_be_made_is_refused_and_what_differs_is_said() {
        let why = refused("[a]\nioengine=psync\nfilename=x\ncreate_only=1\n");
        assert!(why.contains("x.fio:4: `create_only=1`: x does not exist"), "{why}");
        let none = refused("[a]\nioengine=null\nsize=1m\ncreate_only=1\n");
        assert!(none.contains("no job remains"), "{none}");
        let reading = of(&format!("{GLOBAL}[a]\nrw=write\ncreate_only=1\nexitall\n"));
        assert_eq!(reading.notes_of(Treatment::Differs).count(), 2, "{:?}", reading.notes);
    }
}
