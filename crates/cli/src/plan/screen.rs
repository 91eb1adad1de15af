//! The first screen of an answer: at most 24 lines of 80 columns. `--details` prints the rest.

use block::Text;

/// Columns of a line.
const WIDTH: usize = 80;
/// Lines of a screen.
const LINES: usize = 24;
/// Columns before the words of a field.
const INDENT: usize = 14;

/// Lines of an answer, the most important first.
#[derive(Default)]
pub struct Screen {
    lines: Vec<String>,
}

impl Screen {
    /// Adds words, continued on as many lines as they need.
    pub fn words(&mut self, words: &str) {
        self.lines.extend(wrapped(words, "", ""));
    }

    /// Adds a named value: "  limit       drives".
    pub fn field(&mut self, name: &str, words: &str) {
        let first = format!("  {name:<width$}", width = INDENT - 2);
        self.lines.extend(wrapped(words, &first, &" ".repeat(INDENT)));
    }

    /// Adds a row of a table, cut at the width of a screen.
    pub fn row(&mut self, row: &str) {
        self.lines.push(row.trim_end().chars().take(WIDTH).collect());
    }

    /// All lines, and no more.
    pub fn all(self) -> Text {
        let mut text = Text::new();
        self.lines.iter().for_each(|line| text.line(line));
        text
    }

    /// The text: as many notes as there is room for, and `last` at the end.
    pub fn text(mut self, notes: &[String], last: &str) -> Text {
        let last = wrapped(last, "", "");
        let room = LINES.saturating_sub(last.len());
        let mut left = notes.len();
        for note in notes {
            let note = wrapped(note, "note: ", "  ");
            // A line for how many notes are left out.
            let more = usize::from(left > 1);
            if self.lines.len() + note.len() + more > room {
                break;
            }
            self.lines.extend(note);
            left -= 1;
        }
        if left > 0 && self.lines.len() < room {
            let are = if left == 1 { "note is" } else { "notes are" };
            self.lines.push(format!("{left} more {are} in --details"));
        }
        self.lines.truncate(room);
        let mut text = Text::new();
        self.lines.iter().chain(&last).for_each(|line| text.line(line));
        text
    }
}

/// Words in lines of a screen's width. `first` begins the first line, `next` each other one.
fn wrapped(words: &str, first: &str, next: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut empty) = (first.to_owned(), true);
    for word in words.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        loop {
            let gap = usize::from(!empty);
            let room = WIDTH.saturating_sub(line.chars().count() + gap);
            if word.len() <= room {
                line.extend(std::iter::repeat_n(' ', gap));
                line.extend(&word);
                empty = false;
                break;
            }
            if empty {
                // A word wider than the screen: a name from outside may be that long.
                let rest = word.split_off(room.max(1).min(word.len()));
                line.extend(&word);
                word = rest;
            }
            lines.push(std::mem::replace(&mut line, next.to_owned()));
            empty = true;
        }
    }
    lines.push(line.trim_end().to_owned());
    lines
}

#[cfg(test)]
mod test {
    use super::*;

    fn lines(text: &Text) -> Vec<String> {
        text.as_str().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_screen_has_24_lines_of_80_columns_and_counts_the_notes_left_out() {
        let mut screen = Screen::default();
        screen.words(&"name ".repeat(40));
        screen.field("limit", &"word ".repeat(60));
        screen.field("name", &"x".repeat(300));
        screen.row(&"r".repeat(200));
        let notes: Vec<String> = (0..30).map(|n| format!("{n} {}", "note ".repeat(20))).collect();
        let lines = lines(&screen.text(&notes, "details: --details"));
        assert!(lines.len() <= LINES, "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{lines:#?}");
        assert_eq!(lines.last().unwrap(), "details: --details");
        let left = &lines[lines.len() - 2];
        let shown = lines.iter().filter(|line| line.starts_with("note: ")).count();
        assert_eq!(*left, format!("{} more notes are in --details", 30 - shown), "{lines:#?}");
        // No letter is lost.
        let all = lines.join("");
        assert_eq!(all.matches('x').count(), 300);
        assert_eq!(all.matches("word").count(), 60);
    }

    #[test]
    fn few_notes_are_all_shown() {
        let mut screen = Screen::default();
        screen.field("limit", "drives");
        let notes = ["one".to_owned(), "two".to_owned()];
        let lines = lines(&screen.text(&notes, "end"));
        assert_eq!(lines, ["  limit       drives", "note: one", "note: two", "end"]);
    }
}
