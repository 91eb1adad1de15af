//! Words of pages: a table cell has at most 20 words, and habits of a private language are rare.
//!
//! The pages are those that users read: the README and `docs`, without decisions, measurements and
//! earlier changes.
//! Code blocks and generated parts do not count. `docs/style.md` quotes the habits.

use super::{File, Finding, Tree};

const CELL_WORDS_MAX: usize = 20;
/// Maximum of habits per 1,000 words over all pages.
const HABITS_PER_1000_MAX: usize = 4;
/// Minimum words of a page whose habits are counted; shorter ones are judged by their cells only.
const WORDS_MIN: usize = 1000;
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

/// Cells are short, and all pages together have few habits.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut words, mut habits, mut most) = (0, 0, None);
    for page in tree.files.iter().filter(|file| is_page(&file.path)) {
        findings.extend(cells(page));
        if page.path == STYLE {
            continue;
        }
        let lines = prose(&page.text);
        let here: usize = lines.iter().map(|(_, line)| count(line)).sum();
        words += lines.iter().map(|(_, line)| line.split_whitespace().count()).sum::<usize>();
        habits += here;
        if most.is_none_or(|(_, found)| here > found) {
            most = Some((&page.path, here));
        }
    }
    if let Some((path, here)) = most
        && words >= WORDS_MIN
        && habits * 1000 > words * HABITS_PER_1000_MAX
    {
        let rule = format!("{habits} habits in {words} words of all pages, {here} in this page");
        let remedy = "use the words of the table in docs/style.md";
        findings.push(Finding::new(path, 1, rule, remedy));
    }
    findings
}

fn is_page(path: &str) -> bool {
    let page = path == "README.md" || (path.starts_with("docs/") && path.ends_with(".md"));
    let past = ["docs/decisions/", "docs/perf/", "docs/changes/"];
    page && !past.iter().any(|folder| path.starts_with(folder))
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
    fn habits_are_counted_over_all_pages() {
        let plain = "a word ".repeat(500);
        let few = format!("{plain}\nIt stands beside the rest.\n");
        assert!(rules(&[("README.md", &few)]).is_empty());
        let many = format!("{plain}\nWhat is told stands beside it, and is kept anew.\n");
        assert_eq!(rules(&[("README.md", &many)]), [("README.md".to_owned(), 1)]);
        assert!(rules(&[("docs/style.md", &many)]).is_empty(), "the page quotes habits");
        let other = [("README.md", &*many), ("docs/a.md", &plain), ("docs/b.md", &plain)];
        assert!(rules(&other).is_empty(), "6 in 3,010 words");
    }
}
