//! The operator is killed, and jobs lack what they need.

use flexor_testbed::{ClusterConfig, cluster_or_skip};

use super::jobs::{ALL_REDUCE, apply, await_running, eventually, get, served};
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
