//! Tracks which urgent reports have reached the controller.
//!
//! A worker ends when its last report is answered, and the job ends with its last worker. So the master answers an urgent
//! report only after the controller has acknowledged it on the feed. A master that took over a moment ago, and one whose
//! feed broke, wait for the controller to reconnect.

use std::time::Duration;

use tokio::sync::watch;

/// The longest that an urgent report waits for its delivery.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The published and delivered urgent reports of a job.
#[derive(Debug, Default)]
pub(crate) struct ReportDelivery {
    /// The number of published reports.
    published: watch::Sender<u64>,
    state: watch::Sender<DeliveryState>,
}

#[derive(Debug, Clone, Copy, Default)]
struct DeliveryState {
    subscribers: u32,
    /// Whether there ever was a subscriber.
    has_controller: bool,
    /// The number of the last report that a subscriber has received.
    delivered: u64,
}

/// A stream to a controller, which counts as a subscriber until this is dropped.
pub(crate) struct Subscription<'a>(&'a ReportDelivery);

impl ReportDelivery {
    /// Publishes an urgent report. Returns its number.
    pub(crate) fn publish(&self) -> u64 {
        self.published.send_modify(|number| *number += 1);
        *self.published.borrow()
    }

    /// Changes with every published report.
    pub(crate) fn published(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    pub(crate) fn subscribe(&self) -> Subscription<'_> {
        self.state.send_modify(|state| (state.subscribers, state.has_controller) = (state.subscribers + 1, true));
        Subscription(self)
    }

    /// Waits until a report is delivered. Returns at once without a subscriber, unless one is expected to come or return.
    pub(crate) async fn delivered(&self, number: u64, is_subscriber_expected: bool) {
        let mut state = self.state.subscribe();
        let is_over = |state: &DeliveryState| {
            let is_none_expected = !is_subscriber_expected && !state.has_controller;
            state.delivered >= number || state.subscribers == 0 && is_none_expected
        };
        // A subscriber that misses the report can still ask for the status.
        let _ = tokio::time::timeout(DELIVERY_TIMEOUT, state.wait_for(is_over)).await;
    }
}

impl Subscription<'_> {
    /// Notes that all reports up to this number were delivered.
    pub(crate) fn acknowledge(&self, number: u64) {
        self.0.state.send_if_modified(|state| {
            let is_news = state.delivered < number;
            state.delivered = state.delivered.max(number);
            is_news
        });
    }
}

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| state.subscribers -= 1);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_urgent_report_waits_for_its_delivery() {
        let (delivery, began) = (ReportDelivery::default(), Instant::now());
        let report = delivery.publish();
        delivery.delivered(report, false).await;
        assert_eq!(began.elapsed(), Duration::ZERO, "there is no subscriber");
        let later = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let subscription = delivery.subscribe();
            tokio::time::sleep(Duration::from_millis(300)).await;
            subscription.acknowledge(report);
            subscription
        };
        let (_, subscription) = tokio::join!(delivery.delivered(report, true), later);
        assert_eq!(began.elapsed(), Duration::from_millis(600), "a subscriber was expected");
        delivery.delivered(delivery.publish(), false).await;
        assert_eq!(began.elapsed(), Duration::from_millis(5600), "the timeout is over");
        drop(subscription);
        let again = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            delivery.subscribe().acknowledge(delivery.publish());
        };
        tokio::join!(delivery.delivered(delivery.publish(), false), again);
        assert_eq!(began.elapsed(), Duration::from_millis(5700), "the subscriber returned");
    }
}
