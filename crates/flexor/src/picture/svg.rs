//! Writes SVG from a few shapes. The viewer chooses the font, so text widths are estimates.

use std::fmt::Write;

use crate::output::on_one_line;

/// Largest width of a letter, relative to the font size.
const LETTER: f64 = 0.62;

/// The colours of the picture, distinguishable with red-green colour blindness.
pub mod colour {
    /// Text.
    pub const INK: &str = "#24292f";
    /// Secondary text.
    pub const FAINT: &str = "#6e7781";
    pub const GRID: &str = "#e3e6ea";
    pub const WAITING: &str = "#c9ced6";
    pub const RUNNING: &str = "#3b82c4";
    pub const DONE: &str = "#1a7f5a";
    pub const RECOVERING: &str = "#e8a33d";
    /// Failed pods and injected faults.
    pub const LOST: &str = "#c7362f";
    /// Lines of jobs, in their order.
    pub const OF_JOBS: [&str; 6] = ["#3b82c4", "#b4531a", "#1a7f5a", "#8250c4", "#b8860b", "#57606a"];
}

/// The part of a text that its coordinates refer to.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

pub struct Svg {
    width: f64,
    body: String,
}

impl Svg {
    pub fn new(width: f64) -> Self {
        Self { width, body: String::new() }
    }

    /// Adds a bar with a tooltip.
    pub fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str, title: &str) {
        let title = escaped(title);
        self.add(format_args!(
            r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" fill="{fill}"><title>{title}</title></rect>"#
        ));
    }

    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), stroke: &str, dashes: &str) {
        self.add(format_args!(
            r#"<line x1="{x1:.2}" y1="{y1:.2}" x2="{x2:.2}" y2="{y2:.2}" stroke="{stroke}" stroke-dasharray="{dashes}"/>"#
        ));
    }

    /// Adds a line through points, or a dot for a single point.
    pub fn path(&mut self, points: &[(f64, f64)], stroke: &str) {
        if let [(x, y)] = points {
            self.add(format_args!(r#"<circle cx="{x:.2}" cy="{y:.2}" r="2" fill="{stroke}"/>"#));
            return;
        }
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.2},{y:.2}")).collect();
        self.add(format_args!(
            r#"<polyline points="{}" fill="none" stroke="{stroke}" stroke-width="1.8" stroke-linejoin="round"/>"#,
            points.join(" ")
        ));
    }

    /// Adds a cross that marks a failure.
    pub fn cross(&mut self, (x, y): (f64, f64), title: &str) {
        let (title, r, lost) = (escaped(title), 3.6, colour::LOST);
        self.add(format_args!(
            r##"<path d="M{:.2} {:.2}L{:.2} {:.2}M{:.2} {:.2}L{:.2} {:.2}" stroke="#fff" stroke-width="4.4"/>"##,
            x - r,
            y - r,
            x + r,
            y + r,
            x - r,
            y + r,
            x + r,
            y - r
        ));
        self.add(format_args!(
            r#"<path d="M{:.2} {:.2}L{:.2} {:.2}M{:.2} {:.2}L{:.2} {:.2}" stroke="{lost}" stroke-width="2.2"><title>{title}</title></path>"#,
            x - r,
            y - r,
            x + r,
            y + r,
            x - r,
            y + r,
            x + r,
            y - r
        ));
    }

    /// Adds a small triangle that points down.
    pub fn pointer(&mut self, (x, y): (f64, f64), fill: &str, title: &str) {
        let title = escaped(title);
        self.add(format_args!(
            r#"<path d="M{x:.2} {y:.2}L{:.2} {:.2}L{:.2} {:.2}Z" fill="{fill}"><title>{title}</title></path>"#,
            x - 4.5,
            y - 8.0,
            x + 4.5,
            y - 8.0
        ));
    }

    pub fn text(&mut self, (x, y): (f64, f64), size: f64, fill: &str, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.add(format_args!(
            r#"<text x="{x:.2}" y="{y:.2}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    /// Returns the complete picture with this height.
    pub fn finish(self, height: f64) -> String {
        let (width, body) = (self.width, self.body);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{body}</svg>\n"
        )
    }

    fn add(&mut self, shape: std::fmt::Arguments<'_>) {
        // Writing into a string does not fail.
        let _ = writeln!(self.body, "{shape}");
    }
}

/// Estimated largest width of a text.
pub fn width(text: &str, size: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a text of that length would not be drawn")]
    let letters = text.chars().count() as f64;
    letters * LETTER * size
}

/// The beginning of a text, as much as fits.
pub fn cut(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    format!("{}…", text.chars().take(letters(size, room)).collect::<String>())
}

/// The end of a name, as much as fits. Names of pods differ at their end.
pub fn cut_front(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let skipped = text.chars().count().saturating_sub(letters(size, room));
    format!("…{}", text.chars().skip(skipped).collect::<String>())
}

/// Number of letters that fit beside an ellipsis.
fn letters(size: f64, room: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of letters, at least none")]
    let letters = (room / (LETTER * size) - 1.0).max(0.0) as usize;
    letters
}

fn escaped(text: &str) -> String {
    on_one_line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
