//! Keeps the logs of all pods of a laptop cluster, which are otherwise removed with their pods.
//!
//! Each log gets a hard link as soon as it is found, so nothing is copied. Only the log of a pod that lives for less
//! than one polling interval is lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Keeps them until it is dropped.
pub(super) struct KeptLogs {
    over: Arc<AtomicBool>,
    looker: Option<JoinHandle<()>>,
}

impl KeptLogs {
    /// Keeps the logs of the pods of the cluster in `state_dir` in the folder `logs`.
    pub(super) fn of(state_dir: &Path, logs: PathBuf) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (pods, is_over) = (state_dir.join("pods"), Arc::clone(&over));
        let looker = thread::spawn(move || {
            let _ = fs::create_dir_all(&logs);
            while !is_over.load(Ordering::Relaxed) {
                look(&pods, &logs);
                thread::sleep(LOOK_EVERY);
            }
        });
        Self { over, looker: Some(looker) }
    }
}

impl Drop for KeptLogs {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(looker) = self.looker.take() {
            let _ = looker.join();
        }
    }
}

/// Links every log that has no link yet. Pods may start and end meanwhile, so every file may vanish.
fn look(pods: &Path, logs: &Path) {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    for pod in entries(pods) {
        let name = pod_name(&pod.path()).unwrap_or_default();
        for log in entries(&pod.path().join("logs")) {
            let (uid, file) = (pod.file_name(), log.file_name());
            let uid: String = uid.to_string_lossy().chars().take(8).collect();
            let _ = fs::hard_link(log.path(), logs.join(format!("{name}.{uid}.{}", file.to_string_lossy())));
        }
    }
}

fn pod_name(folder: &Path) -> Option<String> {
    let plan: serde_json::Value = serde_json::from_slice(&fs::read(folder.join("pod.json")).ok()?).ok()?;
    plan["name"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_outlives_its_pod() {
        let folder = tempfile::tempdir().unwrap();
        let (state_dir, logs) = (folder.path().join("home"), folder.path().join("logs"));
        let pod = state_dir.join("pods/0123456789");
        fs::create_dir_all(pod.join("logs")).unwrap();
        fs::write(pod.join("pod.json"), r#"{"name":"worker-0"}"#).unwrap();
        fs::write(pod.join("logs/main.log"), "hello").unwrap();
        fs::create_dir(&logs).unwrap();
        look(&state_dir.join("pods"), &logs);
        fs::remove_dir_all(pod).unwrap();
        assert_eq!(fs::read_to_string(logs.join("worker-0.01234567.main.log")).unwrap(), "hello");
    }
}
