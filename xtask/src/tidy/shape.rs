//! Widths and lengths.

use super::source::is_word;
use super::{File, Finding, Tree};

/// Columns, as in rustfmt.toml, which ignores comments and strings.
const COLUMNS_MAX: usize = 100;
/// Lines of a function, signature and braces included.
const FUNCTION_LINES_MAX: usize = 70;
/// Lines of a file without tests from which it is noted.
const FILE_LINES: usize = 600;

/// Checks lengths of lines and functions; notes long files.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        findings.extend(wide_lines(file));
        findings.extend(long_functions(file));
        findings.extend(long_file(file));
    }
    findings
}

fn wide_lines(file: &File) -> Vec<Finding> {
    let wide = |text: &str| text.chars().count() > COLUMNS_MAX && !text.contains("https://");
    let lines = (1..).zip(file.text.lines()).filter(|(_, text)| wide(text));
    let remedy = "break it; links may be longer";
    let rule = format!("more than {COLUMNS_MAX} columns");
    lines.map(|(line, _)| Finding::new(&file.path, line, rule.as_str(), remedy)).collect()
}

fn long_functions(file: &File) -> Vec<Finding> {
    let code = file.source().code;
    let mut findings = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let begins = !code[..at].chars().next_back().is_some_and(is_word);
        let lines = if begins { function_lines(&code[at..]) } else { 0 };
        if lines > FUNCTION_LINES_MAX {
            let line = code[..at].matches('\n').count() + 1;
            let rule = format!("a function of {lines} lines, {FUNCTION_LINES_MAX} at most");
            let remedy = "give a part of it a name: ifs up, loops down, leaves pure";
            findings.push(Finding::new(&file.path, line, rule, remedy));
        }
    }
    findings
}

/// Number of lines of the function that begins here; 0 without a body.
fn function_lines(code: &str) -> usize {
    let mut depth = 0;
    let mut brackets = 0;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            // `[u8; 4]` in a signature is no end.
            ';' if depth == 0 && brackets == 0 => return 0,
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth <= 0 {
                    return code[..at].matches('\n').count() + 1;
                }
            }
            _ => {}
        }
    }
    0
}

fn long_file(file: &File) -> Option<Finding> {
    let source = file.source();
    let lines = source.code_without_tests().lines().count();
    let rule = format!("{lines} lines without tests");
    let remedy = "does it hold one thing or two?";
    let finding = Finding { note: true, ..Finding::new(&file.path, 1, rule, remedy) };
    (lines > FILE_LINES).then_some(finding)
}

#[cfg(test)]
mod test {
    use super::*;

    fn found(text: &str) -> Vec<(usize, bool)> {
        let tree = Tree::of(&[("crates/load/src/x.rs", text)]);
        check(&tree).iter().map(|finding| (finding.line, finding.note)).collect()
    }

    #[test]
    fn counts_columns_as_characters() {
        assert!(found(&format!("// {}\n", "é".repeat(97))).is_empty());
        assert_eq!(found(&format!("\n// {}\n", "é".repeat(98))), [(2, false)]);
        assert!(found(&format!("// https://{}\n", "e".repeat(98))).is_empty());
    }

    #[test]
    fn finds_the_function_that_grew() {
        let function =
            |lines: usize| format!("fn f(a: [u8; 4]) {{\n{}}}\n", "x();\n".repeat(lines));
        assert!(found(&function(68)).is_empty());
        assert_eq!(found(&format!("\n{}", function(69))), [(2, false)]);
        let many = function(60).repeat(3);
        assert!(found(&many).is_empty());
    }

    #[test]
    fn a_declaration_has_no_lines() {
        assert_eq!(function_lines("fn f(&self) -> [u8; 4];\nfn g() {\n}\n"), 0);
        assert_eq!(function_lines("fn f()\nwhere\n    T: X,\n{\n    y()\n}\n"), 6);
    }

    #[test]
    fn names_long_files_without_failing() {
        let long = "let a = 1;\n".repeat(601);
        assert_eq!(found(&long), [(1, true)]);
        assert!(found(&format!("x();\n#[cfg(test)]\n{long}")).is_empty());
    }
}
