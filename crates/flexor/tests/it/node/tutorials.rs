//! The pages of the tutorials, each on a cluster of its own.

use std::fs;

use flexor_testbed::{Cluster, nodes_or_skip, skip, torch_or_skip};

use super::fixture::{self, Shell};
use super::page;
use crate::program::root;

/// Follows a page from its first command to its last.
fn follow(cluster: &Cluster, page: &str) {
    let text = fs::read_to_string(root().join("docs/tutorials").join(page)).unwrap();
    let steps = page::steps(&text);
    assert!(steps.len() > 10, "{page} has commands: {steps:?}");
    let mut shell = Shell::new(cluster);
    for step in steps {
        match step.command.strip_prefix("cd ") {
            Some(folder) => shell.enter(folder),
            None => step.run(|line| shell.command(line)),
        }
    }
}

/// A cluster with all images, or a reason to skip.
macro_rules! tutorial_cluster {
    () => {{
        let torch = torch_or_skip!();
        if flexor_testbed::images::torch_packages(&torch).is_none() {
            skip!("needs Python 3.11 as `python3`: torch is installed for it, and containers have that version");
        }
        let cluster = nodes_or_skip!(fixture::config(3, &torch));
        fixture::add_images(&cluster);
        cluster
    }};
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_on_all_reduce_training_with_dlrover() {
    let _turn = fixture::turn().await;
    let cluster = tutorial_cluster!();
    follow(&cluster, "dlrover-allreduce.md");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_on_parameter_servers_with_dlrover() {
    let _turn = fixture::turn().await;
    let cluster = tutorial_cluster!();
    follow(&cluster, "dlrover-ps.md");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_on_torchelastic() {
    let _turn = fixture::turn().await;
    let cluster = tutorial_cluster!();
    follow(&cluster, "torchelastic.md");
}
