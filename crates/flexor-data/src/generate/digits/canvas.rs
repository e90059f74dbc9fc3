//! The canvas of a digit, with its transformation to pixels.

use super::super::noise::Noise;
use super::PIXELS;
use super::strokes::Point;

/// Pixels per row and per column.
pub const SIDE: usize = 28;

/// The height of a digit in pixels; MNIST's is 20.
const HEIGHT: f64 = 20.0;

pub(super) struct Canvas {
    noise: Noise,
    /// The darkness of each pixel, from 0 to 1.
    ink: [f64; PIXELS],
    pen: f64,
    /// The centre of the paper, in pixels.
    middle: Point,
    /// The axes of the paper, in pixels.
    across: Point,
    down: Point,
}

impl Canvas {
    pub(super) fn new(noise: Noise) -> Self {
        let centre = SIDE as f64 / 2.0;
        let shift = |at| noise.of(at).between(-2.0, 2.0);
        let (width, height) = (noise.of(2).between(0.75, 1.05) * HEIGHT, noise.of(3).between(0.85, 1.1) * HEIGHT);
        let turn = noise.of(4).between(-0.2, 0.2);
        let lean = turn + noise.of(5).between(-0.2, 0.2);
        // For small angles this is a rotation, and the same on every machine.
        let (across, down) = ((width * (1.0 - turn * turn / 2.0), width * turn), (-height * lean, height));
        let pen = noise.of(6).between(0.8, 1.7);
        Self { noise, ink: [0.0; PIXELS], pen, middle: (centre + shift(0), centre + shift(1)), across, down }
    }

    /// Draws a line through points of the paper.
    pub(super) fn draw(&mut self, stroke: &[Point]) {
        let points: Vec<Point> = stroke.iter().map(|point| self.placed(*point)).collect();
        for ends in points.windows(2) {
            self.segment(ends[0], ends[1]);
        }
    }

    /// The pixels, with some noise.
    pub(super) fn develop(self) -> [u8; PIXELS] {
        let black = self.noise.of(7).between(200.0, 255.0);
        let dirt = self.noise.of(8);
        std::array::from_fn(|at| {
            let grain = dirt.of(at as u64);
            let speck = if grain.below(16) == 0 { grain.of(1).between(0.0, 60.0) } else { 0.0 };
            (self.ink[at] * black + speck).min(255.0) as u8
        })
    }

    fn placed(&self, (x, y): Point) -> Point {
        let (x, y) = (x - 0.5, y - 0.5);
        let along = |middle: f64, across: f64, down: f64| middle + x * across + y * down;
        (along(self.middle.0, self.across.0, self.down.0), along(self.middle.1, self.across.1, self.down.1))
    }

    fn segment(&mut self, a: Point, b: Point) {
        let reach = self.pen + 1.0;
        let pixels = |low: f64, high: f64| {
            let first = (low - reach).max(0.0) as usize;
            first..((high + reach).max(0.0) as usize + 1).min(SIDE)
        };
        for row in pixels(a.1.min(b.1), a.1.max(b.1)) {
            for column in pixels(a.0.min(b.0), a.0.max(b.0)) {
                let distance = distance((column as f64 + 0.5, row as f64 + 0.5), a, b);
                let ink = (self.pen + 0.5 - distance).clamp(0.0, 1.0);
                let pixel = &mut self.ink[row * SIDE + column];
                *pixel = pixel.max(ink);
            }
        }
    }
}

/// The distance of a point from a segment.
fn distance((x, y): Point, (ax, ay): Point, (bx, by): Point) -> f64 {
    let (dx, dy) = (bx - ax, by - ay);
    let length = dx * dx + dy * dy;
    let along = if length > 0.0 { (((x - ax) * dx + (y - ay) * dy) / length).clamp(0.0, 1.0) } else { 0.0 };
    let (px, py) = (ax + along * dx - x, ay + along * dy - y);
    (px * px + py * py).sqrt()
}
