//! Colour, or none.

/// Value of `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Color {
    /// Colour on a terminal, unless the environment speaks against it.
    #[default]
    Auto,
    /// Colour anywhere.
    Always,
    /// No colour.
    Never,
}

impl Color {
    /// Decides for one stream. `variable` looks a variable of the environment up.
    ///
    /// The flag comes first; then `NO_COLOR`, when it is not empty, means none; then
    /// `CLICOLOR_FORCE`, when it is neither empty nor 0, means colour anywhere; then a terminal
    /// that is not `TERM=dumb` gets it.
    pub fn paint(self, is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> Paint {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let on = match self {
            Color::Always => true,
            Color::Never => false,
            Color::Auto if set("NO_COLOR").is_some() => false,
            Color::Auto if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
            Color::Auto => is_terminal && variable("TERM").as_deref() != Some("dumb"),
        };
        Paint { on }
    }
}

/// Puts colour around words, or does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// Without colour.
    pub const PLAIN: Paint = Paint { on: false };
    /// With colour.
    pub const COLOR: Paint = Paint { on: true };

    /// Whether there is colour.
    pub fn is_on(self) -> bool {
        self.on
    }

    /// Returns text for the main figure.
    pub fn bold(self, text: &str) -> String {
        self.wrap(BOLD, text)
    }

    /// Returns text that may be skipped.
    pub fn dim(self, text: &str) -> String {
        self.wrap(DIM, text)
    }

    /// Returns text for a good state.
    pub fn green(self, text: &str) -> String {
        self.wrap(GREEN, text)
    }

    /// Returns text for a caveat.
    pub fn yellow(self, text: &str) -> String {
        self.wrap(YELLOW, text)
    }

    /// Returns text for an error.
    pub fn red(self, text: &str) -> String {
        self.wrap(RED, text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on { format!("{code}{text}{END}") } else { text.to_owned() }
    }
}

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const END: &str = "\x1b[0m";

/// The sequence of a [`Paint`] with which a text begins, if it does.
pub(crate) fn colour_at(text: &str) -> Option<&'static str> {
    let all = [BOLD, DIM, RED, GREEN, YELLOW, END];
    all.into_iter().find(|code| text.starts_with(code))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn flag_then_environment_then_terminal() {
        let on = |color: Color, is_terminal, variables: &[(&str, &str)]| {
            let find = |name: &str| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
            };
            color.paint(is_terminal, find).is_on()
        };
        assert!(on(Color::Auto, true, &[("TERM", "xterm")]));
        assert!(!on(Color::Auto, false, &[("TERM", "xterm")]));
        assert!(!on(Color::Auto, true, &[("TERM", "dumb")]));
        assert!(!on(Color::Auto, true, &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]));
        assert!(on(Color::Auto, true, &[("NO_COLOR", "")]), "empty is as good as not set");
        assert!(on(Color::Auto, false, &[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")]));
        assert!(!on(Color::Auto, false, &[("CLICOLOR_FORCE", "0")]));
        assert!(on(Color::Always, false, &[("NO_COLOR", "1"), ("TERM", "dumb")]));
        assert!(!on(Color::Never, true, &[("CLICOLOR_FORCE", "1")]));
    }

    #[test]
    fn plain_is_plain() {
        assert_eq!(Paint::PLAIN.red("x"), "x");
        assert_eq!(Paint::COLOR.red("x"), "\x1b[31mx\x1b[0m");
    }
}
