//! `docs/tutorials/listings.md`: what kubectl prints when the tutorials install and submit.
//!
//! Only the rows whose listing is of created objects; the pods of a job come with the operator.

use flexor_testbed::{Cluster, ClusterConfig, cluster_or_skip};

use super::installed::{in_repository, succeed};

/// A row whose listing is of created objects.
struct Row {
    step: String,
    commands: Vec<String>,
    created: Vec<String>,
}

fn rows() -> Vec<Row> {
    let page = std::fs::read_to_string(in_repository("docs/tutorials/listings.md")).unwrap();
    let entries = |cell: &str| -> Vec<String> {
        cell.split("<br>").map(|entry| entry.trim().trim_matches('`').to_owned()).collect()
    };
    page.lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
            let [step, commands, lists] = cells[..] else { return None };
            let created = entries(lists);
            let of_created = created.iter().all(|entry| entry.ends_with(" created"));
            of_created.then(|| Row { step: step.to_owned(), commands: entries(commands), created })
        })
        .collect()
}

fn run(cluster: &Cluster, row: &Row) {
    let mut printed = String::new();
    for command in &row.commands {
        let words = command.strip_prefix("kubectl ").unwrap_or_else(|| panic!("{}: {command}", row.step)).split(' ');
        let in_place = words.map(|word| match word.split_once('/') {
            Some(("examples" | "deploy", _)) => in_repository(word),
            _ => word.to_owned(),
        });
        printed.push_str(&succeed(&mut cluster.kubectl(in_place)));
    }
    assert_eq!(printed.lines().collect::<Vec<_>>(), row.created, "{}", row.step);
}

#[tokio::test(flavor = "multi_thread")]
async fn installing_and_submitting_prints_what_the_table_says() {
    let (installing, submitting): (Vec<Row>, Vec<Row>) =
        rows().into_iter().partition(|row| row.commands.iter().any(|command| command.contains("deploy/")));
    assert_eq!(installing.len(), 4);
    let mut submitted = 0;
    for install in &installing {
        let cluster = cluster_or_skip!(ClusterConfig::default());
        run(&cluster, install);
        // EDL's tutorial installs from its examples, so its rows begin in an empty cluster.
        if install.step == "edl" {
            continue;
        }
        let examples = format!("examples/{}/", install.step);
        for row in submitting.iter().filter(|row| row.commands.iter().any(|command| command.contains(&examples))) {
            run(&cluster, row);
            submitted += 1;
        }
    }
    for dialect in ["edl", "elasticdl"] {
        let cluster = cluster_or_skip!(ClusterConfig::default());
        let examples = format!("examples/{dialect}/");
        for row in submitting.iter().filter(|row| row.commands.iter().any(|command| command.contains(&examples))) {
            run(&cluster, row);
            submitted += 1;
        }
    }
    assert_eq!(submitted, submitting.len(), "every row belongs to a dialect");
}
