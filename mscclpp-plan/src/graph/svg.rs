//! The subset of SVG that drawings use.

use std::fmt::{self, Display, Formatter, Write};

/// Text of a plan for use in XML: characters with a meaning in XML are escaped, those that are invalid or invisible are
/// replaced.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&apos;")?,
                '\u{fffe}' | '\u{ffff}' => f.write_char('\u{fffd}')?,
                c if c.is_control() => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// A point, in pixels from the upper left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

impl Point {
    /// Returns the point at `share` of the distance from this point to another one.
    pub(super) fn towards(self, other: Self, share: f64) -> Self {
        Self { x: self.x + (other.x - self.x) * share, y: self.y + (other.y - self.y) * share }
    }
}

impl Display for Point {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // Rounding must not produce a negative zero.
        let tenth = |x: f64| (x * 10.0).round() / 10.0 + 0.0;
        write!(f, "{:.1} {:.1}", tenth(self.x), tenth(self.y))
    }
}

/// Writes the start of a drawing: size, fonts, arrow heads, a white background.
pub(super) fn begin(f: &mut Formatter<'_>, width: f64, height: f64, title: &str, heads: &[&str]) -> fmt::Result {
    let title = Escaped(title);
    writeln!(
        f,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"system-ui, DejaVu Sans, Arial, sans-serif\" \
         font-size=\"12\" role=\"img\">"
    )?;
    writeln!(f, "<title>{title}</title>")?;
    f.write_str("<defs>\n")?;
    for color in heads {
        writeln!(
            f,
            "<marker id=\"{}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"9\" markerHeight=\"9\" \
             markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"{color}\"/></marker>",
            head(color)
        )?;
    }
    f.write_str("</defs>\n")?;
    writeln!(f, "<rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"#ffffff\"/>")?;
    text(f, Point { x: 16.0, y: 26.0 }, "font-size=\"16\" font-weight=\"600\"", title)
}

/// Writes the end of a drawing.
pub(super) fn end(f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str("</svg>\n")
}

/// Returns the name of the arrow head of a color.
pub(super) fn head(color: &str) -> String {
    format!("head-{}", color.trim_start_matches('#'))
}

/// Writes a line of text, which is already escaped.
pub(super) fn text(f: &mut Formatter<'_>, at: Point, style: &str, text: impl Display) -> fmt::Result {
    let Point { x, y } = at;
    let space = if style.is_empty() { "" } else { " " };
    writeln!(f, "<text x=\"{x:.1}\" y=\"{y:.1}\"{space}{style}>{text}</text>")
}

/// Formats a number of chunks: integers without decimals, fractions with two.
pub(super) fn amount(chunks: f64) -> String {
    if (chunks - chunks.round()).abs() < 1e-6 { format!("{chunks:.0}") } else { format!("{chunks:.2}") }
}

/// Formats a count with its noun: `1 chunk`, `2 chunks`.
pub(super) fn counted(count: &str, what: &str) -> String {
    let s = if count == "1" { "" } else { "s" };
    format!("{count} {what}{s}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_spelt_so_that_xml_takes_it() {
        assert_eq!(Escaped("a<b>&\"c\"'\u{0}\u{1b}\u{ffff}é").to_string(), "a&lt;b&gt;&amp;&quot;c&quot;&apos;���é");
        assert_eq!(Point { x: -0.04, y: 1.25 }.to_string(), "0.0 1.3");
    }
}
