//! Resolves the arguments of a verb to kinds, names and objects.

use flexor_local::api::{Client, ClientError, Resource};
use serde_json::Value;

use super::kinds::{self, ObjectKind};
use super::selector::Selector;
use super::{cells, not_found, refuse};

/// Kinds, and the names to select. Without names all objects are selected.
#[derive(Debug)]
pub struct Selection {
    pub kinds: Vec<ObjectKind>,
    pub names: Vec<String>,
}

/// Objects of one kind.
pub struct KindObjects {
    pub kind: ObjectKind,
    pub objects: Vec<Value>,
}

/// Parses `KIND`, `KIND NAME…` or `KIND/NAME…`. Pods may be named without the name of their job.
pub async fn selections(client: &Client, words: &[String], namespace: Option<&str>) -> anyhow::Result<Vec<Selection>> {
    let mut selections = Vec::new();
    for selection in parse(words)? {
        selections.push(selection.with_full_names(client, namespace).await?);
    }
    Ok(selections)
}

fn parse(words: &[String]) -> anyhow::Result<Vec<Selection>> {
    if words.iter().all(|word| word.contains('/')) {
        let selections = words.iter().map(|word| {
            let (kind, name) = word.split_once('/').unwrap_or((word, ""));
            Ok(Selection { kinds: kinds::named(kind)?, names: vec![name.to_owned()] })
        });
        return selections.collect();
    }
    let Some((first, names)) = words.split_first() else { return Ok(Vec::new()) };
    if let Some(mixed) = words.iter().find(|word| word.contains('/')) {
        return refuse(format!("{mixed} has a kind of its own; write either KIND NAME… or KIND/NAME…"));
    }
    Ok(vec![Selection { kinds: kinds::named(first)?, names: names.to_vec() }])
}

impl Selection {
    /// Whether an object of one of the kinds is selected.
    pub fn selects(&self, object: &Value, selector: &Selector) -> bool {
        let is_named = self.names.is_empty() || self.names.iter().any(|name| object["metadata"]["name"] == **name);
        is_named && selector.selects(object)
    }

    /// Replaces short names of pods by full ones.
    async fn with_full_names(mut self, client: &Client, namespace: Option<&str>) -> anyhow::Result<Self> {
        let is_pods = self.kinds.iter().all(|kind| kind.resource == Resource::Pods);
        if is_pods && !self.names.is_empty() {
            let pods = names_of(&client.list(Resource::Pods, namespace).await?);
            for name in &mut self.names {
                *name = full_pod_name(&pods, name)?.unwrap_or_else(|| name.clone());
            }
        }
        Ok(self)
    }

    /// Checks that all named objects are among `found`.
    pub async fn check(&self, client: &Client, found: &[KindObjects], namespace: Option<&str>) -> anyhow::Result<()> {
        let has = |name: &str| {
            found.iter().flat_map(|found| &found.objects).any(|object| object["metadata"]["name"] == *name)
        };
        match self.names.iter().find(|name| !has(name)) {
            Some(name) => Err(not_found::error(client, &self.kinds, name, namespace).await?),
            None => Ok(()),
        }
    }
}

/// The selected objects, kind by kind. All named objects must exist.
pub async fn objects(
    client: &Client,
    selection: &Selection,
    namespace: Option<&str>,
    selector: &Selector,
) -> anyhow::Result<Vec<KindObjects>> {
    let mut found: Vec<KindObjects> = Vec::new();
    for kind in &selection.kinds {
        let mut objects = client.list(kind.resource, namespace).await?;
        objects.retain(|object| kind.is_kind_of(object) && selection.selects(object, selector));
        found.push(KindObjects { kind: kind.clone(), objects });
    }
    selection.check(client, &found, namespace).await?;
    Ok(found)
}

/// The job with this name, and its kind.
pub async fn job(client: &Client, namespace: &str, name: &str) -> anyhow::Result<(ObjectKind, Value)> {
    let kinds = kinds::of(Resource::Jobs);
    let found = client.list(Resource::Jobs, Some(namespace)).await?;
    let job = found.into_iter().find(|object| object["metadata"]["name"] == *name);
    let kind = job.as_ref().and_then(|job| kinds.iter().find(|kind| kind.is_kind_of(job)).cloned());
    match kind.zip(job) {
        Some(found) => Ok(found),
        None => Err(not_found::error(client, &kinds, name, Some(namespace)).await?),
    }
}

/// The job in `NAME`, `KIND NAME` or `KIND/NAME`.
pub fn job_name(words: &[String]) -> anyhow::Result<&str> {
    match words {
        [kind, name] => kinds::named(kind).and_then(|_| bare_name(name)),
        [name, ..] => bare_name(name),
        [] => refuse("name a job"),
    }
}

/// The name in `NAME` or `KIND/NAME`.
pub fn bare_name(word: &str) -> anyhow::Result<&str> {
    match word.split_once('/') {
        Some((kind, name)) => kinds::named(kind).map(|_| name),
        None => Ok(word),
    }
}

/// The pod in `NAME` or `pod/NAME`.
pub async fn pod_name<'a>(client: &Client, namespace: &str, word: &'a str) -> anyhow::Result<&'a str> {
    let Some((kind, name)) = word.split_once('/') else { return Ok(word) };
    let kinds = kinds::named(kind)?;
    if kinds.iter().all(|kind| kind.resource == Resource::Pods) {
        return Ok(name);
    }
    if kinds.iter().any(|kind| kind.resource == Resource::Jobs) {
        return Err(not_found::error(client, &kinds::named("pods")?, name, Some(namespace)).await?);
    }
    refuse(format!("{word} is not a pod, and only pods run programs; `flexor get pods` lists them"))
}

/// The full name of the pod in `NAME` or `pod/NAME`: an exact match, or else the only pod with this name after its job's
/// name.
pub async fn pod(client: &Client, namespace: &str, word: &str) -> anyhow::Result<String> {
    let word = pod_name(client, namespace, word).await?;
    let pods = client.list(Resource::Pods, Some(namespace)).await?;
    Ok(full_pod_name(&names_of(&pods), word)?.unwrap_or_else(|| word.to_owned()))
}

/// The names of pods, each with that of its job.
pub fn names_of(pods: &[Value]) -> Vec<(String, String)> {
    let owner = |pod: &Value| cells::text(&pod["metadata"]["ownerReferences"][0]["name"]);
    pods.iter().map(|pod| (cells::text(&pod["metadata"]["name"]), owner(pod))).collect()
}

/// The full name of the pod that a word names, among pods with their jobs. `None` if there is no such pod; the caller then
/// reports it with a hint.
pub fn full_pod_name(pods: &[(String, String)], word: &str) -> anyhow::Result<Option<String>> {
    if pods.iter().any(|(name, _)| name == word) {
        return Ok(Some(word.to_owned()));
    }
    let mut matching: Vec<&str> =
        pods.iter().filter(|(name, job)| is_short_for(name, job, word)).map(|(name, _)| name.as_str()).collect();
    // A terminating pod may have the name of its replacement.
    matching.sort_unstable();
    matching.dedup();
    match &matching[..] {
        [] => Ok(None),
        [one] => Ok(Some((*one).to_owned())),
        several => refuse(format!("{word} may be {}; write the full name", several.join(" or "))),
    }
}

/// Whether a word is the name of a pod, with or without the name of its job.
pub fn is_short_for(pod: &str, job: &str, word: &str) -> bool {
    let rest = pod.strip_prefix(job).and_then(|rest| rest.strip_prefix('-'));
    pod == word || rest.is_some_and(|rest| rest == word || rest.strip_prefix("edljob-") == Some(word))
}

/// The error of a request about a pod: that it does not exist, or else the error of the cluster.
pub async fn no_pod(client: &Client, namespace: &str, pod: &str, error: ClientError) -> anyhow::Error {
    if !matches!(error, ClientError::Refused(_)) {
        return error.into();
    }
    let selection = kinds::named("pods").map(|kinds| Selection { kinds, names: vec![pod.to_owned()] });
    let existing = match &selection {
        Ok(selection) => objects(client, selection, Some(namespace), &Selector::default()).await,
        Err(_) => return error.into(),
    };
    existing.err().unwrap_or_else(|| error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_named_in_full_or_without_its_job() {
        for word in ["deep-edljob-ps-0", "edljob-ps-0", "ps-0"] {
            assert!(is_short_for("deep-edljob-ps-0", "deep", word), "{word}");
        }
        for word in ["0", "-0", "ps", "s-0", "ps-01", "deep"] {
            assert!(!is_short_for("deep-edljob-ps-0", "deep", word), "{word}");
        }
    }

    #[test]
    fn a_short_name_must_be_unambiguous() {
        let pods = ["deep-edljob-ps-0", "deep-edljob-ps-1", "wide-edljob-ps-1", "ps-1"];
        let pods = pods.map(|name| (name.to_owned(), name.split('-').next().unwrap_or_default().to_owned()));
        assert_eq!(full_pod_name(&pods, "ps-0").unwrap().as_deref(), Some("deep-edljob-ps-0"));
        assert_eq!(full_pod_name(&pods, "ps-1").unwrap().as_deref(), Some("ps-1"), "an exact match wins");
        assert_eq!(full_pod_name(&pods, "ps-2").unwrap(), None);
        let error = full_pod_name(&pods, "edljob-ps-1").unwrap_err().to_string();
        assert_eq!(error, "edljob-ps-1 may be deep-edljob-ps-1 or wide-edljob-ps-1; write the full name");
    }

    #[test]
    fn a_job_is_named_with_or_without_its_kind() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        for written in
            [&["mnist"][..], &["elasticjob", "mnist"], &["elasticjob/mnist"], &["tej/mnist"], &["job", "mnist"]]
        {
            assert_eq!(job_name(&words(written)).unwrap(), "mnist");
        }
        assert!(job_name(&words(&["cronjob", "mnist"])).is_err());
    }
}
