//! Work with the files of checkpoints: on threads that may wait for a disk.

use crate::checkpoint::CheckpointError;

/// Does something with a file. A panic is an error like any other: whoever waits to hear what came of it would wait for
/// ever. Nothing comes of it where the server ends meanwhile.
pub(super) async fn on_a_file_thread<T: Send + 'static>(
    doing: &'static str,
    file: &str,
    work: impl FnOnce() -> Result<T, CheckpointError> + Send + 'static,
) -> Option<Result<T, CheckpointError>> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Some(done),
        Err(failed) if failed.is_panic() => Some(Err(CheckpointError::panicked(doing, file))),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_panics_has_failed_and_may_try_again() {
        let failed = on_a_file_thread("write", "checkpoint-7", || -> Result<(), _> { panic!("of no use") }).await;
        let error = failed.unwrap().unwrap_err();
        assert!(error.may_pass() && error.to_string().contains("checkpoint-7"), "{error}");
        assert_eq!(on_a_file_thread("write", "checkpoint-7", || Ok(7)).await.unwrap().unwrap(), 7);
    }
}
