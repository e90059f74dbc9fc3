//! The pages of the tutorials, each on a cluster of its own.

use flexor_testbed::{Cluster, nodes_or_skip, skip, torch_or_skip};

use super::fixture;
use crate::page::{self, Reader};

/// Follows a page from its first command to its last.
fn follow(cluster: &Cluster, page: &str) {
    let mut reader = Reader::new(cluster);
    page::steps(page).iter().for_each(|step| reader.follow(step));
    reader.finish();
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
