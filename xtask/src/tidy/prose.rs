//! Words of pages: a table cell has at most 20 words, and habits of a private language are rare.
//!
//! The pages are those that users read: those on top of the tree and `docs`, without decisions,
//! measurements and earlier changes.
//! Code blocks and generated parts do not count. `docs/style.md` quotes the habits.

use super::{File, Finding, Tree};

const CELL_WORDS_MAX: usize = 20;
/// Maximum of habits per 1,000 words of a page.
const HABITS_PER_1000_MAX: usize = 4;
/// Number of habits that any page may have, however short: a link's text, a fixed name.
const HABITS_OF_ANY: usize = 3;
const STYLE: &str = "docs/style.md";

/// Words and phrases with a plainer alternative, in lower case. `docs/style.md` lists replacements.
const HABITS: &[&str] = &[
    "told",
    "stand",
    "stands",
    "beside",
    "anew",
    "kept",
    "asked",
    "come to",
    "comes to",
    "want",
    "wants",
    "so many",
    "behind",
    "meanwhile",
    "of it",
    "of them",
    "of those",
    "of its own",
    "is none",
    "place",
    "places",
    "what is",
    "what was",
    "what it",
    "what a",
    "what the",
    "what of",
];

/// Cells are short, and each page has few habits.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files.iter().filter(|file| is_page(&file.path));
    pages.flat_map(|page| cells(page).into_iter().chain(habits(page))).collect()
}

fn is_page(path: &str) -> bool {
    let top = ["README.md", "SECURITY.md", "CONTRIBUTING.md"];
    let page = top.contains(&path) || (path.starts_with("docs/") && path.ends_with(".md"));
    let past = ["docs/decisions/", "docs/perf/", "docs/changes/"];
    page && !past.iter().any(|folder| path.starts_with(folder))
}

/// A page with too many habits, at the line that has most.
fn habits(page: &File) -> Option<Finding> {
    if page.path == STYLE {
        return None;
    }
    let lines = prose(&page.text);
    let words: usize = lines.iter().map(|(_, line)| line.split_whitespace().count()).sum();
    let found: Vec<(usize, usize)> =
        lines.iter().map(|(number, line)| (*number, count(line))).collect();
    let sum: usize = found.iter().map(|(_, habits)| habits).sum();
    let (number, _) = found.iter().rev().max_by_key(|(_, habits)| habits)?;
    let most = HABITS_OF_ANY.max(words * HABITS_PER_1000_MAX / 1000);
    let rule = format!("{sum} habits in {words} words of this page (at most {most})");
    let remedy = "use the words of the table in docs/style.md";
    (sum > most).then(|| Finding::new(&page.path, *number, rule, remedy))
}

/// The lines of a page outside of code blocks and generated parts, with their numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let (mut fenced, mut made) = (false, false);
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        made = (made || line.starts_with("<!-- made by")) && !line.starts_with("<!-- end");
        if !fence && !fenced && !made {
            lines.push((number, line));
        }
    }
    lines
}

fn cells(page: &File) -> Vec<Finding> {
    let rows = prose(&page.text).into_iter().filter(|(_, line)| line.starts_with('|'));
    let long = rows.filter_map(|(number, line)| {
        // A bar in code separates no cells.
        let code: Vec<String> = (0..)
            .zip(line.split('`'))
            .map(|(at, part)| if at % 2 == 1 { part.replace('|', "/") } else { part.to_owned() })
            .collect();
        let row = code.join("`");
        let longest = row.split('|').map(|cell| cell.split_whitespace().count()).max()?;
        (longest > CELL_WORDS_MAX).then_some((number, longest))
    });
    let remedy = "shorten the cell, or write a list or a section";
    let found = |(line, words)| {
        let rule = format!("a table cell of {words} words (at most {CELL_WORDS_MAX})");
        Finding::new(&page.path, line, rule, remedy)
    };
    long.map(found).collect()
}

/// Habits in a line.
fn count(line: &str) -> usize {
    let spaced: String = line
        .chars()
        .map(|letter| if letter.is_alphanumeric() { letter.to_ascii_lowercase() } else { ' ' })
        .collect();
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let is_at = |at: usize, habit: &&str| {
        habit.split(' ').enumerate().all(|(next, word)| words.get(at + next) == Some(&word))
    };
    (0..words.len()).filter(|at| HABITS.iter().any(|habit| is_at(*at, habit))).count()
}

#[cfg(test)]
mod test {
    use super::*;

    fn rules(pages: &[(&str, &str)]) -> Vec<(String, usize)> {
        let found = check(&Tree::of(pages));
        found.into_iter().map(|finding| (finding.path, finding.line)).collect()
    }

    #[test]
    fn long_cells_are_found_outside_of_code_and_generated_parts() {
        let long = ["word"; 21].join(" ");
        let short = ["word"; 20].join(" ");
        let row = |cell: &str| format!("| a | {cell} |\n");
        let page = format!(
            "# t\n{}{}```\n{}```\n<!-- made by x -->\n{}<!-- end -->\n",
            row(&short),
            row(&long),
            row(&long),
            row(&long)
        );
        assert_eq!(rules(&[("docs/a.md", &page)]), [("docs/a.md".to_owned(), 3)]);
        assert!(rules(&[("docs/decisions/1.md", &page), ("CHANGELOG.md", &page)]).is_empty());
        let bar = format!("| `a{}b` | c |\n", " | ".repeat(21));
        assert_eq!(rules(&[("docs/a.md", &bar)]).len(), 1, "code is one cell");
    }

    #[test]
    fn habits_are_counted_in_each_page() {
        let plain = "a word ".repeat(500);
        let few = format!("{plain}\nIt stands beside the rest, and is kept\nanew.\n");
        assert!(rules(&[("README.md", &few)]).is_empty(), "4 in 1,010 words");
        let many = format!("{plain}\nWhat is told\nstands beside it, and is kept.\n");
        assert_eq!(rules(&[("README.md", &many)]), [("README.md".to_owned(), 3)]);
        assert!(rules(&[("docs/style.md", &many)]).is_empty(), "the page quotes habits");
        let other = [("SECURITY.md", &*many), ("docs/a.md", &plain), ("docs/perf/b.md", &many)];
        assert_eq!(rules(&other), [("SECURITY.md".to_owned(), 3)]);
        assert!(rules(&[("docs/a.md", "It stands beside the rest, anew.")]).is_empty());
        assert_eq!(rules(&[("docs/a.md", "It stands beside the rest, kept anew.")]).len(), 1);
    }
}
