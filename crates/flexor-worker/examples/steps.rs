//! Measures how many steps per second a model computes on one thread, without parameter servers, for comparison with a
//! tensor library: `cargo run --release -p flexor-worker --example steps -- MODEL FIELDS NUMBERS BATCH`.

use std::time::{Duration, Instant};

use flexor_worker::models::{Architecture, Gradients, Step};
use flexor_worker::{Batch, Inputs, Lookup};

const VOCABULARY: u64 = 20_000;
const MEASURED: Duration = Duration::from_secs(3);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize, default: &str| arguments.get(at).cloned().unwrap_or_else(|| default.to_owned());
    let architecture: Architecture = argument(0, "deepfm:dim=16,hidden=128x64").parse()?;
    let (fields, numbers, size) = (argument(1, "26").parse()?, argument(2, "0").parse()?, argument(3, "256").parse()?);
    let classes = if fields == 0 { 10 } else { 2 };
    let inputs = Inputs { fields, numbers, classes };
    let mut model = architecture.build(inputs)?;

    let mut state = 1_u64;
    let mut draw = |end: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    let batches: Vec<Batch> = (0..16)
        .map(|_| {
            let mut batch = Batch::new(inputs);
            for _ in 0..size {
                let numbers: Vec<f32> = (0..numbers).map(|_| draw(1000) as f32 / 1000.0).collect();
                let keys: Vec<u64> = (0..fields).map(|field| field as u64 * VOCABULARY + draw(VOCABULARY)).collect();
                batch.push(draw(u64::from(classes)) as u32, &numbers, &keys);
            }
            batch
        })
        .collect();

    let mut value = || draw(1000) as f32 / 10_000.0 - 0.05;
    let declaration = model.declaration().clone();
    let variables: Vec<Vec<f32>> =
        declaration.variables.iter().map(|variable| (0..variable.elements()).map(|_| value()).collect()).collect();
    let (mut lookup, mut gradients) = (Lookup::default(), Gradients::default());
    let mut rows: Vec<Vec<f32>> = vec![Vec::new(); declaration.tables.len()];
    let (begun, mut steps, mut looking_up, mut loss) = (Instant::now(), 0_u64, Duration::ZERO, 0.0);
    let mut fastest = Duration::MAX;
    while begun.elapsed() < MEASURED {
        let batch = &batches[steps as usize % batches.len()];
        let before = Instant::now();
        model.look_up(batch, &mut lookup);
        looking_up += before.elapsed();
        for ((rows, table), lookup) in rows.iter_mut().zip(&declaration.tables).zip(lookup.tables()) {
            rows.resize(lookup.keys().len() * table.dim as usize, 0.01);
        }
        model.gradients(Step { batch, lookup: &lookup, variables: &variables, rows: &rows }, &mut gradients);
        fastest = fastest.min(before.elapsed());
        loss += gradients.loss;
        steps += 1;
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{architecture}, {fields} fields, {numbers} numbers, batches of {size}: {:.0} steps/s, {:.0} records/s, \
         {:.1} % of the time finding rows; fastest step {:.0} µs; mean loss {:.4}",
        steps as f64 / seconds,
        (steps * size as u64) as f64 / seconds,
        100.0 * looking_up.as_secs_f64() / seconds,
        fastest.as_secs_f64() * 1e6,
        loss / steps as f64,
    );
    Ok(())
}
