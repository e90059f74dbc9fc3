//! The strokes of digits, on a paper from (0, 0) at the upper left to (1, 1).

use super::super::noise::Noise;

/// A point of the paper.
pub(super) type Point = (f64, f64);

/// The random deviation of the pen.
const TREMBLE: f64 = 0.028;

/// The strokes of a digit, with random deviations.
pub(super) fn of(digit: u8, noise: Noise) -> Vec<Vec<Point>> {
    let trembling = |stroke: u64, (turns, points): &(Turns, &[Point])| {
        let strayed = (0_u64..).zip(*points).map(|(at, (x, y))| {
            let noise = noise.of(stroke).of(at);
            (x + TREMBLE * noise.of(0).bell(), y + TREMBLE * noise.of(1).bell())
        });
        match turns {
            Turns::Sharp => strayed.collect(),
            Turns::Round => rounded(&rounded(&strayed.collect::<Vec<_>>())),
        }
    };
    (0..).zip(template(digit)).map(|(stroke, line)| trembling(stroke, line)).collect()
}

/// The corners of a stroke.
enum Turns {
    Sharp,
    Round,
}

use Turns::{Round, Sharp};

fn template(digit: u8) -> &'static [(Turns, &'static [Point])] {
    match digit {
        0 => &[(
            Round,
            &[
                (0.5, 0.06),
                (0.24, 0.14),
                (0.18, 0.5),
                (0.24, 0.86),
                (0.5, 0.94),
                (0.76, 0.86),
                (0.82, 0.5),
                (0.76, 0.14),
                (0.5, 0.06),
            ],
        )],
        1 => &[(Sharp, &[(0.36, 0.24), (0.54, 0.08), (0.54, 0.92)])],
        2 => &[
            (Round, &[(0.22, 0.28), (0.3, 0.08), (0.66, 0.05), (0.8, 0.3), (0.62, 0.54), (0.22, 0.9)]),
            (Sharp, &[(0.22, 0.9), (0.8, 0.9)]),
        ],
        3 => &[
            (Round, &[(0.24, 0.16), (0.46, 0.03), (0.78, 0.14), (0.74, 0.4), (0.44, 0.47)]),
            (Round, &[(0.44, 0.47), (0.8, 0.5), (0.84, 0.82), (0.5, 0.98), (0.22, 0.84)]),
        ],
        4 => &[(Sharp, &[(0.56, 0.08), (0.2, 0.62), (0.82, 0.62)]), (Sharp, &[(0.62, 0.36), (0.62, 0.94)])],
        5 => &[
            (Sharp, &[(0.76, 0.08), (0.32, 0.08), (0.28, 0.44)]),
            (Round, &[(0.28, 0.44), (0.56, 0.36), (0.84, 0.56), (0.76, 0.9), (0.44, 0.98), (0.22, 0.84)]),
        ],
        6 => &[(
            Round,
            &[
                (0.7, 0.08),
                (0.4, 0.16),
                (0.2, 0.56),
                (0.26, 0.92),
                (0.6, 0.98),
                (0.8, 0.76),
                (0.66, 0.5),
                (0.36, 0.52),
                (0.24, 0.7),
            ],
        )],
        7 => &[(Sharp, &[(0.22, 0.1), (0.8, 0.1), (0.42, 0.92)])],
        8 => &[
            (Round, &[(0.5, 0.47), (0.26, 0.4), (0.26, 0.1), (0.5, 0.05), (0.74, 0.1), (0.74, 0.4), (0.5, 0.47)]),
            (Round, &[(0.5, 0.47), (0.18, 0.56), (0.2, 0.9), (0.5, 0.96), (0.8, 0.9), (0.82, 0.56), (0.5, 0.47)]),
        ],
        _ => &[
            (Round, &[(0.74, 0.3), (0.68, 0.06), (0.36, 0.04), (0.22, 0.3), (0.38, 0.54), (0.66, 0.5), (0.74, 0.3)]),
            (Round, &[(0.74, 0.24), (0.74, 0.6), (0.66, 0.8), (0.5, 0.95)]),
        ],
    }
}

/// Cuts the corners off a line; its ends stay.
fn rounded(points: &[Point]) -> Vec<Point> {
    let mut line: Vec<Point> = points.first().copied().into_iter().collect();
    for pair in points.windows(2) {
        let ((ax, ay), (bx, by)) = (pair[0], pair[1]);
        line.push((0.75 * ax + 0.25 * bx, 0.75 * ay + 0.25 * by));
        line.push((0.25 * ax + 0.75 * bx, 0.25 * ay + 0.75 * by));
    }
    line.extend(points.last());
    line
}
