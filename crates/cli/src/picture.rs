//! Charts as PNG, in builds with the feature `png`: the SVG drawn with the fonts of this host.

use anyhow::Result;

/// Draws an SVG file with two dots per pixel, or fewer for a very large one.
#[cfg(feature = "png")]
pub fn png(svg: &str) -> Result<Vec<u8>> {
    drawn::png(svg)
}

/// Refuses, and names the build that draws.
#[cfg(not(feature = "png"))]
pub fn png(_svg: &str) -> Result<Vec<u8>> {
    use crate::exit::UsageError;

    let why = "--as png: this build has no feature png. fix: cargo install --path crates/cli \
               --features png, or draw the SVG: drumfire report RUN --as svg | rsvg-convert > \
               chart.png";
    Err(UsageError(why.to_owned()).into())
}

#[cfg(feature = "png")]
mod drawn {
    use std::sync::Arc;

    use anyhow::{Context, Result, anyhow};
    use resvg::{tiny_skia, usvg};

    use crate::exit::UsageError;

    /// Maximum number of dots of a picture; a dot has 4 bytes.
    const DOTS_MAX: f64 = 64e6;
    /// Dots per pixel of the drawing.
    const SCALE: f64 = 2.0;

    pub(super) fn png(svg: &str) -> Result<Vec<u8>> {
        let mut fonts = usvg::fontdb::Database::new();
        fonts.load_system_fonts();
        with(svg, fonts)
    }

    fn with(svg: &str, mut fonts: usvg::fontdb::Database) -> Result<Vec<u8>> {
        let Some(any) = fonts.faces().find_map(|face| Some(face.families.first()?.0.clone()))
        else {
            let why = "--as png: this host has no font. fix: apt-get install fonts-dejavu-core, or \
                       --as svg";
            return Err(UsageError(why.to_owned()).into());
        };
        // Text uses any available font if none of the usual fonts exists.
        fonts.set_sans_serif_family(any);
        let options = usvg::Options { fontdb: Arc::new(fonts), ..usvg::Options::default() };
        let tree = usvg::Tree::from_str(svg, &options).context("cannot read the drawing")?;
        let (width, height) = (f64::from(tree.size().width()), f64::from(tree.size().height()));
        let scale = SCALE.min((DOTS_MAX / (width * height)).sqrt());
        let dots = |pixels: f64| (pixels * scale).ceil() as u32;
        let mut picture = tiny_skia::Pixmap::new(dots(width), dots(height))
            .ok_or_else(|| anyhow!("no room for {width} by {height} pixels"))?;
        let transform = tiny_skia::Transform::from_scale(scale as f32, scale as f32);
        resvg::render(&tree, transform, &mut picture.as_mut());
        picture.encode_png().context("cannot write the picture")
    }

    #[cfg(test)]
    mod test {
        use super::*;

        const SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"40\" height=\"20\" \
            viewBox=\"0 0 40 20\"><style>.a.b{fill:#ff0000}</style>\
            <rect width=\"40\" height=\"20\" fill=\"#ffffff\"/>\
            <path class=\"a b\" d=\"M0 0H20V20H0z\"/></svg>";

        #[test]
        fn a_picture_has_the_colours_of_the_drawing_at_twice_its_size() {
            let bytes = match png(SVG) {
                Ok(bytes) => bytes,
                Err(why) => return assert!(why.to_string().contains("this host has no font")),
            };
            let picture = tiny_skia::Pixmap::decode_png(&bytes).unwrap();
            assert_eq!((picture.width(), picture.height()), (80, 40));
            let at = |x| {
                let dot = picture.pixel(x, 20).unwrap();
                (dot.red(), dot.green(), dot.blue())
            };
            assert_eq!((at(10), at(70)), ((255, 0, 0), (255, 255, 255)));
        }

        #[test]
        fn without_a_font_no_picture_without_words() {
            let why = with(SVG, usvg::fontdb::Database::new()).unwrap_err().to_string();
            assert!(why.contains("this host has no font"), "{why}");
            assert!(with("<svg", usvg::fontdb::Database::new()).is_err());
        }
    }
}
