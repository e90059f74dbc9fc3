//! From the words after a verb to the objects that they mean.

use flexor_local::api::{Client, ClientError, Resource};
use serde_json::Value;

use super::kinds::{self, ObjectKind};
use super::selector::Selector;
use super::{cells, missing, refuse};

/// Some kinds, and those of them that are named; all where none is.
#[derive(Debug)]
pub struct Asked {
    pub kinds: Vec<ObjectKind>,
    pub names: Vec<String>,
}

/// Objects of one kind.
pub struct Found {
    pub kind: ObjectKind,
    pub objects: Vec<Value>,
}

/// What words ask for: `KIND`, `KIND NAME…` or `KIND/NAME…`. Pods may be named without what they have from their job.
pub async fn asked(client: &Client, words: &[String], namespace: Option<&str>) -> anyhow::Result<Vec<Asked>> {
    let mut whole = Vec::new();
    for asked in written(words)? {
        whole.push(asked.with_whole_names(client, namespace).await?);
    }
    Ok(whole)
}

fn written(words: &[String]) -> anyhow::Result<Vec<Asked>> {
    if words.iter().all(|word| word.contains('/')) {
        let asked = words.iter().map(|word| {
            let (kind, name) = word.split_once('/').unwrap_or((word, ""));
            Ok(Asked { kinds: kinds::named(kind)?, names: vec![name.to_owned()] })
        });
        return asked.collect();
    }
    let Some((first, names)) = words.split_first() else { return Ok(Vec::new()) };
    if let Some(mixed) = words.iter().find(|word| word.contains('/')) {
        return refuse(format!("{mixed} has a kind of its own; write either KIND NAME… or KIND/NAME…"));
    }
    Ok(vec![Asked { kinds: kinds::named(first)?, names: names.to_vec() }])
}

impl Asked {
    /// Whether an object of one of the kinds is meant.
    pub fn means(&self, object: &Value, selector: &Selector) -> bool {
        let is_named = self.names.is_empty() || self.names.iter().any(|name| object["metadata"]["name"] == **name);
        is_named && selector.selects(object)
    }

    /// The same, with the whole names of pods that are named by short ones.
    async fn with_whole_names(mut self, client: &Client, namespace: Option<&str>) -> anyhow::Result<Self> {
        let is_pods = self.kinds.iter().all(|kind| kind.resource == Resource::Pods);
        if is_pods && !self.names.is_empty() {
            let pods = names_of(&client.list(Resource::Pods, namespace).await?);
            for name in &mut self.names {
                *name = whole_name(&pods, name)?.unwrap_or_else(|| name.clone());
            }
        }
        Ok(self)
    }

    /// Whether those that are named are all there. `found` is what there is of the kinds.
    pub async fn check(&self, client: &Client, found: &[Found], namespace: Option<&str>) -> anyhow::Result<()> {
        let has = |name: &str| {
            found.iter().flat_map(|found| &found.objects).any(|object| object["metadata"]["name"] == *name)
        };
        match self.names.iter().find(|name| !has(name)) {
            Some(name) => Err(missing::told(client, &self.kinds, name, namespace).await?),
            None => Ok(()),
        }
    }
}

/// The objects that are asked for, kind by kind. Those that are named must be there.
pub async fn objects(
    client: &Client,
    asked: &Asked,
    namespace: Option<&str>,
    selector: &Selector,
) -> anyhow::Result<Vec<Found>> {
    let mut found: Vec<Found> = Vec::new();
    for kind in &asked.kinds {
        let mut objects = client.list(kind.resource, namespace).await?;
        objects.retain(|object| kind.is_kind_of(object) && asked.means(object, selector));
        found.push(Found { kind: kind.clone(), objects });
    }
    asked.check(client, &found, namespace).await?;
    Ok(found)
}

/// The one job of a name, with its kind.
pub async fn job(client: &Client, namespace: &str, name: &str) -> anyhow::Result<(ObjectKind, Value)> {
    let kinds = kinds::of(Resource::Jobs);
    let found = client.list(Resource::Jobs, Some(namespace)).await?;
    let job = found.into_iter().find(|object| object["metadata"]["name"] == *name);
    let kind = job.as_ref().and_then(|job| kinds.iter().find(|kind| kind.is_kind_of(job)).cloned());
    match kind.zip(job) {
        Some(found) => Ok(found),
        None => Err(missing::told(client, &kinds, name, Some(namespace)).await?),
    }
}

/// The job that words name, with or without its kind: `NAME`, `KIND NAME` or `KIND/NAME`.
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

/// The pod that is meant by `NAME` or `pod/NAME`.
pub async fn pod_name<'a>(client: &Client, namespace: &str, word: &'a str) -> anyhow::Result<&'a str> {
    let Some((kind, name)) = word.split_once('/') else { return Ok(word) };
    let kinds = kinds::named(kind)?;
    if kinds.iter().all(|kind| kind.resource == Resource::Pods) {
        return Ok(name);
    }
    if kinds.iter().any(|kind| kind.resource == Resource::Jobs) {
        return Err(missing::told(client, &kinds::named("pods")?, name, Some(namespace)).await?);
    }
    refuse(format!("{word} is no pod, and only pods run programs; `flexor get pods` lists them"))
}

/// The name of the pod that is meant by `NAME` or `pod/NAME`: of one that is called so, or else of the only one that is
/// called so without what it has from its job.
pub async fn pod(client: &Client, namespace: &str, word: &str) -> anyhow::Result<String> {
    let word = pod_name(client, namespace, word).await?;
    let pods = client.list(Resource::Pods, Some(namespace)).await?;
    Ok(whole_name(&names_of(&pods), word)?.unwrap_or_else(|| word.to_owned()))
}

/// The names of pods, each with that of its job.
pub fn names_of(pods: &[Value]) -> Vec<(String, String)> {
    let owner = |pod: &Value| cells::text(&pod["metadata"]["ownerReferences"][0]["name"]);
    pods.iter().map(|pod| (cells::text(&pod["metadata"]["name"]), owner(pod))).collect()
}

/// The whole name of the pod that a word means, of pods with their jobs; nothing where there is none, so that whoever
/// needs the pod can tell what there is instead.
pub fn whole_name(pods: &[(String, String)], word: &str) -> anyhow::Result<Option<String>> {
    if pods.iter().any(|(name, _)| name == word) {
        return Ok(Some(word.to_owned()));
    }
    let mut meant: Vec<&str> =
        pods.iter().filter(|(name, job)| is_short_for(name, job, word)).map(|(name, _)| name.as_str()).collect();
    // One that is on its way out may have the name of its successor.
    meant.sort_unstable();
    meant.dedup();
    match &meant[..] {
        [] => Ok(None),
        [one] => Ok(Some((*one).to_owned())),
        several => refuse(format!("{word} may be {}; write the whole name", several.join(" or "))),
    }
}

/// Whether a pod of a job is called so, in full or without what it has from the job.
pub fn is_short_for(pod: &str, job: &str, word: &str) -> bool {
    let rest = pod.strip_prefix(job).and_then(|rest| rest.strip_prefix('-'));
    pod == word || rest.is_some_and(|rest| rest == word || rest.strip_prefix("edljob-") == Some(word))
}

/// Why something could not be had of a pod: that there is none of that name, else what the cluster says.
pub async fn no_pod(client: &Client, namespace: &str, pod: &str, error: ClientError) -> anyhow::Error {
    if !matches!(error, ClientError::Refused(_)) {
        return error.into();
    }
    let asked = kinds::named("pods").map(|kinds| Asked { kinds, names: vec![pod.to_owned()] });
    let there = match &asked {
        Ok(asked) => objects(client, asked, Some(namespace), &Selector::default()).await,
        Err(_) => return error.into(),
    };
    there.err().unwrap_or_else(|| error.into())
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
    fn a_short_name_has_to_mean_one_pod() {
        let pods = ["deep-edljob-ps-0", "deep-edljob-ps-1", "wide-edljob-ps-1", "ps-1"];
        let pods = pods.map(|name| (name.to_owned(), name.split('-').next().unwrap_or_default().to_owned()));
        assert_eq!(whole_name(&pods, "ps-0").unwrap().as_deref(), Some("deep-edljob-ps-0"));
        assert_eq!(whole_name(&pods, "ps-1").unwrap().as_deref(), Some("ps-1"), "one is called so");
        assert_eq!(whole_name(&pods, "ps-2").unwrap(), None);
        let error = whole_name(&pods, "edljob-ps-1").unwrap_err().to_string();
        assert_eq!(error, "edljob-ps-1 may be deep-edljob-ps-1 or wide-edljob-ps-1; write the whole name");
    }

    #[test]
    fn a_job_is_named_with_or_without_its_kind() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        for written in [&["mnist"][..], &["elasticjob", "mnist"], &["elasticjob/mnist"], &["tej/mnist"]] {
            assert_eq!(job_name(&words(written)).unwrap(), "mnist");
        }
        assert!(job_name(&words(&["job", "mnist"])).is_err());
    }
}
