//! Macros for tests that cannot run on this machine: they print one line, `skipped: …`, which the test runner counts.
//!
//! Only a missing precondition is a reason to skip. A cluster that does not start is a failure.

/// Prints `skipped: <reason>` and returns from the test.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {{
        println!("skipped: {}", format_args!($($reason)+));
        return;
    }};
}

/// A cluster, or a skipped test where the machine has no Go to build it with. Any other trouble panics.
///
/// For use inside an `async` test: `let cluster = cluster_or_skip!();` is the shared cluster, and
/// `let cluster = cluster_or_skip!(config);` one of the test's own.
#[macro_export]
macro_rules! cluster_or_skip {
    (@ $started:expr) => {
        match $started {
            Ok(cluster) => cluster,
            Err(error) => match error.downcast_ref::<$crate::ToolsError>() {
                Some(missing @ $crate::ToolsError::GoMissing { .. }) => $crate::skip!("{missing}"),
                _ => panic!("the cluster did not start: {error:?}"),
            },
        }
    };
    () => {
        $crate::cluster_or_skip!(@ $crate::Cluster::shared().await)
    };
    ($config:expr) => {
        $crate::cluster_or_skip!(@ $crate::Cluster::start($config).await)
    };
}
