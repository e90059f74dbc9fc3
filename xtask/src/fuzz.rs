//! `cargo xtask fuzz`: feeds a parser with random input for a while.
//!
//! The targets are the files of `fuzz/fuzz_targets/`, a workspace of its own, because they are compiled with coverage
//! counters. `fuzz/corpus/` has checked-in inputs that once mattered; the unit tier replays them. The inputs that a run
//! discovers stay in the cache folder, where the next run continues from them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use flexor_testbed::cache_dir;

use crate::packages::cargo;
use crate::tree::Tree;

/// The version that is known to work with the pinned stable toolchain.
const CARGO_FUZZ: &str = "0.13.2";
const TARGETS: &str = "fuzz/fuzz_targets";
/// One input may not take longer than this; a parser that does hangs.
const SLOWEST_INPUT_S: u32 = 10;

/// Arguments of `cargo xtask fuzz`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask fuzz                           the targets
  cargo xtask fuzz manifest --seconds 300

The first run installs cargo-fuzz into the cache folder (FLEXOR_CACHE). An input that breaks a
parser lands in fuzz/artifacts/TARGET/; copy it to fuzz/corpus/TARGET/ under a name that tells
what it is, and the unit tier replays it from then on.")]
pub(crate) struct FuzzArgs {
    /// What to feed; without it (or with `list`) the targets are listed
    #[arg(value_name = "TARGET")]
    target: Option<String>,

    /// How long to go on
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u32,
}

/// Lists the targets or runs one.
pub(crate) fn run(args: FuzzArgs) -> Result<()> {
    let tree = Tree::of_project()?;
    let targets = targets(&tree);
    let Some(target) = args.target.filter(|target| target != "list") else {
        targets.iter().for_each(|target| println!("{target}"));
        return Ok(());
    };
    ensure!(targets.contains(&target), "no fuzz target '{target}'; there are: {}", targets.join(", "));
    let cache = cache_dir()?;
    let program = ensure_cargo_fuzz(&cache.join("cargo-tools"))?;
    // libFuzzer writes discovered inputs into the first folder and only reads the others.
    let discovered = cache.join("fuzz").join(&target);
    std::fs::create_dir_all(&discovered).with_context(|| format!("cannot make {}", discovered.display()))?;
    let cargo_fuzz = |chore: &str| {
        let mut command = Command::new(&program);
        command.args([chore, "--sanitizer=none", "--fuzz-dir=fuzz", &target]).current_dir(tree.root());
        command
    };
    let built = cargo_fuzz("build").status().context("cannot start cargo-fuzz")?;
    ensure!(built.success(), "'{target}' does not compile; the messages are above");
    let survived = cargo_fuzz("run")
        .arg(discovered)
        .arg(Path::new("fuzz/corpus").join(&target))
        .arg("--")
        .arg(format!("-max_total_time={}", args.seconds))
        .arg(format!("-timeout={SLOWEST_INPUT_S}"))
        .status()
        .context("cannot start cargo-fuzz")?;
    ensure!(survived.success(), "an input broke '{target}' ({survived}); it lies in fuzz/artifacts/{target}/");
    Ok(())
}

fn targets(tree: &Tree) -> Vec<String> {
    let sources = tree.with_extension("rs").filter(|path| path.parent() == Some(Path::new(TARGETS)));
    sources.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect()
}

/// The pinned cargo-fuzz below `folder`, installed when it is not there.
fn ensure_cargo_fuzz(folder: &Path) -> Result<PathBuf> {
    let program = folder.join("bin/cargo-fuzz");
    let version = Command::new(&program).arg("--version").output();
    if version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim().ends_with(CARGO_FUZZ)) {
        return Ok(program);
    }
    eprintln!("installing cargo-fuzz {CARGO_FUZZ} into {} (first time only, about a minute)", folder.display());
    let status = cargo()
        .args(["install", "--locked", "--force", "cargo-fuzz", "--version", CARGO_FUZZ, "--root"])
        .arg(folder)
        .status()
        .context("cannot start cargo install")?;
    ensure!(status.success(), "cargo-fuzz {CARGO_FUZZ} could not be installed; is the crate registry reachable?");
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::test_folder::TestFolder;

    #[test]
    fn every_target_of_the_project_has_seeds_and_an_entry_in_its_manifest() {
        let tree = Tree::of_project().unwrap();
        let manifest = tree.text("fuzz/Cargo.toml").unwrap().unwrap();
        let targets = targets(&tree);
        assert!(!targets.is_empty());
        for target in targets {
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target} is not in fuzz/Cargo.toml");
            let seeds = Path::new("fuzz/corpus").join(&target);
            assert!(tree.files().any(|path| path.starts_with(&seeds)), "{target} has no seeds in {}", seeds.display());
        }
    }

    #[test]
    fn targets_are_the_files_of_their_folder() {
        let folder =
            TestFolder::with(&[("fuzz/fuzz_targets/b.rs", ""), ("fuzz/fuzz_targets/a.rs", ""), ("fuzz/x.rs", "")]);
        assert_eq!(targets(&folder.tree()), ["a", "b"]);
    }
}
