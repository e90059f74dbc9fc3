//! The programs of control planes and real nodes, built from Go modules at pinned versions and kept in a cache.
//!
//! [`Tools::ensure`] is the first step of every cluster. The first call on a machine builds for some minutes; every
//! later call, by any process, finds the finished programs. The modules are in `go/`; [`modules`] lists their programs,
//! and [`shelf`] has the rules of the cache. Downloads go only through the Go module proxy.

mod build;
mod go;
mod modules;
pub(crate) mod shelf;

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use flexor_model::env;

use self::{go::Go, modules::GoModule};

/// The built programs, by path.
#[derive(Debug, Clone)]
pub struct Tools {
    etcd: PathBuf,
    kubernetes: PathBuf,
    kwok: PathBuf,
}

/// Why the programs could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolsError {
    /// A build is necessary and no Go can do it.
    #[error("needs Go 1.26 or newer to build the control plane ({found}); install it from https://go.dev/dl")]
    GoMissing { found: String },
    /// The compiler failed.
    #[error("building {program} failed; is the Go module proxy (`go env GOPROXY`) reachable?\n{output}")]
    Build {
        /// Program that was built.
        program: &'static str,
        /// The end of Go's output.
        output: String,
    },
    /// The cache folder is not known.
    #[error("no folder for built tools: set {name} to a folder outside the checkout", name = env::CACHE.name)]
    NoCache,
    /// The cache folder did not do as asked.
    #[error("cannot {doing}; set {name} to a folder that can be written", name = env::CACHE.name)]
    Io {
        /// The step that failed and its path.
        doing: String,
        source: std::io::Error,
    },
}

impl Tools {
    /// The tools from the cache, built first where they are missing. Blocks for minutes on a machine's first call.
    pub fn ensure() -> Result<Self, ToolsError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self::ensure_in(&cache_dir()?, &path)
    }

    /// As [`Tools::ensure`] with the cache folder and the `PATH` for finding Go given by the caller.
    pub fn ensure_in(cache: &Path, search_path: &OsStr) -> Result<Self, ToolsError> {
        let [etcd, kubernetes, kwok] =
            ensure_modules(cache, search_path, [&modules::ETCD, &modules::KUBERNETES, &modules::KWOK])?;
        Ok(Self { etcd, kubernetes, kwok })
    }

    /// The etcd server.
    pub fn etcd(&self) -> PathBuf {
        self.etcd.join("etcd")
    }

    /// The kwok controller, which plays the fake nodes.
    pub fn kwok(&self) -> PathBuf {
        self.kwok.join("kwok")
    }

    /// A Kubernetes program by its name, for instance `kube-apiserver`.
    pub fn kubernetes(&self, program: &str) -> PathBuf {
        self.kubernetes.join(program)
    }

    /// kubectl in the version of the API server.
    pub fn kubectl(&self) -> PathBuf {
        self.kubernetes("kubectl")
    }

    /// The folder with kubectl, for a `PATH`.
    pub fn kubectl_dir(&self) -> &Path {
        &self.kubernetes
    }
}

/// The programs of real nodes that are built from Go modules, by path. The rest comes from the system's packages.
#[derive(Debug, Clone)]
pub(crate) struct NodePrograms {
    node: PathBuf,
    coredns: PathBuf,
}

impl NodePrograms {
    /// The programs from the cache, built first where they are missing.
    pub(crate) fn ensure() -> Result<Self, ToolsError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let [node, coredns] = ensure_modules(&cache_dir()?, &path, [&modules::NODE, &modules::COREDNS])?;
        Ok(Self { node, coredns })
    }

    pub(crate) fn kubelet(&self) -> PathBuf {
        self.node.join("kubelet")
    }

    pub(crate) fn kube_proxy(&self) -> PathBuf {
        self.node.join("kube-proxy")
    }

    pub(crate) fn coredns(&self) -> PathBuf {
        self.coredns.join("coredns")
    }
}

/// The folders with the programs of each module. Go is looked for only when something must be built.
fn ensure_modules<const N: usize>(
    cache: &Path,
    search_path: &OsStr,
    wanted: [&GoModule; N],
) -> Result<[PathBuf; N], ToolsError> {
    let mut go = None;
    let mut folders = std::array::from_fn(|_| PathBuf::new());
    for (module, folder) in wanted.into_iter().zip(&mut folders) {
        *folder = build::ensure(cache, module, &mut |sources, program, output| {
            let go = match &mut go {
                Some(go) => go,
                none => none.insert(Go::find(search_path)?),
            };
            eprintln!("building {} … (first time only, {} for {})", program.name, module.first_build, module.name);
            go.build(sources, program, output)
        })?;
    }
    Ok(folders)
}

/// The cache folder of the project: `FLEXOR_CACHE`, else `flexor` in the user's cache folder.
pub fn cache_dir() -> Result<PathBuf, ToolsError> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = from(env::CACHE.name)
        .or_else(|| from("XDG_CACHE_HOME").map(|folder| folder.join("flexor")))
        .or_else(|| from("HOME").map(|home| home.join(".cache/flexor")))
        .ok_or(ToolsError::NoCache)?;
    // The tools are built and started from other folders than this process's.
    std::path::absolute(&folder)
        .map_err(|source| ToolsError::Io { doing: format!("find {}", folder.display()), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_go_and_with_an_empty_cache_the_error_names_go() {
        let empty = tempfile::tempdir().unwrap();
        let error = Tools::ensure_in(empty.path(), empty.path().as_os_str()).unwrap_err();
        assert!(matches!(error, ToolsError::GoMissing { .. }), "{error}");
        assert!(error.to_string().starts_with("needs Go 1.26"), "{error}");
    }

    #[test]
    fn tools_in_the_cache_need_no_go() {
        let cache = tempfile::tempdir().unwrap();
        for module in [modules::ETCD, modules::KUBERNETES, modules::KWOK] {
            std::fs::create_dir_all(cache.path().join("tools").join(module.name).join(module.key())).unwrap();
        }
        let tools = Tools::ensure_in(cache.path(), OsStr::new("/nonexistent")).unwrap();
        assert!(tools.kubectl().ends_with("kubectl"));
    }
}
