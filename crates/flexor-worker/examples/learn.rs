//! Trains a standalone model on a file and tests it on another: `cargo run --release -p flexor-worker --example learn
//! -- MODEL TRAIN TEST [SCHEMA] [EPOCHS] [BATCH] [OPTIMIZER] [LEARNING-RATE] [ACCUMULATOR]`. Defaults are tuned with
//! it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use flexor_data::{Content, Dataset, Options};
use flexor_ps::spec::Optimizer;
use flexor_worker::Batch;
use flexor_worker::features::{Features, Schema};
use flexor_worker::metrics::Metrics;
use flexor_worker::models::Architecture;
use flexor_worker::standalone::StandaloneTrainer;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, train, test, others @ ..] = arguments.as_slice() else {
        return Err("say MODEL TRAIN TEST".into());
    };
    let option = |at: usize, default: &str| others.get(at).cloned().unwrap_or_else(|| default.to_owned());
    let architecture: Architecture = model.parse()?;
    let schema: Schema = option(0, "clicks").parse()?;
    let (epochs, size): (u32, u64) = (option(1, "1").parse()?, option(2, "512").parse()?);
    let rate: Option<f32> = others.get(4).map(|rate| rate.parse()).transpose()?;
    let optimizer = match (option(3, "default").as_str(), rate) {
        ("sgd", rate) => Optimizer::sgd(rate.unwrap_or(0.1)),
        ("adagrad", rate) => {
            let initial_accumulator = option(5, "0.1").parse()?;
            Optimizer::Adagrad { learning_rate: rate.unwrap_or(0.05), epsilon: 1e-7, initial_accumulator }
        }
        ("adam", rate) => Optimizer::adam(rate.unwrap_or(0.001)),
        _ => architecture.default_optimizer(),
    };

    let (train, test) = (open(train)?, open(test)?);
    let mut features = Features::new(&schema);
    let built = architecture.build(features.inputs())?;
    let task = built.task();
    let mut alone = StandaloneTrainer::new(built, optimizer, 1)?;
    for epoch in 1..=epochs {
        let (mut learned, mut computing, begun) = (Metrics::new(task), Duration::ZERO, Instant::now());
        each_batch(&train, &mut features, size, |batch| {
            let before = Instant::now();
            let step = alone.train(batch)?;
            computing += before.elapsed();
            learned.add(&step.scores, batch.labels());
            Ok(())
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        let mut tested = Metrics::new(task);
        each_batch(&test, &mut features, size, |batch| {
            tested.add(alone.scores(batch)?, batch.labels());
            Ok(())
        })?;
        println!(
            "epoch {epoch}: {} records in {seconds:.1} s ({:.0} records/s, {:.0} records/s of steps alone), {} rows; {}; {}",
            learned.records(),
            learned.records() as f64 / seconds,
            learned.records() as f64 / computing.as_secs_f64(),
            alone.rows(),
            shown("before each step", &learned),
            shown("test", &tested),
        );
    }
    Ok(())
}

fn open(path: &str) -> Result<Dataset, Failure> {
    Ok(Dataset::open(&[PathBuf::from(path)], &Options::default())?)
}

fn each_batch(
    dataset: &Dataset,
    features: &mut Features,
    size: u64,
    mut on: impl FnMut(&Batch) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut batch = Batch::new(features.inputs());
    let mut first = 0;
    while first < dataset.len() {
        let end = dataset.len().min(first + size);
        batch.clear();
        let mut bad = None;
        dataset.read(first..end, &mut |record| match record.content {
            Content::Whole(bytes) => bad = features.add(record.number, bytes, &mut batch).err().or(bad.take()),
            Content::Damaged => {}
        })?;
        bad.map_or(Ok(()), Err)?;
        on(&batch)?;
        first = end;
    }
    Ok(())
}

fn shown(what: &str, metrics: &Metrics) -> String {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.4}"));
    let (loss, auc, accuracy) = (metrics.loss(), metrics.auc(), metrics.accuracy());
    format!("{what}: loss {}, AUC {}, accuracy {}", number(loss), number(auc), number(accuracy))
}
