//! Finds the Go toolchain of this machine, checks its version, and runs a build with it.
//!
//! Only [`super::build`] uses it, and only when something must be built: tools in the cache need no Go.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{ToolsError, modules::Program};
use crate::log_tail::last_lines;

/// The oldest Go that builds the pinned versions, as (major, minor).
const OLDEST: (u32, u32) = (1, 26);

/// A Go toolchain that can build our modules.
#[derive(Debug, Clone)]
pub(super) struct Go {
    program: PathBuf,
}

impl Go {
    /// Finds `go` in `search_path` (the form of `$PATH`) and checks its version.
    pub(super) fn find(search_path: &std::ffi::OsStr) -> Result<Self, ToolsError> {
        let program = std::env::split_paths(search_path)
            .map(|folder| folder.join("go"))
            .find(|candidate| candidate.is_file())
            .ok_or_else(|| ToolsError::GoMissing { found: "no `go` in PATH".into() })?;
        let answer =
            Command::new(&program).arg("version").env("GOTOOLCHAIN", "local").output().map_err(|error| {
                ToolsError::GoMissing { found: format!("{} does not run: {error}", program.display()) }
            })?;
        let text = String::from_utf8_lossy(&answer.stdout);
        match parse_version(&text) {
            Some(version) if version >= OLDEST => Ok(Self { program }),
            _ => Err(ToolsError::GoMissing { found: format!("{} says `{}`", program.display(), text.trim()) }),
        }
    }

    /// Builds one program of the module in `module_dir` into the file `output`.
    pub(super) fn build(&self, module_dir: &Path, program: &Program, output: &Path) -> Result<(), ToolsError> {
        let run = Command::new(&self.program)
            .current_dir(module_dir)
            .args(["build", "-trimpath", "-buildvcs=false", "-ldflags", program.ldflags, "-o"])
            .arg(output)
            .arg(program.package)
            .env("GOFLAGS", "-mod=readonly")
            .env("GOTOOLCHAIN", "local")
            .env("GOWORK", "off")
            .env("CGO_ENABLED", "0")
            .stdin(Stdio::null())
            .output()
            .map_err(|source| ToolsError::Io { doing: format!("run {}", self.program.display()), source })?;
        if run.status.success() {
            return Ok(());
        }
        Err(ToolsError::Build { program: program.name, output: last_lines(&String::from_utf8_lossy(&run.stderr), 15) })
    }
}

/// The (major, minor) version in the output of `go version`, for instance `go version go1.26.8 linux/amd64`.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let number = text.split_whitespace().find_map(|word| word.strip_prefix("go").filter(|rest| !rest.is_empty()))?;
    let mut parts = number.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?;
    let digits = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
    Some((major, minor[..digits].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_go_prints() {
        assert_eq!(parse_version("go version go1.26.8 linux/amd64\n"), Some((1, 26)));
        assert_eq!(parse_version("go version go1.27rc1 linux/arm64"), Some((1, 27)));
        assert_eq!(parse_version("go version devel +abc"), None);
        assert!(parse_version("go version go1.9.7 linux/amd64").unwrap() < OLDEST);
    }

    #[test]
    fn a_path_without_go_names_the_version_and_what_to_install() {
        let empty = tempfile::tempdir().unwrap();
        let error = Go::find(empty.path().as_os_str()).unwrap_err().to_string();
        assert!(error.starts_with("needs Go 1.26"), "{error}");
        assert!(error.contains("https://go.dev/dl"), "{error}");
    }

    #[test]
    fn an_old_go_is_as_good_as_none() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let go = folder.path().join("go");
        std::fs::write(&go, "#!/bin/sh\necho go version go1.24.4 linux/amd64\n").unwrap();
        std::fs::set_permissions(&go, std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = Go::find(folder.path().as_os_str()).unwrap_err().to_string();
        assert!(error.contains("go1.24.4"), "{error}");
    }
}
