//! The runs as text, and as files: `report.md`, `report.json`, a CSV file for each run, and a picture.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use flexor::sim::picture;
use flexor::sim::table::{self, Figures};
use flexor_sched::sim::Report;
use serde_json::json;

use super::{Case, NamedRun, comparison};

/// The tables, and what was published. The first run is the real one, the second the model of the same policy.
pub(super) fn text(case: Case, runs: &[NamedRun]) -> Result<String> {
    let [figures, comparison] = tables(case, runs)?;
    let mut text = format!("{}\n{}", figures.to_text(), comparison.to_text());
    if let Some(published) = table::published(case.of_sim()) {
        text.push_str(&format!("\n{published}\n"));
    }
    Ok(text)
}

pub(super) fn write(folder: &Path, case: Case, runs: &[NamedRun]) -> Result<()> {
    fs::create_dir_all(folder)?;
    let [figures, comparison] = tables(case, runs)?;
    let mut text = format!(
        "# EDL's experiment on a real control plane: {}\n\n{}\nThe first two runs, figure by figure:\n\n{}\n",
        runs.first().map_or("", |run| &run.report.experiment),
        figures.to_markdown(),
        comparison.to_markdown()
    );
    if let Some(published) = table::published(case.of_sim()) {
        text.push_str(&format!("{published}\n\n"));
    }
    text.push_str("![All runs](runs.svg)\n\nA CSV file of each run has its samples, one a second.\n");
    let named: Vec<(&str, &Report)> = runs.iter().map(|run| (&*run.name, &run.report)).collect();
    fs::write(folder.join("runs.svg"), picture::of(&named))?;
    for run in runs {
        fs::write(folder.join(format!("{}.csv", file_name(&run.name))), run.report.csv())?;
    }
    let runs: Vec<_> = runs.iter().map(|run| json!({ "name": run.name, "run": run.report })).collect();
    fs::write(folder.join("report.json"), serde_json::to_vec_pretty(&runs)?)?;
    Ok(fs::write(folder.join("report.md"), text)?)
}

/// A row for each run, and a row for each figure of the first two.
fn tables(case: Case, runs: &[NamedRun]) -> Result<[Figures; 2]> {
    let reports: Vec<Report> = runs.iter().map(|run| run.report.clone()).collect();
    let mut figures = table::of(case.of_sim(), &reports);
    for (row, run) in figures.rows.iter_mut().zip(runs) {
        if let Some(policy) = row.first_mut() {
            policy.clone_from(&run.name);
        }
    }
    let (real, model) = reports.first().zip(reports.get(1)).context("a real run and the model's")?;
    Ok([figures, comparison::of(case, real, model)])
}

fn file_name(name: &str) -> String {
    let words: Vec<&str> =
        name.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join("-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use flexor_sched::sim::{Experiment, Policy, run};

    use super::*;

    #[test]
    fn the_report_has_every_run_in_its_tables_and_files() {
        let named = |name: &str, policy| NamedRun { name: name.to_owned(), report: run(&Experiment::case1(policy, 5)) };
        let runs = [named("Flexor, real control plane", Policy::Planned), named("Flexor, model", Policy::Planned)];
        let text = text(Case::Case1, &runs).unwrap();
        assert!(text.contains("\nFlexor, real control plane   5 s") && text.contains("\nFlexor, model"), "{text}");
        assert!(text.contains("\ntrainers ended") && text.contains("Published"), "{text}");
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), Case::Case1, &runs).unwrap();
        let files = ["flexor-real-control-plane.csv", "flexor-model.csv", "runs.svg", "report.json", "report.md"];
        assert!(files.iter().all(|file| folder.path().join(file).is_file()));
    }
}
