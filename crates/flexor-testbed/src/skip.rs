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

/// A cluster with real nodes, or a skipped test where the machine cannot have them (no root, no container runtime, no
/// Go). Any other trouble panics.
///
/// For use inside an `async` test: `let cluster = nodes_or_skip!();` is the shared cluster with two real and two fake
/// nodes, and `let cluster = nodes_or_skip!(config);` one of the test's own.
#[macro_export]
macro_rules! nodes_or_skip {
    (@ $started:expr) => {
        match $started {
            Ok(cluster) => cluster,
            Err(error) => match (error.downcast_ref::<$crate::NodeToolsError>(), error.downcast_ref::<$crate::ToolsError>())
            {
                (Some(missing), _) if missing.is_unmet_requirement() => $crate::skip!("{missing}"),
                (_, Some(missing @ $crate::ToolsError::GoMissing { .. })) => $crate::skip!("{missing}"),
                _ => panic!("the cluster did not start: {error:?}"),
            },
        }
    };
    () => {
        $crate::nodes_or_skip!(@ $crate::Cluster::shared_with_real_nodes().await)
    };
    ($config:expr) => {
        $crate::nodes_or_skip!(@ $crate::Cluster::start($config).await)
    };
}

/// One of [`images`](crate::images), or a skipped test where the machine lacks the packages that it is made of. Any
/// other trouble panics.
#[macro_export]
macro_rules! image_or_skip {
    ($image:expr) => {
        match $image {
            Ok(image) => image,
            Err(error) => match error.downcast_ref::<$crate::NodeToolsError>() {
                Some(missing) if missing.is_unmet_requirement() => $crate::skip!("{missing}"),
                _ => panic!("the image could not be made: {error:?}"),
            },
        }
    };
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
