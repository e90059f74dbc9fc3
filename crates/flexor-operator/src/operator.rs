//! Puts the operator together: client, caches, one loop per kind, probes.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::{BoxFuture, select_all};
use futures::{FutureExt, StreamExt};
use kube::api::DynamicObject;
use kube::runtime::applier;
use kube::runtime::controller::{Action, Config};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, ResourceExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::executor::Shared;
use crate::kinds::{self, ServedKind};
use crate::metrics::Metrics;
use crate::owned_objects::{JobRef, OwnedObjects};
use crate::plans::{self, PlanKind};
use crate::reconcile::{self, JobKind, Jobs};
use crate::recorder::Recorder;
use crate::watches::{self, Gone, Queues};
use crate::{OperatorError, Options, probes};

/// A reconciliation never fails; an error of the library itself is tried again after this.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Runs the operator until `shutdown` is done.
///
/// # Errors
///
/// No cluster is configured, the API server refuses us, or the port is taken.
pub async fn run(options: Options, shutdown: impl Future<Output = ()>) -> Result<(), OperatorError> {
    let mut config = kube::Config::infer().await?;
    // A request that fails is decided again; a client that repeats it inside would only hide that.
    config.default_retry = false;
    let client = Client::try_from(config)?;
    let shared = Arc::new(Shared {
        client: client.clone(),
        image: options.image,
        pods: OwnedObjects::default(),
        services: OwnedObjects::default(),
        recorder: Recorder::start(client.clone()),
        metrics: Metrics::default(),
    });
    let ready = Arc::new(AtomicBool::new(false));
    let http = probes::serve(options.http, Arc::clone(&shared), Arc::clone(&ready)).await?;
    tracing::info!(%http, "probes and metrics");
    tokio::select! {
        ended = serve(client, shared, &ready) => ended,
        () = shutdown => Ok(()),
    }
}

async fn serve(client: Client, shared: Arc<Shared>, ready: &AtomicBool) -> Result<(), OperatorError> {
    let (plan_kinds, job_kinds): (Vec<ServedKind>, Vec<ServedKind>) =
        kinds::await_served(&client).await?.into_iter().partition(ServedKind::is_plan);
    let mut queues = Queues::default();
    let mut receivers = HashMap::new();
    for kind in &job_kinds {
        let (sender, receiver) = mpsc::unbounded_channel();
        queues.add(kind, sender);
        receivers.insert(kind.resource.clone(), receiver);
    }
    let all_jobs: Vec<Jobs> = job_kinds.iter().map(|_| Jobs::default()).collect();
    let forget_pods = {
        let all_jobs = all_jobs.clone();
        move |gone: Gone<'_>| match gone {
            Gone::Pod(pod) => {
                let (name, owners) = (pod.name_any(), pod.owner_references());
                for (owner, jobs) in owners.iter().flat_map(|owner| all_jobs.iter().map(move |jobs| (owner, jobs))) {
                    jobs.pods_gone(Some((&owner.uid, &name)));
                }
            }
            Gone::Any => all_jobs.iter().for_each(|jobs| jobs.pods_gone(None)),
        }
    };
    let pods = watches::watch_pods(Arc::clone(&shared), queues.clone(), forget_pods);
    let services = watches::watch_services(Arc::clone(&shared), queues.clone());

    let mut plan_stores: HashMap<&'static str, (ServedKind, Store<DynamicObject>)> = HashMap::new();
    let mut plan_queues = HashMap::new();
    for kind in &plan_kinds {
        let Some(job_kind) = job_kinds.iter().find(|job| job.kind.dialect == kind.kind.dialect) else { continue };
        let (sender, receiver) = mpsc::unbounded_channel();
        let (queues, resource, of_jobs) = (queues.clone(), kind.resource.clone(), job_kind.resource.clone());
        let push_job = move |plan: &DynamicObject| {
            let (Some(namespace), Some(name)) = (plan.namespace(), plans::owner_job(plan)) else { return };
            let (api_version, kind) = (of_jobs.api_version.clone(), of_jobs.kind.clone());
            queues.push(&JobRef { api_version, kind, namespace, name: name.to_owned() });
        };
        let push_both = {
            let push_job = push_job.clone();
            move |plan: &DynamicObject| {
                push_job(plan);
                let _ = sender.send(ObjectRef::from_obj_with(plan, resource.clone()));
            }
        };
        let store = watches::watch_kind(client.clone(), kind, push_both, push_job);
        plan_stores.insert(kind.kind.dialect, (kind.clone(), store));
        plan_queues.insert(kind.kind.dialect, receiver);
    }

    let mut stores = Vec::new();
    let mut loops: Vec<BoxFuture<'static, ()>> = Vec::new();
    for (kind, jobs) in job_kinds.iter().zip(all_jobs) {
        let (queues, resource, forgotten) = (queues.clone(), kind.resource.clone(), jobs.clone());
        let push = move |object: &DynamicObject| {
            let (Some(namespace), name) = (object.namespace(), object.name_any()) else { return };
            let (api_version, kind) = (resource.api_version.clone(), resource.kind.clone());
            queues.push(&JobRef { api_version, kind, namespace, name });
        };
        let forget = move |object: &DynamicObject| forgotten.forget(&object.uid().unwrap_or_default());
        let store = watches::watch_kind(client.clone(), kind, push, forget);
        stores.push(store.clone());
        let plans = plan_stores.get(kind.kind.dialect).cloned();
        if let (Some((plan_kind, plan_store)), Some(receiver)) = (&plans, plan_queues.remove(kind.kind.dialect)) {
            stores.push(plan_store.clone());
            let context = PlanKind {
                shared: Arc::clone(&shared),
                kind: plan_kind.clone(),
                job_kind: kind.clone(),
                jobs: store.clone(),
            };
            loops.push(run_loop(plans::reconcile, context, plan_store.clone(), receiver));
        }
        let context = JobKind { shared: Arc::clone(&shared), kind: kind.clone(), plans, jobs };
        let receiver = receivers.remove(&kind.resource).expect("every kind of jobs has a queue");
        loops.push(run_loop(reconcile::reconcile, context, store, receiver));
    }

    let _ = tokio::join!(pods, services);
    for store in &stores {
        // An error means that the watch has ended, and then the loop ends as well.
        let _ = store.wait_until_ready().await;
    }
    ready.store(true, Ordering::Relaxed);
    for kind in job_kinds.iter().chain(&plan_kinds) {
        tracing::info!(kind = kind.resource.kind, api_version = kind.resource.api_version, "serving");
    }
    select_all(loops).await;
    Ok(())
}

/// Reconciles what is queued, one object at most once at a time. Nothing runs before the future is polled.
fn run_loop<C, F>(
    reconcile: fn(Arc<DynamicObject>, Arc<C>) -> F,
    context: C,
    store: Store<DynamicObject>,
    queue: mpsc::UnboundedReceiver<ObjectRef<DynamicObject>>,
) -> BoxFuture<'static, ()>
where
    C: Send + Sync + 'static,
    F: Future<Output = Result<Action, Infallible>> + Send + 'static,
{
    let queue = UnboundedReceiverStream::new(queue).map(Ok::<_, Infallible>);
    let boxed = move |object, context| Box::pin(reconcile(object, context));
    let retry = |_, _: &Infallible, _| Action::requeue(RETRY_AFTER);
    let done = applier(boxed, retry, Arc::new(context), store, queue, Config::default());
    // An object that is gone by the time of its turn is no error.
    done.for_each(|_| async {}).boxed()
}
