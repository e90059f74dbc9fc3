//! `flexor apply`: sends accepted jobs, plans and other objects to the cluster, each with its manifest.

use std::path::PathBuf;

use flexor_local::api::{Client, Outcome, Resource};
use flexor_local::objects::Object;
use flexor_model::{DnsLabel, Job};
use serde_json::Value;

use super::args::{ApplyArgs, USUAL_NAMESPACE};
use super::{Refusal, cells, kinds};
use crate::exit::Exit;
use crate::output;
use crate::run::manifests::{self, Manifests};

pub async fn run(client: &Client, args: &ApplyArgs) -> anyhow::Result<Exit> {
    let files: Vec<PathBuf> = args.files.iter().chain(&args.named_files).cloned().collect();
    let Some(manifests) = manifests::read(&files) else { return Ok(Exit::Failure) };
    apply_manifests(client, manifests, args.namespace.as_ref()).await
}

/// Applies objects to the cluster. Objects without a namespace get the one of `-n`.
pub async fn apply_manifests(client: &Client, manifests: Manifests, typed: Option<&DnsLabel>) -> anyhow::Result<Exit> {
    for (object, manifest) in manifests.objects {
        let object = in_namespace(object, typed, manifest)?;
        let outcome = client.apply_object(&object).await?;
        print_outcome(&object.manifest, outcome)?;
    }
    for (mut job, manifest) in manifests.jobs {
        job.namespace = namespace(typed, job.namespace, &manifest)?;
        let outcome = client.apply_job(&job, &manifest).await?;
        print_outcome(&manifest, outcome)?;
        if outcome == Outcome::Configured {
            output::note(&effect(client, &job).await?);
        }
    }
    for (mut plan, manifest) in manifests.plans {
        plan.namespace = namespace(typed, plan.namespace, &manifest)?;
        let outcome = client.apply_plan(&plan, &manifest).await?;
        print_outcome(&manifest, outcome)?;
    }
    Ok(Exit::Success)
}

/// A note about which changes of a job take effect, and when.
async fn effect(client: &Client, job: &Job) -> anyhow::Result<String> {
    let name = job.name.as_str();
    let namespace = job.namespace.as_ref().map_or(USUAL_NAMESPACE, DnsLabel::as_str);
    let jobs = client.list(Resource::Jobs, Some(namespace)).await?;
    let known = jobs.iter().find(|known| known["metadata"]["name"] == *name);
    let phase = known.map(|known| cells::text(&known["status"]["phase"]).to_lowercase()).unwrap_or_default();
    Ok(match phase.as_str() {
        "succeeded" | "failed" => format!("note: {name} is over and does not run again; delete it and then apply it"),
        _ => format!(
            "note: sizes of roles and the suspension of {name} change at once; other changes apply to pods created \
             from now on, and `flexor delete pod NAME` replaces a pod"
        ),
    })
}

/// Moves an object into the namespace of `-n`, if its kind is namespaced and its manifest names none.
fn in_namespace(object: Object, typed: Option<&DnsLabel>, mut manifest: Value) -> anyhow::Result<Object> {
    if !object.key.kind.is_namespaced() {
        return Ok(object);
    }
    let named = (!manifest["metadata"]["namespace"].is_null()).then(|| object.key.namespace.clone()).flatten();
    let Some(namespace) = namespace(typed, named, &manifest)? else { return Ok(object) };
    manifest["metadata"]["namespace"] = namespace.as_str().into();
    match Object::read(&manifest) {
        Some(Ok(object)) => Ok(object),
        Some(Err(_)) | None => Ok(object),
    }
}

/// The namespace of the manifest, or the one of `-n`. They must not differ.
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

/// Prints the outcome for an object, as kubectl does.
pub fn print_outcome(manifest: &Value, outcome: Outcome) -> anyhow::Result<()> {
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

/// Validates an object that a verb has created, and applies it.
pub async fn apply_object(client: &Client, object: &Value) -> anyhow::Result<Outcome> {
    use flexor_dialects::manifest::{Subject, Verdict, check};
    let bytes = serde_json::to_vec(object)?;
    let Some(document) = check(&bytes).documents.into_iter().next() else {
        return super::refuse("the object is empty");
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
        Verdict::Skipped => super::refuse(format!("{} is not a Flexor kind", document.kind)),
    }
}

/// A finding without its position, because the user has not written the document.
fn in_words(finding: &flexor_dialects::Finding) -> String {
    format!("{} {}", finding.field, finding.message)
}
