//! `flexor delete`: what is named by words, or by manifests.

mod files;

use flexor_local::api::{Client, ClientError, Resource};
use serde_json::Value;

use super::args::{DeleteArgs, USUAL_NAMESPACE};
use super::kinds::ObjectKind;
use super::{fetch, missing, refuse};
use crate::exit::Exit;
use crate::output;

/// Something that is to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    kinds: Vec<ObjectKind>,
    namespace: String,
    name: String,
}

/// Something that was deleted and may not be gone yet.
struct Going {
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
    // A slip of the hand is told before anything is gone; of what manifests name some may be gone already.
    if let Some(target) = absent.first().filter(|_| args.files.is_empty()) {
        return Err(absence(client, target).await?);
    }
    let mut going = Vec::new();
    for (kind, Target { namespace, name, .. }) in found {
        let uid = client.delete(kind.resource, &namespace, &name).await?;
        output::text(&format!("{} \"{name}\" deleted\n", kind.full_name()))?;
        going.push(Going { resource: kind.resource, namespace, uid });
    }
    for target in &absent {
        output::note(&format!("error: {}", absence(client, target).await?));
    }
    if args.wait {
        for going in going {
            await_gone(client, &going).await?;
        }
    }
    Ok(if absent.is_empty() { Exit::Success } else { Exit::Failure })
}

/// What the words name.
async fn named(client: &Client, args: &DeleteArgs) -> anyhow::Result<Vec<Target>> {
    let namespace = args.namespace.as_ref().map_or(USUAL_NAMESPACE, |namespace| namespace.as_str());
    let mut targets = Vec::new();
    for asked in fetch::asked(client, &args.words, Some(namespace)).await? {
        if asked.names.is_empty() {
            return refuse("name what is to be deleted: KIND NAME…, or -f FILE");
        }
        if asked.kinds.iter().any(|kind| kind.resource == Resource::Events) {
            return refuse("events are not deleted; the oldest are forgotten");
        }
        let target =
            |name: &String| Target { kinds: asked.kinds.clone(), namespace: namespace.to_owned(), name: name.clone() };
        targets.extend(asked.names.iter().map(target));
    }
    Ok(targets)
}

/// Of which of its kinds the target is; nothing where it is not there.
async fn kind_of(client: &Client, target: &Target) -> Result<Option<ObjectKind>, ClientError> {
    for kind in &target.kinds {
        let is_it = |object: &Value| kind.is_kind_of(object) && object["metadata"]["name"] == *target.name;
        if client.list(kind.resource, Some(&target.namespace)).await?.iter().any(is_it) {
            return Ok(Some(kind.clone()));
        }
    }
    Ok(None)
}

async fn absence(client: &Client, target: &Target) -> anyhow::Result<anyhow::Error> {
    missing::told(client, &target.kinds, &target.name, Some(&target.namespace)).await
}

async fn await_gone(client: &Client, going: &Going) -> anyhow::Result<()> {
    let is_it = |object: &Value| object["metadata"]["uid"] == *going.uid;
    let mut changes = client.watch(going.resource, Some(&going.namespace)).await?;
    let mut is_first = true;
    // A cluster that ends meanwhile has nothing any more.
    while let Some(batch) = changes.next().await? {
        let was_here = batch.iter().any(|change| !change.gone && is_it(&change.object));
        let is_gone = batch.iter().any(|change| change.gone && is_it(&change.object));
        if is_gone || (std::mem::take(&mut is_first) && !was_here) {
            return Ok(());
        }
    }
    Ok(())
}
