//! Files of the catalogue that are compiled in; packed with the feature `packed`.

use std::borrow::Cow;

/// A compiled-in file.
pub(crate) struct File {
    pub(crate) name: &'static str,
    data: Data,
}

#[cfg(not(feature = "packed"))]
type Data = &'static str;
#[cfg(feature = "packed")]
type Data = &'static [u8];

#[cfg(not(feature = "packed"))]
macro_rules! file {
    ($name:literal) => {
        File { name: $name, data: include_str!(concat!("../data/", $name)) }
    };
}

#[cfg(feature = "packed")]
macro_rules! file {
    ($name:literal) => {
        File { name: $name, data: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".lz4")) }
    };
}

/// All files, in the order in which they are read.
pub(crate) const FILES: &[File] = &[
    file!("sources.toml"),
    file!("drives.toml"),
    file!("adapters.toml"),
    file!("links.toml"),
    file!("servers.toml"),
    file!("reviewed.toml"),
    file!("volumes.toml"),
    file!("processors.toml"),
    file!("classes.toml"),
    file!("software.toml"),
    file!("flushes.toml"),
    file!("remembered.toml"),
    file!("ratings.toml"),
    file!("latencies.toml"),
];

const EVIDENCE: File = file!("evidence.toml");

/// Text of the published results with their sources, against which predictions are held.
pub fn evidence() -> Cow<'static, str> {
    EVIDENCE.text()
}

impl File {
    #[cfg(not(feature = "packed"))]
    pub(crate) fn text(&self) -> Cow<'static, str> {
        Cow::Borrowed(self.data)
    }

    /// Unpacks the file.
    #[cfg(feature = "packed")]
    pub(crate) fn text(&self) -> Cow<'static, str> {
        let text = lz4_flex::decompress_size_prepended(self.data).expect("the build packed it");
        Cow::Owned(String::from_utf8(text).expect("the build packed text"))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn all_files_of_the_folder_are_compiled_in_as_they_are() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
        for file in FILES.iter().chain([&EVIDENCE]) {
            let text = std::fs::read_to_string(folder.join(file.name)).unwrap();
            assert!(file.text() == text, "{}", file.name);
        }
        let mut names: Vec<_> = FILES.iter().map(|file| file.name.to_owned()).collect();
        let mut found: Vec<String> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        found.sort();
        // Not of the catalogue's own form.
        found.retain(|name| !["models.toml", "evidence.toml"].contains(&name.as_str()));
        assert_eq!(names, found);
    }
}
