//! Colour, or none.

/// What the user asked for with `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Color {
    /// Colour on a terminal, unless the environment speaks against it.
    #[default]
    Auto,
    /// Colour anywhere.
    Always,
    /// None.
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
}
