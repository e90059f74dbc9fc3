//! Parses images of digits from IDX files or `tf.train.Example`.
//!
//! An IDX record is the label's byte and the pixels. An example has the pixels as floats from 0 to 255 in `image`, and
//! one integer in `label`. Both give the same numbers.

use flexor_data::example::{self, Values};

use super::Problem;
use crate::{Batch, Inputs};

const SIDE: usize = 28;
const PIXELS: usize = SIDE * SIDE;
const DIGITS: u32 = 10;
const WHITE: f32 = 255.0;

#[derive(Debug, Default)]
pub(super) struct Digits {
    /// The current image.
    pixels: Vec<f32>,
}

impl Digits {
    pub(super) const INPUTS: Inputs = Inputs { fields: 0, numbers: PIXELS, classes: DIGITS };

    pub(super) fn read(&mut self, record: &[u8], batch: &mut Batch) -> Result<(), Problem> {
        self.pixels.clear();
        // An example with as many pixels is never this short: a float has four bytes.
        let label = match record.split_first() {
            Some((label, pixels)) if pixels.len() == PIXELS => {
                self.pixels.extend(pixels.iter().map(|pixel| f32::from(*pixel) / WHITE));
                i64::from(*label)
            }
            Some(_) | None => self.read_example(record)?,
        };
        let Some(label) = u32::try_from(label).ok().filter(|label| *label < DIGITS) else {
            let (column, value) = ("label".to_owned(), label.to_string());
            return Err(Problem::Label { column, value, wanted: "a digit from 0 to 9".to_owned() });
        };
        batch.push(label, &self.pixels, &[]);
        Ok(())
    }

    fn read_example(&mut self, record: &[u8]) -> Result<i64, Problem> {
        let feature = |name: &str| {
            let found = example::find(record, name).map_err(|problem| Problem::Image(problem.to_string()))?;
            found.ok_or_else(|| Problem::Image(format!("the example has no feature `{name}`")))
        };
        match feature("image")? {
            Values::Floats(pixels) if pixels.len() == PIXELS && pixels.iter().all(|pixel| pixel.is_finite()) => {
                self.pixels.extend(pixels.iter().map(|pixel| pixel / WHITE));
            }
            Values::Floats(_) | Values::Bytes(_) | Values::Integers(_) | Values::Nothing => {
                return Err(Problem::Image(format!("`image` is not {PIXELS} finite floats")));
            }
        }
        match feature("label")? {
            Values::Integers(labels) if labels.len() == 1 => Ok(labels[0]),
            Values::Integers(_) | Values::Floats(_) | Values::Bytes(_) | Values::Nothing => {
                Err(Problem::Image("`label` is not one integer".to_owned()))
            }
        }
    }
}
