//! `cargo xtask bench`: races against the programs Flexor replaces, both sides in one run.
//!
//! A [`Race`] measures and returns [`Row`]s; this module prints them and writes `target/bench/NAME.json`. Numbers are
//! printed and kept, never asserted: what must hold on every machine is a test.

mod row;
mod validate;

use anyhow::{Context, Result, bail};
use clap::Args;

use self::row::Row;
use crate::tree::project_root;

/// Arguments of `cargo xtask bench`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask bench                       the races
  cargo xtask bench validate --repeats 9

Result: target/bench/NAME.json, one row per metric; a ratio above 1 means ours is better.")]
pub(crate) struct BenchArgs {
    /// Which race; without it they are listed
    name: Option<String>,

    /// How often each side runs; they take turns
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
}

/// One race.
struct Race {
    name: &'static str,
    about: &'static str,
    run: fn(repeats: u32) -> Result<Vec<Row>>,
}

const RACES: &[Race] = &[Race {
    name: "validate",
    about: "flexor validate against kubectl's server-side dry run, on the examples",
    run: validate::run,
}];

/// Runs a race or lists them.
pub(crate) fn run(args: BenchArgs) -> Result<()> {
    let Some(name) = args.name else {
        RACES.iter().for_each(|race| println!("{:<12} {}", race.name, race.about));
        return Ok(());
    };
    let Some(race) = RACES.iter().find(|race| race.name == name) else {
        let known: Vec<_> = RACES.iter().map(|race| race.name).collect();
        bail!("no race '{name}'; there are: {}", known.join(", "));
    };
    let rows = (race.run)(args.repeats)?;
    rows.iter().for_each(|row| println!("{row}"));
    let path = project_root()?.join("target/bench").join(format!("{name}.json"));
    std::fs::create_dir_all(path.parent().context("the result has a folder")?)?;
    let mut text = serde_json::to_string_pretty(&rows)?;
    text.push('\n');
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("wrote target/bench/{name}.json");
    Ok(())
}
