//! `flexor get`: lists objects, and watches them with `-w`.

use flexor_local::api::Client;

use super::args::GetArgs;
use super::fetch::{self, KindObjects, Selection};
use super::show::ObjectPrinter;
use super::{cells, refuse};
use crate::exit::Exit;
use crate::output;

/// Columns and their likely later values, to reserve the width of watched tables.
const LATER_VALUES: [(&str, &str); 2] = [("STATUS", "Terminating"), ("PHASE", "Succeeded")];

pub async fn run(client: &Client, args: &GetArgs) -> anyhow::Result<Exit> {
    let selections = fetch::selections(client, &args.words, args.namespaces.namespace()).await?;
    if args.watch {
        return watch(client, args, &selections).await;
    }
    let mut found = Vec::new();
    for selection in &selections {
        found.extend(fetch::objects(client, selection, args.namespaces.namespace(), &args.selector).await?);
    }
    if found.iter().all(|found| found.objects.is_empty()) {
        output::note(&no_resources(client, args, &selections).await?);
        if !matches!(args.output, Some(super::args::ObjectFormat::Json | super::args::ObjectFormat::Yaml)) {
            return Ok(Exit::Success);
        }
    }
    let several = found.iter().filter(|found| !found.objects.is_empty()).count() > 1;
    let is_one = selections.len() == 1 && selections.iter().all(|selection| selection.names.len() == 1);
    output::text(
        &ObjectPrinter::new(args.output, args.namespaces.all_namespaces, several).everything(&found, is_one)?,
    )?;
    Ok(Exit::Success)
}

/// Prints all objects, then a row for every change. A removed object is printed once more in its last state.
async fn watch(client: &Client, args: &GetArgs, selections: &[Selection]) -> anyhow::Result<Exit> {
    let [selection] = selections else { return refuse("only one kind can be watched at a time") };
    let mut resources: Vec<_> = selection.kinds.iter().map(|kind| kind.resource).collect();
    resources.dedup();
    let [resource] = resources[..] else { return refuse("only one kind can be watched at a time") };
    let namespace = args.namespaces.namespace();
    let mut changes = client.watch(resource, namespace).await?;
    let mut show = ObjectPrinter::new(args.output, args.namespaces.all_namespaces, false);
    let mut is_first = true;
    while let Some(batch) = changes.next().await? {
        let of_kind = |kind: &super::kinds::ObjectKind| KindObjects {
            kind: kind.clone(),
            objects: batch
                .iter()
                .map(|change| &change.object)
                .filter(|object| kind.is_kind_of(object) && selection.selects(object, &args.selector))
                .cloned()
                .collect(),
        };
        let found: Vec<KindObjects> = selection.kinds.iter().map(of_kind).collect();
        if std::mem::take(&mut is_first) {
            selection.check(client, &found, namespace).await?;
            for kind in &selection.kinds {
                for (heading, value) in LATER_VALUES {
                    show.make_room(kind, heading, &[value.to_owned()]);
                }
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

/// The message that no object was found, with the namespaces that have some.
async fn no_resources(client: &Client, args: &GetArgs, selections: &[Selection]) -> anyhow::Result<String> {
    let mut kinds = selections.iter().flat_map(|selection| &selection.kinds);
    let namespace = args.namespaces.namespace().filter(|_| kinds.any(|kind| kind.namespaced));
    let Some(namespace) = namespace else { return Ok("No resources found".to_owned()) };
    let mut others: Vec<String> = Vec::new();
    for kind in selections.iter().flat_map(|selection| &selection.kinds) {
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
