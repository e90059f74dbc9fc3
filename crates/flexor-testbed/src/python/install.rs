//! Installs one environment: venv, pip, the recipe's finishing step, its check, and the final rename.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use super::{PythonEnv, PythonError, Recipe, interpreter::Interpreter, io, relocate};
use crate::log_tail::last_lines;

/// How the folders of unfinished installations of `name` begin.
pub(super) fn unfinished_prefix(name: &str) -> String {
    format!("unfinished-{name}-")
}

/// Makes the environment `wanted`; its folder appears when it is complete and checked.
pub(super) fn run(
    cache: &Path,
    wanted: &PythonEnv,
    recipe: &Recipe,
    python: &Interpreter,
    search_path: &OsStr,
) -> Result<(), PythonError> {
    let started = Instant::now();
    let title = format!("{} {}", recipe.name, recipe.version);
    eprintln!("installing {title} … (first time only, {})", recipe.first_time);
    let unfinished = tempfile::Builder::new()
        .prefix(&unfinished_prefix(recipe.name))
        .tempdir_in(cache)
        .map_err(io("write to", cache))?;
    let env = PythonEnv { folder: unfinished.path().join("env") };

    let venv_hint = "is the package python3-venv whole?";
    step(
        "making a Python environment",
        venv_hint,
        Command::new(python.program()).args(["-m", "venv"]).arg(&env.folder),
    )?;

    let list = unfinished.path().join("requirements.txt");
    fs::write(&list, recipe.requirements).map_err(io("write", &list))?;
    let mut pip = env.command();
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--no-deps", "-r"])
        .arg(&list);
    step(&format!("installing {title} with pip"), "is the package index (`pip config list`) reachable?", &mut pip)?;

    (recipe.finish)(&site_packages(&env, python.version()), search_path)?;
    eprintln!("checking {title} …");
    let check_hint = "the recipe does not fit this machine";
    step(&format!("using {title} for the first time"), check_hint, env.command().args(["-c", recipe.check]))?;

    relocate::prepare_move(&env.folder, &wanted.folder)?;
    fs::rename(&env.folder, &wanted.folder).map_err(io("move into place", &wanted.folder))?;
    eprintln!("installed {title} in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// Runs a command to its end; its output becomes part of the error.
pub(crate) fn step(what: &str, hint: &'static str, command: &mut Command) -> Result<(), PythonError> {
    let failed = |output: String| PythonError::Step { step: what.to_owned(), hint, output };
    let run = command.stdin(Stdio::null()).output();
    let run = run.map_err(|error| failed(format!("{}: {error}", command.get_program().display())))?;
    if run.status.success() {
        return Ok(());
    }
    Err(failed(last_lines(&String::from_utf8_lossy(&run.stderr), 15)))
}

fn site_packages(env: &PythonEnv, version: &str) -> PathBuf {
    let short: Vec<&str> = version.split('.').take(2).collect();
    env.folder.join(format!("lib/python{}/site-packages", short.join(".")))
}
