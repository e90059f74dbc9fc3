//! The operator is killed, and jobs lack what they need.

use std::collections::BTreeMap;

use flexor_testbed::{ClusterConfig, cluster_or_skip};

use super::audit::creations;
use super::jobs::{ALL_REDUCE, PARAMETER_SERVERS, apply, await_running, eventually, get, running, served};
use super::turn;

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_was_killed_goes_on_where_it_was() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default());
    let mut operator = served(&cluster).await;
    let namespace = cluster.namespace("killed").await.unwrap();
    apply(&namespace, ALL_REDUCE);
    let all = ["elasticjob-j-dlrover-master", "j-edljob-worker-0", "j-edljob-worker-1"];
    await_running(&namespace, &operator, &all);
    let uids = |names: &[&str]| -> Vec<_> {
        names.iter().map(|name| get(&namespace, &["pod", name])["metadata"]["uid"].clone()).collect()
    };
    let before = uids(&all);
    operator.restart();
    await_running(&namespace, &operator, &all);
    assert_eq!(uids(&all), before, "a restart of the operator restarts nothing");
    operator.kill();
    apply(&namespace, &ALL_REDUCE.replace("replicas: 2", "replicas: 4"));
    operator.restart();
    await_running(&namespace, &operator, &[all[0], all[1], all[2], "j-edljob-worker-2", "j-edljob-worker-3"]);
    assert_eq!(uids(&all), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_shows_in_the_status_and_the_job_goes_on_when_it_is_lifted() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default());
    let operator = served(&cluster).await;
    let namespace = cluster.namespace("quota").await.unwrap();
    let quota = |pods: u32| {
        format!("{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: q}}, spec: {{hard: {{pods: {pods}}}}}}}")
    };
    apply(&namespace, &quota(2));
    eventually("the quota to hold", String::new, || {
        (!get(&namespace, &["resourcequota", "q"])["status"]["hard"].is_null()).then_some(())
    });
    apply(&namespace, ALL_REDUCE);
    let job = ["elasticjobs.elastic.iml.github.io", "j"];
    let status = || get(&namespace, &job)["status"].clone();
    eventually(
        "the refusal to show",
        || format!("{:#} {}", status(), operator.log()),
        || {
            let message = status()["message"].as_str().unwrap_or_default().to_owned();
            (status()["reason"] == "CreateRefused" && message.contains("exceeded quota")).then_some(())
        },
    );
    apply(&namespace, &quota(5));
    await_running(&namespace, &operator, &["elasticjob-j-dlrover-master", "j-edljob-worker-0", "j-edljob-worker-1"]);
}

/// The audit log says of a request whose client was killed before its answer that it was not answered. So a pod that is
/// there may not be counted, and no pod may be counted more often than it was wanted.
fn assert_created_at_most(created: &BTreeMap<String, u32>, wanted: &BTreeMap<String, u32>) {
    let too_many: Vec<_> =
        created.iter().filter(|(pod, times)| wanted.get(*pod).is_none_or(|most| *times > most)).collect();
    assert!(too_many.is_empty(), "{too_many:?} of {created:?}, wanted {wanted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_killed_after_every_action_reaches_the_same_end_and_creates_no_pod_twice() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default().auditing_service_accounts());
    let mut operator = served(&cluster).await;
    let namespace = cluster.namespace("boundaries").await.unwrap();
    let plan = "{apiVersion: elastic.iml.github.io/v1alpha1, kind: ScalePlan, metadata: {name: more}, spec: {ownerJob: p, replicaResourceSpecs: {worker: {replicas: 2}, ps: {replicas: 1}}}}";
    let of_j = ["elasticjob-j-dlrover-master", "j-edljob-worker-0", "j-edljob-worker-1"];
    let of_p = ["elasticjob-p-dlrover-master", "p-edljob-chief-0", "p-edljob-ps-0", "p-edljob-ps-1"];
    let sorted = |names: &[&[&'static str]]| {
        let mut names = names.concat();
        names.sort_unstable();
        names
    };

    operator.kill();
    apply(&namespace, ALL_REDUCE);
    apply(&namespace, PARAMETER_SERVERS);
    let lives = operator.run_in_short_lives(1);
    assert!(lives > 10, "{lives} lives for more than ten actions");
    assert_eq!(running(&namespace), sorted(&[&of_j, &of_p]));
    let once = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 1)).collect::<BTreeMap<_, _>>();
    assert_created_at_most(&creations(&cluster, namespace.name(), "pods"), &once(&sorted(&[&of_j, &of_p])));

    // A lost pod, an edit and a plan at the same time.
    crate::cluster::installed::succeed(&mut namespace.kubectl(["delete", "pod", "j-edljob-worker-1"]));
    apply(&namespace, &ALL_REDUCE.replace("replicas: 2", "replicas: 3"));
    apply(&namespace, plan);
    operator.run_in_short_lives(1);
    let more = ["j-edljob-worker-2", "p-edljob-worker-0", "p-edljob-worker-1"];
    let all = sorted(&[&of_j, &of_p[..3], &more]);
    assert_eq!(running(&namespace), all);
    assert_eq!(get(&namespace, &["scaleplan", "more"])["status"]["phase"], "Succeeded");
    let mut expected = once(&sorted(&[&of_j, &of_p, &more]));
    expected.insert("j-edljob-worker-1".to_owned(), 2);
    assert_created_at_most(&creations(&cluster, namespace.name(), "pods"), &expected);

    // An operator that lives on finds nothing to do.
    operator.restart();
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(!operator.log().contains(" pod "), "{}", operator.log());
}
