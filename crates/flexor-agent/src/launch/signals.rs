//! The signals that end a launcher: the first is passed on to the workers, the second kills them.

use nix::sys::signal::Signal;
use tokio::sync::watch;

/// More signals than this change nothing.
const HEEDED: usize = 2;

/// Signals as they come, and where they come from.
pub fn signals() -> (SignalSender, Signals) {
    let (sender, came) = watch::channel(Vec::new());
    (SignalSender(sender), Signals(came))
}

/// Hands signals on to a launcher.
#[derive(Debug, Clone)]
pub struct SignalSender(watch::Sender<Vec<Signal>>);

/// The signals that have come, in their order. A launcher that has not looked for a while misses none of them.
#[derive(Debug, Clone)]
pub struct Signals(watch::Receiver<Vec<Signal>>);

impl SignalSender {
    /// A signal has come.
    pub fn send(&self, signal: Signal) {
        self.0.send_if_modified(|came| {
            let is_heeded = came.len() < HEEDED;
            came.extend(is_heeded.then_some(signal));
            is_heeded
        });
    }
}

impl Signals {
    /// The first one, if it has come.
    pub(super) fn first(&self) -> Option<Signal> {
        self.0.borrow().first().copied()
    }

    /// Waits for the first one.
    pub(super) async fn until_first(&mut self) -> Signal {
        self.until(0).await
    }

    /// Waits for the second one.
    pub(super) async fn until_second(&mut self) -> Signal {
        self.until(1).await
    }

    async fn until(&mut self, index: usize) -> Signal {
        let signal = self.0.wait_for(|came| came.len() > index).await.ok().and_then(|came| came.get(index).copied());
        match signal {
            Some(signal) => signal,
            // Nobody can send one any more.
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
    async fn two_signals_that_come_before_anybody_looks_are_two() {
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
