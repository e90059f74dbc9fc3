//! Runs cargo and reads the built artifacts from its messages, so that no path is guessed from folder names.
//!
//! `test` builds its test programs with it, `bench` the program that it measures, `image` the one that it packs.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::packages::cargo;

/// The fields of cargo's message about one compiled target.
#[derive(Deserialize)]
pub(crate) struct Artifact {
    pub(crate) manifest_path: PathBuf,
    pub(crate) target: Target,
    pub(crate) profile: Profile,
    pub(crate) executable: Option<PathBuf>,
}

/// The target of an [`Artifact`].
#[derive(Deserialize)]
pub(crate) struct Target {
    pub(crate) kind: Vec<String>,
    pub(crate) name: String,
}

/// How an [`Artifact`] was compiled.
#[derive(Deserialize)]
pub(crate) struct Profile {
    /// Whether it is a test program.
    pub(crate) test: bool,
}

/// Builds `flexor` in a profile of the root manifest and returns its path.
pub(crate) fn flexor(root: &Path, profile: &str) -> Result<PathBuf> {
    flexor_with(root, &["build", "--package=flexor", "--bin=flexor", "--profile", profile], &[])
}

/// Builds `flexor` with these arguments and variables of cargo and returns its path.
pub(crate) fn flexor_with(root: &Path, arguments: &[&str], variables: &[(&str, OsString)]) -> Result<PathBuf> {
    let artifacts = run_with(root, "flexor", arguments, variables)?;
    let built =
        artifacts.into_iter().find(|artifact| artifact.target.name == "flexor" && artifact.executable.is_some());
    built.and_then(|artifact| artifact.executable).context("cargo built no program called flexor")
}

/// Runs cargo with its progress on the terminal and collects the compiled targets; `what` names them in the line at the
/// end.
pub(crate) fn run(root: &Path, what: &str, arguments: &[&str]) -> Result<Vec<Artifact>> {
    run_with(root, what, arguments, &[])
}

fn run_with(root: &Path, what: &str, arguments: &[&str], variables: &[(&str, OsString)]) -> Result<Vec<Artifact>> {
    let started = Instant::now();
    let mut child = cargo()
        .args(arguments)
        .arg("--message-format=json-render-diagnostics")
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let messages = child.stdout.take().context("cargo's output is not connected")?;
    let mut artifacts = Vec::new();
    for line in BufReader::new(messages).lines() {
        artifacts.extend(artifact(&line.context("cannot read what cargo writes")?)?);
    }
    ensure!(child.wait()?.success(), "cargo {} failed; its messages are above", arguments.join(" "));
    println!("build {what}: {:.1} s", started.elapsed().as_secs_f64());
    Ok(artifacts)
}

/// The artifact in one line of cargo's output; `None` for other lines (build scripts, the end).
pub(crate) fn artifact(line: &str) -> Result<Option<Artifact>> {
    #[derive(Deserialize)]
    struct Message {
        reason: String,
    }
    let message: Message = serde_json::from_str(line).with_context(|| format!("not a message of cargo: {line}"))?;
    if message.reason != "compiler-artifact" {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(line).context("cargo describes an artifact in an unknown way")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_artifacts_are_of_interest() {
        assert!(artifact(r#"{"reason":"build-finished","success":true}"#).unwrap().is_none());
        assert!(artifact("warning: not JSON").is_err());
        assert!(artifact(r#"{"reason":"compiler-artifact"}"#).is_err());
    }
}
