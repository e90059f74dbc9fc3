//! `cargo xtask bench`: races Flexor against the programs that it replaces, both sides in one run.
//!
//! A [`Race`] measures and returns [`Row`]s. This module prints them and writes `target/bench/NAME.json`. Numbers are
//! printed and kept, never asserted: a claim that must hold on every machine is a test.

mod autoscale;
mod dlrover_master;
mod fleet;
mod launch;
mod load;
mod local;
mod master;
mod operator;
mod optimised;
mod our_master;
mod planner;
mod process_cost;
mod ps;
mod ps_change;
mod recordio;
mod recovery;
mod rendezvous;
mod row;
mod sessions;
mod shards;
mod sizes;
mod store;
mod survive;
mod train;
mod tutorials;
mod validate;

use anyhow::{Context, Result, bail};
use clap::Args;

use self::row::Row;
use self::sizes::Sizes;
use crate::tree::project_root;

/// Arguments of `cargo xtask bench`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask bench                       the races
  cargo xtask bench validate --repeats 9
  cargo xtask bench recovery -- SIGSTOP   only the scenarios with that in their name
  cargo xtask bench recovery -- 'flexor launch'
  cargo xtask bench operator --size jobs=1000

Result: target/bench/NAME.json, one row per metric; a ratio above 1 means ours is better.")]
pub(crate) struct BenchArgs {
    /// Which race; without it they are listed
    name: Option<String>,

    /// How often each side runs; they take turns [default: 7; recovery: 2; autoscale, operator, planner, survive and
    /// tutorials: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,

    /// Another size for a race that has sizes; may be given several times
    #[arg(long = "size", value_name = "NAME=N")]
    sizes: Vec<String>,

    /// Only the parts of the race with this in their name; the result is printed and not written
    #[arg(last = true, value_name = "FILTER")]
    filter: Option<String>,
}

/// The default number of repeats.
const REPEATS: u32 = 7;

/// One race.
struct Race {
    name: &'static str,
    about: &'static str,
    run: Run,
    /// Whether this program makes the load itself, so that its own speed counts.
    makes_load: bool,
}

/// How a race is run.
enum Run {
    /// As one.
    Whole(fn(repeats: u32) -> Result<Vec<Row>>),
    /// All of its parts, or those whose name contains the filter; with its own default of repeats.
    Parts { run: fn(repeats: u32, filter: Option<&str>) -> Result<Vec<Row>>, repeats: u32 },
    /// The same with sizes that can be changed.
    Sized {
        run: fn(repeats: u32, filter: Option<&str>, sizes: &Sizes) -> Result<Vec<Row>>,
        repeats: u32,
        sizes: &'static [(&'static str, u32)],
    },
}

const RACES: &[Race] = &[
    Race {
        name: "autoscale",
        about: "jobs that size themselves: 100 simulated ones against DLRover's rules, then real ones on this machine",
        run: Run::Sized { run: autoscale::run, repeats: autoscale::REPEATS, sizes: autoscale::SIZES },
        makes_load: false,
    },
    Race {
        name: "launch",
        about: "what a launcher adds to the start of 8 processes, against torchrun and DLRover's agent",
        run: Run::Whole(launch::run),
        makes_load: false,
    },
    Race {
        name: "local",
        about: "the laptop cluster: an empty job, replacing a pod, 1,000 pods, two jobs that compete",
        run: Run::Parts { run: local::run, repeats: 5 },
        makes_load: false,
    },
    Race {
        name: "master",
        about: "heartbeats, keys and polls of 1,000 nodes, at our master against DLRover's",
        run: Run::Whole(master::run),
        makes_load: true,
    },
    Race {
        name: "operator",
        about: "the operator on a real API server: replacing pods, many jobs, its cost, against a bare client",
        run: Run::Sized { run: operator::run, repeats: operator::REPEATS, sizes: operator::SIZES },
        makes_load: true,
    },
    Race {
        name: "planner",
        about: "the cluster's planner: EDL's experiment on a model, against EDL's own; plans of 1,000 nodes and jobs",
        run: Run::Sized { run: planner::run, repeats: planner::REPEATS, sizes: planner::SIZES },
        makes_load: true,
    },
    Race {
        name: "ps",
        about: "rows of embedding tables pulled and pushed, against ElasticDL's server and Redis: what tells most",
        run: Run::Whole(ps::quick),
        makes_load: true,
    },
    Race {
        name: "ps-change",
        about: "servers that come, go and write checkpoints under full load, against stopping everything",
        run: Run::Whole(ps_change::full),
        makes_load: true,
    },
    Race {
        name: "ps-change-small",
        about: "the same with 64 MiB of tables, to try it out",
        run: Run::Whole(ps_change::small),
        makes_load: true,
    },
    Race {
        name: "ps-full",
        about: "the same for all widths, optimizers, batches, numbers of clients and kinds of keys",
        run: Run::Whole(ps::full),
        makes_load: true,
    },
    Race {
        name: "recordio",
        about: "ranges of records out of RecordIO shards, against decoding whole chunks",
        run: Run::Whole(recordio::run),
        makes_load: true,
    },
    Race {
        name: "recovery",
        about: "jobs losing and gaining nodes: torchrun on our store, and flexor launch, against stock torchrun",
        run: Run::Parts { run: recovery::run, repeats: recovery::REPEATS },
        makes_load: false,
    },
    Race {
        name: "rendezvous",
        about: "how long many nodes need to meet, against torch's store and DLRover's master",
        run: Run::Whole(rendezvous::run),
        makes_load: true,
    },
    Race {
        name: "shards",
        about: "batches leased and acknowledged, and a billion records shuffled, against DLRover's",
        run: Run::Whole(shards::run),
        makes_load: true,
    },
    Race {
        name: "store",
        about: "our TCPStore server against torch's own libuv one: throughput, latency, crowds",
        run: Run::Whole(store::run),
        makes_load: false,
    },
    Race {
        name: "survive",
        about: "training after a worker is killed, in the processes that are left, against torchft and torchrun",
        run: Run::Parts { run: survive::run, repeats: survive::REPEATS },
        makes_load: false,
    },
    Race {
        name: "train",
        about: "a DeepFM through a parameter server, against one PyTorch process; where a worker's time goes",
        run: Run::Whole(train::run),
        makes_load: true,
    },
    Race {
        name: "tutorials",
        about: "jobs of the tutorials on real nodes: start, a lost worker, a migrated server, against bare pods",
        run: Run::Parts { run: tutorials::run, repeats: tutorials::REPEATS },
        makes_load: false,
    },
    Race {
        name: "validate",
        about: "flexor validate against kubectl's server-side dry run, on the examples",
        run: Run::Whole(validate::run),
        makes_load: false,
    },
];

/// Runs a race or lists them.
pub(crate) fn run(args: BenchArgs) -> Result<()> {
    let Some(name) = args.name else {
        RACES.iter().for_each(|race| println!("{:<15} {}", race.name, race.about));
        return Ok(());
    };
    let Some(race) = RACES.iter().find(|race| race.name == name) else {
        let known: Vec<_> = RACES.iter().map(|race| race.name).collect();
        bail!("no race '{name}'; there are: {}", known.join(", "));
    };
    if race.makes_load && !optimised::IS_OPTIMISED {
        return optimised::play(race.name);
    }
    let filter = args.filter.as_deref();
    let declared = if let Run::Sized { sizes, .. } = &race.run { sizes } else { &[][..] };
    let sizes = Sizes::read(declared, &args.sizes)?;
    let rows = match (&race.run, filter) {
        (Run::Whole(run), None) => run(args.repeats.unwrap_or(REPEATS))?,
        (Run::Whole(_), Some(filter)) => bail!("the race {name} has no parts; run it without '-- {filter}'"),
        (Run::Parts { run, repeats }, filter) => run(args.repeats.unwrap_or(*repeats), filter)?,
        (Run::Sized { run, repeats, .. }, filter) => run(args.repeats.unwrap_or(*repeats), filter, &sizes)?,
    };
    rows.iter().for_each(|row| println!("{row}"));
    if filter.is_some() {
        println!("nothing written: target/bench/{name}.json is for the whole race");
        return Ok(());
    }
    let path = project_root()?.join("target/bench").join(format!("{name}.json"));
    std::fs::create_dir_all(path.parent().context("the result has a folder")?)?;
    let mut text = serde_json::to_string_pretty(&rows)?;
    text.push('\n');
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("wrote target/bench/{name}.json");
    Ok(())
}
