//! Runs work with checkpoint files on threads that may block on a disk.

use crate::checkpoint::CheckpointError;

/// Runs work on a blocking thread. A panic becomes an error, so that the caller never waits forever. Returns none if the
/// server shuts down meanwhile.
pub(super) async fn run_on_file_thread<T: Send + 'static>(
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
    async fn a_panic_is_a_transient_error() {
        let failed = run_on_file_thread("write", "checkpoint-7", || -> Result<(), _> { panic!("of no use") }).await;
        let error = failed.unwrap().unwrap_err();
        assert!(error.is_transient() && error.to_string().contains("checkpoint-7"), "{error}");
        assert_eq!(run_on_file_thread("write", "checkpoint-7", || Ok(7)).await.unwrap().unwrap(), 7);
    }
}
