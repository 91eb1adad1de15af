//! Jobs that begin where their file ends, `file_append`.

use super::convert::Converter;
use super::extents;
use super::job::FioJob;
use super::laid_out::file_of;
use super::storage::{real_bytes, storages};
use super::value::Amount;
use crate::formats::note::Treatment::{Differs, Ignored};
use crate::formats::reading::Storage;
use crate::spec::LaidOut;

/// Alignment in bytes of the end of a file, from which on the job writes.
const SECTOR_BYTES: u64 = 512;

/// Returns the offset of a clone's part: the end of its file as previous jobs and clones leave it,
/// or its `offset`.
pub(super) fn offset(converter: &mut Converter<'_>, job: &FioJob, clone: u32) -> Option<Amount> {
    if !job.settings.appends {
        return extents::offset(converter, job, clone);
    }
    let (all, _) = storages(converter, job, Amount::Bytes(0), clone..clone + 1)?;
    let mut why = "one file for each job or clone";
    if let [storage @ Storage::File { path, .. }] = &all[..] {
        if path.starts_with("/dev/") || !converter.options.volumes.is_empty() {
            let why =
                "devices and volumes of the command line do not grow: offset applies, as in fio";
            converter.note(job, "file_append", Ignored, why);
            return extents::offset(converter, job, clone);
        }
        let uri = (converter.options.volume)(storage).unwrap_or_default();
        let end = real_bytes(converter, job, storage, &uri).unwrap_or(0);
        if job.settings.loops > 1 {
            let why = "each loop writes the same offsets; fio ends after one loop, at the end of \
                       the file";
            converter.note(job, "loops", Differs, why);
        }
        match (job.settings.mix.reads, end.is_multiple_of(SECTOR_BYTES)) {
            (false, true) => return Some(Amount::Bytes(end)),
            (true, _) => why = "a job that only writes: to read, fio rewrites the whole file",
            (_, false) => why = "a file size that is a multiple of 512 bytes",
        }
    }
    let why = format!("appending needs {why}");
    converter.refuse(job, "file_append", &why);
    None
}

/// Extends the files of such a job to the size that it needs.
pub(super) fn grow(converter: &mut Converter<'_>, storages: &[Storage]) {
    for storage in storages {
        if let Storage::File { path, size_bytes: Some(bytes), .. } = storage
            && converter.options.volumes.is_empty()
            && !path.starts_with("/dev/")
            && *bytes > 0
        {
            let (path, size_bytes) = (path.clone(), *bytes);
            converter.laid_out.take(LaidOut { grows: true, ..file_of(path, size_bytes) });
        }
    }
}

#[cfg(test)]
mod test {
    use super::super::laid_out::file_of;
    use super::super::test::{job, of, refused, storage};
    use super::super::write;
    use crate::formats::note::Treatment;
    use crate::spec::{Extent, LaidOut};

    const FILE: &str = "[a]\nioengine=psync\nrw=write\nfilename=x\nsize=1m\n";

    #[test]
    fn each_job_and_clone_begins_where_the_last_one_ends() {
        let text = "[b]\nfilename=x\nsize=64k\nrw=randwrite\nnumjobs=2\nfile_append=1\n";
        let job = job(&format!("{FILE}{text}"));
        let begins: Vec<_> =
            job.steps[0].groups.iter().map(|group| group.workload.range.start).collect();
        let mib = 1 << 20;
        assert_eq!(begins, [0, mib, mib + 65536].map(Extent::Bytes));
        let (path, size_bytes) = ("x".to_owned(), mib + 131072);
        let grown = LaidOut { grows: true, ..file_of(path, size_bytes) };
        assert_eq!(job.laid_out, [grown]);
        assert!(write(&job, &storage).unwrap_err().contains("depends on when"));
    }

    #[test]
    fn what_does_not_grow_is_named() {
        let reads = refused(&format!("{FILE}rw=read\nfile_append=1\n"));
        assert!(
            reads.contains("x.fio:7: `file_append=1`: appending needs a job that only writes"),
            "{reads}"
        );
        let two = refused(&format!("{FILE}filename=y\nfile_append=1\n"));
        assert!(two.contains("one file for each"), "{two}");
        let odd = format!("[z]\nioengine=psync\nrw=write\nbs=100\nfilename=x\nsize=1000\n{FILE}");
        assert!(refused(&format!("{odd}file_append=1\n")).contains("multiple of 512"));
        let device = of(&format!("{}offset=1m\nfile_append=1\n", FILE.replace("=x", "=/dev/x")));
        assert_eq!(device.notes_of(Treatment::Ignored).count(), 1);
        assert!(device.job.unwrap().laid_out.is_empty());
        assert!(job(&format!("{FILE}file_append=0\n")).laid_out.is_empty());
    }
}
