//! Volumes of a job, the way to reach them, and the used part of each.

use super::super::option::Part::Load;
use super::super::option::{Row, flag, sets, some_word, switch, takes, word, word_if};
use super::super::parse;
use super::super::write::whole;
use crate::spec::{Extent, FileWalk, Places};
use block::print_size;

pub(in super::super) const ROWS: &[Row] = &[
    Row::new(&["ioengine"], false, |s, v| {
        s.mapped.on = v.text == Some("mmap");
        s.engine = parse::engine(v.text()?)?;
        Ok(v.text.and_then(parse::other_manner))
    })
    .writes(|w| word(w.way.engine)),
    flag!("hipri", hipri).writes(|w| word_if(w.way.iopoll, 1)),
    flag!("sqthread_poll", sqthread_poll).writes(|w| word_if(w.way.sqpoll, 1)),
    // A trace names its files itself.
    takes!("filename", |s, v| for name in parse::files(v.text()?)? {
        if !s.files.contains(&name) {
            s.files.push(name);
        }
    })
    .writes(|w| word_if(w.mix.is_some() && !w.names.is_empty(), w.names.join(":"))),
    sets!("nrfiles|nr_files", nr_files, |v| v.count()?),
    sets!("openfiles", open_files, |v| Some(v.count()?)),
    sets!("filename_format", name_format, |v| Some(v.text()?.to_owned())),
    sets!("directory", directory, |v| Some(v.text()?.to_owned())),
    switch!("direct", direct).writes(|w| some_word(w.way.direct.map(u8::from))),
    sets!("buffered", direct, |v| !v.switch()?),
    switch!("create_only", before.only_made),
    Row::new(&["unlink"], false, |s, v| {
        s.before.unlink = v.switch()?;
        Ok(s.before.unlink.then_some("files are removed after all jobs, not after each job"))
    })
    .writes(|w| word_if(w.group.unlink, 1))
    .tells(Load, |group| group.unlink.then(|| "files removed at the end".to_owned())),
    sets!("allow_file_create", before.none_made, |v| !v.switch()?),
    sets!("size", size, |v| v.some_amount()?)
        .writes(|w| match w.group.workload.range.length {
            Some(Extent::Bytes(bytes)) => word(bytes * w.files),
            Some(Extent::Percent(percent)) => word(format!("{}%", whole(percent, "size")?)),
            None => Ok(None),
        })
        .tells(Load, |group| {
            let range = &group.workload.range;
            let start = extent(range.start);
            match range.length {
                Some(length) => Some(format!("{} from offset {start}", extent(length))),
                None if range.start != Extent::Bytes(0) => {
                    Some(format!("from offset {start} to the end"))
                }
                None => None,
            }
        }),
    Row::new(&["filesize"], false, |s, v| {
        s.file_size = Some(parse::file_size(v.text()?, v.kb)?);
        let why = "all files have the mean size of the range; fio draws the size of each file";
        Ok(v.text()?.contains('-').then_some(why))
    }),
    sets!("offset|fileoffset", offset, |v| v.amount()?).writes(|w| {
        match w.group.workload.range.start {
            Extent::Bytes(bytes) => word_if(bytes > 0, bytes),
            Extent::Percent(percent) => word(format!("{}%", whole(percent, "offset")?)),
        }
    }),
    sets!("offset_increment", offset_increment, |v| v.amount()?),
    switch!("file_append", appends),
    sets!("offset_align", offset_align, |v| v.size()?),
    sets!("file_service_type", service, |v| parse::service(v.text()?)?)
        .writes(|w| match w.access().files {
            Some(_) => Err("fio cannot divide a volume into files".to_owned()),
            None => Ok(None),
        })
        .tells(Load, |group| group.workload.access.files.as_ref().map(told_files)),
];

fn extent(extent: Extent) -> String {
    match extent {
        Extent::Bytes(bytes) => print_size(bytes),
        Extent::Percent(percent) => format!("{percent} %"),
    }
}

fn told_files(files: &FileWalk) -> String {
    let FileWalk { count, ios, random } = files;
    let law = match random {
        None => "in turn".to_owned(),
        Some(Places::Zipf { exponent }) => format!("by zipf {exponent}"),
        Some(Places::Pareto { hot }) => format!("by pareto {hot}"),
        Some(Places::Normal { deviation_percent }) => format!("by normal {deviation_percent:.1}"),
        Some(_) => "at random".to_owned(),
    };
    format!("{ios} consecutive I/Os on one of {count} files, chosen {law}")
}
