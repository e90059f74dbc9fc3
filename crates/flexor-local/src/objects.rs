//! Objects of Kubernetes that jobs refer to: ConfigMaps, Secrets and PriorityClasses.
//!
//! They come in manifests beside the jobs. [`Object::read`] parses one; the state directory stores each in a file that only
//! its owner can read. Pods get their data as variables and files. The scheduler asks [`Objects::priority`].
//!
//! Nothing here prints what a Secret holds, not even for debugging.

mod content;
mod files;
mod manifest;

use std::collections::BTreeMap;
use std::fmt;

use flexor_model::{DnsLabel, ObjectName, UnixTime};
use serde_json::Value;
use thiserror::Error;

pub use self::content::{BUILT_IN, Content, PriorityClass};
pub use self::manifest::FieldError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    ConfigMap,
    Secret,
    /// Has no namespace.
    PriorityClass,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    pub kind: ObjectKind,
    /// None for a kind without namespaces.
    pub namespace: Option<DnsLabel>,
    pub name: ObjectName,
}

/// An object as its manifest describes it.
#[derive(Clone, PartialEq)]
pub struct Object {
    pub key: ObjectKey,
    /// The manifest, in the form that the API server would give it.
    pub manifest: Value,
    pub content: Content,
}

/// An object that the cluster stores.
#[derive(Debug, Clone)]
pub struct StoredObject {
    pub object: Object,
    pub uid: String,
    pub created_at: UnixTime,
}

#[derive(Debug, Default)]
pub struct Objects {
    all: BTreeMap<ObjectKey, StoredObject>,
}

/// Why an object cannot be applied or deleted.
#[derive(Debug, Error)]
pub enum ObjectError {
    /// Its manifest says `immutable: true`.
    #[error("{0} is immutable; delete it first, or give yours another name")]
    Immutable(ObjectKey),
    /// Kubernetes does not let a class change its value.
    #[error("{0}: value: a priority class keeps its value; delete it first, or give yours another name")]
    OtherValue(ObjectKey),
    /// Only one class can be the default.
    #[error("{new}: globalDefault: {old} is the default already; take it from that one first")]
    TwoDefaults { new: ObjectKey, old: ObjectKey },
    /// Every cluster has it.
    #[error("{0} belongs to the cluster and stays")]
    BuiltIn(ObjectKey),
}

impl ObjectKind {
    pub const ALL: [Self; 3] = [Self::ConfigMap, Self::Secret, Self::PriorityClass];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::PriorityClass => "PriorityClass",
        }
    }

    pub fn api_version(self) -> &'static str {
        match self {
            Self::ConfigMap | Self::Secret => "v1",
            Self::PriorityClass => "scheduling.k8s.io/v1",
        }
    }

    pub fn is_namespaced(self) -> bool {
        match self {
            Self::ConfigMap | Self::Secret => true,
            Self::PriorityClass => false,
        }
    }
}

impl Objects {
    /// What applying an object would change.
    ///
    /// # Errors
    ///
    /// The stored objects do not allow it.
    pub fn admit(&self, object: &Object) -> Result<ObjectChange, ObjectError> {
        if object.key.kind == ObjectKind::PriorityClass && is_built_in(object.key.name.as_str()) {
            return Err(ObjectError::BuiltIn(object.key.clone()));
        }
        if let Content::Priority(class) = &object.content
            && class.global_default
            && let Some(other) = self.classes().find(|(key, other)| other.global_default && **key != object.key)
        {
            return Err(ObjectError::TwoDefaults { new: object.key.clone(), old: other.0.clone() });
        }
        match self.all.get(&object.key) {
            None => Ok(ObjectChange::New),
            Some(known) if known.object == *object => Ok(ObjectChange::Same),
            Some(known) if known.object.manifest["immutable"] == true => {
                Err(ObjectError::Immutable(object.key.clone()))
            }
            Some(known) => match (&known.object.content, &object.content) {
                (Content::Priority(before), Content::Priority(after)) if before.value != after.value => {
                    Err(ObjectError::OtherValue(object.key.clone()))
                }
                (Content::Priority(_) | Content::Data(_), _) => Ok(ObjectChange::Other),
            },
        }
    }

    /// Stores an object, in place of one with its key.
    pub(crate) fn insert(&mut self, kept: StoredObject) {
        self.all.insert(kept.object.key.clone(), kept);
    }

    pub fn get(&self, key: &ObjectKey) -> Option<&StoredObject> {
        self.all.get(key)
    }

    /// Sorted by kind.
    pub fn iter(&self) -> impl Iterator<Item = &StoredObject> {
        self.all.values()
    }

    /// The priority of a class, or the default priority where none is named. An unknown class has priority 0.
    pub fn priority(&self, class: Option<&str>) -> i32 {
        let named = |class: &str| {
            let known = self.classes().find(|(key, _)| key.name.as_str() == class).map(|(_, known)| known.value);
            known.or_else(|| content::built_in(class)).unwrap_or(0)
        };
        let usual = || self.classes().find(|(_, known)| known.global_default).map_or(0, |(_, known)| known.value);
        class.filter(|class| !class.is_empty()).map_or_else(usual, named)
    }

    /// Whether pods of a class may preempt others.
    pub fn preempts(&self, class: Option<&str>) -> bool {
        let named = |class: &str| self.classes().find(|(key, _)| key.name.as_str() == class);
        let usual = || self.classes().find(|(_, known)| known.global_default);
        let known = class.filter(|class| !class.is_empty()).map_or_else(usual, named);
        known.is_none_or(|(_, known)| known.preempts)
    }

    /// The data of a ConfigMap or Secret.
    pub fn data(&self, kind: ObjectKind, namespace: &DnsLabel, name: &str) -> Option<&BTreeMap<String, Vec<u8>>> {
        let is_it = |key: &ObjectKey| {
            key.kind == kind && key.namespace.as_ref() == Some(namespace) && key.name.as_str() == name
        };
        match &self.all.values().find(|kept| is_it(&kept.object.key))?.object.content {
            Content::Data(data) => Some(data),
            Content::Priority(_) => None,
        }
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<StoredObject> {
        self.all.remove(key)
    }

    fn classes(&self) -> impl Iterator<Item = (&ObjectKey, &PriorityClass)> {
        self.all.values().filter_map(|kept| match &kept.object.content {
            Content::Priority(class) => Some((&kept.object.key, class)),
            Content::Data(_) => None,
        })
    }
}

/// Whether every cluster has a priority class of this name.
pub fn is_built_in(name: &str) -> bool {
    content::built_in(name).is_some()
}

/// What applying an object would change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectChange {
    /// No object has its key.
    New,
    /// The object with its key differs.
    Other,
    Same,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("key", &self.key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
