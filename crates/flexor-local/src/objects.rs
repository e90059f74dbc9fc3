//! Objects of Kubernetes itself that jobs refer to: ConfigMaps, Secrets and PriorityClasses.
//!
//! They come in manifests beside the jobs, are read once ([`Object::read`]) and kept in the cluster's folder, one file
//! each, for its owner alone. Pods find their data as variables and files; the scheduler asks [`Objects::priority`].
//!
//! What a Secret holds is never printed by anything here, not even for debugging.

mod content;
mod files;
mod reading;

use std::collections::BTreeMap;
use std::fmt;

use flexor_model::{DnsLabel, ObjectName, UnixTime};
use serde_json::Value;
use thiserror::Error;

pub use self::content::{BUILT_IN, Content, PriorityClass};
pub use self::reading::FieldError;

/// Which kind of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// Data that anybody may read.
    ConfigMap,
    /// Data that not everybody may read.
    Secret,
    /// How important pods are; of no namespace.
    PriorityClass,
}

/// Which object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its namespace, where its kind has one.
    pub namespace: Option<DnsLabel>,
    /// Its name.
    pub name: ObjectName,
}

/// An object as its manifest has it.
#[derive(Clone, PartialEq)]
pub struct Object {
    /// Which.
    pub key: ObjectKey,
    /// The manifest, in the form that the API server would give it.
    pub manifest: Value,
    /// What it means.
    pub content: Content,
}

/// An object that is kept.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The object.
    pub object: Object,
    /// Its unique id.
    pub uid: String,
    /// When it came.
    pub created_at: UnixTime,
}

/// All objects of a cluster.
#[derive(Debug, Default)]
pub struct Objects {
    all: BTreeMap<ObjectKey, Kept>,
}

/// Why an object cannot be taken in, or taken away.
#[derive(Debug, Error)]
pub enum ObjectError {
    /// It says of itself that it does not change.
    #[error("{0} is immutable; delete it first, or give yours another name")]
    Immutable(ObjectKey),
    /// The value of a class is part of what it is.
    #[error("{0}: value: a priority class keeps its value; delete it first, or give yours another name")]
    OtherValue(ObjectKey),
    /// There can be one such class.
    #[error("{new}: globalDefault: {old} is the default already; take it from that one first")]
    TwoDefaults {
        /// What was to be taken in.
        new: ObjectKey,
        /// What is there.
        old: ObjectKey,
    },
    /// It is always there.
    #[error("{0} belongs to the cluster and stays")]
    BuiltIn(ObjectKey),
}

impl ObjectKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::ConfigMap, Self::Secret, Self::PriorityClass];

    /// The word in `kind`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::PriorityClass => "PriorityClass",
        }
    }

    /// What stands in `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::ConfigMap | Self::Secret => "v1",
            Self::PriorityClass => "scheduling.k8s.io/v1",
        }
    }

    /// Whether its objects belong to a namespace.
    pub fn is_namespaced(self) -> bool {
        match self {
            Self::ConfigMap | Self::Secret => true,
            Self::PriorityClass => false,
        }
    }
}

impl Objects {
    /// What taking an object in would mean.
    ///
    /// # Errors
    ///
    /// What is there does not let it; nothing has changed then.
    pub fn admit(&self, object: &Object) -> Result<Admission, ObjectError> {
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
            None => Ok(Admission::New),
            Some(known) if known.object == *object => Ok(Admission::Same),
            Some(known) if known.object.manifest["immutable"] == true => {
                Err(ObjectError::Immutable(object.key.clone()))
            }
            Some(known) => match (&known.object.content, &object.content) {
                (Content::Priority(before), Content::Priority(after)) if before.value != after.value => {
                    Err(ObjectError::OtherValue(object.key.clone()))
                }
                (Content::Priority(_) | Content::Data(_), _) => Ok(Admission::Other),
            },
        }
    }

    /// Keeps an object, in the place of any that has its name.
    pub(crate) fn insert(&mut self, kept: Kept) {
        self.all.insert(kept.object.key.clone(), kept);
    }

    /// An object.
    pub fn get(&self, key: &ObjectKey) -> Option<&Kept> {
        self.all.get(key)
    }

    /// All of them, kind by kind.
    pub fn iter(&self) -> impl Iterator<Item = &Kept> {
        self.all.values()
    }

    /// The priority of pods of a class; of those that name none where none is named. A class that nobody knows counts
    /// for nothing.
    pub fn priority(&self, class: Option<&str>) -> i32 {
        let named = |class: &str| {
            let known = self.classes().find(|(key, _)| key.name.as_str() == class).map(|(_, known)| known.value);
            known.or_else(|| content::built_in(class)).unwrap_or(0)
        };
        let usual = || self.classes().find(|(_, known)| known.global_default).map_or(0, |(_, known)| known.value);
        class.filter(|class| !class.is_empty()).map_or_else(usual, named)
    }

    /// Whether pods of a class may take the room of less important ones.
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

    /// Forgets an object.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<Kept> {
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

/// What taking an object in would mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// There is none of its name.
    New,
    /// The one of its name says something else.
    Other,
    /// It is there just so.
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
