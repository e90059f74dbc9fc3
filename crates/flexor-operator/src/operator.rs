//! Puts the operator together: client, caches, one loop per kind, probes.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Service;
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;
use kube::runtime::applier;
use kube::runtime::controller::{Action, Config};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, ResourceExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::executor::Shared;
use crate::job_tokens::JobTokens;
use crate::kinds::{self, ServedKind};
use crate::metrics::Metrics;
use crate::nodes::{self, Nodes};
use crate::owned_objects::{JobRef, OwnedObjects};
use crate::planning::{self, Planning};
use crate::plans::{self, PlanKind, WarnedEdits};
use crate::reconcile::{self, JobKind, Jobs};
use crate::recorder::Recorder;
use crate::watches::{self, Gone, Queues, Tasks};
use crate::{OperatorError, Options, own_image, probes};

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
    // Only watches are quiet for long, and they are opened again more often than that.
    (config.read_timeout, config.reset_reader_on_write) = (Some(watches::READ_TIMEOUT), true);
    let controller = config.default_namespace.clone();
    let client = Client::try_from(config)?;
    let image = match options.image {
        Some(image) => image,
        None => own_image::find(&client, &controller).await?,
    };
    tracing::info!(controller, image, "starts");
    let tokens = JobTokens::load(&client, &controller).await?;
    let metrics = Metrics::default();
    let (recorder, publishing) = Recorder::new(client.clone(), metrics.dropped_events.clone());
    let shared = Arc::new(Shared {
        client: client.clone(),
        image,
        controller,
        pods: OwnedObjects::default(),
        services: OwnedObjects::default(),
        nodes: Nodes::default(),
        planning: Planning::default(),
        recorder,
        tokens,
        feeds_masters: options.feeds_masters,
        metrics,
        actions_left: options.abort_after.map(AtomicU64::new),
    });
    let ready = Arc::new(AtomicBool::new(false));
    let http = probes::serve(options.http, Arc::clone(&shared), Arc::clone(&ready)).await?;
    tracing::info!(%http, "probes and metrics");
    let mut beside = Tasks::new();
    beside.spawn(async move {
        publishing.await;
        "the task that publishes events"
    });
    let serving = async {
        loop {
            serve(client.clone(), Arc::clone(&shared), &ready).await?;
        }
    };
    tokio::select! {
        ended = serving => ended,
        ended = first_to_end(&mut beside) => Err(ended),
        () = shutdown => {
            tracing::info!("ends");
            Ok(())
        }
    }
}

/// The first task that ends, which none should.
async fn first_to_end(tasks: &mut Tasks) -> OperatorError {
    match tasks.join_next().await {
        Some(Ok(task)) => OperatorError::TaskEnded(format!("{task} has ended")),
        Some(Err(panic)) => OperatorError::TaskEnded(panic.to_string()),
        None => std::future::pending().await,
    }
}

/// Serves the kinds that there are. Returns when there are more: then everything begins anew, as in a new process.
async fn serve(client: Client, shared: Arc<Shared>, ready: &AtomicBool) -> Result<(), OperatorError> {
    ready.store(false, Ordering::Relaxed);
    let served = kinds::await_served(&client).await?;
    let (plan_kinds, job_kinds): (Vec<ServedKind>, Vec<ServedKind>) =
        served.iter().cloned().partition(ServedKind::is_plan);
    let mut tasks = Tasks::new();
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
    let pods = watches::watch_pods(Arc::clone(&shared), queues.clone(), &mut tasks, forget_pods);
    let forget_services = {
        let all_jobs = all_jobs.clone();
        move |gone: Option<&PartialObjectMeta<Service>>| match gone {
            Some(service) => {
                let (name, owners) = (service.name_any(), service.owner_references());
                for (owner, jobs) in owners.iter().flat_map(|owner| all_jobs.iter().map(move |jobs| (owner, jobs))) {
                    jobs.services_gone(Some((&owner.uid, &name)));
                }
            }
            None => all_jobs.iter().for_each(|jobs| jobs.services_gone(None)),
        }
    };
    let services = watches::watch_services(Arc::clone(&shared), queues.clone(), &mut tasks, forget_services);
    let nodes = nodes::watch_nodes(Arc::clone(&shared), queues.clone(), &mut tasks);

    let mut plan_stores: HashMap<&'static str, (ServedKind, Store<DynamicObject>, WarnedEdits)> = HashMap::new();
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
        let warned = WarnedEdits::default();
        let on_gone = {
            let warned = warned.clone();
            move |plan: &DynamicObject| {
                push_job(plan);
                let gone = plan.uid().unwrap_or_default();
                warned.retain(|known| known != gone);
            }
        };
        let on_list = {
            let warned = warned.clone();
            move |all: &HashSet<String>| warned.retain(|known| all.contains(known))
        };
        let store = watches::watch_kind(client.clone(), kind, &mut tasks, push_both, on_gone, on_list);
        plan_stores.insert(kind.kind.dialect, (kind.clone(), store, warned));
        plan_queues.insert(kind.kind.dialect, receiver);
    }

    let mut stores = Vec::new();
    let mut job_stores = Vec::new();
    let mut loops = Vec::new();
    for (kind, jobs) in job_kinds.iter().zip(all_jobs) {
        let (to_queue, resource, forgotten) = (queues.clone(), kind.resource.clone(), jobs.clone());
        let push = move |object: &DynamicObject| {
            let (Some(namespace), name) = (object.namespace(), object.name_any()) else { return };
            let (api_version, kind) = (resource.api_version.clone(), resource.kind.clone());
            to_queue.push(&JobRef { api_version, kind, namespace, name });
        };
        let of_planner = Arc::clone(&shared);
        let forget = move |object: &DynamicObject| {
            let uid = object.uid().unwrap_or_default();
            forgotten.forget(&uid);
            of_planner.planning.remove(&uid);
        };
        let (all_known, of_planner, resource) = (jobs.clone(), Arc::clone(&shared), kind.resource.clone());
        let on_list = move |all: &HashSet<String>| {
            all_known.retain(all);
            of_planner.planning.retain(&resource, all);
        };
        let store = watches::watch_kind(client.clone(), kind, &mut tasks, push, forget, on_list);
        stores.push(store.clone());
        job_stores.push(store.clone());
        let plans = plan_stores.get(kind.kind.dialect).cloned();
        if let (Some((plan_kind, plan_store, warned)), Some(receiver)) = (&plans, plan_queues.remove(kind.kind.dialect))
        {
            stores.push(plan_store.clone());
            let context = PlanKind {
                shared: Arc::clone(&shared),
                kind: plan_kind.clone(),
                job_kind: kind.clone(),
                jobs: store.clone(),
                warned: warned.clone(),
            };
            loops.push(run_loop(plans::reconcile, context, plan_store.clone(), receiver));
        }
        let (shared, queues) = (Arc::clone(&shared), queues.clone());
        let plans = plans.map(|(kind, store, _)| (kind, store));
        let context = JobKind { shared, queues, kind: kind.clone(), plans, jobs };
        let receiver = receivers.remove(&kind.resource).expect("every kind of jobs has a queue");
        loops.push(run_loop(reconcile::reconcile, context, store, receiver));
    }

    let complete = async {
        // An error means that a watch has ended.
        let _ = tokio::join!(pods, services, nodes);
        for store in &stores {
            let _ = store.wait_until_ready().await;
        }
    };
    tokio::select! {
        () = complete => {}
        ended = first_to_end(&mut tasks) => return Err(ended),
    }
    ready.store(true, Ordering::Relaxed);
    for kind in job_kinds.iter().chain(&plan_kinds) {
        tracing::info!(kind = kind.resource.kind, api_version = kind.resource.api_version, "serving");
    }
    tasks.spawn(planning::run(Arc::clone(&shared), queues.clone(), job_stores));
    for one in loops {
        tasks.spawn(async move {
            one.await;
            "the loop over the jobs or plans of a kind"
        });
    }
    tokio::select! {
        () = kinds::await_more(&client, &served) => Ok(()),
        ended = first_to_end(&mut tasks) => Err(ended),
    }
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
