//! The report of an experiment as files: `report.md`, `report.json`, a CSV file for each run, and pictures.

use std::fs;
use std::io;
use std::path::Path;

use flexor_sched::sim::Report;

use super::{Case, picture, table};

pub fn write(folder: &Path, case: Case, runs: &[Report]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let figures = table::of(case, runs);
    let mut text = format!("# {}\n\n{}\n", title(case), figures.to_markdown());
    if let Some(published) = table::published(case) {
        text.push_str(&format!("{published}\n\n"));
    }
    let mut graces: Vec<u32> = runs.iter().map(|run| run.grace).collect();
    graces.dedup();
    for grace in graces {
        let of_grace = runs.iter().filter(|run| run.grace == grace);
        let of_grace: Vec<(&str, &Report)> = of_grace.map(|run| (table::policy_word(run.policy), run)).collect();
        let name = format!("grace-{grace}.svg");
        fs::write(folder.join(&name), picture::of(&of_grace))?;
        text.push_str(&format!("![Pods take {grace} s to end]({name})\n\n"));
    }
    text.push_str("Each run was one second at a time, without chance; a CSV file of each has the samples.\n");
    for run in runs {
        let name = format!("{}-grace-{}.csv", table::policy_word(run.policy), run.grace);
        fs::write(folder.join(name), run.csv())?;
    }
    fs::write(folder.join("report.json"), serde_json::to_vec_pretty(runs)?)?;
    fs::write(folder.join("report.md"), text)
}

fn title(case: Case) -> &'static str {
    match case {
        Case::Case1 => "Case 1: twenty jobs on 2348 cores",
        Case::Case2 => "Case 2: six jobs beside Nginx",
        Case::Tutorial => "The tutorial: two jobs on 240 cores",
    }
}
