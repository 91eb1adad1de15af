//! A picture of characters for a terminal: cells with a style each.
//!
//! The full-screen view draws one picture a second and writes the rows that changed. No character
//! that steers a terminal gets into a cell.

use block::printable;
use unicode_width::UnicodeWidthChar;

/// Colours of a terminal's palette, by the numbers of ECMA-48 SGR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Color {
    Red = 31,
    Green = 32,
    Yellow = 33,
    Blue = 34,
    Cyan = 36,
}

/// Look of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) color: Option<Color>,
    pub(crate) bold: bool,
    pub(crate) dim: bool,
}

/// A rectangle of cells. Parts outside of a picture are not drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) x: u16,
    pub(crate) y: u16,
    pub(crate) width: u16,
    pub(crate) height: u16,
}

impl Area {
    /// The row of this index, counted from 0. Rows below the area are empty.
    pub(crate) fn row(self, index: u16) -> Area {
        let height = u16::from(index < self.height);
        Area { y: self.y.saturating_add(index), height, ..self }
    }

    /// The first rows, and the rest.
    pub(crate) fn split_rows(self, rows: u16) -> (Area, Area) {
        let rows = rows.min(self.height);
        let rest = Area { y: self.y.saturating_add(rows), height: self.height - rows, ..self };
        (Area { height: rows, ..self }, rest)
    }

    /// The first columns, and the rest.
    pub(crate) fn split_columns(self, columns: u16) -> (Area, Area) {
        let columns = columns.min(self.width);
        let rest = Area { x: self.x.saturating_add(columns), width: self.width - columns, ..self };
        (Area { width: columns, ..self }, rest)
    }
}

/// A character of one or two columns; the second column of a wide one has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    letter: Option<char>,
    style: Style,
}

const BLANK: Cell =
    Cell { letter: Some(' '), style: Style { color: None, bold: false, dim: false } };

/// The picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Canvas {
    width: u16,
    height: u16,
    cells: Vec<Cell>,
}

impl Canvas {
    /// A blank picture.
    pub(crate) fn new(width: u16, height: u16) -> Canvas {
        Canvas { width, height, cells: vec![BLANK; usize::from(width) * usize::from(height)] }
    }

    /// All of it.
    pub(crate) fn area(&self) -> Area {
        Area { x: 0, y: 0, width: self.width, height: self.height }
    }

    /// Writes a line into the first row of an area, and cuts it at the area's end. Returns the
    /// columns that it takes.
    pub(crate) fn line(&mut self, area: Area, text: &str, style: Style) -> u16 {
        let mut column = 0;
        if area.height == 0 {
            return column;
        }
        for letter in printable(text).chars() {
            // Marks without a width of their own would change the cell before.
            let width = letter.width().unwrap_or(0) as u16;
            if width == 0 {
                continue;
            }
            if width > area.width - column {
                break;
            }
            self.put(area.x.saturating_add(column), area.y, letter, style);
            if width == 2 {
                self.cover(area.x.saturating_add(column + 1), area.y);
            }
            column += width;
        }
        column
    }

    /// Writes a line that ends where the area does.
    pub(crate) fn right(&mut self, area: Area, text: &str, style: Style) {
        let columns = text.chars().map(|letter| letter.width().unwrap_or(0)).sum::<usize>();
        let free = usize::from(area.width).saturating_sub(columns) as u16;
        self.line(area.split_columns(free).1, text, style);
    }

    fn put(&mut self, x: u16, y: u16, letter: char, style: Style) {
        if let Some(cell) = self.cell(x, y) {
            *cell = Cell { letter: Some(letter), style };
        }
    }

    fn cover(&mut self, x: u16, y: u16) {
        if let Some(cell) = self.cell(x, y) {
            cell.letter = None;
        }
    }

    fn cell(&mut self, x: u16, y: u16) -> Option<&mut Cell> {
        let inside = x < self.width && y < self.height;
        let index = usize::from(y) * usize::from(self.width) + usize::from(x);
        if inside { self.cells.get_mut(index) } else { None }
    }

    fn rows(&self) -> impl Iterator<Item = &[Cell]> {
        self.cells.chunks(usize::from(self.width.max(1)))
    }

    /// Output for a terminal that shows `before`, or anything if there is none: the rows that
    /// differ.
    pub(crate) fn changes(&self, before: Option<&Canvas>) -> String {
        let before = before.filter(|it| (it.width, it.height) == (self.width, self.height));
        // Hidden cursor, and a cleared screen.
        let mut text = String::from(if before.is_some() { "" } else { "\x1b[?25l\x1b[0m\x1b[2J" });
        let blank = vec![BLANK; usize::from(self.width)];
        let mut old = before.into_iter().flat_map(Canvas::rows);
        for (y, row) in self.rows().enumerate() {
            if row != old.next().unwrap_or(&blank) {
                text.push_str(&format!("\x1b[{};1H", y + 1));
                write_row(row, &mut text);
            }
        }
        text
    }

    /// The characters, each row on a line, without blanks at its end.
    #[cfg(test)]
    pub(crate) fn text(&self) -> String {
        let letters = |row: &[Cell]| row.iter().filter_map(|cell| cell.letter).collect::<String>();
        self.rows().map(|row| format!("{}\n", letters(row).trim_end())).collect()
    }
}

/// Writes the cells of a row, with the styles where they change, and clears the rest of the row.
fn write_row(row: &[Cell], text: &mut String) {
    let end = row.iter().rposition(|cell| *cell != BLANK).map_or(0, |last| last + 1);
    let mut style = Style::default();
    for cell in &row[..end] {
        if cell.style != style {
            style = cell.style;
            text.push_str("\x1b[0");
            text.push_str(if style.bold { ";1" } else { "" });
            text.push_str(if style.dim { ";2" } else { "" });
            if let Some(color) = style.color {
                text.push_str(&format!(";{}", color as u8));
            }
            text.push('m');
        }
        text.extend(cell.letter);
    }
    if style != Style::default() {
        text.push_str("\x1b[0m");
    }
    if end < row.len() {
        text.push_str("\x1b[K");
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const PLAIN: Style = Style { color: None, bold: false, dim: false };

    #[test]
    fn lines_are_cut_at_their_area() {
        let mut canvas = Canvas::new(10, 2);
        let (left, right) = canvas.area().split_columns(4);
        assert_eq!(canvas.line(left, "abcdef", PLAIN), 4);
        canvas.right(right, "xy", PLAIN);
        canvas.right(right.row(1), "0123456789", PLAIN);
        canvas.line(left.row(2), "below", PLAIN);
        assert_eq!(canvas.text(), "abcd    xy\n    012345\n");
    }

    #[test]
    fn letters_of_two_columns_take_two() {
        let mut canvas = Canvas::new(5, 1);
        assert_eq!(canvas.line(canvas.area(), "世界界", PLAIN), 4);
        assert_eq!(canvas.text(), "世界\n");
        let mut canvas = Canvas::new(5, 1);
        // A combining accent is left out, and a control character becomes a dot.
        canvas.line(canvas.area(), "e\u{301}a\x1b[2J", PLAIN);
        assert_eq!(canvas.text(), "ea·[2\n");
    }

    #[test]
    fn only_rows_that_differ_are_written() {
        let mut one = Canvas::new(4, 3);
        one.line(one.area(), "same", PLAIN);
        assert_eq!(one.changes(None), "\x1b[?25l\x1b[0m\x1b[2J\x1b[1;1Hsame");
        assert_eq!(one.changes(Some(&one)), "");
        let mut two = one.clone();
        let red = Style { color: Some(Color::Red), bold: true, dim: false };
        two.line(two.area().row(2), "ab", red);
        assert_eq!(two.changes(Some(&one)), "\x1b[3;1H\x1b[0;1;31mab\x1b[0m\x1b[K");
        assert_eq!(one.changes(Some(&two)), "\x1b[3;1H\x1b[K");
        assert!(Canvas::new(5, 3).changes(Some(&one)).starts_with("\x1b[?25l"));
    }
}
