//! The environment of a program: ours with changes, or one of its own.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::process::Command;

/// What a program finds in its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Environment {
    /// What this process has, with changes.
    Inherited(EnvironmentChanges),
    /// These variables and no others.
    Exact(BTreeMap<OsString, OsString>),
}

impl Environment {
    /// The value of `PATH`.
    pub(super) fn path(&self) -> Option<OsString> {
        match self {
            Self::Inherited(changes) => changes.resolve("PATH", env::var_os("PATH")),
            Self::Exact(variables) => variables.get(OsStr::new("PATH")).cloned(),
        }
    }

    pub(super) fn apply(&self, command: &mut Command) {
        match self {
            Self::Inherited(changes) => changes.apply(command),
            Self::Exact(variables) => _ = command.env_clear().envs(variables),
        }
    }
}

/// How an environment differs from the one it was inherited from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvironmentChanges {
    /// `None` takes a variable away.
    changes: BTreeMap<OsString, Option<OsString>>,
}

impl EnvironmentChanges {
    /// Sets a variable.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.changes.insert(name.into(), Some(value.into()));
    }

    /// Takes a variable away, so that it is not inherited.
    pub fn remove(&mut self, name: impl Into<OsString>) {
        self.changes.insert(name.into(), None);
    }

    /// What `name` is after the changes, where `inherited` is what it was before.
    pub fn resolve(&self, name: &str, inherited: Option<OsString>) -> Option<OsString> {
        match self.changes.get(OsStr::new(name)) {
            Some(changed) => changed.clone(),
            None => inherited,
        }
    }

    /// The changes in order of their names; `None` takes a variable away.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, Option<&OsStr>)> {
        self.changes.iter().map(|(name, value)| (name.as_os_str(), value.as_deref()))
    }

    fn apply(&self, command: &mut Command) {
        for (name, value) in self.iter() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_variable_is_not_inherited() {
        let mut changes = EnvironmentChanges::default();
        changes.remove("PATH");
        assert_eq!(changes.resolve("PATH", Some("/bin".into())), None);
        assert_eq!(changes.resolve("HOME", Some("/".into())), Some("/".into()));
        assert_eq!(Environment::Inherited(changes).path(), None);
    }

    #[test]
    fn an_exact_environment_has_no_path_but_its_own() {
        assert_eq!(Environment::Exact(BTreeMap::new()).path(), None);
        let own = Environment::Exact([("PATH".into(), "/opt/bin".into())].into());
        assert_eq!(own.path(), Some("/opt/bin".into()));
    }
}
