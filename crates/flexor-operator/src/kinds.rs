//! Which kinds the operator serves: those that the cluster has and that its service account may watch.
//!
//! Every overlay starts the same command, so nobody lists kinds twice.

use std::time::Duration;

use flexor_dialects::{Dialect, Kind, dialect};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::discovery::ApiResource;
use kube::{Api, Client};

/// How long kinds that may be watched have to appear: they are installed together with the operator.
const APPEAR_WITHIN: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_secs(1);

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
pub(crate) async fn await_served(client: &Client) -> Result<Vec<ServedKind>, kube::Error> {
    let mut permitted = Vec::new();
    for kind in flexor_dialects::kinds() {
        let resource = resource(kind);
        if let Some(dialect) = dialect(kind.dialect)
            && may_watch(client, &resource).await?
        {
            permitted.push(ServedKind { kind, dialect, resource });
        }
    }
    if permitted.is_empty() {
        tracing::warn!("this account may watch none of the kinds; install an overlay: kubectl apply -k deploy/default");
    }
    let began = tokio::time::Instant::now();
    let mut is_told = false;
    loop {
        let mut served = Vec::new();
        for kind in &permitted {
            if is_served(client, &kind.resource).await? {
                served.push(kind.clone());
            }
        }
        let is_complete = !permitted.is_empty() && served.len() == permitted.len();
        if is_complete || (!served.is_empty() && began.elapsed() >= APPEAR_WITHIN) {
            return Ok(served);
        }
        if served.is_empty() && began.elapsed() >= APPEAR_WITHIN && !is_told {
            tracing::warn!("the cluster serves none of the kinds; install them: flexor crd | kubectl apply -f -");
            is_told = true;
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
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
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
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
