//! `cargo xtask bench`: races against the programs Flexor replaces, both sides in one run.
//!
//! A [`Race`] measures and returns [`Row`]s; this module prints them and writes `target/bench/NAME.json`. Numbers are
//! printed and kept, never asserted: what must hold on every machine is a test.

mod dlrover_master;
mod master;
mod optimised;
mod our_master;
mod process_cost;
mod recovery;
mod rendezvous;
mod row;
mod sessions;
mod store;
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
    /// Whether this program makes the load itself, so that its own speed counts.
    makes_load: bool,
}

const RACES: &[Race] = &[
    Race {
        name: "master",
        about: "heartbeats, keys and polls of 1,000 nodes, at our master against DLRover's",
        run: master::run,
        makes_load: true,
    },
    Race {
        name: "recovery",
        about: "stock torchrun losing and gaining nodes, on our store against its own",
        run: recovery::run,
        makes_load: false,
    },
    Race {
        name: "rendezvous",
        about: "how long many nodes need to meet, against torch's store and DLRover's master",
        run: rendezvous::run,
        makes_load: true,
    },
    Race {
        name: "store",
        about: "our TCPStore server against torch's own libuv one: throughput, latency, crowds",
        run: store::run,
        makes_load: false,
    },
    Race {
        name: "validate",
        about: "flexor validate against kubectl's server-side dry run, on the examples",
        run: validate::run,
        makes_load: false,
    },
];

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
    if race.makes_load && !optimised::IS_OPTIMISED {
        return optimised::play(race.name, args.repeats);
    }
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
