//! `flexor data inspect`: shows the contents and the damage of data files.

use std::path::PathBuf;

use clap::Args;
use flexor_data::inspect::{self, Depth, FileInspection, Inspection};
use flexor_data::{Content, Dataset, Format as DataFormat, example};
use serde::Serialize;

use super::progress::RecordProgress;
use super::{SourceArgs, shown};
use crate::exit::Exit;
use crate::output::{self, Format};
use crate::verbs::Table;

/// Largest number of characters that are shown of a record.
const SHOWN_CHARACTERS: usize = 160;

/// Arguments of `flexor data inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Files, or folders of files
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Number of first records to show
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub head: u64,
    /// Read headers only, and no records
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub source: SourceArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Format,
}

/// The JSON document.
#[derive(Serialize)]
struct InspectionOutput<'a> {
    #[serde(flatten)]
    inspection: &'a Inspection,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    head: Vec<String>,
}

pub(super) fn run(args: &InspectArgs) -> anyhow::Result<Exit> {
    let depth = if args.quick { Depth::Headers } else { Depth::Everything };
    let mut progress: Option<RecordProgress> = None;
    let (dataset, inspection) = inspect::inspect(&args.paths, &args.source.options(), depth, &mut |done, records| {
        progress.get_or_insert_with(|| RecordProgress::new("read", records)).update(done);
    })?;
    drop(progress);
    let head = head(&dataset, args.head)?;
    match args.output {
        Format::Json => output::json(&InspectionOutput { inspection: &inspection, head })?,
        Format::Text => output::text(&text(&inspection, &head))?,
    }
    Ok(if inspection.damage.is_empty() { Exit::Success } else { Exit::Failure })
}

fn text(inspection: &Inspection, head: &[String]) -> String {
    let is_chunked = inspection.files.iter().any(|file| file.chunks.is_some());
    let chunked = |cells: [&str; 2]| cells.map(str::to_owned).into_iter().filter(|_| is_chunked).collect::<Vec<_>>();
    let heading =
        [["FILE", "BYTES", "RECORDS"].map(str::to_owned).to_vec(), chunked(["CHUNKS", "COMPRESSOR"])].concat();
    let rows: Vec<Vec<String>> = inspection
        .files
        .iter()
        .map(|file| {
            let cells = [shown(&file.path), file.bytes.to_string(), file.records.to_string()];
            let chunks = file.chunks.unwrap_or_default().to_string();
            [cells.to_vec(), chunked([&chunks, &compressors(file)])].concat()
        })
        .collect();
    let mut text = Table::new(heading).rows(&rows);
    let Inspection { format, records, damaged_records, .. } = inspection;
    let files = match inspection.files.len() {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    };
    text.push_str(&format!("\n{format}, {records} records in {files}"));
    let is_unknown = inspection.damage.iter().any(|damage| damage.records.is_none());
    text.push_str(&match (inspection.damage.is_empty(), is_unknown) {
        (true, _) => ", no damage found\n".to_owned(),
        (false, false) => format!(", {damaged_records} of them damaged\n"),
        (false, true) => format!(", {damaged_records} of them damaged, and an unknown number lost\n"),
    });
    for damage in &inspection.damage {
        text.push_str(&format!("  {}\n", output::on_one_line(&damage.to_string())));
    }
    if let Some(columns) = &inspection.columns {
        text.push_str(&format!("columns: {}\n", output::on_one_line(&columns.join(", "))));
    }
    head.iter().enumerate().for_each(|(number, record)| text.push_str(&format!("{number}: {record}\n")));
    text
}

fn compressors(file: &FileInspection) -> String {
    let names: Vec<&str> = file.compressors.keys().map(String::as_str).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(",") }
}

/// The first records, as text.
fn head(dataset: &Dataset, count: u64) -> anyhow::Result<Vec<String>> {
    let mut records = Vec::new();
    dataset.read(0..count.min(dataset.len()), &mut |record| {
        records.push(match record.content {
            Content::Damaged => "damaged".to_owned(),
            Content::Whole(bytes) => record_text(dataset.format(), bytes),
        });
    })?;
    Ok(records)
}

fn record_text(format: DataFormat, bytes: &[u8]) -> String {
    let example = (format == DataFormat::RecordIo).then(|| example::read(bytes).ok()).flatten();
    let text = match (format, example, bytes.split_first()) {
        (_, Some(features), _) if !features.is_empty() => {
            let features: Vec<String> = features.iter().map(|(name, values)| format!("{name}={values}")).collect();
            features.join(" ")
        }
        (DataFormat::Idx, _, Some((label, pixels))) => format!("label={label} image={} pixels", pixels.len()),
        _ => match str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => format!("{} bytes: {}", bytes.len(), hex(&bytes[..bytes.len().min(32)])),
        },
    };
    let text = output::on_one_line(&text);
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
