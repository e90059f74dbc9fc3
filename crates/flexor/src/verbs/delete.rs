//! `flexor delete`.

use flexor_local::api::{Client, Resource};

use super::args::DeleteArgs;
use super::kinds::ObjectKind;
use super::selector::Selector;
use super::{cells, fetch, refuse};
use crate::exit::Exit;
use crate::output;

/// Something that was deleted and may not be gone yet.
struct Going {
    resource: Resource,
    uid: String,
}

pub async fn run(client: &Client, args: &DeleteArgs) -> anyhow::Result<Exit> {
    let namespace = args.place.namespace.as_str();
    let mut wanted: Vec<(ObjectKind, String)> = Vec::new();
    for asked in fetch::asked(&args.words)? {
        if asked.names.is_empty() {
            return refuse("name what is to be deleted: KIND NAME…");
        }
        for found in fetch::objects(client, &asked, Some(namespace), &Selector::default()).await? {
            let names = found.objects.iter().map(|object| cells::text(&object["metadata"]["name"]));
            wanted.extend(names.map(|name| (found.kind.clone(), name)));
        }
    }
    if wanted.iter().any(|(kind, _)| kind.resource == Resource::Events) {
        return refuse("events are not deleted; the oldest are forgotten");
    }
    let mut going = Vec::new();
    for (kind, name) in wanted {
        let uid = client.delete(kind.resource, namespace, &name).await?;
        output::text(&format!("{} \"{name}\" deleted\n", kind.full_name()))?;
        going.push(Going { resource: kind.resource, uid });
    }
    if args.wait {
        for going in going {
            await_gone(client, namespace, &going).await?;
        }
    }
    Ok(Exit::Success)
}

async fn await_gone(client: &Client, namespace: &str, going: &Going) -> anyhow::Result<()> {
    let is_it = |object: &serde_json::Value| object["metadata"]["uid"] == *going.uid;
    let mut changes = client.watch(going.resource, Some(namespace)).await?;
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
