//! `flexor sim`: the published experiments of EDL on a model of a cluster, with four policies side by side.

pub mod picture;
mod report;
pub mod table;

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use flexor_sched::sim::{self, Experiment, Policy, Report};

use crate::exit::Exit;
use crate::output::{self, Format};

/// Arguments of `flexor sim`.
#[derive(Debug, Args)]
pub struct SimArgs {
    /// Experiment to repeat
    #[arg(value_enum)]
    pub case: Case,
    /// Seconds that a pod takes to end; several values compare them
    #[arg(long, value_name = "SECONDS", value_delimiter = ',', default_values_t = [5, 30], value_parser = clap::value_parser!(u32).range(..=600))]
    pub grace: Vec<u32>,
    /// Write a report into a folder: tables, the samples of every second, and a picture
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Format,
}

/// The experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Case {
    /// Twenty jobs of 2 to 60 trainers on 133 nodes, one every 12 seconds
    Case1,
    /// Six jobs beside Nginx, which goes from 400 pods to 100 and back
    Case2,
    /// Two jobs on 240 cores: 50 to 500 trainers, and a minute later 50 to 200
    Tutorial,
}

impl Case {
    pub fn experiment(self, policy: Policy, grace: u32) -> Experiment {
        match self {
            Self::Case1 => Experiment::case1(policy, grace),
            Self::Case2 => Experiment::case2(policy, grace),
            Self::Tutorial => Experiment::tutorial(policy, grace),
        }
    }
}

pub fn run(args: &SimArgs) -> anyhow::Result<Exit> {
    let mut reports: Vec<Report> = Vec::new();
    let runs = args.grace.iter().flat_map(|grace| Policy::ALL.map(|policy| (*grace, policy)));
    for (grace, policy) in runs {
        output::note(&format!("{policy}, pods take {grace} s to end …"));
        reports.push(sim::run(&args.case.experiment(policy, grace)));
    }
    if let Some(folder) = &args.report {
        report::write(folder, args.case, &reports)
            .with_context(|| format!("cannot write the report into {}", folder.display()))?;
        output::note(&format!("wrote {}", folder.join("report.md").display()));
    }
    match args.output {
        Format::Text => output::text(&table::of(args.case, &reports).to_text())?,
        Format::Json => output::json(&reports)?,
    }
    Ok(Exit::Success)
}
