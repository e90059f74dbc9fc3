//! `flexor delete`: deletes objects by name, or those of manifests.

mod files;

use flexor_local::api::{Client, ClientError, Resource};
use serde_json::Value;

use super::args::{DeleteArgs, USUAL_NAMESPACE};
use super::kinds::ObjectKind;
use super::{fetch, not_found, refuse};
use crate::exit::Exit;
use crate::output;

/// An object to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    kinds: Vec<ObjectKind>,
    namespace: String,
    name: String,
}

/// A deleted object that may still exist.
struct DeletedObject {
    resource: Resource,
    namespace: String,
    uid: String,
}

pub async fn run(client: &Client, args: &DeleteArgs) -> anyhow::Result<Exit> {
    let targets = if args.files.is_empty() {
        named(client, args).await?
    } else {
        match files::read(&args.files, args.namespace.as_ref())? {
            Some(targets) => targets,
            None => return Ok(Exit::Failure),
        }
    };
    let mut found: Vec<(ObjectKind, Target)> = Vec::new();
    let mut absent = Vec::new();
    for target in targets {
        match kind_of(client, &target).await? {
            Some(kind) => found.push((kind, target)),
            None if args.ignore_not_found => {}
            None => absent.push(target),
        }
    }
    // A wrong name on the command line deletes nothing. Objects of manifests may have been deleted before.
    if let Some(target) = absent.first().filter(|_| args.files.is_empty()) {
        return Err(not_found_error(client, target).await?);
    }
    let mut deleted = Vec::new();
    for (kind, Target { namespace, name, .. }) in found {
        let uid = client.delete(kind.resource, &namespace, &name).await?;
        output::text(&format!("{} \"{name}\" deleted\n", kind.full_name()))?;
        deleted.push(DeletedObject { resource: kind.resource, namespace, uid });
    }
    for target in &absent {
        output::note(&format!("error: {}", not_found_error(client, target).await?));
    }
    if args.wait {
        for object in deleted {
            await_removal(client, &object).await?;
        }
    }
    Ok(if absent.is_empty() { Exit::Success } else { Exit::Failure })
}

/// The objects that the arguments name.
async fn named(client: &Client, args: &DeleteArgs) -> anyhow::Result<Vec<Target>> {
    let namespace = args.namespace.as_ref().map_or(USUAL_NAMESPACE, |namespace| namespace.as_str());
    let mut targets = Vec::new();
    for selection in fetch::selections(client, &args.words, Some(namespace)).await? {
        if selection.names.is_empty() {
            return refuse("name the objects to delete: KIND NAME…, or -f FILE");
        }
        if selection.kinds.iter().any(|kind| kind.resource == Resource::Events) {
            return refuse("events cannot be deleted; the cluster drops the oldest");
        }
        let target = |name: &String| Target {
            kinds: selection.kinds.clone(),
            namespace: namespace.to_owned(),
            name: name.clone(),
        };
        targets.extend(selection.names.iter().map(target));
    }
    Ok(targets)
}

/// The kind of an existing target, or `None` if it does not exist.
async fn kind_of(client: &Client, target: &Target) -> Result<Option<ObjectKind>, ClientError> {
    for kind in &target.kinds {
        let is_it = |object: &Value| kind.is_kind_of(object) && object["metadata"]["name"] == *target.name;
        if client.list(kind.resource, Some(&target.namespace)).await?.iter().any(is_it) {
            return Ok(Some(kind.clone()));
        }
    }
    Ok(None)
}

async fn not_found_error(client: &Client, target: &Target) -> anyhow::Result<anyhow::Error> {
    not_found::error(client, &target.kinds, &target.name, Some(&target.namespace)).await
}

async fn await_removal(client: &Client, deleted: &DeletedObject) -> anyhow::Result<()> {
    let is_it = |object: &Value| object["metadata"]["uid"] == *deleted.uid;
    let mut changes = client.watch(deleted.resource, Some(&deleted.namespace)).await?;
    let mut is_first = true;
    // The watch ends if the cluster ends, and the object with it.
    while let Some(batch) = changes.next().await? {
        let was_here = batch.iter().any(|change| !change.gone && is_it(&change.object));
        let is_gone = batch.iter().any(|change| change.gone && is_it(&change.object));
        if is_gone || (std::mem::take(&mut is_first) && !was_here) {
            return Ok(());
        }
    }
    Ok(())
}
