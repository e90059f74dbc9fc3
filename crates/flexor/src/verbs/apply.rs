//! `flexor apply`: what the dialects find good goes to the cluster, with the manifest that it comes from.

use flexor_local::api::{Client, Outcome, Resource};
use flexor_local::objects::Object;
use flexor_model::{DnsLabel, Job};
use serde_json::Value;

use super::args::{ApplyArgs, USUAL_NAMESPACE};
use super::{Refusal, cells, kinds};
use crate::exit::Exit;
use crate::output;
use crate::run::manifests::{self, Wanted};

pub async fn run(client: &Client, args: &ApplyArgs) -> anyhow::Result<Exit> {
    let Some(wanted) = manifests::read(&args.files) else { return Ok(Exit::Failure) };
    give(client, wanted, args.namespace.as_ref()).await
}

/// Gives what was read to the cluster; what names no namespace goes into the one that was typed.
pub async fn give(client: &Client, wanted: Wanted, typed: Option<&DnsLabel>) -> anyhow::Result<Exit> {
    for (object, manifest) in wanted.objects {
        let object = in_namespace(object, typed, manifest)?;
        let outcome = client.apply_object(&object).await?;
        tell(&object.manifest, outcome)?;
    }
    for (mut job, manifest) in wanted.jobs {
        job.namespace = namespace(typed, job.namespace, &manifest)?;
        let outcome = client.apply_job(&job, &manifest).await?;
        tell(&manifest, outcome)?;
        if outcome == Outcome::Configured {
            output::note(&effect(client, &job).await?);
        }
    }
    for (mut plan, manifest) in wanted.plans {
        plan.namespace = namespace(typed, plan.namespace, &manifest)?;
        let outcome = client.apply_plan(&plan, &manifest).await?;
        tell(&manifest, outcome)?;
    }
    Ok(Exit::Success)
}

/// What comes of a change of a job, and when.
async fn effect(client: &Client, job: &Job) -> anyhow::Result<String> {
    let name = job.name.as_str();
    let namespace = job.namespace.as_ref().map_or(USUAL_NAMESPACE, DnsLabel::as_str);
    let jobs = client.list(Resource::Jobs, Some(namespace)).await?;
    let known = jobs.iter().find(|known| known["metadata"]["name"] == *name);
    let phase = known.map(|known| cells::text(&known["status"]["phase"]).to_lowercase()).unwrap_or_default();
    Ok(match phase.as_str() {
        "succeeded" | "failed" => format!("note: {name} is over, and is not run again; delete it and apply it then"),
        _ => format!(
            "note: sizes of roles, and whether {name} is suspended, change at once; all else holds for pods that are \
             made from now on, and `flexor delete pod NAME` has one made again"
        ),
    })
}

/// An object in the namespace that was typed, where its manifest names none and its kind has them.
fn in_namespace(object: Object, typed: Option<&DnsLabel>, mut manifest: Value) -> anyhow::Result<Object> {
    if !object.key.kind.is_namespaced() {
        return Ok(object);
    }
    let named = (!manifest["metadata"]["namespace"].is_null()).then(|| object.key.namespace.clone()).flatten();
    let Some(place) = namespace(typed, named, &manifest)? else { return Ok(object) };
    manifest["metadata"]["namespace"] = place.as_str().into();
    match Object::read(&manifest) {
        Some(Ok(object)) => Ok(object),
        Some(Err(_)) | None => Ok(object),
    }
}

/// The namespace that the manifest names, or the one that was typed; they must not differ.
pub fn namespace(
    typed: Option<&DnsLabel>,
    named: Option<DnsLabel>,
    manifest: &Value,
) -> anyhow::Result<Option<DnsLabel>> {
    match (named, typed) {
        (Some(named), Some(typed)) if named != *typed => {
            let name = cells::text(&manifest["metadata"]["name"]);
            Err(Refusal(format!("{name} belongs to namespace {named}, not {typed}; leave -n out")).into())
        }
        (named, typed) => Ok(named.or_else(|| typed.cloned())),
    }
}

/// Says what became of an object, as kubectl does.
pub fn tell(manifest: &Value, outcome: Outcome) -> anyhow::Result<()> {
    let word = match outcome {
        Outcome::Created => "created",
        Outcome::Configured => "configured",
        Outcome::Unchanged | Outcome::Unspecified => "unchanged",
    };
    output::text(&format!("{} {word}\n", full_name(manifest)))
}

/// An object as KIND.GROUP/NAME.
pub fn full_name(object: &Value) -> String {
    let kind = kinds::all().into_iter().find(|kind| kind.is_kind_of(object));
    let kind = kind.map_or_else(|| cells::text(&object["kind"]).to_lowercase(), |kind| kind.full_name());
    format!("{kind}/{}", cells::text(&object["metadata"]["name"]))
}

/// Gives an object that was made here to the cluster, judged like any other.
pub async fn judged(client: &Client, object: &Value) -> anyhow::Result<Outcome> {
    use flexor_dialects::manifest::{Subject, Verdict, check};
    let bytes = serde_json::to_vec(object)?;
    let Some(document) = check(&bytes).documents.into_iter().next() else {
        return super::refuse("there is nothing in it");
    };
    match document.verdict {
        Verdict::Accepted { subject, .. } => match *subject {
            Subject::Job(job) => Ok(client.apply_job(&job, object).await?),
            Subject::Plan(plan) => Ok(client.apply_plan(&plan, object).await?),
        },
        Verdict::Refused { findings, .. } => {
            let all: Vec<String> = findings.iter().filter(|one| one.is_error()).map(in_words).collect();
            super::refuse(all.join("; "))
        }
        Verdict::Skipped => super::refuse(format!("{} is none of our kinds", document.kind)),
    }
}

/// A finding without its place: nobody has written the text that it stands in.
fn in_words(finding: &flexor_dialects::Finding) -> String {
    format!("{} {}", finding.field, finding.message)
}
