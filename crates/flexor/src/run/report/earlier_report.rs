//! Removes the pod logs of an earlier report, so that they are not mistaken for logs of this run.
//!
//! All other files of a report are overwritten. The earlier `report.json` names the logs; other files in the folder are
//! the user's and stay.

use std::fs;
use std::path::Path;

use flexor_model::{DnsLabel, ObjectName};
use serde_json::Value;

use super::logs;

/// Removes the logs of the pods that an earlier report lists, and their folders if they are empty then. Ignores errors.
pub fn remove_logs(report: &Path, folder: &Path) {
    let earlier = fs::read(report).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let pods = earlier.as_ref().and_then(|earlier| earlier["pods"].as_array()).into_iter().flatten();
    for pod in pods {
        let namespace = pod["job"].as_str().and_then(|job| job.split('/').next()?.parse::<DnsLabel>().ok());
        let name = pod["pod"].as_str().and_then(|name| name.parse::<ObjectName>().ok());
        let (Some(namespace), Some(name)) = (namespace, name) else { continue };
        let of_pod = logs::folder(folder, &namespace, name.as_str());
        for file in fs::read_dir(&of_pod).into_iter().flatten().flatten() {
            if file.path().extension().is_some_and(|extension| extension == "log") {
                let _ = fs::remove_file(file.path());
            }
        }
        // `remove_dir` removes empty folders only.
        let _ = fs::remove_dir(&of_pod);
        let _ = of_pod.parent().map(fs::remove_dir);
    }
    let _ = fs::remove_dir(folder);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_logs_of_an_earlier_report_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (report, logs) = (folder.path().join("report.json"), folder.path().join("logs"));
        let write = |path: &str| {
            let path = logs.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "text").unwrap();
            path
        };
        let ours = ["a-worker-0/main.log", "a-worker-0/side.log", "other/b-worker-0/main.log"].map(write);
        let theirs = ["a-worker-0/notes.txt", "mine/main.log", "main.log"].map(write);
        remove_logs(&report, &logs);
        assert!(ours.iter().chain(&theirs).all(|file| file.exists()), "there was no earlier report");

        let pod = |job: &str, pod: &str| serde_json::json!({ "job": job, "pod": pod });
        let pods = [pod("default/a", "a-worker-0"), pod("other/b", "b-worker-0"), pod("default/c", "../logs/mine")];
        fs::write(&report, serde_json::json!({ "pods": pods }).to_string()).unwrap();
        remove_logs(&report, &logs);
        assert!(!ours.iter().any(|file| file.exists()), "{ours:?}");
        assert!(theirs.iter().all(|file| file.exists()), "{theirs:?}");
        assert!(!logs.join("other").exists(), "empty folders are removed");
    }
}
