//! `docs/tutorials/listings.md` against the naming rules: what is listed there is what the examples' jobs are called.

use std::fs;

use flexor_model::{Job, RoleKind};

use crate::{examples, manifest_files};

/// One row of a table whose last command lists pods.
struct Listing {
    step: String,
    pods: Vec<String>,
}

fn listings() -> Vec<Listing> {
    let text = fs::read_to_string(manifest_files::root().join("docs/tutorials/listings.md")).unwrap();
    let cells =
        |line: &str| -> Vec<String> { line.trim_matches('|').split(" | ").map(|c| c.trim().to_owned()).collect() };
    let entries = |cell: &str| -> Vec<String> {
        cell.split("<br>").map(|entry| entry.trim().trim_matches('`').to_owned()).filter(|e| !e.is_empty()).collect()
    };
    text.lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| step"))
        .map(cells)
        .filter(|cells| cells.len() == 3 && cells[1].contains("get pods"))
        .map(|cells| Listing {
            step: cells[0].replace(" *(today)*", "").replace(" *(passing)*", ""),
            pods: entries(&cells[2]),
        })
        .collect()
}

/// The numbers of an entry such as `NAME-{0..2}`, and what stands before them.
fn numbered(entry: &str) -> (String, Vec<u32>) {
    // `80 of NAME`, `NAME STATUS`
    let entry = entry.split_once(" of ").map_or(entry, |(_, pattern)| pattern);
    let name = entry.split(' ').next().unwrap_or_default();
    if let Some((stem, range)) = name.strip_suffix('}').and_then(|name| name.split_once('{')) {
        let (first, last) = range.split_once("..").unwrap_or((range, range));
        return (stem.to_owned(), (first.parse().unwrap()..=last.parse().unwrap()).collect());
    }
    if let Some(stem) = name.strip_suffix('*') {
        return (stem.to_owned(), Vec::new());
    }
    match name.rsplit_once('-') {
        Some((stem, id)) if id.parse::<u32>().is_ok() => (format!("{stem}-"), vec![id.parse().unwrap()]),
        _ => (name.to_owned(), Vec::new()),
    }
}

/// What stands before the number in the names of a role's pods.
fn stem(job: &Job, kind: RoleKind) -> Option<String> {
    let role = job.role(kind)?;
    Some(
        role.naming
            .pod
            .to_string()
            .replace("{job}", job.name.as_str())
            .replace("{role}", &role.name.lower())
            .replace("{id}", ""),
    )
}

const KINDS: [RoleKind; 5] =
    [RoleKind::Master, RoleKind::ParameterServer, RoleKind::Chief, RoleKind::Worker, RoleKind::Evaluator];

#[test]
fn every_pod_of_an_example_is_listed_under_the_name_it_will_have() {
    let mut seen = 0;
    for listing in listings() {
        for job in examples::jobs() {
            let mine: Vec<&String> = listing.pods.iter().filter(|pod| pod.contains(job.name.as_str())).collect();
            for pod in &mine {
                let (found, _) = numbered(pod);
                let stems: Vec<String> = KINDS.iter().filter_map(|kind| stem(&job, *kind)).collect();
                assert!(stems.contains(&found), "{}: `{pod}` is none of {stems:?}", listing.step);
                seen += 1;
            }
        }
    }
    assert!(seen > 40, "only {seen} pods were compared");
}

#[test]
fn the_master_of_a_job_is_always_in_the_list() {
    for listing in listings() {
        // The example as the tutorial edits it: with an etcd of the user's own there is no master.
        if listing.step.contains("rdzvEndpoint") {
            assert!(listing.pods.iter().all(|pod| !pod.ends_with("-master")));
            continue;
        }
        for job in examples::jobs() {
            let listed =
                |kind| stem(&job, kind).is_some_and(|stem| listing.pods.iter().any(|pod| numbered(pod).0 == stem));
            if KINDS.into_iter().any(listed) {
                assert!(listed(RoleKind::Master), "{}: the master of {} is missing", listing.step, job.name);
            }
        }
    }
}

#[test]
fn a_job_is_first_listed_with_the_pods_it_starts_with() {
    for (name, step) in [
        ("deepctr-auto-scaling", "its first pods"),
        ("deepctr-manual-scaling", "its pods"),
        ("torch-mnist", "its pods"),
        ("imagenet", "its pods"),
    ] {
        let job = examples::jobs().into_iter().find(|job| job.name.as_str() == name).unwrap();
        let listing = listings()
            .into_iter()
            .find(|listing| listing.step == step && listing.pods.iter().any(|pod| pod.contains(name)))
            .unwrap_or_else(|| panic!("no row `{step}` for {name}"));
        for kind in KINDS {
            let (Some(stem), Some(role)) = (stem(&job, kind), job.role(kind)) else {
                continue;
            };
            let listed: usize = listing
                .pods
                .iter()
                .map(|pod| numbered(pod))
                .filter(|(found, _)| *found == stem)
                .map(|(_, ids)| ids.len().max(1))
                .sum();
            assert_eq!(listed, role.size.initial() as usize, "{name}: {}", role.name);
        }
    }
}
