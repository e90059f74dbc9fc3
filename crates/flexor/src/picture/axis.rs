//! An axis of a chart, with ticks at round numbers.

/// Maps values to coordinates.
#[derive(Debug, Clone, Copy)]
pub struct Axis {
    /// Range of values.
    least: f64,
    most: f64,
    /// Coordinates of the least and of the greatest value.
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis for 0 to `most`, between two coordinates.
    pub fn new(most: f64, from: f64, to: f64) -> Self {
        Self { least: 0.0, most: if most > 0.0 { most } else { 1.0 }, from, to }
    }

    /// An axis for `least` to `most`, with round ends, between two coordinates. A single value gets some room around it.
    pub fn zoomed(least: f64, most: f64, ticks: u32, (from, to): (f64, f64)) -> Self {
        let room = if least == 0.0 { 1.0 } else { least.abs() / 5.0 };
        let span = if most - least > least.abs() * 1e-9 { most - least } else { room };
        let step = round_step(span / f64::from(ticks.max(1)));
        let least = (least / step + 0.000_001).floor() * step;
        let most = ((most / step - 0.000_001).ceil() * step).max(least + step);
        Self { least, most, from, to }
    }

    /// The coordinate of a value. Values outside of the range are clamped.
    pub fn position(&self, value: f64) -> f64 {
        let share = (value - self.least) / (self.most - self.least);
        self.from + (self.to - self.from) * share.clamp(0.0, 1.0)
    }

    /// About `about` ticks at multiples of a round step. The digits of the step are enough to tell the labels apart.
    pub fn ticks(&self, about: u32) -> Vec<Tick> {
        let long = self.most - self.least;
        let step = round_step(long / f64::from(about.max(1)));
        let first = (self.least / step - 0.000_001).ceil() * step;
        let values = (0..).map(|tick| first + step * f64::from(tick));
        values.take_while(|value| *value <= self.most + long * 0.000_001).map(|value| Tick::new(value, step)).collect()
    }
}

/// A round value of an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    pub value: f64,
    /// The label, different from those of neighbouring ticks.
    pub text: String,
}

impl Tick {
    fn new(value: f64, step: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few digits, at least none")]
        let digits = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
        // A rounding error below 0 must not show as "-0".
        let value = if value.abs() < step / 2.0 { 0.0 } else { value };
        let text = format!("{value:.digits$}");
        let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text };
        Self { value, text }
    }
}

/// The least of 1, 2, 5, 10 times a power of ten that is at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * power).find(|step| *step >= least * 0.999).unwrap_or(power)
}

/// The least round value of at least `most`, to end an axis with a tick.
pub fn round_end(most: f64, about: u32) -> f64 {
    let step = round_step(most.max(f64::MIN_POSITIVE) / f64::from(about.max(1)));
    (most / step - 0.000_001).ceil() * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_stay_on_the_axis() {
        let texts = |axis: Axis, about| axis.ticks(about).into_iter().map(|tick| tick.text).collect::<Vec<_>>();
        let from_zero = |most, about| texts(Axis::new(most, 0.0, 1.0), about);
        assert_eq!(from_zero(3.1, 5), ["0", "1", "2", "3"]);
        assert_eq!(from_zero(0.9, 5), ["0", "0.2", "0.4", "0.6", "0.8"]);
        assert_eq!(from_zero(47.0, 10), ["0", "5", "10", "15", "20", "25", "30", "35", "40", "45"]);
        assert_eq!(from_zero(0.0, 5).first().unwrap(), "0");
        assert_eq!(from_zero(0.000_8, 4), ["0", "0.0002", "0.0004", "0.0006", "0.0008"]);
        let zoomed = |least, most| texts(Axis::zoomed(least, most, 4, (0.0, 1.0)), 4);
        assert_eq!(zoomed(0.441, 0.478), ["0.44", "0.45", "0.46", "0.47", "0.48"]);
        assert_eq!(zoomed(0.440_1, 0.440_2), ["0.4401", "0.44015", "0.4402"]);
        assert_eq!(zoomed(0.445_9, 0.465_1), ["0.45", "0.46", "0.47"], "an axis from 0.445 on");
        assert_eq!((round_end(3.1, 4), round_end(4.0, 4), round_end(130.0, 4)), (4.0, 4.0, 150.0));
    }

    #[test]
    fn a_single_value_has_different_labels_around_it() {
        for value in [0.0, 0.5, 0.713_147, 41_000.0, -3.0, 1e-7] {
            let axis = Axis::zoomed(value, value, 4, (0.0, 1.0));
            let mut texts: Vec<String> = axis.ticks(4).into_iter().map(|tick| tick.text).collect();
            let (count, position) = (texts.len(), axis.position(value));
            texts.dedup();
            assert!(texts.len() == count && (2..=11).contains(&count), "{value}: {texts:?}");
            assert!((0.0..=1.0).contains(&position), "{value}: {position}");
        }
        let texts: Vec<String> =
            Axis::zoomed(0.693, 0.693, 4, (0.0, 1.0)).ticks(4).into_iter().map(|tick| tick.text).collect();
        assert_eq!(texts, ["0.66", "0.68", "0.7"]);
    }

    #[test]
    fn labels_differ_for_any_range() {
        for least in (0..200).map(|step| f64::from(step) * 0.013) {
            for long in (1..200).map(|step| f64::from(step) * 0.001_7) {
                let axis = Axis::zoomed(least, least + long, 4, (0.0, 1.0));
                let mut texts: Vec<String> = axis.ticks(4).into_iter().map(|tick| tick.text).collect();
                let count = texts.len();
                texts.dedup();
                assert!(texts.len() == count && (2..=8).contains(&count), "{least} to {}: {texts:?}", least + long);
            }
        }
    }

    #[test]
    fn positions_are_between_the_ends() {
        let axis = Axis::new(10.0, 100.0, 0.0);
        let positions = [0.0, 5.0, 99.0, -1.0].map(|value| axis.position(value));
        assert_eq!(positions, [100.0, 50.0, 0.0, 100.0]);
    }
}
