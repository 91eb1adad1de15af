//! Typing mistakes: the known word that an unknown one was meant to be.
//!
//! Code that refuses a user's word calls this, so that the message has the right word.

/// Longest word that is compared; a longer one is no typing mistake of a known word.
const LETTERS_MAX: usize = 64;

/// The known word that is fewest typing mistakes away from `word`, and of several the first by the
/// alphabet. `None` if all of them are more than a third of its letters away.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = word.chars().count();
    if letters > LETTERS_MAX {
        return None;
    }
    let mistakes_max = (letters / 3).max(1);
    let distances = known.into_iter().map(|known| (mistakes(word, known), known));
    let best = distances.min();
    // Words that differ in each letter have nothing in common, however short they are.
    best.filter(|(mistakes, known)| {
        *mistakes <= mistakes_max && *mistakes < known.chars().count().min(letters)
    })
    .map(|(_, known)| known)
}

/// ` (did you mean 'WORD'?)` for the end of a refusal, or nothing.
pub fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |known| format!(" (did you mean '{known}'?)"))
}

/// Letters to add, drop, replace or exchange with their neighbour until both words are equal, if
/// small and capital letters are.
pub fn mistakes(word: &str, known: &str) -> usize {
    let letters = |word: &str| word.to_lowercase().chars().take(LETTERS_MAX + 1).collect();
    let (word, known): (Vec<char>, Vec<char>) = (letters(word), letters(known));
    // Rows of the table of distances between the beginnings of both: the last two, and this one.
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=known.len()).collect();
    for (i, letter) in word.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, other) in known.iter().enumerate() {
            let replaced = above[j] + usize::from(letter != other);
            let mut least = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && word[i - 1] == *other && *letter == known[j - 1] {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[known.len()]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn one_slip_of_the_finger_is_understood() {
        let known = ["race", "run", "serve", "sweep", "reconnect", "grace", "io_timeout"];
        for (typed, meant) in [
            ("rnu", Some("run")),
            ("ru", Some("run")),
            ("RACE", Some("race")),
            ("swep", Some("sweep")),
            ("sereve", Some("serve")),
            ("recconect", Some("reconnect")),
            ("io-timeout", Some("io_timeout")),
            ("timeout", None),
            ("xyz", None),
            ("r", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, known), meant, "{typed}");
        }
        assert_eq!(nearest(&"r".repeat(100_000), known), None);
        assert_eq!(hint("rnu", known), " (did you mean 'run'?)");
        assert_eq!(hint("é", known), "");
    }

    #[test]
    fn mistakes_are_counted_as_they_are_made() {
        for (word, known, count) in [
            ("run", "run", 0),
            ("RUN", "run", 0),
            ("rnu", "run", 1),
            ("abcd", "badc", 2),
            ("kitten", "sitting", 3),
            ("", "abc", 3),
        ] {
            assert_eq!(mistakes(word, known), count, "{word} {known}");
        }
    }
}
