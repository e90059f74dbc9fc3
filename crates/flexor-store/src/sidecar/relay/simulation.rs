//! Random histories of several sidecars and a master that crashes.
//!
//! Messages are delivered one by one, in a random order between links. At any point a link may break and lose its messages,
//! or the master may crash: its successor knows the durable records and the kept changes of sidecars. Clients run
//! [programs](client) whose replies show whether a store without interruption could have sent them. A failing seed replays
//! exactly.

mod client;

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use flexor_wire::master::v1::{ToSidecar, from_sidecar, to_sidecar};

use self::client::Client;
use super::{Pod, Relay};
use crate::service::Outbox;
use crate::sidecar::simulated_master::Master;

const SIDECARS: usize = 3;
const CLIENTS_PER_SIDECAR: usize = 2;
const HISTORIES: u64 = 400;
/// After so many steps there are no further faults, so that the history ends.
const CALM_AFTER: usize = 1500;
const MOST_STEPS: usize = 40_000;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }
}

struct Sidecar {
    relay: Relay,
    clients: Vec<Client>,
    is_linked: bool,
    /// Messages in transit, in order for each direction.
    to_master: VecDeque<from_sidecar::Message>,
    from_master: VecDeque<to_sidecar::Message>,
}

struct World {
    master: Master,
    sidecars: Vec<Sidecar>,
    dice: Dice,
    crashes: usize,
    breaks: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let mut dice = Dice(seed);
        let all = SIDECARS * CLIENTS_PER_SIDECAR;
        let arrived = Rc::<Cell<usize>>::default();
        let sidecar = |index: usize| Sidecar {
            relay: Relay::new(Pod { name: format!("pod-{index}"), uid: String::new() }, index as u64),
            clients: (0..CLIENTS_PER_SIDECAR)
                .map(|client| index * CLIENTS_PER_SIDECAR + client)
                .map(|id| Client::new(id, all, arrived.clone(), |sides| dice.roll(sides)))
                .collect(),
            is_linked: false,
            to_master: VecDeque::new(),
            from_master: VecDeque::new(),
        };
        let sidecars = (0..SIDECARS).map(sidecar).collect();
        World { master: Master::first(SIDECARS), sidecars, dice, crashes: 0, breaks: 0 }
    }

    fn step(&mut self, is_calm: bool) {
        let index = self.dice.roll(SIDECARS);
        match self.dice.roll(if is_calm { 14 } else { 15 }) {
            0..4 => self.let_client_ask(index),
            4..8 => self.deliver_to_master(index),
            8..12 => self.deliver_to_sidecar(index),
            12 => self.connect(index),
            13 => self.master.write_journal(self.dice.roll(6)),
            _ if self.dice.roll(3) == 0 => self.crash(),
            _ => {
                self.breaks += 1;
                self.break_link(index);
            }
        }
        for index in 0..SIDECARS {
            self.exchange(index);
        }
    }

    /// Moves the messages of the sidecar and the master onto the link.
    fn exchange(&mut self, index: usize) {
        let sidecar = &mut self.sidecars[index];
        let messages = sidecar.relay.take_messages();
        let answers = self.master.take_messages(index as u64);
        if sidecar.is_linked {
            sidecar.to_master.extend(messages);
            sidecar.from_master.extend(answers);
        }
    }

    fn let_client_ask(&mut self, index: usize) {
        let sidecar = &mut self.sidecars[index];
        let client = self.dice.roll(CLIENTS_PER_SIDECAR);
        let mut out = Outbox::default();
        if let Some(request) = sidecar.clients[client].next_request(self.dice.roll(2) == 0) {
            sidecar.relay.request(sidecar.clients[client].conn, request, &mut out);
        }
        sidecar.deliver(&mut out);
    }

    fn deliver_to_master(&mut self, index: usize) {
        if let Some(message) = self.sidecars[index].to_master.pop_front() {
            self.master.receive(index as u64, message);
        }
    }

    fn deliver_to_sidecar(&mut self, index: usize) {
        let sidecar = &mut self.sidecars[index];
        if let Some(message) = sidecar.from_master.pop_front() {
            let mut out = Outbox::default();
            sidecar.relay.receive(ToSidecar { message: Some(message) }, &mut out).unwrap();
            sidecar.deliver(&mut out);
        }
    }

    fn connect(&mut self, index: usize) {
        let sidecar = &mut self.sidecars[index];
        if !std::mem::replace(&mut sidecar.is_linked, true) {
            sidecar.relay.link_opened();
        }
    }

    fn break_link(&mut self, index: usize) {
        let sidecar = &mut self.sidecars[index];
        if std::mem::take(&mut sidecar.is_linked) {
            sidecar.to_master.clear();
            sidecar.from_master.clear();
            let mut out = Outbox::default();
            sidecar.relay.link_lost(&mut out);
            sidecar.deliver(&mut out);
            self.master.link_lost(index as u64);
        }
    }

    fn crash(&mut self) {
        self.crashes += 1;
        (0..SIDECARS).for_each(|index| self.break_link(index));
        self.master = self.master.successor();
    }

    fn is_over(&self) -> bool {
        self.clients().all(Client::is_done)
    }

    fn clients(&self) -> impl Iterator<Item = &Client> {
        self.sidecars.iter().flat_map(|sidecar| &sidecar.clients)
    }
}

impl Sidecar {
    fn deliver(&mut self, out: &mut Outbox) {
        assert_eq!(out.take_closed(), [], "no client is closed");
        for (conn, bytes) in out.take_sent() {
            let client = self.clients.iter_mut().find(|client: &&mut Client| client.conn == conn);
            client.expect("replies go to existing clients").receive(&bytes);
        }
    }
}

#[test]
fn clients_see_only_a_delay_whatever_fault_occurs() {
    let (mut crashes, mut breaks) = (0, 0);
    flexor_seeds::each(0..HISTORIES, |seed| {
        let mut world = World::new(seed);
        let mut steps = 0;
        while !world.is_over() {
            world.step(steps > CALM_AFTER);
            steps += 1;
            let stuck = || world.clients().map(Client::describe).collect::<Vec<_>>();
            assert!(steps < MOST_STEPS, "seed {seed} does not end: {:#?}", stuck());
        }
        // Requests without a reply may still be in transit.
        (0..CALM_AFTER).for_each(|_| world.step(true));
        let clients: Vec<&Client> = world.clients().collect();
        client::check_all(&clients, world.master.store());
        crashes += world.crashes;
        breaks += world.breaks;
    });
    let are_many = flexor_seeds::chosen().is_some() || (crashes > 400 && breaks > 400);
    assert!(are_many, "too few faults: {crashes} crashes, {breaks} breaks");
}
