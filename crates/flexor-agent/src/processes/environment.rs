//! The environment of a program: that of this process with changes, or exactly the given variables.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::process::Command;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Environment {
    /// The environment of this process, with changes.
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
    /// `None` removes a variable.
    changes: BTreeMap<OsString, Option<OsString>>,
}

impl EnvironmentChanges {
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.changes.insert(name.into(), Some(value.into()));
    }

    /// Removes a variable, so that it is not inherited.
    pub fn remove(&mut self, name: impl Into<OsString>) {
        self.changes.insert(name.into(), None);
    }

    /// The value of `name` after the changes, where `inherited` is the value before.
    pub fn resolve(&self, name: &str, inherited: Option<OsString>) -> Option<OsString> {
        match self.changes.get(OsStr::new(name)) {
            Some(changed) => changed.clone(),
            None => inherited,
        }
    }

    /// The changes in order of their names; `None` removes a variable.
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
    fn an_exact_environment_has_only_its_own_path() {
        assert_eq!(Environment::Exact(BTreeMap::new()).path(), None);
        let own = Environment::Exact([("PATH".into(), "/opt/bin".into())].into());
        assert_eq!(own.path(), Some("/opt/bin".into()));
    }
}
