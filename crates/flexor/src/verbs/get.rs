//! `flexor get`.

use flexor_local::api::Client;

use super::args::GetArgs;
use super::fetch::{self, Asked, Found};
use super::show::Show;
use super::{cells, refuse};
use crate::exit::Exit;
use crate::output;

/// Words that come sooner or later where something is watched, and the columns that they stand in.
const TO_COME: [(&str, &str); 2] = [("STATUS", "Terminating"), ("PHASE", "Succeeded")];

pub async fn run(client: &Client, args: &GetArgs) -> anyhow::Result<Exit> {
    let asked = fetch::asked(client, &args.words, args.places.namespace()).await?;
    if args.watch {
        return watch(client, args, &asked).await;
    }
    let mut found = Vec::new();
    for asked in &asked {
        found.extend(fetch::objects(client, asked, args.places.namespace(), &args.selector).await?);
    }
    if found.iter().all(|found| found.objects.is_empty()) {
        output::note(&nothing(client, args, &asked).await?);
        if !matches!(args.output, Some(super::args::ObjectFormat::Json | super::args::ObjectFormat::Yaml)) {
            return Ok(Exit::Success);
        }
    }
    let several = found.iter().filter(|found| !found.objects.is_empty()).count() > 1;
    let is_one = asked.len() == 1 && asked.iter().all(|asked| asked.names.len() == 1);
    output::text(&Show::new(args.output, args.places.all_namespaces, several).everything(&found, is_one)?)?;
    Ok(Exit::Success)
}

/// What there is and then every change of it, a row each; what is gone is shown once more as it was.
async fn watch(client: &Client, args: &GetArgs, asked: &[Asked]) -> anyhow::Result<Exit> {
    let [asked] = asked else { return refuse("one kind can be watched at a time") };
    let mut resources: Vec<_> = asked.kinds.iter().map(|kind| kind.resource).collect();
    resources.dedup();
    let [resource] = resources[..] else { return refuse("one kind can be watched at a time") };
    let namespace = args.places.namespace();
    let mut changes = client.watch(resource, namespace).await?;
    let mut show = Show::new(args.output, args.places.all_namespaces, false);
    let mut is_first = true;
    while let Some(batch) = changes.next().await? {
        let of_kind = |kind: &super::kinds::ObjectKind| Found {
            kind: kind.clone(),
            objects: batch
                .iter()
                .map(|change| &change.object)
                .filter(|object| kind.is_kind_of(object) && asked.means(object, &args.selector))
                .cloned()
                .collect(),
        };
        let found: Vec<Found> = asked.kinds.iter().map(of_kind).collect();
        if std::mem::take(&mut is_first) {
            asked.check(client, &found, namespace).await?;
            for (kind, (heading, word)) in asked.kinds.iter().flat_map(|kind| TO_COME.map(|word| (kind, word))) {
                show.make_room(kind, heading, &[word.to_owned()]);
            }
        }
        let mut text = String::new();
        for found in &found {
            text.push_str(&show.more(&found.kind, &found.objects)?);
        }
        if !text.is_empty() && !output::raw(text.as_bytes())? {
            break;
        }
    }
    Ok(Exit::Success)
}

/// That there is nothing, and where there is something, if there is.
async fn nothing(client: &Client, args: &GetArgs, asked: &[Asked]) -> anyhow::Result<String> {
    let mut kinds = asked.iter().flat_map(|asked| &asked.kinds);
    let namespace = args.places.namespace().filter(|_| kinds.any(|kind| kind.namespaced));
    let Some(namespace) = namespace else { return Ok("No resources found".to_owned()) };
    let mut others: Vec<String> = Vec::new();
    for kind in asked.iter().flat_map(|asked| &asked.kinds) {
        let all = client.list(kind.resource, None).await?;
        others.extend(
            all.iter()
                .filter(|object| kind.is_kind_of(object))
                .map(|object| cells::text(&object["metadata"]["namespace"])),
        );
    }
    others.retain(|other| other != namespace);
    others.sort();
    others.dedup();
    let hint = match &others[..] {
        [] => String::new(),
        [one] => format!("; there are some in {one}: add -n {one}"),
        _ => format!("; there are some in {}: add -A", others.join(", ")),
    };
    Ok(format!("No resources found in {namespace} namespace{hint}"))
}
