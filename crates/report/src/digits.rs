//! Digits five rows high, for the number that is read across a room.

/// Rows of a digit.
pub const ROWS: usize = 5;

/// The rows of `text` in blocks. Letters other than those of a rate leave a gap.
pub fn rows(text: &str) -> [String; ROWS] {
    std::array::from_fn(|row| {
        let glyphs: Vec<String> =
            text.chars().map(|c| glyph(c)[row].replace('#', "█").replace('.', " ")).collect();
        glyphs.join(" ")
    })
}

fn glyph(c: char) -> [&'static str; ROWS] {
    match c {
        '0' => ["####", "#..#", "#..#", "#..#", "####"],
        '1' => ["..#.", ".##.", "..#.", "..#.", ".###"],
        '2' => ["####", "...#", "####", "#...", "####"],
        '3' => ["####", "...#", ".###", "...#", "####"],
        '4' => ["#..#", "#..#", "####", "...#", "...#"],
        '5' => ["####", "#...", "####", "...#", "####"],
        '6' => ["####", "#...", "####", "#..#", "####"],
        '7' => ["####", "...#", "..#.", "..#.", "..#."],
        '8' => ["####", "#..#", "####", "#..#", "####"],
        '9' => ["####", "#..#", "####", "...#", "####"],
        '.' => [".", ".", ".", ".", "#"],
        'k' => ["#..#", "#.#.", "##..", "#.#.", "#..#"],
        'M' => ["#...#", "##.##", "#.#.#", "#...#", "#...#"],
        'G' => ["####", "#...", "#.##", "#..#", "####"],
        'T' => ["#####", "..#..", "..#..", "..#..", "..#.."],
        _ => [".."; ROWS],
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn rows_are_equally_wide() {
        let rows = rows("0123456789.kMGT n/a");
        let width = |row: &String| row.chars().count();
        assert!(rows.iter().all(|row| width(row) == width(&rows[0])));
    }
}
