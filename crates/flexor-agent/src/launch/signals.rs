//! The signals that end a launcher: the first one is passed on to the workers, the second one kills them.

use nix::sys::signal::Signal;
use tokio::sync::watch;

/// Further signals are ignored.
const MAX_SIGNALS: usize = 2;

/// A channel for the signals of a launcher.
pub fn signals() -> (SignalSender, Signals) {
    let (sender, receiver) = watch::channel(Vec::new());
    (SignalSender(sender), Signals(receiver))
}

/// Passes signals on to a launcher.
#[derive(Debug, Clone)]
pub struct SignalSender(watch::Sender<Vec<Signal>>);

/// The received signals in their order. A launcher that has not looked for a while misses none of them.
#[derive(Debug, Clone)]
pub struct Signals(watch::Receiver<Vec<Signal>>);

impl SignalSender {
    pub fn send(&self, signal: Signal) {
        self.0.send_if_modified(|received| {
            let has_room = received.len() < MAX_SIGNALS;
            received.extend(has_room.then_some(signal));
            has_room
        });
    }
}

impl Signals {
    /// The first signal, if it was received.
    pub(super) fn first(&self) -> Option<Signal> {
        self.0.borrow().first().copied()
    }

    /// Waits for the first signal.
    pub(super) async fn until_first(&mut self) -> Signal {
        self.until(0).await
    }

    /// Waits for the second signal.
    pub(super) async fn until_second(&mut self) -> Signal {
        self.until(1).await
    }

    async fn until(&mut self, index: usize) -> Signal {
        let signal = self.0.wait_for(|received| received.len() > index).await;
        let signal = signal.ok().and_then(|received| received.get(index).copied());
        match signal {
            Some(signal) => signal,
            // The sender is gone.
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn two_signals_before_the_launcher_looks_are_both_seen() {
        let at_once = Duration::ZERO;
        let (sender, mut signals) = signals();
        assert_eq!(signals.first(), None);
        assert!(timeout(at_once, signals.until_first()).await.is_err());
        sender.send(Signal::SIGINT);
        assert_eq!(timeout(at_once, signals.until_first()).await, Ok(Signal::SIGINT));
        assert!(timeout(at_once, signals.until_second()).await.is_err());
        sender.send(Signal::SIGTERM);
        sender.send(Signal::SIGHUP);
        assert_eq!(signals.first(), Some(Signal::SIGINT));
        assert_eq!(timeout(at_once, signals.until_second()).await, Ok(Signal::SIGTERM));
    }
}
