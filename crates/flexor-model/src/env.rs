//! The environment variables of ours, each named and explained once.
//!
//! The constants are what code uses; [`ALL`] is what `docs/reference/environment.md` is generated from. Reading a
//! variable happens at the edges (binary, testbed, xtask), never in this crate.

/// One environment variable that Flexor or its test tools read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvVar {
    /// The name, `FLEXOR_…`.
    pub name: &'static str,
    /// Who reads it.
    pub read_by: &'static str,
    /// What holds when it is not set.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

/// Where built tools and other reusable things are kept.
pub const CACHE: EnvVar = EnvVar {
    name: "FLEXOR_CACHE",
    read_by: "cargo xtask, tests",
    default: "`$XDG_CACHE_HOME/flexor`, else `~/.cache/flexor`",
    meaning: "Folder outside the checkout for what is built once and used again: the Kubernetes control plane, etcd, \
              kwok and cargo-fuzz.",
};

/// The `flexor` program that tests run.
pub const BIN: EnvVar = EnvVar {
    name: "FLEXOR_BIN",
    read_by: "tests",
    default: "the `flexor` of the same build",
    meaning: "Path of the `flexor` program that tests start. `cargo xtask test` builds it once and sets this.",
};

/// Every variable, in the order of the reference page.
pub const ALL: &[EnvVar] = &[CACHE, BIN];
