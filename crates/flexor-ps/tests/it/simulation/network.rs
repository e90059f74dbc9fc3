//! A simulated network: in-memory streams whose bytes are delayed, held back or lost.
//!
//! Every party has a name, which is also its address. A wire is one connection: it delivers bytes in order or is cut,
//! as with TCP. Two parties can be disconnected for a while: their bytes are delivered afterwards, unless a keep-alive
//! timed out first. A killed party loses all wires; the peers notice, or not if it is killed silently.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use flexor_client::Jitter;
use flexor_ps::dial::{Dialer, Stream};
use futures::FutureExt;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::dice::Dice;

/// The buffer of a wire, in bytes.
const BUFFER: usize = 1 << 20;

pub(crate) type Name = Arc<str>;

#[derive(Clone)]
pub(crate) struct Network(Arc<Mutex<NetworkState>>);

struct NetworkState {
    dice: Dice,
    listening: BTreeMap<Name, mpsc::UnboundedSender<io::Result<DuplexStream>>>,
    wires: BTreeMap<u64, Wire>,
    last: u64,
    disconnected: BTreeSet<(Name, Name)>,
    /// Incremented when parties are disconnected or reconnected.
    changed: watch::Sender<u64>,
}

struct Wire {
    ends: [Name; 2],
    status: watch::Sender<WireStatus>,
}

/// The state of a wire.
#[derive(Debug, Clone, PartialEq, Eq)]
enum WireStatus {
    Connected,
    /// Closed; both ends notice.
    Cut,
    /// This end is gone, and the other never notices.
    Silent(Name),
}

impl Network {
    pub(crate) fn new(dice: Dice) -> Self {
        let (listening, wires, disconnected) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self(Arc::new(Mutex::new(NetworkState {
            dice,
            listening,
            wires,
            last: 0,
            disconnected,
            changed: watch::Sender::new(0),
        })))
    }

    /// Accepts connections to a name.
    pub(crate) fn listen(&self, name: &Name) -> UnboundedReceiverStream<io::Result<DuplexStream>> {
        let (sender, incoming) = mpsc::unbounded_channel();
        self.0.lock().listening.insert(name.clone(), sender);
        UnboundedReceiverStream::new(incoming)
    }

    /// The dialer of a party.
    pub(crate) fn dialer(&self, from: &Name) -> Dialer {
        let (network, from) = (self.clone(), from.clone());
        Dialer::new(Jitter::of_name(&from), move |to| {
            let (network, from, to) = (network.clone(), from.clone(), Name::from(to));
            async move { network.connect(from, to).await.map(|stream| Box::new(stream) as Box<dyn Stream>) }.boxed()
        })
    }

    /// Cuts a random wire. Returns its description.
    pub(crate) fn cut_one(&self) -> Option<String> {
        let state = self.0.lock();
        let wires: Vec<u64> = state.wires.keys().copied().collect();
        let wire = &state.wires[&state.dice.pick(&wires)?];
        wire.status.send_replace(WireStatus::Cut);
        Some(format!("{} - {}", wire.ends[0], wire.ends[1]))
    }

    /// Holds back all bytes between two parties without closing their wires.
    pub(crate) fn disconnect(&self, one: &Name, other: &Name) {
        let mut state = self.0.lock();
        state.disconnected.insert(pair(one, other));
        state.changed.send_modify(|count| *count += 1);
    }

    /// Delivers bytes between two parties again.
    pub(crate) fn reconnect(&self, one: &Name, other: &Name) {
        let mut state = self.0.lock();
        state.disconnected.remove(&pair(one, other));
        state.changed.send_modify(|count| *count += 1);
    }

    /// Whether no parties are disconnected.
    pub(crate) fn is_connected(&self) -> bool {
        self.0.lock().disconnected.is_empty()
    }

    /// Reconnects all parties.
    pub(crate) fn heal(&self) {
        let mut state = self.0.lock();
        state.disconnected.clear();
        state.changed.send_modify(|count| *count += 1);
    }

    /// Removes a party. With `silently` its peers do not notice.
    pub(crate) fn kill(&self, name: &Name, silently: bool) {
        let mut state = self.0.lock();
        state.listening.remove(name);
        let status = if silently { WireStatus::Silent(name.clone()) } else { WireStatus::Cut };
        for wire in state.wires.values().filter(|wire| wire.ends.contains(name)) {
            wire.status.send_replace(status.clone());
        }
    }

    async fn connect(self, from: Name, to: Name) -> io::Result<DuplexStream> {
        self.pause().await;
        self.wait_connected(&from, &to).await;
        let mut state = self.0.lock();
        let Some(listening) = state.listening.get(&to).cloned() else {
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        let ((mine, near), (far, theirs)) = (tokio::io::duplex(BUFFER), tokio::io::duplex(BUFFER));
        state.last += 1;
        let number = state.last;
        let status = watch::Sender::new(WireStatus::Connected);
        state.wires.insert(number, Wire { ends: [from.clone(), to.clone()], status: status.clone() });
        drop(state);
        let (near, far) = (tokio::io::split(near), tokio::io::split(far));
        let there =
            WireDirection { network: self.clone(), ends: [from.clone(), to.clone()], status: status.subscribe() };
        let back = WireDirection { network: self.clone(), ends: [to, from], status: status.subscribe() };
        let network = self.clone();
        tokio::spawn(async move {
            tokio::join!(there.carry(near.0, far.1), back.carry(far.0, near.1));
            network.0.lock().wires.remove(&number);
        });
        listening.send(Ok(theirs)).map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
        Ok(mine)
    }

    /// Waits for the latency of a message.
    async fn pause(&self) {
        let time = {
            let dice = &self.0.lock().dice;
            match dice.roll(32) {
                0 => dice.within(Duration::from_millis(200)),
                1..=15 => dice.within(Duration::from_millis(3)),
                _ => Duration::ZERO,
            }
        };
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
    }

    async fn wait_connected(&self, one: &Name, other: &Name) {
        let mut changed = self.0.lock().changed.subscribe();
        let pair = pair(one, other);
        while self.0.lock().disconnected.contains(&pair) {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }
}

struct WireDirection {
    network: Network,
    /// From, to.
    ends: [Name; 2],
    status: watch::Receiver<WireStatus>,
}

impl WireDirection {
    async fn carry(mut self, mut from: ReadHalf<DuplexStream>, mut to: WriteHalf<DuplexStream>) {
        let mut status = self.status.clone();
        tokio::select! {
            biased;
            _ = status.wait_for(|status| *status != WireStatus::Connected) => {}
            () = self.carry_all(&mut from, &mut to) => {
                // One direction has ended; the other continues.
                return;
            }
        }
        let status = self.status.borrow_and_update().clone();
        match status {
            WireStatus::Silent(gone) if gone == self.ends[0] => {
                drop(from);
                std::future::pending::<()>().await;
            }
            WireStatus::Silent(_) => {
                drop(to);
                std::future::pending::<()>().await;
            }
            WireStatus::Connected | WireStatus::Cut => {}
        }
    }

    async fn carry_all(&self, from: &mut ReadHalf<DuplexStream>, to: &mut WriteHalf<DuplexStream>) {
        let mut bytes = vec![0; 16 << 10];
        loop {
            let count = from.read(&mut bytes).await.unwrap_or(0);
            self.network.pause().await;
            self.network.wait_connected(&self.ends[0], &self.ends[1]).await;
            if count == 0 {
                let _ = to.shutdown().await;
                return;
            }
            if to.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    }
}

fn pair(one: &Name, other: &Name) -> (Name, Name) {
    if one < other { (one.clone(), other.clone()) } else { (other.clone(), one.clone()) }
}
