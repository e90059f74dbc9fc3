//! Compiles the `flexor` of the image: optimised, static, and without the paths of the machine that built it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::compile;

/// Separates flags in `CARGO_ENCODED_RUSTFLAGS`, where a path may have spaces.
const SEPARATOR: &str = "\x1f";

/// The second flag belongs to the first: `flexor` is linked at a fixed address (its build script tells why), and rustc
/// would otherwise take the start code of a static program that can be loaded anywhere. That one crashes.
const STATIC: [&str; 2] = ["-Ctarget-feature=+crt-static", "-Crelocation-model=static"];

/// Builds `flexor` in release, linked with the C library of this machine, and returns its path.
pub(crate) fn static_flexor(root: &Path) -> Result<PathBuf> {
    let target = host(root)?;
    println!("building a static flexor for {target}; an optimised build takes some minutes");
    // With a target, even the machine's own, the flags are not for build scripts and macros: those cannot be static.
    let arguments = ["build", "--package=flexor", "--bin=flexor", "--release", "--target", &target];
    let program = compile::flexor_with(root, &arguments, &[("CARGO_ENCODED_RUSTFLAGS", flags(root))])?;
    let started = Command::new(&program).arg("--version").output().context("cannot start the built flexor")?;
    ensure!(started.status.success(), "the built {} does not run: {}", program.display(), started.status);
    Ok(program)
}

/// The commit that is built, marked where files differ from it; `None` outside of a git checkout.
pub(super) fn revision(root: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let commit = git(&["rev-parse", "HEAD"])?;
    let is_clean = git(&["status", "--porcelain"]).is_some_and(|changes| changes.is_empty());
    Some(if is_clean { commit } else { format!("{commit}-dirty") })
}

/// The flags of the user's environment, and ours after them.
fn flags(root: &Path) -> OsString {
    let of_user = match (env::var("CARGO_ENCODED_RUSTFLAGS"), env::var("RUSTFLAGS")) {
        (Ok(encoded), _) => encoded.split(SEPARATOR).map(str::to_owned).collect(),
        (Err(_), Ok(plain)) => plain.split_whitespace().map(str::to_owned).collect(),
        (Err(_), Err(_)) => Vec::new(),
    };
    let mut flags: Vec<OsString> = of_user.into_iter().filter(|flag| !flag.is_empty()).map(OsString::from).collect();
    flags.extend(STATIC.map(OsString::from));
    // Messages of panics name source files. The names are the same on every machine.
    let cargo_home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    for (folder, name) in [(Some(root.to_owned()), "/flexor"), (cargo_home, "/cargo")] {
        let Some(folder) = folder else { continue };
        let mut flag = OsString::from("--remap-path-prefix=");
        flag.push(folder);
        flag.push("=");
        flag.push(name);
        flags.push(flag);
    }
    flags.join(SEPARATOR.as_ref())
}

/// The target that rustc builds for when none is named. It is asked in the checkout, which names its toolchain.
fn host(root: &Path) -> Result<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").current_dir(root).output().context("cannot start rustc")?;
    ensure!(output.status.success(), "rustc -vV failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}
