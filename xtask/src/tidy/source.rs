//! Splits Rust text into code, comments and literals.
//!
//! Rules search one of the two views, so that a word in a string is no match, and a rule may name
//! the words that it forbids. Both views keep the lines of the original.

/// A Rust file in two views.
pub struct Source {
    /// Comments, strings and character literals are blanked.
    pub code: String,
    /// Everything but comments is blanked.
    pub comments: String,
}

impl Source {
    /// Splits a file. Text that is not Rust yields garbage, never a panic.
    pub fn new(text: &str) -> Source {
        let chars: Vec<char> = text.chars().collect();
        let (mut code, mut comments) = (String::new(), String::new());
        let mut at = 0;
        while at < chars.len() {
            let (kind, len) = token(&chars[at..], at > 0 && is_word(chars[at - 1]));
            for &c in &chars[at..at + len] {
                let blank = if c == '\n' { '\n' } else { ' ' };
                code.push(if kind == Kind::Code { c } else { blank });
                comments.push(if kind == Kind::Comment { c } else { blank });
            }
            at += len;
        }
        Source { code, comments }
    }

    /// The code before the unit tests, which are last in a file.
    pub fn code_without_tests(&self) -> &str {
        self.code.find("#[cfg(test)]").map_or(&self.code, |end| &self.code[..end])
    }
}

/// Whether a character may be part of a Rust identifier.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// Kind and length of the token that begins here. `inside_word`: the previous character belongs to
/// a word, so that an `r` or `b` here begins no literal.
fn token(rest: &[char], inside_word: bool) -> (Kind, usize) {
    let next = |i: usize| rest.get(i).copied().unwrap_or('\n');
    let until_quote = || rest.iter().skip(3).take_while(|c| **c != '\'').count();
    let (kind, len) = match (rest[0], next(1)) {
        ('/', '/') => (Kind::Comment, rest.iter().take_while(|c| **c != '\n').count()),
        ('/', '*') => (Kind::Comment, block_comment(rest)),
        ('"', _) => (Kind::Literal, quoted(rest, 0)),
        ('r' | 'b' | 'c', _) if !inside_word => match raw_string(rest) {
            0 => (Kind::Code, 1),
            len => (Kind::Literal, len),
        },
        // A lifetime has no closing quote after its first character.
        ('\'', '\\') => (Kind::Literal, 4 + until_quote()),
        ('\'', _) if next(2) == '\'' => (Kind::Literal, 3),
        _ => (Kind::Code, 1),
    };
    (kind, len.min(rest.len()))
}

/// Length of a block comment, which may nest.
fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at + 1 < rest.len() {
        match (rest[at], rest[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Length of a string with its opening quote at `quote`, including its closing quote.
fn quoted(rest: &[char], quote: usize) -> usize {
    let mut at = quote + 1;
    while at < rest.len() && rest[at] != '"' {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// Length of a raw, byte or C string that begins here; 0 if none does.
fn raw_string(rest: &[char]) -> usize {
    let prefix = rest.iter().take_while(|c| matches!(c, 'r' | 'b' | 'c')).count();
    let hashes = rest[prefix..].iter().take_while(|c| **c == '#').count();
    let quote = prefix + hashes;
    if prefix > 2 || rest.get(quote) != Some(&'"') {
        return 0;
    }
    if rest[prefix - 1] != 'r' {
        return if hashes == 0 { quoted(rest, quote) } else { 0 };
    }
    let closing = |at: usize| {
        rest[at] == '"' && rest[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes
    };
    let end = (quote + 1..rest.len()).find(|at| closing(*at));
    end.map_or(rest.len(), |end| end + 1 + hashes)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn parts_code_comments_and_literals() {
        let text = "let a = \"x // y\"; // why \"z\"\n/* b /* c */ d */ let e = 'f';\n";
        let source = Source::new(text);
        assert_eq!(source.code.split_whitespace().collect::<Vec<_>>().join(" "), {
            "let a = ; let e = ;"
        });
        assert!(source.comments.contains("// why \"z\"") && source.comments.contains("c */ d */"));
        assert!(!source.comments.contains("x // y"));
        assert_eq!(source.code.lines().count(), text.lines().count());
    }

    #[test]
    fn knows_raw_strings_escapes_and_lifetimes() {
        let text =
            r####"f(r#"dbg!("a")"#, "\"todo!", b"x", '"', '\'', b'"'); fn g<'a>(x: &'a u8) {}"####;
        let code = Source::new(text).code;
        assert!(!code.contains("dbg!") && !code.contains("todo!"), "{code}");
        assert!(code.contains("fn g<'a>(x: &'a u8) {}"), "{code}");
    }

    #[test]
    fn never_panics_on_torn_text() {
        for text in ["\"", "'", "'\\", "/*", "r#\"", "b\"\\", "/", "br", "'a"] {
            assert_eq!(Source::new(text).code.chars().count(), text.chars().count(), "{text}");
        }
    }
}
