//! The Go modules of the testbed: the programs of each, and its key in the cache.
//!
//! The module files are compiled in, so a built test or xtask binary needs no checkout; a build writes them beside its
//! output. To move to another version, edit `go/<name>/go.mod` (for Kubernetes the `replace` lines too), run `go mod
//! tidy` there, and change the `-X` flags here.

use sha2::{Digest as _, Sha256};

const KUBERNETES_FLAGS: &str = "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 \
                                -X k8s.io/client-go/pkg/version.gitVersion=v1.36.3";

/// One Go module of ours under `go/`.
#[derive(Debug, Clone)]
pub(super) struct GoModule {
    /// Folder name under `go/` and in the cache.
    pub(super) name: &'static str,
    /// The files of the module, name and text.
    pub(super) files: &'static [(&'static str, &'static str)],
    pub(super) programs: &'static [Program],
    /// How long a first build takes on two cores, for the progress line.
    pub(super) first_build: &'static str,
}

/// One program of a module.
#[derive(Debug, Clone)]
pub(super) struct Program {
    /// File name of the program.
    pub(super) name: &'static str,
    /// Go package of its `main`.
    pub(super) package: &'static str,
    pub(super) ldflags: &'static str,
}

impl Program {
    const fn kubernetes(name: &'static str, package: &'static str) -> Self {
        Self { name, package, ldflags: KUBERNETES_FLAGS }
    }
}

/// The etcd server.
pub(super) const ETCD: GoModule = GoModule {
    name: "etcd",
    files: &[
        ("go.mod", include_str!("../../go/etcd/go.mod")),
        ("go.sum", include_str!("../../go/etcd/go.sum")),
        ("tools.go", include_str!("../../go/etcd/tools.go")),
    ],
    programs: &[Program { name: "etcd", package: "go.etcd.io/etcd/server/v3", ldflags: "-s -w" }],
    first_build: "about 1 minute",
};

/// The Kubernetes programs.
pub(super) const KUBERNETES: GoModule = GoModule {
    name: "kubernetes",
    files: &[
        ("go.mod", include_str!("../../go/kubernetes/go.mod")),
        ("go.sum", include_str!("../../go/kubernetes/go.sum")),
        ("tools.go", include_str!("../../go/kubernetes/tools.go")),
    ],
    programs: &[
        Program::kubernetes("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
        Program::kubernetes("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
        Program::kubernetes("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
        Program::kubernetes("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    ],
    first_build: "about 5 minutes",
};

/// The kwok controller.
pub(super) const KWOK: GoModule = GoModule {
    name: "kwok",
    files: &[
        ("go.mod", include_str!("../../go/kwok/go.mod")),
        ("go.sum", include_str!("../../go/kwok/go.sum")),
        ("tools.go", include_str!("../../go/kwok/tools.go")),
    ],
    programs: &[Program { name: "kwok", package: "sigs.k8s.io/kwok/cmd/kwok", ldflags: "-s -w" }],
    first_build: "about 1 minute",
};

/// The Kubernetes programs of a real node. The versions are those of [`KUBERNETES`], so that the builds share most of
/// Go's cache; the module is its own so that the cluster tier never waits for it.
pub(super) const NODE: GoModule = GoModule {
    name: "node",
    files: &[
        ("go.mod", include_str!("../../go/node/go.mod")),
        ("go.sum", include_str!("../../go/node/go.sum")),
        ("tools.go", include_str!("../../go/node/tools.go")),
    ],
    programs: &[
        Program::kubernetes("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
        Program::kubernetes("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
    ],
    first_build: "about 2 minutes",
};

/// CoreDNS with the few plugins that a test cluster needs.
pub(super) const COREDNS: GoModule = GoModule {
    name: "coredns",
    files: &[
        ("go.mod", include_str!("../../go/coredns/go.mod")),
        ("go.sum", include_str!("../../go/coredns/go.sum")),
        ("main.go", include_str!("../../go/coredns/main.go")),
    ],
    programs: &[Program { name: "coredns", package: "flexor.dev/testbed/coredns", ldflags: "-s -w" }],
    first_build: "about 2 minutes",
};

impl GoModule {
    /// The module's key in the cache: a build changes only with one of these texts.
    pub(super) fn key(&self) -> String {
        let mut hash = Sha256::new();
        let recipe = self.programs.iter().flat_map(|p| [p.name, p.package, p.ldflags]);
        let files = self.files.iter().flat_map(|(name, text)| [*name, *text]);
        for part in recipe.chain(files) {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: GoModule = GoModule {
        name: "m",
        files: &[("go.mod", "module m\n"), ("go.sum", "")],
        programs: &[Program { name: "p", package: "m/p", ldflags: "" }],
        first_build: "a moment",
    };

    #[test]
    fn the_key_changes_with_the_files_and_the_recipe() {
        let same = MODULE.clone();
        let other_file = GoModule { files: &[("go.mod", "module m\n"), ("go.sum", "x")], ..MODULE };
        let moved_text = GoModule { files: &[("go.mod", "module m"), ("go.sum", "\n")], ..MODULE };
        let other_flags = GoModule { programs: &[Program { name: "p", package: "m/p", ldflags: "-s" }], ..MODULE };
        assert_eq!(MODULE.key(), same.key());
        for changed in [other_file, moved_text, other_flags] {
            assert_ne!(MODULE.key(), changed.key());
        }
        assert_eq!(MODULE.key().len(), 16);
    }

    #[test]
    fn the_version_passed_to_the_linker_is_the_pinned_one() {
        let version = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().skip_while(|word| *word == "require").collect();
            (words.first() == Some(&"k8s.io/kubernetes")).then(|| words[1].to_owned())
        };
        for module in [KUBERNETES, NODE] {
            let (_, go_mod) = module.files[0];
            let pinned = go_mod.lines().find_map(version).unwrap();
            assert_eq!(KUBERNETES_FLAGS.matches(&format!("gitVersion={pinned}")).count(), 2, "{}", module.name);
        }
    }
}
