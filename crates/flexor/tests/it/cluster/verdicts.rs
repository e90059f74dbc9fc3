//! Checks that `flexor validate` and the API server agree about every manifest of `testdata/`.
//!
//! A real API server with all kinds installed judges each manifest in a dry run.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    thread,
};

use flexor_testbed::{TestNamespace, cluster_or_skip};

use super::{
    installed::with_all_kinds,
    manifests::{ManifestFile, manifests_below},
};

/// kubectl is started once per file; more at a time than this only queue for the two cores.
const AT_ONCE: usize = 4;

/// kubectl's refusal of each manifest, if any.
fn ask(namespace: &TestNamespace<'_>, manifests: &[ManifestFile]) -> Vec<Option<String>> {
    let answers = Arc::new(Mutex::new(vec![None; manifests.len()]));
    thread::scope(|scope| {
        for first in 0..AT_ONCE {
            let answers = Arc::clone(&answers);
            scope.spawn(move || {
                for (i, manifest) in manifests.iter().enumerate().skip(first).step_by(AT_ONCE) {
                    let answer = refusal(namespace, &manifest.path);
                    answers.lock().unwrap()[i] = answer;
                }
            });
        }
    });
    Arc::into_inner(answers).unwrap().into_inner().unwrap()
}

fn refusal(namespace: &TestNamespace<'_>, path: &Path) -> Option<String> {
    let output = namespace.kubectl(["create", "--dry-run=server", "-f", path.to_str().unwrap()]).output().unwrap();
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_refuses_every_bad_manifest_marked_both() {
    let cluster = with_all_kinds(cluster_or_skip!()).await;
    let namespace = cluster.namespace("bad").await.unwrap();
    let mut manifests = manifests_below("testdata/bad");
    manifests.retain(|manifest| manifest.headline().starts_with("# both: "));
    assert!(manifests.len() > 60, "only {} manifests", manifests.len());
    let answers = ask(&namespace, &manifests);
    for (manifest, answer) in manifests.iter().zip(answers) {
        let Some(answer) = answer else {
            panic!("{}: accepted, though {}", manifest.path.display(), manifest.headline())
        };
        // It must be the manifest that is wrong, and not the cluster.
        let judged = [
            "invalid",
            "Invalid",
            "unknown field",
            "no matches for kind",
            "resource name may not be empty",
            "error parsing",
            "unable to decode",
            "cannot be handled",
            "must be specified",
            "cannot unmarshal",
        ];
        assert!(judged.iter().any(|word| answer.contains(word)), "{}: {answer}", manifest.path.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_accepts_what_we_accept() {
    let cluster = with_all_kinds(cluster_or_skip!()).await;
    let namespace = cluster.namespace("good").await.unwrap();
    let manifests: Vec<_> = ["testdata/warned", "testdata/published"].into_iter().flat_map(manifests_below).collect();
    for (manifest, answer) in manifests.iter().zip(ask(&namespace, &manifests)) {
        assert_eq!(answer, None, "{}", manifest.path.display());
    }
}
