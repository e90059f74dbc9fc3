//! The network between the parties of a history: streams in memory whose bytes take their time, stop for a while, or
//! never arrive.
//!
//! Everybody has a name, which is also the address. A wire is one connection: bytes come in order or the wire is cut, as
//! with TCP. Two parties can be apart for a while: what they have sent arrives afterwards, unless a keep-alive has given
//! up first. Whoever is killed is cut off from all, with a word or without.

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

/// What fits into a wire before the sender has to wait.
const BUFFER: usize = 1 << 20;

pub(crate) type Name = Arc<str>;

#[derive(Clone)]
pub(crate) struct Network(Arc<Mutex<State>>);

struct State {
    dice: Dice,
    listening: BTreeMap<Name, mpsc::UnboundedSender<io::Result<DuplexStream>>>,
    wires: BTreeMap<u64, Wire>,
    last: u64,
    apart: BTreeSet<(Name, Name)>,
    /// Moves on when somebody is apart or together again.
    changed: watch::Sender<u64>,
}

struct Wire {
    ends: [Name; 2],
    fate: watch::Sender<Fate>,
}

/// What has become of a wire.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    Stands,
    /// Both ends hear of it.
    Cut,
    /// This end is gone, and the other never hears so.
    Silent(Name),
}

impl Network {
    pub(crate) fn new(dice: Dice) -> Self {
        let (listening, wires, apart) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self(Arc::new(Mutex::new(State { dice, listening, wires, last: 0, apart, changed: watch::Sender::new(0) })))
    }

    /// What comes to a name.
    pub(crate) fn listen(&self, name: &Name) -> UnboundedReceiverStream<io::Result<DuplexStream>> {
        let (sender, incoming) = mpsc::unbounded_channel();
        self.0.lock().listening.insert(name.clone(), sender);
        UnboundedReceiverStream::new(incoming)
    }

    /// How somebody connects to others.
    pub(crate) fn dialer(&self, from: &Name) -> Dialer {
        let (network, from) = (self.clone(), from.clone());
        Dialer::new(Jitter::of_name(&from), move |to| {
            let (network, from, to) = (network.clone(), from.clone(), Name::from(to));
            async move { network.connect(from, to).await.map(|stream| Box::new(stream) as Box<dyn Stream>) }.boxed()
        })
    }

    /// Cuts one wire, and says which.
    pub(crate) fn cut_one(&self) -> Option<String> {
        let state = self.0.lock();
        let wires: Vec<u64> = state.wires.keys().copied().collect();
        let wire = &state.wires[&state.dice.pick(&wires)?];
        wire.fate.send_replace(Fate::Cut);
        Some(format!("{} - {}", wire.ends[0], wire.ends[1]))
    }

    /// Nothing goes from one to the other any more, and they do not know why.
    pub(crate) fn part(&self, one: &Name, other: &Name) {
        let mut state = self.0.lock();
        state.apart.insert(pair(one, other));
        state.changed.send_modify(|count| *count += 1);
    }

    /// They are together again.
    pub(crate) fn join(&self, one: &Name, other: &Name) {
        let mut state = self.0.lock();
        state.apart.remove(&pair(one, other));
        state.changed.send_modify(|count| *count += 1);
    }

    /// Whether anybody is apart.
    pub(crate) fn is_whole(&self) -> bool {
        self.0.lock().apart.is_empty()
    }

    /// Everybody is together.
    pub(crate) fn heal(&self) {
        let mut state = self.0.lock();
        state.apart.clear();
        state.changed.send_modify(|count| *count += 1);
    }

    /// Somebody is gone; `silently` nobody is told.
    pub(crate) fn kill(&self, name: &Name, silently: bool) {
        let mut state = self.0.lock();
        state.listening.remove(name);
        let fate = if silently { Fate::Silent(name.clone()) } else { Fate::Cut };
        for wire in state.wires.values().filter(|wire| wire.ends.contains(name)) {
            wire.fate.send_replace(fate.clone());
        }
    }

    async fn connect(self, from: Name, to: Name) -> io::Result<DuplexStream> {
        self.pause().await;
        self.together(&from, &to).await;
        let mut state = self.0.lock();
        let Some(listening) = state.listening.get(&to).cloned() else {
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        let ((mine, near), (far, theirs)) = (tokio::io::duplex(BUFFER), tokio::io::duplex(BUFFER));
        state.last += 1;
        let number = state.last;
        let fate = watch::Sender::new(Fate::Stands);
        state.wires.insert(number, Wire { ends: [from.clone(), to.clone()], fate: fate.clone() });
        drop(state);
        let (near, far) = (tokio::io::split(near), tokio::io::split(far));
        let there = Lane { network: self.clone(), ends: [from.clone(), to.clone()], fate: fate.subscribe() };
        let back = Lane { network: self.clone(), ends: [to, from], fate: fate.subscribe() };
        let network = self.clone();
        tokio::spawn(async move {
            tokio::join!(there.carry(near.0, far.1), back.carry(far.0, near.1));
            network.0.lock().wires.remove(&number);
        });
        listening.send(Ok(theirs)).map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
        Ok(mine)
    }

    /// What a message takes.
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

    async fn together(&self, one: &Name, other: &Name) {
        let mut changed = self.0.lock().changed.subscribe();
        let pair = pair(one, other);
        while self.0.lock().apart.contains(&pair) {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }
}

/// One direction of a wire.
struct Lane {
    network: Network,
    /// From, to.
    ends: [Name; 2],
    fate: watch::Receiver<Fate>,
}

impl Lane {
    async fn carry(mut self, mut from: ReadHalf<DuplexStream>, mut to: WriteHalf<DuplexStream>) {
        let mut fate = self.fate.clone();
        tokio::select! {
            biased;
            _ = fate.wait_for(|fate| *fate != Fate::Stands) => {}
            () = self.carry_all(&mut from, &mut to) => {
                // One direction has ended; the other goes on.
                return;
            }
        }
        let fate = self.fate.borrow_and_update().clone();
        match fate {
            Fate::Silent(gone) if gone == self.ends[0] => {
                drop(from);
                std::future::pending::<()>().await;
            }
            Fate::Silent(_) => {
                drop(to);
                std::future::pending::<()>().await;
            }
            Fate::Stands | Fate::Cut => {}
        }
    }

    async fn carry_all(&self, from: &mut ReadHalf<DuplexStream>, to: &mut WriteHalf<DuplexStream>) {
        let mut bytes = vec![0; 16 << 10];
        loop {
            let count = from.read(&mut bytes).await.unwrap_or(0);
            self.network.pause().await;
            self.network.together(&self.ends[0], &self.ends[1]).await;
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
