//! Tests that the tables of keys in docs/reference/bill-keys.md match the keys of the reader.

use std::collections::BTreeSet;

use super::*;

const DOC: &str = include_str!("../../../../docs/reference/bill-keys.md");

/// Returns the keys that the reader names in its error about an unknown one.
fn known(text: &str) -> BTreeSet<String> {
    let error = Bill::read("b.toml", text, &Catalogue::shipped()).unwrap_err();
    let (_, list) = error.reason.split_once("expected").unwrap_or_else(|| panic!("{error}"));
    let keys: BTreeSet<String> = list.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(keys.len() > 1, "{error}");
    keys
}

/// Returns the first column of the table after a line of the document.
fn told(heading: &str) -> Vec<String> {
    let (_, rest) = DOC
        .split_once(heading)
        .unwrap_or_else(|| panic!("no '{heading}' in docs/reference/bill-keys.md"));
    let table = rest.lines().skip_while(|line| !line.starts_with("|"));
    let rows = table.take_while(|line| line.starts_with("|")).skip(2);
    let keys = rows.flat_map(|row| {
        let first = row.split('|').nth(1).unwrap_or_default();
        first.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
    });
    keys.collect()
}

#[test]
fn the_document_has_each_key_of_a_bill_and_no_other() {
    let head = "name = 'x'\nsize = '4k'\noutstanding = 1\n";
    let figure = "kind = 'spec'\nsource = 'x'\n";
    for (heading, text) in [
        ("Keys of a bill:\n", "nosuch = 1\n".to_owned()),
        ("Keys of a `[[group]]`:\n", format!("{head}[[group]]\nnosuch = 1\n")),
        ("Keys of a `[[stream]]`:\n", format!("{head}[[stream]]\nnosuch = 1\n")),
        ("Keys of a `[[layer]]`:\n", format!("{head}[[layer]]\nnosuch = 1\n")),
        ("Keys of an `[[extra]]`:\n", format!("{head}[[extra]]\nnosuch = 1\n")),
        ("Keys of a `[[part]]`:\n", format!("{head}[[part]]\nnosuch = 1\n")),
        ("Keys of a `[[figure]]`:\n", format!("{head}[[figure]]\n{figure}nosuch = 1\n")),
        ("Keys of a `[source.x]`:\n", format!("{head}[source.x]\nnosuch = 1\n")),
    ] {
        let told = told(heading);
        let unique: BTreeSet<String> = told.iter().cloned().collect();
        assert_eq!(unique.len(), told.len(), "{heading}: a key stands twice in {told:?}");
        assert_eq!(
            unique,
            known(&text),
            "{heading}: docs/reference/bill-keys.md on the left, the reader right"
        );
    }
}

#[test]
fn the_document_has_the_words_that_the_reader_takes() {
    let group = |line: &str| {
        let text = format!(
            "name = 'x'\nsize = '4k'\noutstanding = 1\n[[group]]\ndrive = 'x25-m'\ndrives = 4\n\
             {line}\n"
        );
        Bill::read("b.toml", &text, &Catalogue::shipped())
    };
    let row = |key: &str| {
        let start = format!("| `{key}` |");
        DOC.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("no {key}"))
    };
    // Every quoted word of these rows is accepted.
    for key in ["raid", "view"] {
        let words: Vec<&str> = row(key).split('"').skip(1).step_by(2).collect();
        assert!(words.len() > 2, "{words:?}");
        for word in words {
            group(&format!("{key} = '{word}'")).unwrap_or_else(|error| panic!("{word}: {error}"));
        }
    }
    let refused = group("link = 'ethernet-10'\nprotocol = 'nfs'").unwrap_err().reason;
    let words = refused.trim_start_matches("protocol: ").split(" or ");
    for word in words {
        assert!(row("protocol").contains(word), "{word} is not in docs/reference/bill-keys.md");
    }
}
