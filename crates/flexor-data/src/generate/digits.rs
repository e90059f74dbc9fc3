//! Generates images of handwritten digits in the size of MNIST's.
//!
//! Each digit has strokes of its own. Every drawing is shifted, rotated, sheared and scaled a little, with another pen
//! width and some noise ([`strokes`], [`canvas`]). Labels are never wrong, so the best accuracy is 1; a perceptron with
//! one hidden layer passes 0.97.

mod canvas;
mod folder;
mod strokes;

use std::path::PathBuf;

use super::noise::Noise;
use super::{GenerateError, GeneratedFile, GenerationPlan, Truth, TruthOfFile};
use crate::example::ExampleWriter;
use crate::idx::{IdxWriter, Part};
use crate::output::Output;
use crate::recordio::{WriteError, Writer, WriterOptions};
use canvas::Canvas;
pub use canvas::SIDE;

/// Pixels per image.
pub const PIXELS: usize = SIDE * SIDE;

/// Records between two progress reports.
const PROGRESS_INTERVAL: u64 = 1024;

/// The output format of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigitsFormat {
    /// A file of images and one of labels.
    Idx,
    /// A `tf.train.Example` for each, as ElasticDL has them: `image` are floats from 0 to 255, `label` is an integer.
    RecordIo(WriterOptions),
}

/// Draws a digit. Returns its label and its pixels, row by row.
pub fn draw(seed: u64, number: u64) -> (u8, [u8; PIXELS]) {
    let noise = Noise::new(seed).of(0xd1).of(number);
    let label = noise.of(0).below(10) as u8;
    let mut canvas = Canvas::new(noise.of(1));
    for stroke in strokes::of(label, noise.of(2)) {
        canvas.draw(&stroke);
    }
    (label, canvas.develop())
}

/// An image as an ElasticDL record.
pub fn example<'a>(writer: &'a mut ExampleWriter, label: u8, pixels: &[u8]) -> &'a [u8] {
    let image = pixels.iter().map(|pixel| f32::from(*pixel));
    writer.floats("image", image).integers("label", &[i64::from(label)]).finish()
}

/// The data files of a plan.
pub fn files(plan: &GenerationPlan, format: DigitsFormat) -> Vec<PathBuf> {
    plan.parts().iter().flat_map(|part| file_names(plan, part, format)).collect()
}

/// Writes images and their truth. `on_progress` receives the number of written records.
///
/// # Errors
///
/// A file exists already or cannot be written, or there are more records than an IDX file can hold.
pub fn write(
    seed: u64,
    plan: &GenerationPlan,
    format: DigitsFormat,
    on_progress: &mut dyn FnMut(u64),
) -> Result<Truth, GenerateError> {
    let mut outputs = Vec::new();
    let parts = plan.parts();
    folder::check(plan, &parts)?;
    for part in &parts {
        let names = file_names(plan, part, format);
        outputs.push(names.iter().map(|name| plan.create(name)).collect::<Result<Vec<_>, _>>()?);
    }
    drop(plan.create(&plan.truth())?);
    let mut whole = Vec::new();
    let mut files = Vec::new();
    for (part, outputs) in parts.iter().zip(outputs) {
        let failed = |source: WriteError| GenerateError::Write { path: part.path.clone(), source };
        let first = outputs.first().map_or(part.path.as_path(), Output::path);
        let shown = if plan.records_per_file.is_some() { part.path.as_path() } else { first };
        files.extend(shown.file_name().map(|name| TruthOfFile {
            file: name.to_string_lossy().into_owned(),
            records: part.records,
            positives: None,
            best_auc: None,
        }));
        whole.extend(match format {
            DigitsFormat::Idx => {
                let records = u32::try_from(part.records).ok();
                let count = records.ok_or(GenerateError::TooMany { records: part.records })?;
                write_idx(seed, part, count, outputs, on_progress).map_err(|error| failed(error.into()))?
            }
            DigitsFormat::RecordIo(options) => {
                let files = folder::split(part, plan.records_per_file);
                write_examples(seed, files.zip(outputs), options, on_progress).map_err(failed)?
            }
        });
    }
    for output in whole {
        output.commit()?;
    }
    folder::remove_older(plan, &parts)?;
    let truth = Truth {
        generator: "digits".to_owned(),
        seed,
        best_auc: None,
        best_accuracy: Some(1.0),
        records_per_file: plan.records_per_file,
        files,
    };
    truth.write(plan)?;
    Ok(truth)
}

fn file_names(plan: &GenerationPlan, part: &GeneratedFile, format: DigitsFormat) -> Vec<PathBuf> {
    let path = part.path.as_path();
    let pair = path.file_name().unwrap_or_default().to_string_lossy();
    match format {
        DigitsFormat::Idx => [IMAGES, Part::Labels].map(|part| path.with_file_name(part.file_name(&pair))).to_vec(),
        DigitsFormat::RecordIo(_) => folder::split(part, plan.records_per_file).map(|file| file.path).collect(),
    }
}

const IMAGES: Part = Part::Images { rows: SIDE as u32, columns: SIDE as u32 };

fn write_idx(
    seed: u64,
    part: &GeneratedFile,
    count: u32,
    outputs: Vec<Output>,
    on_progress: &mut dyn FnMut(u64),
) -> std::io::Result<Vec<Output>> {
    let mut writers = Vec::new();
    for (output, part) in outputs.into_iter().zip([IMAGES, Part::Labels]) {
        writers.push(IdxWriter::new(output, part, count)?);
    }
    for_each_record(seed, part, on_progress, |label, pixels| {
        let items: [&[u8]; 2] = [pixels, &[label]];
        writers.iter_mut().zip(items).try_for_each(|(writer, item)| writer.write(item))
    })?;
    writers.into_iter().map(IdxWriter::finish).collect()
}

fn write_examples(
    seed: u64,
    files: impl Iterator<Item = (GeneratedFile, Output)>,
    options: WriterOptions,
    on_progress: &mut dyn FnMut(u64),
) -> Result<Vec<Output>, WriteError> {
    let mut whole = Vec::new();
    for (file, output) in files {
        let mut writer = Writer::new(output, options);
        let mut examples = ExampleWriter::new();
        for_each_record(seed, &file, on_progress, |label, pixels| writer.write(example(&mut examples, label, pixels)))?;
        whole.push(writer.finish()?.0);
    }
    Ok(whole)
}

fn for_each_record<E>(
    seed: u64,
    part: &GeneratedFile,
    on_progress: &mut dyn FnMut(u64),
    mut on: impl FnMut(u8, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    for number in part.first..part.first + part.records {
        let (label, pixels) = draw(seed, number);
        on(label, &pixels)?;
        if (number + 1).is_multiple_of(PROGRESS_INTERVAL) {
            on_progress(number + 1);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean images are a poor model, but they classify most drawings.
    #[test]
    fn drawings_of_a_digit_are_alike_and_never_the_same() {
        let mut means = [[0.0_f64; PIXELS]; 10];
        let mut counts = [0.0; 10];
        for number in 0..2_000 {
            let (label, pixels) = draw(1, number);
            counts[usize::from(label)] += 1.0;
            means[usize::from(label)].iter_mut().zip(pixels).for_each(|(sum, pixel)| *sum += f64::from(pixel));
        }
        for (mean, count) in means.iter_mut().zip(counts) {
            assert!(count > 120.0, "{counts:?}");
            mean.iter_mut().for_each(|sum| *sum /= count);
        }
        let right = (2_000..2_500).filter(|number| {
            let (label, pixels) = draw(1, *number);
            let distance = |mean: &[f64; PIXELS]| {
                mean.iter().zip(pixels).map(|(mean, pixel)| (mean - f64::from(pixel)).powi(2)).sum::<f64>()
            };
            let nearest = (0..10_u8)
                .min_by(|a, b| distance(&means[usize::from(*a)]).total_cmp(&distance(&means[usize::from(*b)])));
            nearest == Some(label)
        });
        let right = right.count();
        assert!((300..495).contains(&right), "{right} of 500");
    }

    #[test]
    fn a_drawing_depends_on_seed_and_number_alone() {
        assert_eq!(draw(1, 5), draw(1, 5));
        assert_ne!(draw(1, 5).1, draw(2, 5).1);
        assert!(draw(1, 5).1.iter().any(|pixel| *pixel > 200));
    }
}
