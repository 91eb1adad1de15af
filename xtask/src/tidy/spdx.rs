//! Licence expressions of SPDX: `(MIT OR Apache-2.0) AND Unicode-3.0`.

use anyhow::{Result, bail, ensure};

/// Whether the licences that `is_allowed` accepts meet an expression. A slash is an older `OR`.
///
/// # Errors
///
/// The text is not an expression.
pub fn is_met(expression: &str, is_allowed: impl Fn(&str) -> bool) -> Result<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, is_allowed };
    let met = reader.either()?;
    ensure!(reader.words.is_empty(), "`{}` after its end", reader.words.join(" "));
    Ok(met)
}

/// Reads an expression from the left. `AND` binds closer than `OR`.
struct Reader<'a, F> {
    words: &'a [&'a str],
    is_allowed: F,
}

impl<'a, F: Fn(&str) -> bool> Reader<'a, F> {
    fn either(&mut self) -> Result<bool> {
        let mut met = self.both()?;
        while self.next_is("OR") {
            met |= self.both()?;
        }
        Ok(met)
    }

    fn both(&mut self) -> Result<bool> {
        let mut met = self.one()?;
        while self.next_is("AND") {
            met &= self.one()?;
        }
        Ok(met)
    }

    fn one(&mut self) -> Result<bool> {
        if self.next_is("(") {
            let met = self.either()?;
            ensure!(self.next_is(")"), "a bracket is not closed");
            return Ok(met);
        }
        let id = self.id()?;
        // A licence with an exception is another licence.
        if self.next_is("WITH") {
            let with = format!("{id} WITH {}", self.id()?);
            return Ok((self.is_allowed)(&with));
        }
        Ok((self.is_allowed)(id))
    }

    fn id(&mut self) -> Result<&'a str> {
        match self.words {
            [id, rest @ ..] if !["OR", "AND", "WITH", "(", ")"].contains(id) => {
                self.words = rest;
                Ok(id)
            }
            [word, ..] => bail!("`{word}` instead of a licence"),
            [] => bail!("it ends without a licence"),
        }
    }

    /// Takes the next word if it is this one.
    fn next_is(&mut self, word: &str) -> bool {
        let is_it = self.words.first() == Some(&word);
        self.words = &self.words[usize::from(is_it)..];
        is_it
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn met(expression: &str) -> bool {
        is_met(expression, |id| ["MIT", "Zlib", "A WITH B"].contains(&id)).unwrap()
    }

    #[test]
    fn expressions_are_met_by_allowed_licences() {
        for good in ["MIT", "GPL-2.0 OR MIT", "Apache-2.0/MIT", "MIT AND Zlib", "A WITH B OR C"] {
            assert!(met(good), "{good}");
        }
        for bad in ["GPL-2.0", "MIT AND GPL-2.0", "A", "MIT WITH B", "(MIT OR X) AND Y"] {
            assert!(!met(bad), "{bad}");
        }
        assert!(met("X AND Y OR MIT") && !met("X AND (Y OR MIT)"));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "MIT OR", "MIT MIT", "(MIT", "MIT)", "OR", "MIT WITH"] {
            assert!(is_met(text, |_| true).is_err(), "{text}");
        }
    }
}
