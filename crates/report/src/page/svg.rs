//! The charts of a page as one SVG file: the drawings of the page, each below the one before, with
//! their headings, dark on white. Nothing is fetched, and styles are those of SVG 1.1.

use std::fmt::{self, Write as _};

use super::{Content, Page, escape};
use crate::chart::shortened;

/// Width of the file and of its drawings, in pixels.
const WIDTH: usize = 720;
/// Width of the white margin, in pixels.
const EDGE: f64 = 20.0;
/// Maximum number of letters of a line, for the widest of the usual fonts.
const LETTERS: usize = 98;
/// Height of a line of words, and of a heading, in pixels.
const LINE: f64 = 16.0;
const HEADING: f64 = 26.0;

/// Style sheet: colours and lines of the light page, and fonts that hosts have.
const SHEET: &str = "\
text{font-family:'Liberation Sans',Arial,Helvetica,'Noto Sans','DejaVu Sans',sans-serif;\
font-size:12px;fill:#1b1f24}\
.title{font-size:18px;font-weight:bold}.heading{font-size:14px;font-weight:bold}\
.bars text{font-size:14px}\
.soft{fill:#57606a}.grid{stroke:#d0d7de;fill:none}.frame{stroke:#57606a;fill:none}\
.end,.figure{text-anchor:end}.middle{text-anchor:middle}\
.bar{fill:#7aa7d9}.marked{fill:#1f7a4d}.range{stroke:#1b1f24;stroke-width:1.5;fill:none}\
.rail{fill:#eaeef2}.mark{stroke:#1f7a4d;stroke-dasharray:4 3;fill:none}.named{fill:#1f7a4d}\
.line{fill:none;stroke-width:2;stroke-linejoin:round}\
.guide{stroke-width:1;stroke-dasharray:2 3}.simulated{stroke-dasharray:7 4}\
.emulated{stroke-dasharray:9 3 2 3}.band{opacity:.25;stroke-width:3}.faint{opacity:.07}\
.heat{fill:#0b5fa5}.h0{opacity:.15}.h1{opacity:.35}.h2{opacity:.55}.h3{opacity:.78}";
/// Colours of lines.
const COLOURS: [&str; 8] =
    ["#0b5fa5", "#b34700", "#00755c", "#8e3a8e", "#7d6608", "#b8124f", "#1c6c85", "#555555"];

/// A chart that a page does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoChart {
    /// Names of the charts of the page.
    pub known: Vec<String>,
}

impl fmt::Display for NoChart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known.is_empty() {
            true => write!(f, "the result has no chart: nothing was measured"),
            false => write!(f, "charts are: {}", self.known.join(", ")),
        }
    }
}

/// A drawing with its words.
struct Figure {
    name: String,
    title: String,
    about: String,
    /// Class of the drawing's group.
    kind: &'static str,
    height: f64,
    inside: String,
}

impl Page {
    /// Returns the names of the charts, such as `rate-over-time`. Later charts with the same title
    /// have a number.
    pub fn charts(&self) -> Vec<String> {
        self.figures().into_iter().map(|figure| figure.name).collect()
    }

    /// Draws all charts in one file, or one of them.
    ///
    /// # Errors
    ///
    /// [`NoChart`] if the page has no chart, or none of this name.
    pub fn svg(&self, chart: Option<&str>) -> Result<String, NoChart> {
        let mut figures = self.figures();
        if let Some(wanted) = chart {
            let known = figures.iter().map(|figure| figure.name.clone()).collect();
            figures.retain(|figure| figure.name == wanted);
            if figures.is_empty() {
                return Err(NoChart { known });
            }
        }
        if figures.is_empty() {
            return Err(NoChart { known: Vec::new() });
        }
        let mut out = Drawn { text: String::new(), y: EDGE };
        if chart.is_none() {
            out.line("title", &shortened(&self.title, LETTERS * 2 / 3), HEADING);
            out.words("lead", &self.lead);
        }
        for figure in figures {
            out.figure(&figure);
        }
        out.words("soft", &self.trust());
        Ok(out.file(&self.title))
    }

    fn figures(&self) -> Vec<Figure> {
        let mut figures: Vec<Figure> = Vec::new();
        for content in self.sections.iter().flat_map(|section| &section.content) {
            let (title, about, kind, (height, inside)) = match content {
                Content::Chart(of) => (&of.title, &of.about, "bars", of.drawing()),
                Content::Plot(of) => (&of.title, &of.about, "plot", of.drawing(WIDTH)),
                Content::Heat(of) => (&of.title, &of.about, "plot", of.draw(WIDTH)),
                Content::Parts(of) => (&of.title, &of.about, "plot", of.draw(WIDTH)),
                Content::Text(_) | Content::Code(_) | Content::Table(_) => continue,
            };
            let name = named(title);
            let before = figures.iter().filter(|figure| figure.title == *title).count();
            let name = if before == 0 { name } else { format!("{name}-{}", before + 1) };
            let (title, about) = (title.clone(), about.clone());
            figures.push(Figure { name, title, about, kind, height, inside });
        }
        figures
    }

    /// Returns class, origin and the main reason: a picture travels without its page.
    fn trust(&self) -> String {
        let judged = self.judged.iter().map(|judged| {
            let because = match judged.because.is_empty() {
                true => String::new(),
                false => format!(", because: {}", judged.because),
            };
            format!("{}, {}{because}. ", judged.origin, judged.class)
        });
        judged.collect::<String>() + &self.foot
    }
}

/// Makes a name of a title: `Rate over time` is `rate-over-time`.
fn named(title: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let words: String = title.chars().map(plain).collect();
    words.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

/// A file in progress, and the position of its next line.
struct Drawn {
    text: String,
    y: f64,
}

impl Drawn {
    fn line(&mut self, class: &str, text: &str, height: f64) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.text,
            "<text class=\"{class}\" x=\"{EDGE}\" y=\"{:.0}\">{}</text>",
            self.y + height * 0.75,
            escape(text)
        );
        self.y += height;
    }

    /// Appends words as lines.
    fn words(&mut self, class: &str, text: &str) {
        let mut line = String::new();
        for word in text.split_whitespace() {
            let word = shortened(word, LETTERS);
            let letters = line.chars().count() + 1 + word.chars().count();
            if !line.is_empty() && letters > LETTERS {
                self.line(class, &std::mem::take(&mut line), LINE);
            }
            let gap = if line.is_empty() { "" } else { " " };
            line = line + gap + &word;
        }
        if !line.is_empty() {
            self.line(class, &line, LINE);
        }
        self.y += 6.0;
    }

    fn figure(&mut self, figure: &Figure) {
        self.y += 10.0;
        self.line("heading", &shortened(&figure.title, LETTERS * 4 / 5), HEADING);
        self.words("soft", &figure.about);
        let _ = writeln!(
            self.text,
            "<g class=\"{}\" transform=\"translate({EDGE} {:.0})\">\n{}</g>",
            figure.kind, self.y, figure.inside
        );
        self.y += figure.height.ceil() + 12.0;
    }

    fn file(self, title: &str) -> String {
        let (width, height) = (WIDTH as f64 + 2.0 * EDGE, (self.y + EDGE).ceil());
        let mut sheet = SHEET.to_owned();
        for (index, colour) in COLOURS.iter().enumerate() {
            let _ = write!(
                sheet,
                ".line.c{index}{{stroke:{colour}}}.band.c{index}{{stroke:{colour};fill:{colour}}}\
                 .point.c{index},.part.c{index},.name.c{index}{{fill:{colour}}}"
            );
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\">\n<title>{}</title>\n<style>{sheet}</style>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{}</svg>\n",
            escape(title),
            self.text
        )
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::chart::{Bar, Chart};
    use crate::{generated, pages};

    /// Tags that are open, in their order; fails where one closes another.
    fn well_formed(svg: &str) {
        let mut open = Vec::new();
        for tag in svg.split('<').skip(1) {
            let (tag, _) = tag.split_once('>').unwrap_or_else(|| panic!("{tag}"));
            match tag.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name), "{svg}"),
                None if tag.ends_with('/') => {}
                None => open.push(tag.split(' ').next().unwrap()),
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        }
        assert_eq!(open, [""; 0]);
    }

    #[test]
    fn a_run_has_the_drawings_of_its_page() {
        for result in generated::hundred().iter().take(20) {
            let page = pages::runs(std::slice::from_ref(result));
            let (svg, html) = (page.svg(None).unwrap(), page.html());
            well_formed(&svg);
            assert!(page.charts().contains(&"rate-over-time".to_owned()));
            // Every line of every chart is identical to that on the page at the same width.
            let lines = svg.lines().filter(|line| line.contains("data-series"));
            assert!(lines.clone().count() >= 3);
            assert!(lines.into_iter().all(|line| html.contains(line)), "{svg}");
            let class = result.class.word();
            assert!(svg.contains(&format!("measured, {class}")), "{svg}");
            let one = page.svg(Some("latency-over-time")).unwrap();
            well_formed(&one);
            assert!(one.contains("Latency over time") && !one.contains("Rate over time"), "{one}");
            assert!(one.contains(&format!("measured, {class}")), "{one}");
        }
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        let page = pages::runs(std::slice::from_ref(&generated::hundred()[0]));
        let why = page.svg(Some("speed")).unwrap_err().to_string();
        assert!(why.starts_with("charts are: rate-over-time, latency-over-time"), "{why}");
        let why = Page::default().svg(None).unwrap_err().to_string();
        assert_eq!(why, "the result has no chart: nothing was measured");
    }

    #[test]
    fn hostile_words_stay_words_and_long_ones_stay_within() {
        let odd = "</text><script>\"x\u{1b}[2J&".to_owned() + &"y".repeat(500);
        let bar = Bar { label: odd.clone(), value: 1.0, text: odd.clone(), ..Bar::default() };
        let chart =
            Chart { title: odd.clone(), about: odd.clone(), bars: vec![bar], ..Chart::default() };
        let content = vec![Content::Chart(chart.clone()), Content::Chart(chart)];
        let sections = vec![crate::page::Section { title: odd.clone(), content }];
        let page = Page { title: odd.clone(), lead: odd.clone(), sections, ..Page::default() };
        let svg = page.svg(None).unwrap();
        well_formed(&svg);
        assert!(!svg.contains("<script") && !svg.contains('\u{1b}'), "{svg}");
        let names = page.charts();
        assert_eq!(names.len(), 2);
        assert_eq!(format!("{}-2", names[0]), names[1]);
        let of_words = svg.lines().filter(|line| line.starts_with("<text class=\"soft\""));
        assert!(of_words.into_iter().all(|line| line.chars().count() < 220), "{svg}");
    }
}
