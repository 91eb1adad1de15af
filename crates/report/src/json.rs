//! The result document, with a digest that shows changes.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use stats::RunResult;

/// Writes the document, indented, with its digest as the last name and a line feed at its end.
pub fn write(result: &RunResult, out: &mut impl Write) -> io::Result<()> {
    let mut text = Vec::new();
    write_value(result, &mut text)?;
    let digest = digest(&serde_json::from_slice(&text)?);
    let open = text.strip_suffix(b"\n}\n").unwrap_or(&text);
    out.write_all(open)?;
    writeln!(out, ",\n  \"{DIGEST}\": \"{digest}\"\n}}")
}

/// Name of the digest.
const DIGEST: &str = "digest";
/// Names that the digest leaves out: itself, and who measured where, which is anonymized before
/// results are published.
const LEFT_OUT: [&str; 4] = [DIGEST, "schema_version", "tool", "host"];

/// State of a document's digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// The document is unchanged, except perhaps for indentation and the order of names.
    Whole,
    /// A figure, a check or a setting was changed or is missing.
    Broken,
    /// No digest exists: the writer was an earlier version or was killed, or the digest was
    /// removed.
    Missing,
}

/// Checks a document against its digest.
///
/// # Errors
///
/// The text is not JSON.
pub fn seal(text: &[u8]) -> serde_json::Result<Seal> {
    let document: Value = serde_json::from_slice(text)?;
    Ok(match document.get(DIGEST) {
        None => Seal::Missing,
        Some(says) if *says == digest(&document) => Seal::Whole,
        Some(_) => Seal::Broken,
    })
}

/// Digest at the end of a document, as this program wrote it.
pub fn digest_at_end(text: &[u8]) -> Option<&str> {
    let end = std::str::from_utf8(text.get(text.len().checked_sub(64)?..)?).ok()?;
    let (_, value) = end.rsplit_once("\"digest\": \"")?;
    value.split('"').next().filter(|digest| digest.len() == 16)
}

/// Returns the FNV-1a hash, 64 bits, of all names and values. No digest protects against forgery: a
/// program that can measure can write the digest.
fn digest(document: &Value) -> String {
    let mut sum = Sum(0xcbf2_9ce4_8422_2325);
    match document {
        Value::Object(names) => {
            let kept = names.iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()));
            sum.object(kept);
        }
        other => sum.value(other),
    }
    format!("{:016x}", sum.0)
}

struct Sum(u64);

impl Sum {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn text(&mut self, kind: u8, text: &str) {
        self.bytes(&[kind]);
        self.bytes(text.as_bytes());
        self.bytes(&[0xff]);
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.text(b'0', ""),
            Value::Bool(yes) => self.text(b'b', if *yes { "1" } else { "" }),
            // Other programs write 3.0 as 3.
            Value::Number(number) => match number.as_u64() {
                Some(whole) => self.text(b'n', &whole.to_string()),
                None => self.text(b'n', &number.as_f64().unwrap_or(f64::NAN).to_string()),
            },
            Value::String(text) => self.text(b's', text),
            Value::Array(values) => {
                self.text(b'[', "");
                values.iter().for_each(|value| self.value(value));
                self.text(b']', "");
            }
            Value::Object(names) => self.object(names.iter()),
        }
    }

    fn object<'a>(&mut self, names: impl Iterator<Item = (&'a String, &'a Value)>) {
        let mut names: Vec<_> = names.collect();
        names.sort_unstable_by_key(|(name, _)| *name);
        self.text(b'{', "");
        for (name, value) in names {
            self.text(b'k', name);
            self.value(value);
        }
        self.text(b'}', "");
    }
}

/// Parts of a document that are set as [`PrettyFormatter`] sets them.
macro_rules! as_pretty {
    ($($name:ident $(($word:ident: $of:ty))?),*) => { $(
        fn $name<W>(&mut self, out: &mut W $(, $word: $of)?) -> std::io::Result<()>
        where
            W: ?Sized + std::io::Write,
        {
            self.0.$name(out $(, $word)?)
        }
    )* };
}
pub(crate) use as_pretty;

/// Writes a value in the layout of documents, with a line feed at its end.
pub fn write_value(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *out, ListsInLine::default()))?;
    writeln!(out)
}

/// Objects over several lines, lists in one: histograms have long lists of numbers.
#[derive(Default)]
struct ListsInLine(PrettyFormatter<'static>);

impl Formatter for ListsInLine {
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    as_pretty!(begin_object, end_object, begin_object_value, end_object_value);
    as_pretty!(begin_object_key(first: bool));
}

/// Reads a document back. Unknown names are ignored, so newer documents of the same layout pass.
pub fn read(text: &[u8]) -> serde_json::Result<RunResult> {
    serde_json::from_slice(text)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;

    #[test]
    fn one_document_that_can_be_read_back() {
        let mut out = Vec::new();
        write(&sample::race(), &mut out).unwrap();
        assert!(out.ends_with(b"}\n"));
        assert_eq!(read(&out).unwrap(), sample::race());
        let newer = String::from_utf8(out).unwrap().replacen('{', "{\"new\": 1,", 1);
        assert_eq!(read(newer.as_bytes()).unwrap(), sample::race());
        assert!(read(b"{}").is_err());
    }

    #[test]
    fn a_digest_shows_every_change_and_no_other_layout() {
        let mut out = Vec::new();
        write(&sample::race(), &mut out).unwrap();
        assert_eq!(seal(&out).unwrap(), Seal::Whole);
        let says = digest_at_end(&out).unwrap();
        assert_eq!(says, digest(&serde_json::from_slice(&out).unwrap()));
        assert_eq!(digest_at_end(b"{}"), None);
        let original: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(seal(original.to_string().as_bytes()).unwrap(), Seal::Whole);
        let after = |change: &dyn Fn(&mut Value)| {
            let mut document = original.clone();
            change(&mut document);
            seal(document.to_string().as_bytes()).unwrap()
        };
        let changes: [&dyn Fn(&mut Value); 9] = [
            &|it| it["seed"] = 7.into(),
            &|it| it["job"]["size_bytes"] = 8192.into(),
            &|it| it["intervals"][0]["iops"] = 9e6.into(),
            &|it| it["workers"][0]["volume"] = "file:/dev/nvme0n1".into(),
            &|it| it["totals"]["mean_outstanding"] = 1.0.into(),
            &|it| it["checks"][0]["verdict"] = "fail".into(),
            &|it| drop(it["checks"].as_array_mut().unwrap().pop()),
            &|it| it["cpu"]["initiator_cores"] = Value::Null,
            &|it| it["note"] = "new".into(),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert_eq!(after(change), Seal::Broken, "change {number}");
        }
        assert_eq!(after(&|it| it["host"]["name"] = "anybody".into()), Seal::Whole);
        assert_eq!(after(&|it| it["digest"] = "0".into()), Seal::Broken);
        assert_eq!(after(&|it| drop(it.as_object_mut().unwrap().remove("digest"))), Seal::Missing);
        // A whole number is the same with a point and without.
        let number = |text: &str| digest(&serde_json::from_str(text).unwrap());
        assert_eq!(number("[3.0, 2.5]"), number("[3, 2.50]"));
        assert_ne!(number("[3, 25]"), number("[32, 5]"));
    }
}
