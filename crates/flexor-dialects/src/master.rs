//! The job's master, which is `flexor master` in every dialect.

use flexor_model::{NamedPort, Pattern, ServiceRule, ServiceScope, ports};

pub(crate) fn ports() -> Vec<NamedPort> {
    vec![NamedPort::of("grpc", ports::MASTER), NamedPort::of("store", ports::STORE), NamedPort::of("http", ports::HTTP)]
}

/// The service in front of the master. A replacement inherits its name.
pub(crate) fn service(name: &'static str, selector: &[&str]) -> ServiceRule {
    ServiceRule {
        name: Pattern::of(name),
        scope: ServiceScope::Role,
        selector: selector.iter().map(|&key| key.to_owned()).collect(),
        ports: vec![NamedPort::of("grpc", ports::MASTER), NamedPort::of("store", ports::STORE)],
    }
}
