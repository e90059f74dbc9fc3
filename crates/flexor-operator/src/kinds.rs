//! Which kinds the operator serves: those that the cluster has and that its service account may watch.
//!
//! Every overlay starts the same command, so nobody lists kinds twice. A kind that is installed or permitted later is
//! served as well.

use std::time::Duration;

use flexor_dialects::{Dialect, Kind, dialect};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::discovery::ApiResource;
use kube::{Api, Client, ResourceExt};

use crate::OperatorError;

/// How long kinds that may be watched have to appear: they are installed together with the operator.
const APPEAR_WITHIN: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How often an operator that serves asks for further kinds.
const ASK_FOR_MORE_EVERY: Duration = Duration::from_secs(30);

/// A kind that is served.
#[derive(Clone)]
pub(crate) struct ServedKind {
    pub(crate) kind: &'static Kind,
    pub(crate) dialect: &'static Dialect,
    pub(crate) resource: ApiResource,
}

impl ServedKind {
    /// Whether it is a kind of plans, not of jobs.
    pub(crate) fn is_plan(&self) -> bool {
        self.kind.is_plan
    }
}

/// Waits until the cluster serves a kind that may be watched. Kinds that may be watched get some time to appear.
pub(crate) async fn await_served(client: &Client) -> Result<Vec<ServedKind>, OperatorError> {
    let began = tokio::time::Instant::now();
    let mut is_told = false;
    loop {
        let Found { served, foreign, is_complete } = find(client).await?;
        if !foreign.is_empty() {
            return Err(OperatorError::ForeignKinds(foreign.iter().map(|kind| definition(&kind.resource)).collect()));
        }
        let is_late = began.elapsed() >= APPEAR_WITHIN;
        if is_complete || (!served.is_empty() && is_late) {
            return Ok(served);
        }
        if is_late && !is_told {
            tracing::warn!(
                "the cluster serves no kind that this account may watch; install an overlay: kubectl apply -k deploy/default"
            );
            is_told = true;
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Waits until the cluster serves a kind, and permits to watch it, that is not among these.
pub(crate) async fn await_more(client: &Client, known: &[ServedKind]) {
    loop {
        tokio::time::sleep(ASK_FOR_MORE_EVERY).await;
        let is_new = |kind: &&ServedKind| known.iter().all(|known| known.resource != kind.resource);
        match find(client).await {
            Ok(found) => {
                if let Some(kind) = found.served.iter().find(is_new) {
                    tracing::info!(kind = definition(&kind.resource), "a kind has appeared");
                    return;
                }
            }
            Err(error) => tracing::debug!(%error, "the kinds of the cluster cannot be asked for"),
        }
    }
}

/// The kinds that may be watched and are there.
struct Found {
    served: Vec<ServedKind>,
    /// Those whose definitions are not Flexor's.
    foreign: Vec<ServedKind>,
    /// Every kind that may be watched is there, and some may.
    is_complete: bool,
}

async fn find(client: &Client) -> Result<Found, kube::Error> {
    let mut found = Found { served: Vec::new(), foreign: Vec::new(), is_complete: true };
    for kind in flexor_dialects::kinds() {
        let resource = resource(kind);
        let Some(dialect) = dialect(kind.dialect) else { continue };
        if !may_watch(client, &resource).await? {
            continue;
        }
        if !is_served(client, &resource).await? {
            found.is_complete = false;
            continue;
        }
        let list = if is_ours(client, &resource).await? { &mut found.served } else { &mut found.foreign };
        list.push(ServedKind { kind, dialect, resource });
    }
    found.is_complete &= !found.served.is_empty();
    Ok(found)
}

fn resource(kind: &Kind) -> ApiResource {
    ApiResource {
        group: kind.group.to_owned(),
        version: kind.version.to_owned(),
        api_version: format!("{}/{}", kind.group, kind.version),
        kind: kind.kind.to_owned(),
        plural: kind.crd().spec.names.plural,
    }
}

async fn is_served(client: &Client, resource: &ApiResource) -> Result<bool, kube::Error> {
    match client.list_api_group_resources(&resource.api_version).await {
        Ok(list) => Ok(list.resources.iter().any(|served| served.name == resource.plural)),
        // A group that does not exist is answered with a bare page, whose reason is not NotFound.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

/// The name of a kind's definition.
fn definition(resource: &ApiResource) -> String {
    format!("{}.{}", resource.plural, resource.group)
}

/// Whether the definition of a kind is Flexor's: fields that another lacks would be dropped without a word.
async fn is_ours(client: &Client, resource: &ApiResource) -> Result<bool, kube::Error> {
    let found = Api::<CustomResourceDefinition>::all(client.clone()).get_metadata(&definition(resource)).await?;
    let (key, value) = flexor_dialects::DEFINITION_LABEL;
    Ok(found.labels().get(key).is_some_and(|found| found == value))
}

async fn may_watch(client: &Client, resource: &ApiResource) -> Result<bool, kube::Error> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(resource.group.clone()),
                resource: Some(resource.plural.clone()),
                verb: Some("watch".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
