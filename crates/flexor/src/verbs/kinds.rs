//! The kinds of objects that verbs know: their names and the columns of their tables. Kinds of jobs and plans come from
//! the dialects.

use flexor_local::api::Resource;
use serde_json::Value;

use super::refuse;

/// Names of all kinds of jobs together.
const OF_ALL_JOBS: [&str; 2] = ["jobs", "job"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectKind {
    /// The resource of the laptop cluster's API. Several kinds may share it.
    pub resource: Resource,
    pub api_version: String,
    pub kind: String,
    /// Name of one object of the kind, in lower case.
    pub singular: String,
    /// API group; empty for the core group.
    pub group: String,
    pub namespaced: bool,
    pub columns: Columns,
    /// Path of the number of replicas, for kinds with a scale subresource.
    pub scale: Option<String>,
    /// All names that users may type, the plural first.
    names: Vec<String>,
}

/// The columns of a kind's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Columns {
    Pod,
    Event,
    ConfigMap,
    Secret,
    /// Printer columns of the kind's definition, after the name.
    Defined(Vec<Column>),
}

/// A printer column of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub heading: String,
    /// Path of the value, such as `.status.phase`.
    pub path: String,
    /// The value is a time, shown as an age.
    pub is_date: bool,
    /// Only wide tables show the column.
    pub is_wide: bool,
}

impl ObjectKind {
    pub fn is_kind_of(&self, object: &Value) -> bool {
        object["apiVersion"] == *self.api_version && object["kind"] == *self.kind
    }

    /// All names that users may type, the plural first.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The singular with the API group, which tells kinds of the same name apart.
    pub fn full_name(&self) -> String {
        if self.group.is_empty() { self.singular.clone() } else { format!("{}.{}", self.singular, self.group) }
    }
}

pub fn all() -> Vec<ObjectKind> {
    let mut kinds = vec![
        of_kubernetes(Resource::Pods, "Pod", &["pods", "pod", "po"], Columns::Pod),
        of_kubernetes(Resource::Events, "Event", &["events", "event", "ev"], Columns::Event),
        of_kubernetes(Resource::ConfigMaps, "ConfigMap", &["configmaps", "configmap", "cm"], Columns::ConfigMap),
        of_kubernetes(Resource::Secrets, "Secret", &["secrets", "secret"], Columns::Secret),
        priority_class(),
    ];
    kinds.extend(flexor_dialects::kinds().map(of_dialect));
    kinds
}

/// The kinds of one resource of the laptop cluster's API.
pub fn of(resource: Resource) -> Vec<ObjectKind> {
    all().into_iter().filter(|kind| kind.resource == resource).collect()
}

/// The kinds that a word names, or several words with commas. A word names several kinds if API groups share the name.
pub fn named(words: &str) -> anyhow::Result<Vec<ObjectKind>> {
    let mut found: Vec<ObjectKind> = Vec::new();
    for word in words.split(',') {
        let word = word.to_ascii_lowercase();
        let is_meant = |kind: &ObjectKind| {
            kind.names.contains(&word) || kind.resource == Resource::Jobs && OF_ALL_JOBS.contains(&word.as_str())
        };
        let mut matching: Vec<ObjectKind> = all().into_iter().filter(is_meant).collect();
        if matching.is_empty() {
            return refuse(format!(
                "there is no kind {word}; there are jobs, elasticjobs, scaleplans, trainingjobs, pods, events, \
                 configmaps, secrets and priorityclasses"
            ));
        }
        found.append(&mut matching);
    }
    Ok(found)
}

fn priority_class() -> ObjectKind {
    let column = |heading: &str, path: &str| Column {
        heading: heading.to_owned(),
        path: path.to_owned(),
        is_date: heading == "AGE",
        is_wide: false,
    };
    let columns = vec![
        column("VALUE", ".value"),
        column("GLOBAL-DEFAULT", ".globalDefault"),
        column("AGE", ".metadata.creationTimestamp"),
        column("PREEMPTIONPOLICY", ".preemptionPolicy"),
    ];
    let group = "scheduling.k8s.io".to_owned();
    let mut names: Vec<String> = ["priorityclasses", "priorityclass"].map(str::to_owned).into();
    names.extend(names.clone().into_iter().map(|name| format!("{name}.{group}")));
    names.push("pc".to_owned());
    let plain = of_kubernetes(
        Resource::PriorityClasses,
        "PriorityClass",
        &["priorityclasses", "priorityclass"],
        Columns::Defined(columns),
    );
    ObjectKind { namespaced: false, api_version: format!("{group}/v1"), group, names, ..plain }
}

fn of_kubernetes(resource: Resource, kind: &str, names: &[&str], columns: Columns) -> ObjectKind {
    ObjectKind {
        resource,
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        singular: names[1].to_owned(),
        group: String::new(),
        namespaced: true,
        columns,
        scale: None,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn of_dialect(kind: &flexor_dialects::Kind) -> ObjectKind {
    let spec = kind.crd().spec;
    let singular = spec.names.singular.unwrap_or_else(|| spec.names.kind.to_lowercase());
    let mut names = vec![spec.names.plural.clone(), singular.clone()];
    names.extend(names.clone().into_iter().map(|name| format!("{name}.{}", spec.group)));
    names.extend(spec.names.short_names.unwrap_or_default());
    let version = spec.versions.into_iter().next();
    // Jobs of a dialect with plans are scaled by plans.
    let has_plans = flexor_dialects::kinds().any(|other| other.dialect == kind.dialect && other.is_plan);
    let scale = version.as_ref().filter(|_| !has_plans);
    let scale = scale.and_then(|version| version.subresources.as_ref()?.scale.as_ref());
    let scale = scale.map(|scale| scale.spec_replicas_path.clone());
    let columns = version.and_then(|version| version.additional_printer_columns).unwrap_or_default();
    let columns = columns.into_iter().map(|column| Column {
        heading: column.name.to_uppercase(),
        path: column.json_path,
        is_date: column.type_ == "date",
        is_wide: column.priority.is_some_and(|priority| priority > 0),
    });
    ObjectKind {
        // ScalePlan is the only kind of the dialects that is no job.
        resource: if kind.kind == "ScalePlan" { Resource::Plans } else { Resource::Jobs },
        api_version: format!("{}/{}", kind.group, kind.version),
        kind: kind.kind.to_owned(),
        singular,
        group: kind.group.to_owned(),
        namespaced: true,
        columns: Columns::Defined(columns.collect()),
        scale,
        names,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(words: &str) -> Vec<String> {
        named(words).unwrap().iter().map(ObjectKind::full_name).collect()
    }

    #[test]
    fn kinds_have_the_names_that_kubectl_knows() {
        let both = ["elasticjob.elastic.iml.github.io", "elasticjob.elastic.pytorch.org"];
        assert_eq!(kinds("elasticjobs"), both);
        assert_eq!(kinds("ElasticJob"), both);
        assert_eq!(kinds("elasticjobs.elastic.pytorch.org"), both[1..]);
        assert_eq!(kinds("tej"), both[1..]);
        assert_eq!(kinds("jobs"), kinds("elasticjobs,trainingjobs"));
        assert_eq!(kinds("po,dsp"), ["pod", "scaleplan.elastic.iml.github.io"]);
        assert_eq!(kinds("cm,secrets,pc"), ["configmap", "secret", "priorityclass.scheduling.k8s.io"]);
        let error = named("nodes").unwrap_err().to_string();
        assert!(error.contains("no kind nodes") && error.contains("pods"), "{error}");
    }
}
