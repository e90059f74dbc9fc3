//! What others do to the objects of a job: edits, deletions, names used again, nodes that are lost.

use flexor_testbed::{ClusterConfig, Component, NodeGroup, TestNamespace, cluster_or_skip};

use super::jobs::{ALL_REDUCE, apply, await_running, eventually, get, running, served, uids};
use super::turn;
use crate::cluster::installed::succeed;

const KIND: &str = "elasticjobs.elastic.iml.github.io";
const ALL: [&str; 3] = ["elasticjob-j-dlrover-master", "j-edljob-worker-0", "j-edljob-worker-1"];

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_lost_node_are_replaced_although_no_kubelet_ends_them() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::with_nodes([NodeGroup::new("a", 1), NodeGroup::new("b", 1)]));
    let operator = served(&cluster).await;
    let namespace = cluster.namespace("lost").await.unwrap();
    apply(
        &namespace,
        &ALL_REDUCE.replace("template: {spec: {", "template: {spec: {terminationGracePeriodSeconds: 1, "),
    );
    await_running(&namespace, &operator, &ALL);
    let before = uids(&namespace);
    let pods = get(&namespace, &["pods"]);
    let node = |name: &str| {
        let pods = pods["items"].as_array().unwrap();
        let pod = pods.iter().find(|pod| pod["metadata"]["name"] == name).unwrap();
        pod["spec"]["nodeName"].as_str().unwrap().to_owned()
    };
    let lost = node("j-edljob-worker-1");
    // kwok would end the pods of a lost node, which no kubelet does.
    cluster.kill(Component::Kwok).unwrap();
    cluster.lose_node(&lost).await.unwrap();
    let of_node: Vec<&str> = ALL.into_iter().filter(|pod| node(pod) == lost && *pod != ALL[0]).collect();
    eventually(
        "other pods in place of those of the lost node",
        || format!("{:?} {}", uids(&namespace), operator.log()),
        || {
            let now = uids(&namespace);
            of_node.iter().all(|pod| now.get(*pod).is_some_and(|uid| *uid != before[*pod])).then_some(())
        },
    );
    assert!(operator.log().contains("it is removed by force"), "{}", operator.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_survive_what_others_do_to_their_objects() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default());
    let operator = served(&cluster).await;
    let (one, two) = (cluster.namespace("one").await.unwrap(), cluster.namespace("two").await.unwrap());

    // The same name in two namespaces.
    apply(&one, ALL_REDUCE);
    apply(&two, ALL_REDUCE);
    await_running(&one, &operator, &ALL);
    await_running(&two, &operator, &ALL);
    let of_two = uids(&two);

    // A pod whose labels somebody removes or changes is not seen any more as what it is: it is replaced, and no other.
    for label in ["flexor.dev/job-uid-", "flexor.dev/rank=nonsense"] {
        let before = uids(&one);
        succeed(&mut one.kubectl(["label", "pod", ALL[1], label, "--overwrite"]));
        eventually(
            "the pod to be replaced",
            || format!("{:?} {}", uids(&one), operator.log()),
            || {
                let now = uids(&one);
                let changed = ALL.iter().filter(|pod| now.get(**pod) != before.get(**pod));
                (running(&one) == ALL && changed.eq([&ALL[1]])).then_some(())
            },
        );
    }

    // Services that somebody deletes come back.
    let services = || {
        let services = get(&one, &["services"]);
        services["items"].as_array().unwrap().len()
    };
    let expected = services();
    assert!(expected > 0);
    succeed(&mut one.kubectl(["delete", "services", "--all"]));
    eventually("the services", || operator.log(), || (services() == expected).then_some(()));

    // Deleted while it scales, and made again under its name within a second.
    apply(&one, &ALL_REDUCE.replace("replicas: 2", "replicas: 12"));
    succeed(&mut one.kubectl(["delete", KIND, "j", "--wait=false"]));
    let uid =
        |namespace: &TestNamespace<'_>| get(namespace, &[KIND, "j"])["metadata"]["uid"].as_str().unwrap().to_owned();
    eventually(
        "the job to go",
        || operator.log(),
        || {
            let listed = get(&one, &[KIND]);
            listed["items"].as_array().unwrap().is_empty().then_some(())
        },
    );
    apply(&one, ALL_REDUCE);
    let anew = uid(&one);
    eventually(
        "only pods of the new job",
        || operator.log(),
        || {
            let pods = get(&one, &["pods"]);
            let pods = pods["items"].as_array().unwrap();
            let is_new = pods.iter().all(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == anew.as_str());
            (is_new && running(&one) == ALL).then_some(())
        },
    );

    // A pod whose owner was removed is nobody's; its name is taken, and the job says so.
    let patch = r#"{"metadata": {"ownerReferences": null}}"#;
    succeed(&mut one.kubectl(["patch", "pod", "j-edljob-worker-1", "--type=merge", "-p", patch]));
    eventually(
        "a word about the pod",
        || operator.log(),
        || operator.log().contains("j-edljob-worker-1 exists and is not of this job").then_some(()),
    );
    succeed(&mut one.kubectl(["delete", "pod", "j-edljob-worker-1"]));
    await_running(&one, &operator, &ALL);

    assert_eq!(uids(&two), of_two, "the job of the same name elsewhere was not touched");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_go_on_after_the_api_server_was_away() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default());
    let mut operator = served(&cluster).await;
    operator.may_be_refused = true;
    let namespace = cluster.namespace("away").await.unwrap();
    apply(&namespace, ALL_REDUCE);
    await_running(&namespace, &operator, &ALL);
    let before = uids(&namespace);
    cluster.kill(Component::ApiServer).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(60));
    cluster.restart(Component::ApiServer).await.unwrap();
    succeed(&mut namespace.kubectl(["delete", "pod", "j-edljob-worker-0"]));
    eventually(
        "the worker to be back",
        || operator.log(),
        || {
            let now = uids(&namespace);
            now.get(ALL[1]).is_some_and(|uid| *uid != before[ALL[1]]).then_some(())
        },
    );
    let now = uids(&namespace);
    assert_eq!((&now[ALL[0]], &now[ALL[2]]), (&before[ALL[0]], &before[ALL[2]]), "the others were not touched");
}
