//! What happens because time passes: the service's ticks, and the end of connections that take too long.

use std::time::Duration;

use super::hub::Hub;
use crate::service::Service;

/// Between two ticks of a service that always wants the next one at once.
const LEAST_PAUSE: Duration = Duration::from_millis(1);
/// Between two looks at who is late, at most and at least.
const LONGEST_LOOK: Duration = Duration::from_secs(1);
const SHORTEST_LOOK: Duration = Duration::from_millis(10);

/// Ticks the service whenever it wants to be, for ever.
pub(super) async fn tick_when_due<S: Service>(hub: &Hub<S>) {
    loop {
        let now = (hub.clock)();
        match hub.next_tick() {
            None => hub.earlier_tick.notified().await,
            Some(due) if due > now => {
                // Either way the service is asked again.
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
pub(super) async fn close_the_late<S: Service>(hub: &Hub<S>) {
    let shortest = hub.limits.validate_within.min(hub.limits.request_within);
    let pause = (shortest / 4).clamp(SHORTEST_LOOK, LONGEST_LOOK);
    loop {
        tokio::time::sleep(pause).await;
        let now = (hub.clock)();
        for (connection, reason) in hub.select(|connection| connection.lateness(now, &hub.limits)) {
            connection.close(&reason);
        }
    }
}
