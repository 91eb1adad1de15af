//! Arithmetic in values: `8*$mb_memory`, `(4k*16)`.

/// Maximum nesting of parentheses.
const NESTED_MAX: usize = 32;

/// Calculates `text`: numbers with `+ - * /` and parentheses, as integers. `number` reads one
/// number, its suffix included.
pub fn evaluate(text: &str, number: &dyn Fn(&str) -> Option<u64>) -> Result<u64, String> {
    let mut reader = Reader { rest: text, number, nested: 0 };
    let value = reader.sum().ok_or_else(|| format!("'{text}' is not a valid expression"))?;
    if !reader.rest.trim().is_empty() {
        return Err(format!("unexpected '{}' after the expression", reader.rest.trim()));
    }
    u64::try_from(value).map_err(|_| format!("'{text}' is negative"))
}

struct Reader<'a> {
    rest: &'a str,
    number: &'a dyn Fn(&str) -> Option<u64>,
    nested: usize,
}

impl Reader<'_> {
    fn sum(&mut self) -> Option<i128> {
        let mut value = self.product()?;
        while let Some(sign) = self.sign(&['+', '-']) {
            let next = self.product()?;
            value = match sign {
                '+' => value.checked_add(next)?,
                _ => value.checked_sub(next)?,
            };
        }
        Some(value)
    }

    fn product(&mut self) -> Option<i128> {
        let mut value = self.factor()?;
        while let Some(sign) = self.sign(&['*', '/']) {
            let next = self.factor()?;
            value = match sign {
                '*' => value.checked_mul(next)?,
                _ => value.checked_div(next)?,
            };
        }
        Some(value)
    }

    fn factor(&mut self) -> Option<i128> {
        if self.sign(&['(']).is_none() {
            return self.number();
        }
        self.nested += 1;
        let value = if self.nested > NESTED_MAX { None } else { self.sum() };
        self.nested -= 1;
        self.sign(&[')'])?;
        value
    }

    fn number(&mut self) -> Option<i128> {
        let text = self.rest.trim_start();
        let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
        let (digits, rest) = text.split_at(end);
        self.rest = rest;
        (self.number)(digits).map(i128::from)
    }

    fn sign(&mut self, signs: &[char]) -> Option<char> {
        let text = self.rest.trim_start();
        let sign = text.chars().next().filter(|sign| signs.contains(sign))?;
        self.rest = &text[sign.len_utf8()..];
        Some(sign)
    }
}

#[cfg(test)]
mod test {
    use super::evaluate;

    fn of(text: &str) -> Result<u64, String> {
        evaluate(text, &|digits| digits.parse().ok())
    }

    #[test]
    fn calculates_as_written() {
        assert_eq!(of("2+3*4"), Ok(14));
        assert_eq!(of(" ( 2 + 3 ) * 4 - 7/2"), Ok(17));
        assert_eq!(of("7"), Ok(7));
    }

    #[test]
    fn refuses_what_is_no_number() {
        for text in ["", "(", "2+", "1/0", "3-4", "(1", "1)", "a", "9999999999999999999999"] {
            assert!(of(text).is_err(), "{text}");
        }
        let deep = "(".repeat(5000) + "1" + &")".repeat(5000);
        assert!(of(&deep).is_err());
        assert!(of("18446744073709551615*".repeat(4).trim_end_matches('*')).is_err());
    }
}
