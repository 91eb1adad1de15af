//! Content of a terminal: the characters and colours that a program has written.

use std::fmt::Write as _;

/// A character and its attributes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    letter: char,
    look: Look,
}

/// Attributes of a character: its colour among the sixteen of terminals, and more.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Look {
    color: Option<u8>,
    bold: bool,
    dim: bool,
    reversed: bool,
}

const EMPTY: Cell =
    Cell { letter: ' ', look: Look { color: None, bold: false, dim: false, reversed: false } };

/// The cells of a terminal.
#[derive(Debug)]
pub struct Screen {
    columns: usize,
    cells: Vec<Cell>,
    row: usize,
    column: usize,
    look: Look,
}

impl Screen {
    /// An empty screen.
    pub fn new(rows: usize, columns: usize) -> Screen {
        let cells = vec![EMPTY; rows * columns];
        Screen { columns, cells, row: 0, column: 0, look: Look::default() }
    }

    /// Processes a program's output: characters, cursor positions, colours, and erasures of lines.
    pub fn write(&mut self, text: &str) {
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\r' => self.column = 0,
                '\n' => self.row += 1,
                '\x1b' => {
                    if letters.next() == Some('[') {
                        let mut words = String::new();
                        let end = letters.by_ref().find(|letter| {
                            let is_end = ('@'..='~').contains(letter);
                            if !is_end {
                                words.push(*letter);
                            }
                            is_end
                        });
                        self.steer(&words, end.unwrap_or('m'));
                    }
                }
                letter if letter.is_control() => {}
                letter => self.put(letter),
            }
        }
    }

    fn put(&mut self, letter: char) {
        let at = self.row * self.columns + self.column;
        if self.column < self.columns
            && let Some(cell) = self.cells.get_mut(at)
        {
            *cell = Cell { letter, look: self.look };
        }
        self.column += 1;
    }

    fn steer(&mut self, words: &str, end: char) {
        let numbers: Vec<usize> = words.split(';').map(|word| word.parse().unwrap_or(0)).collect();
        let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
        match end {
            'H' => (self.row, self.column) = (number(0).max(1) - 1, number(1).max(1) - 1),
            'G' => self.column = number(0).max(1) - 1,
            'C' => self.column += number(0).max(1),
            'm' => self.color(&numbers),
            'J' => self.cells.fill(EMPTY),
            'K' => {
                let end = (self.row + 1) * self.columns;
                let begin = (self.row * self.columns + self.column).min(end);
                self.cells.iter_mut().take(end).skip(begin).for_each(|cell| *cell = EMPTY);
            }
            // Modes of the terminal, and undrawn characters.
            _ => {}
        }
    }

    fn color(&mut self, numbers: &[usize]) {
        let mut numbers = numbers.iter().copied();
        while let Some(number) = numbers.next() {
            match number {
                0 => self.look = Look::default(),
                1 => self.look.bold = true,
                2 => self.look.dim = true,
                7 => self.look.reversed = true,
                22 => (self.look.bold, self.look.dim) = (false, false),
                27 => self.look.reversed = false,
                30..=37 => self.look.color = Some(number as u8 - 30),
                90..=97 => self.look.color = Some(number as u8 - 82),
                // A colour of 256: those after the first sixteen are not ours.
                38 if numbers.next() == Some(5) => {
                    self.look.color = numbers.next().and_then(|n| u8::try_from(n).ok());
                }
                39 => self.look.color = None,
                _ => {}
            }
        }
    }

    /// Text of the lines, without trailing spaces.
    pub fn lines(&self) -> Vec<String> {
        let line = |row: &[Cell]| row.iter().map(|cell| cell.letter).collect::<String>();
        self.cells.chunks(self.columns).map(|row| line(row).trim_end().to_owned()).collect()
    }

    /// Picture of the screen as SVG that follows its reader's choice of light and dark.
    pub fn svg(&self, title: &str, description: &str) -> String {
        let rows = self.cells.len() / self.columns;
        let (wide, high) = (self.columns * CELL.0 + 2 * RIM, rows * CELL.1 + 2 * RIM);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {high}\" \
             width=\"{wide}\" height=\"{high}\" role=\"img\" aria-labelledby=\"t d\">\n\
             <title id=\"t\">{}</title>\n<desc id=\"d\">{}</desc>\n<style>{STYLE}</style>\n\
             <rect class=\"w\" width=\"{wide}\" height=\"{high}\" rx=\"6\"/>\n",
            escaped(title),
            escaped(description)
        );
        for (at, row) in self.cells.chunks(self.columns).enumerate() {
            let y = RIM + at * CELL.1;
            for run in row.chunk_by(|a, b| a.look == b.look) {
                let begin = row.as_ptr_range().start;
                // Column of the run in its row.
                let column = (run.as_ptr() as usize - begin as usize) / size_of::<Cell>();
                let text: String = run.iter().map(|cell| cell.letter).collect();
                self.run(&mut svg, (column, y), text.as_str(), run[0].look);
            }
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Letters that look alike.
    fn run(&self, svg: &mut String, (column, y): (usize, usize), text: &str, look: Look) {
        let (x, length) = (RIM + column * CELL.0, text.chars().count() * CELL.0);
        let mut class = look.color.map_or_else(String::new, |color| format!("c{}", color % 16));
        for (is_so, name) in [(look.bold, " b"), (look.dim, " d"), (look.reversed, " r")] {
            class.push_str(if is_so { name } else { "" });
        }
        if look.reversed {
            let high = CELL.1;
            let _ = writeln!(
                svg,
                "<rect class=\"f\" x=\"{x}\" y=\"{y}\" width=\"{length}\" height=\"{high}\"/>"
            );
        }
        if text.trim().is_empty() {
            return;
        }
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{}\" class=\"{}\" textLength=\"{length}\" \
             xml:space=\"preserve\">{}</text>",
            y + BASE,
            class.trim(),
            escaped(text)
        );
    }
}

/// Width and height of a cell, the baseline of its characters, and the margin.
const CELL: (usize, usize) = (8, 17);
const BASE: usize = 13;
const RIM: usize = 12;
/// Colours of a terminal, distinguishable on white and on black.
const STYLE: &str = "text{font:13px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;\
    fill:#1f2328}.w{fill:#fff;stroke:#d0d7de}.f{fill:#1f2328}.r{fill:#fff}.b{font-weight:700}\
    .d{opacity:.72}.c1,.c9{fill:#b3261e}.c2,.c10{fill:#116329}.c3,.c11{fill:#7d4e00}\
    .c4,.c12{fill:#0550ae}.c5,.c13{fill:#8250df}.c6,.c14{fill:#0b6e75}.c8{fill:#59636e}\
    @media(prefers-color-scheme:dark){text{fill:#e6edf3}.w{fill:#0d1117;stroke:#30363d}\
    .f{fill:#e6edf3}.r{fill:#0d1117}.c1,.c9{fill:#ff7b72}.c2,.c10{fill:#56d364}\
    .c3,.c11{fill:#e3b341}.c4,.c12{fill:#79c0ff}.c5,.c13{fill:#d2a8ff}.c6,.c14{fill:#56d4dd}\
    .c8{fill:#9198a1}}";

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn letters_stand_where_they_were_put() {
        let mut screen = Screen::new(3, 10);
        screen
            .write("\x1b[?1049h\x1b[2J\x1b[2;3Hab\x1b[1m\x1b[38;5;2mc<\x1b[0m\x1b[3;1Hend\x1b[Kx");
        assert_eq!(screen.lines(), ["", "  abc<", "endx"]);
        let svg = screen.svg("a & b", "d");
        assert!(svg.contains("<title id=\"t\">a &amp; b</title>"), "{svg}");
        assert!(svg.contains("x=\"44\" y=\"42\" class=\"c2 b\" textLength=\"16\""), "{svg}");
        assert!(svg.contains(">c&lt;</text>"), "{svg}");
        screen.write("\x1b[2;4H\x1b[K");
        assert_eq!(screen.lines()[1], "  a");
        screen.write("\x1b[99;99Houtside\x1b[2J");
        assert_eq!(screen.lines(), ["", "", ""]);
    }
}
