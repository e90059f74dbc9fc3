//! From the words after a verb to the objects that they mean.

use flexor_local::api::{Client, Resource};
use serde_json::Value;

use super::kinds::{self, ObjectKind};
use super::refuse;
use super::selector::Selector;

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

/// What words ask for: `KIND`, `KIND NAME…` or `KIND/NAME…`.
pub fn asked(words: &[String]) -> anyhow::Result<Vec<Asked>> {
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

    /// Whether those that are named are all there. `found` is what there is of the kinds.
    pub async fn check(&self, client: &Client, found: &[Found], namespace: Option<&str>) -> anyhow::Result<()> {
        let has = |name: &str| {
            found.iter().flat_map(|found| &found.objects).any(|object| object["metadata"]["name"] == *name)
        };
        match self.names.iter().find(|name| !has(name)) {
            Some(name) => Err(missing(client, &self.kinds, name, namespace).await?),
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
    let kinds: Vec<ObjectKind> = kinds::all().into_iter().filter(|kind| kind.resource == Resource::Jobs).collect();
    let found = client.list(Resource::Jobs, Some(namespace)).await?;
    let job = found.into_iter().find(|object| object["metadata"]["name"] == *name);
    let kind = job.as_ref().and_then(|job| kinds.iter().find(|kind| kind.is_kind_of(job)).cloned());
    match kind.zip(job) {
        Some(found) => Ok(found),
        None => Err(missing(client, &kinds, name, Some(namespace)).await?),
    }
}

/// That something is not there, and where it is, if it is.
async fn missing(
    client: &Client,
    kinds: &[ObjectKind],
    name: &str,
    namespace: Option<&str>,
) -> anyhow::Result<anyhow::Error> {
    let what = kinds.first().map_or("object", |kind| if kinds.len() > 2 { "job" } else { &kind.singular });
    let Some(namespace) = namespace else {
        return Ok(super::Refusal(format!("there is no {what} {name}")).into());
    };
    let mut elsewhere = String::new();
    for kind in kinds {
        let all = client.list(kind.resource, None).await?;
        if let Some(other) = all.iter().find(|object| kind.is_kind_of(object) && object["metadata"]["name"] == *name) {
            let other = super::cells::text(&other["metadata"]["namespace"]);
            elsewhere = format!("; there is one in {other}: add -n {other}");
        }
    }
    Ok(super::Refusal(format!("there is no {what} {name} in namespace {namespace}{elsewhere}")).into())
}
