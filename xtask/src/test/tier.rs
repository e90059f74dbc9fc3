//! The tiers of tests, by their requirements on the machine.

use clap::ValueEnum;

use super::build::ProgramKind;

/// A group of tests with the same needs. The order is the order they run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Tier {
    /// Needs nothing: every crate by itself, the fuzz corpus, `tidy` and `gen --check`
    Unit,
    /// Needs the binary: real processes on this machine
    Local,
    /// Needs packages from PyPI and Debian: the incumbents' own programs as clients
    Peers,
    /// Needs Go once, to build a real Kubernetes control plane; nodes are fake
    Cluster,
    /// Needs root: kubelets and containers in namespaces
    Node,
}

impl Tier {
    pub(super) const ALL: [Tier; 5] = [Tier::Unit, Tier::Local, Tier::Peers, Tier::Cluster, Tier::Node];

    /// The tier of a test. Modules of a library may have any name; only integration tests are sorted by it.
    pub(super) fn of(kind: ProgramKind, test: &str) -> Tier {
        let module = test.split_once("::").map(|(module, _)| module);
        match kind {
            ProgramKind::Unit => Tier::Unit,
            ProgramKind::Integration => {
                let named = Tier::ALL.into_iter().find(|tier| module == Some(tier.name()));
                named.unwrap_or(Tier::Unit)
            }
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Tier::Unit => "unit",
            Tier::Local => "local",
            Tier::Peers => "peers",
            Tier::Cluster => "cluster",
            Tier::Node => "node",
        }
    }

    /// How many tests of one program run at once, `None` for one per core.
    ///
    /// Tests of the later tiers mostly wait for other processes, so two cores serve four of them; a test of peers or
    /// nodes loads the machine alone.
    pub(super) fn threads(self) -> Option<usize> {
        match self {
            Tier::Unit => None,
            Tier::Local | Tier::Cluster => Some(4),
            Tier::Peers | Tier::Node => Some(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_module_of_an_integration_test_names_its_tier() {
        let tier = |test| Tier::of(ProgramKind::Integration, test);
        assert_eq!(tier("cluster::crd::installs"), Tier::Cluster);
        assert_eq!(tier("node::tutorial"), Tier::Node);
        assert_eq!(tier("validate::cluster::case"), Tier::Unit);
        assert_eq!(tier("clusters::case"), Tier::Unit);
        assert_eq!(tier("cluster"), Tier::Unit, "a test of that name is not in a module of that name");
        assert_eq!(tier("unit::case"), Tier::Unit);
    }

    #[test]
    fn a_module_of_a_library_is_always_unit() {
        assert_eq!(Tier::of(ProgramKind::Unit, "node::tests::restarts"), Tier::Unit);
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for tier in Tier::ALL {
            assert_eq!(tier.to_possible_value().unwrap().get_name(), tier.name());
        }
    }
}
