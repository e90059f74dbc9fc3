//! The timers of a server: the ticks of the service, and the end of connections that are late.

use std::time::Duration;

use super::hub::Hub;
use crate::service::Service;

/// The shortest pause between two ticks.
const LEAST_PAUSE: Duration = Duration::from_millis(1);
/// The longest and shortest interval between two checks for late connections.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// Ticks the service whenever a tick is due, for ever.
pub(super) async fn tick_when_due<S: Service>(hub: &Hub<S>) {
    loop {
        let now = (hub.clock)();
        match hub.next_tick() {
            None => hub.earlier_tick.notified().await,
            Some(due) if due > now => {
                // In both cases the loop asks the service again.
                let _ = tokio::time::timeout(due - now, hub.earlier_tick.notified()).await;
            }
            Some(_) => {
                hub.with(None, S::tick);
                tokio::time::sleep(LEAST_PAUSE).await;
            }
        }
    }
}

/// Closes connections that are late with VALIDATE or with the rest of a request, for ever.
pub(super) async fn close_late_connections<S: Service>(hub: &Hub<S>) {
    let shortest = hub.limits.validate_within.min(hub.limits.request_within);
    let pause = (shortest / 4).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
    loop {
        tokio::time::sleep(pause).await;
        let now = (hub.clock)();
        for (connection, reason) in hub.select(|connection| connection.lateness(now, &hub.limits)) {
            connection.close(&reason);
        }
    }
}
