//! A job on a test cluster: API server, scheduler and controller manager are real, and kwok plays the nodes.

use flexor_dialects::dlrover::{ElasticJob, ScalePlan};
use flexor_engine::controller::{JobStatus, PlanStatus, PodPhase};
use flexor_engine::render::{RANK_LABEL, ROLE_LABEL};
use flexor_model::{IdRule, Job, Plan, RoleKind};
use flexor_testbed::{Cluster, TestNamespace, await_condition, stages};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;

use super::super::jobs::apply;
use super::PATIENCE;
use crate::cluster::installed::succeed;
use crate::model::history::Act;
use crate::model::job_of_manifest;
use crate::model::plan::{migration_of, plan_for};
use crate::model::pure::State;

const NAME: &str = "m";
const NOW: &str = "0s";
/// What the exit code of a program is that SIGKILL has ended.
const KILLED: i32 = 137;

pub struct JobOnCluster<'a> {
    namespace: TestNamespace<'a>,
    job: Job,
    plans: usize,
}

impl<'a> JobOnCluster<'a> {
    /// A job of two workers, in a namespace of its own.
    pub async fn create(cluster: &'a Cluster, ids: IdRule) -> Self {
        let namespace = cluster.namespace("model").await.unwrap();
        let manifest = manifest(ids);
        let job = job_of_manifest(&manifest);
        apply(&namespace, &manifest);
        let created = Self { namespace, job, plans: 0 };
        assert_eq!(created.ids(), ids);
        created
    }

    pub fn job(&self) -> &Job {
        &self.job
    }

    /// How its workers get their ids.
    pub fn ids(&self) -> IdRule {
        self.job.role(RoleKind::Worker).unwrap().naming.ids
    }

    pub fn namespace(&self) -> &str {
        self.namespace.name()
    }

    pub async fn act(&mut self, act: &Act) {
        match act {
            Act::Exit(rank, 0) => self.end(*rank, &[(stages::COMPLETE_AFTER, NOW)]).await,
            Act::Exit(rank, code) => self.fail(*rank, *code).await,
            Act::Kill(rank) => self.fail(*rank, KILLED).await,
            Act::Lose(rank) => self.end(*rank, &[(stages::EVICT_AFTER, NOW)]).await,
            Act::Delete(rank) => {
                let pod = self.worker(*rank).await.name_any();
                succeed(&mut self.namespace.kubectl(["delete", "pod", "--wait=false", &pod]));
            }
            Act::Scale(workers) => self.apply_plan(&plan_for(&self.job, self.plans, *workers)),
            Act::Migrate(rank) => {
                let pod = self.worker(*rank).await.name_any();
                self.apply_plan(&migration_of(&self.job, self.plans, &pod));
            }
        }
    }

    fn apply_plan(&mut self, plan: &Plan) {
        let dialect = flexor_dialects::dialect(&self.job.dialect).unwrap();
        let manifest = dialect.plan_manifest(plan, &self.namespace.name().parse().unwrap()).unwrap();
        apply(&self.namespace, &manifest.to_string());
        self.plans += 1;
    }

    async fn fail(&self, rank: u32, code: i32) {
        self.end(rank, &[(stages::FAIL_AFTER, NOW), (stages::EXIT_CODE, &code.to_string())]).await;
    }

    /// Has the node end the pod of a worker, as annotations say, and waits until it has.
    async fn end(&self, rank: u32, annotations: &[(&str, &str)]) {
        let pod = self.worker(rank).await;
        let (name, uid) = (pod.name_any(), pod.uid());
        let annotations = annotations.iter().map(|(key, value)| format!("{key}={value}"));
        let words = ["annotate", "pod", &name].map(str::to_owned).into_iter().chain(annotations);
        succeed(&mut self.namespace.kubectl(words));
        // The operator may have replaced it under its name by then.
        let has_ended = |pod: Option<&Pod>| pod.is_none_or(|pod| pod.uid() != uid || phase(pod) != PodPhase::Running);
        await_condition(PATIENCE, self.namespace.api::<Pod>(), &name, "the end of its program", has_ended)
            .await
            .unwrap();
    }

    /// The pod of a worker, which runs.
    async fn worker(&self, rank: u32) -> Pod {
        let role = &self.job.role(RoleKind::Worker).unwrap().name;
        let labels = ListParams::default().labels(&format!("{ROLE_LABEL}={role},{RANK_LABEL}={rank}"));
        let pods = self.namespace.api::<Pod>().list(&labels).await.unwrap();
        let runs = |pod: &Pod| phase(pod) == PodPhase::Running && pod.metadata.deletion_timestamp.is_none();
        pods.into_iter().find(runs).unwrap_or_else(|| panic!("no worker {rank} runs"))
    }

    /// What the API server shows of it. None before the operator has taken it up.
    pub async fn state(&self) -> Option<State> {
        let all = ListParams::default();
        let job = self.namespace.api::<ElasticJob>().get(NAME).await.unwrap();
        let status: JobStatus = job.status?.flexor?.try_into().unwrap();
        let mut plans = self.namespace.api::<ScalePlan>().list(&all).await.unwrap().items;
        // By their numbers.
        plans.sort_by_key(|plan| (plan.name_any().len(), plan.name_any()));
        let plans: Vec<PlanStatus> = plans.iter().map(|plan| self.plan_status(plan)).collect();
        let pods = self.namespace.api::<Pod>().list(&all).await.unwrap();
        let pods = pods.items.iter().map(|pod| {
            let going = if pod.metadata.deletion_timestamp.is_some() { " going" } else { "" };
            (format!("{}{going}", pod.name_any()), phase(pod))
        });
        Some(State::of(&status, plans.iter(), pods))
    }

    fn plan_status(&self, plan: &ScalePlan) -> PlanStatus {
        let dialect = flexor_dialects::dialect(&self.job.dialect).unwrap();
        dialect.read_plan_status(&serde_json::to_value(&plan.status).unwrap())
    }
}

fn phase(pod: &Pod) -> PodPhase {
    match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        Some(_) | None => PodPhase::Pending,
    }
}

/// The strategy decides whether a replacement has the name of the pod that it replaces.
fn manifest(ids: IdRule) -> String {
    let strategy = match ids {
        IdRule::Rank => "AllreduceStrategy",
        IdRule::Increasing => "CustomStrategy",
    };
    format!(
        "
apiVersion: elastic.iml.github.io/v1alpha1
kind: ElasticJob
metadata: {{name: {NAME}}}
spec:
  distributionStrategy: {strategy}
  optimizeMode: manual
  replicaSpecs:
    worker:
      replicas: 2
      template: {{spec: {{containers: [{{name: main, image: x, command: [torchrun, train.py]}}]}}}}
"
    )
}
