//! The kinds of objects that can be asked for: their names, and what their tables show. The dialects know theirs.

use flexor_local::api::Resource;
use serde_json::Value;

use super::refuse;

/// A kind of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectKind {
    /// What the cluster keeps them in.
    pub resource: Resource,
    /// `apiVersion` of its objects.
    pub api_version: String,
    /// `kind` of its objects.
    pub kind: String,
    /// What one is called.
    pub singular: String,
    /// Its API group; empty for those of Kubernetes itself.
    pub group: String,
    /// Whether its objects belong to a namespace.
    pub namespaced: bool,
    /// What its table shows.
    pub columns: Columns,
    /// Where its objects say how many replicas they want, where they can be scaled so.
    pub scale: Option<String>,
    names: Vec<String>,
}

/// What a table shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Columns {
    /// Of pods.
    Pod,
    /// Of events.
    Event,
    /// Of ConfigMaps.
    ConfigMap,
    /// Of Secrets.
    Secret,
    /// As its definition says, after the name.
    Defined(Vec<Column>),
}

/// A column of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub heading: String,
    /// Where the value is, such as `.status.phase`.
    pub path: String,
    /// It is a time, shown as an age.
    pub is_date: bool,
    /// Only a wide table has it.
    pub is_wide: bool,
}

impl ObjectKind {
    /// Whether this is one.
    pub fn is_kind_of(&self, object: &Value) -> bool {
        object["apiVersion"] == *self.api_version && object["kind"] == *self.kind
    }

    /// What they are called, the plural first.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What one is called where kinds of several systems stand side by side.
    pub fn full_name(&self) -> String {
        if self.group.is_empty() { self.singular.clone() } else { format!("{}.{}", self.singular, self.group) }
    }
}

/// Every kind.
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

/// The kinds that the cluster keeps in one place.
pub fn of(resource: Resource) -> Vec<ObjectKind> {
    all().into_iter().filter(|kind| kind.resource == resource).collect()
}

/// The kinds that a word means, or several with commas between: more than one where systems use the same name.
pub fn named(words: &str) -> anyhow::Result<Vec<ObjectKind>> {
    let mut found: Vec<ObjectKind> = Vec::new();
    for word in words.split(',') {
        let word = word.to_ascii_lowercase();
        let mut meant: Vec<ObjectKind> = all().into_iter().filter(|kind| kind.names.contains(&word)).collect();
        if meant.is_empty() {
            return refuse(format!(
                "there is no kind {word}; there are elasticjobs, scaleplans, trainingjobs, pods, events, configmaps, \
                 secrets and priorityclasses"
            ));
        }
        found.append(&mut meant);
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
    let scale = version.as_ref().and_then(|version| version.subresources.as_ref()?.scale.as_ref());
    let scale = scale.map(|scale| scale.spec_replicas_path.clone());
    let columns = version.and_then(|version| version.additional_printer_columns).unwrap_or_default();
    let columns = columns.into_iter().map(|column| Column {
        heading: column.name.to_uppercase(),
        path: column.json_path,
        is_date: column.type_ == "date",
        is_wide: column.priority.is_some_and(|priority| priority > 0),
    });
    ObjectKind {
        // The one kind that is about jobs and none itself.
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
        assert_eq!(kinds("po,dsp"), ["pod", "scaleplan.elastic.iml.github.io"]);
        assert_eq!(kinds("cm,secrets,pc"), ["configmap", "secret", "priorityclass.scheduling.k8s.io"]);
        let error = named("nodes").unwrap_err().to_string();
        assert!(error.contains("no kind nodes") && error.contains("pods"), "{error}");
    }
}
