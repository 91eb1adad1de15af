//! Words in braces within arguments: names, numbers and repeats.

use std::collections::BTreeMap;

/// Replaces names in braces with their words.
pub fn fill(text: &str, words: &BTreeMap<String, String>) -> String {
    words
        .iter()
        .fold(text.to_owned(), |text, (name, word)| text.replace(&format!("{{{name}}}"), word))
}

/// Maximum arguments from an expansion, and maximum repeats of a text.
const EXPANDED_MAX: usize = 4096;

/// Arguments that one expands to: `p{1..3}` to p1, p2 and p3, `s({2*a})` to s(a,a).
pub fn expand(word: &str) -> Vec<String> {
    // The innermost braces first.
    for (begin, _) in word.match_indices('{') {
        let inside = &word[begin + 1..];
        let Some(len) = inside.find(['{', '}']) else { break };
        if inside.as_bytes()[len] == b'{' {
            continue;
        }
        let (before, text, behind) = (&word[..begin], &inside[..len], &inside[len + 1..]);
        let numbers = |(first, last): (&str, &str)| Some((first.parse().ok()?, last.parse().ok()?));
        if let Some((first, last)) = text.split_once("..").and_then(numbers) {
            let numbers: std::ops::RangeInclusive<usize> = first..=last;
            let one = |number| expand(&format!("{before}{number}{behind}"));
            return numbers.take(EXPANDED_MAX).flat_map(one).collect();
        }
        let times = text.split_once('*').and_then(|(n, text)| Some((n.parse().ok()?, text)));
        if let Some((times, text)) = times {
            let all = vec![text; usize::min(times, EXPANDED_MAX)].join(",");
            return expand(&format!("{before}{all}{behind}"));
        }
    }
    vec![word.to_owned()]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn an_argument_may_stand_for_several() {
        assert_eq!(expand("ram:{4..6}m"), ["ram:4m", "ram:5m", "ram:6m"]);
        assert_eq!(
            expand("stripe:4k({3*delay:m(ram:4m)})"),
            ["stripe:4k(delay:m(ram:4m),delay:m(ram:4m),delay:m(ram:4m))"]
        );
        assert_eq!(expand("{1..2}={2*a}"), ["1=a,a", "2=a,a"]);
        assert_eq!(expand("{2*m({2*a})}"), ["m(a,a),m(a,a)"]);
        // Other words in braces stay unchanged.
        for word in ["iscsi://{iscsi}/x", "{", "}", "{}", "{a..b}", "{client}{", "{x*y}", "a{1..}"]
        {
            assert_eq!(expand(word), [word]);
        }
        assert_eq!(expand("{iscsi}/{1..2}"), ["{iscsi}/1", "{iscsi}/2"]);
    }
}
