//! The keyspace answers like a naive model that searches lists.

use std::collections::BTreeMap;

use bytes::Bytes;
use flexor_store::codec::Request;
use flexor_store::keyspace::Keyspace;
use flexor_store::service::{ConnId, Now, Outbox, Service};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::requests::request;

/// The bytes that were sent to each client.
type Sent = BTreeMap<usize, Vec<u8>>;

#[derive(Default)]
struct Model {
    keys: Vec<(Bytes, Bytes)>,
    items: Vec<(Bytes, Bytes)>,
    /// The waits with their missing keys, in the order in which they began.
    waits: Vec<(usize, Vec<Bytes>)>,
    sent: Sent,
}

impl Model {
    fn get(&self, key: &Bytes) -> Option<&Bytes> {
        self.keys.iter().find(|(at, _)| at == key).map(|(_, value)| value)
    }

    fn store(&mut self, key: &Bytes, value: Bytes) {
        self.keys.retain(|(at, _)| at != key);
        self.keys.push((key.clone(), value));
    }

    fn set(&mut self, key: &Bytes, value: Bytes) {
        self.store(key, value);
        self.wake(key);
    }

    fn wake(&mut self, key: &Bytes) {
        self.waits.iter_mut().for_each(|(_, missing)| missing.retain(|wanted| wanted != key));
        self.answer_fulfilled();
    }

    fn answer_fulfilled(&mut self) {
        for (client, _) in self.waits.extract_if(.., |(_, missing)| missing.is_empty()) {
            self.sent.entry(client).or_default().push(0);
        }
    }

    fn length(&self, queue: &Bytes) -> i64 {
        self.items.iter().filter(|(at, _)| at == queue).count() as i64
    }

    fn has(&self, key: &Bytes) -> bool {
        self.get(key).is_some() || self.length(key) > 0
    }

    fn number(&self, key: &Bytes) -> Option<i64> {
        let Some(text) = self.get(key) else { return Some(0) };
        let text: String = text.iter().map(|byte| char::from(*byte)).collect();
        let text = text.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
        let end = text.char_indices().find(|(at, c)| !(c.is_ascii_digit() || *at == 0 && (*c == '-' || *c == '+')));
        text[..end.map_or(text.len(), |(at, _)| at)].parse().ok()
    }

    fn say(&mut self, client: usize, bytes: &[u8]) {
        self.sent.entry(client).or_default().extend_from_slice(bytes);
    }

    fn say_value(&mut self, client: usize, value: &[u8]) {
        self.say(client, &(value.len() as u64).to_le_bytes());
        self.say(client, value);
    }

    fn say_number(&mut self, client: usize, number: i64) {
        self.say(client, &number.to_le_bytes());
    }

    /// Serves a request; none if it is refused.
    fn request(&mut self, client: usize, request: Request) -> Option<()> {
        match request {
            Request::Validate => {}
            Request::Set { key, value } => self.set(&key, value),
            Request::CompareSet { key, expected, desired } => match self.get(&key).cloned() {
                Some(present) if present != expected => self.say_value(client, &present),
                None if !expected.is_empty() => self.say_value(client, &expected),
                Some(_) => {
                    self.store(&key, desired.clone());
                    self.say_value(client, &desired);
                }
                None => {
                    self.set(&key, desired.clone());
                    self.say_value(client, &desired);
                }
            },
            Request::Get { key } => self.say_value(client, &self.get(&key).cloned().unwrap_or_default()),
            Request::Add { key, delta } => {
                let sum = self.number(&key)?.wrapping_add(delta);
                self.set(&key, sum.to_string().into());
                self.say_number(client, sum);
            }
            Request::Check { keys } => self.say(client, &[u8::from(!keys.iter().all(|key| self.has(key)))]),
            Request::Wait { mut keys } => {
                keys.retain(|key| !self.has(key));
                self.waits.retain(|(waiting, _)| *waiting != client);
                self.waits.push((client, keys));
                self.answer_fulfilled();
            }
            Request::GetNumKeys => self.say_number(client, self.keys.len() as i64),
            Request::DeleteKey { key } => {
                let was_there = self.get(&key).is_some();
                self.keys.retain(|(at, _)| *at != key);
                self.say_number(client, i64::from(was_there));
            }
            Request::Append { key, value } => {
                let present = self.get(&key).cloned().unwrap_or_default();
                self.set(&key, [present, value].concat().into());
            }
            Request::MultiGet { keys } => {
                keys.iter().for_each(|key| self.say_value(client, &self.get(key).cloned().unwrap_or_default()));
            }
            Request::MultiSet { pairs } => pairs.into_iter().for_each(|(key, value)| self.set(&key, value)),
            Request::CancelWait => {
                self.waits.retain(|(waiting, _)| *waiting != client);
                self.say(client, &[1]);
            }
            Request::Ping { nonce } => self.say(client, &nonce.to_le_bytes()),
            Request::QueuePush { key, value } => {
                self.items.push((key.clone(), value));
                let first = self.waits.iter_mut().find(|(_, missing)| missing.contains(&key));
                if let Some((_, missing)) = first {
                    let place = missing.iter().position(|wanted| *wanted == key).unwrap();
                    missing.remove(place);
                }
                self.answer_fulfilled();
            }
            Request::QueuePop { key } => {
                self.say_number(client, self.length(&key));
                if let Some(place) = self.items.iter().position(|(at, _)| *at == key) {
                    let (_, value) = self.items.remove(place);
                    self.say_value(client, &value);
                }
            }
            Request::QueueLen { key } => self.say_number(client, self.length(&key)),
            Request::ListKeys => {
                self.say_number(client, self.keys.len() as i64);
                let mut keys: Vec<_> = self.keys.iter().map(|(key, _)| key.clone()).collect();
                keys.sort();
                keys.iter().for_each(|key| self.say_value(client, key));
            }
            Request::Barrier { key, world_size } => {
                let arrived = self.number(&key)?.wrapping_add(1);
                self.store(&key, arrived.to_string().into());
                if arrived < world_size {
                    self.waits.retain(|(waiting, _)| *waiting != client);
                    self.waits.push((client, vec![key]));
                } else {
                    self.wake(&key);
                    self.say(client, &[0]);
                }
            }
        }
        Some(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_keyspace_answers_like_the_model(history in vec((0usize..4, request()), 1..60)) {
        let (mut keys, mut model, mut out) = (Keyspace::new(), Model::default(), Outbox::default());
        let clients: Vec<ConnId> = (0..4).map(|_| ConnId::fresh()).collect();
        for (client, request) in history {
            let said = format!("{request:?}");
            let refused = keys.request(clients[client], request.clone(), Now::ZERO, &mut out).is_err();
            prop_assert_eq!(refused, model.request(client, request).is_none(), "{} of {}", said, client);
            if refused {
                keys.closed(clients[client], Now::ZERO, &mut out);
                model.waits.retain(|(waiting, _)| *waiting != client);
            }
            let mut sent = Sent::new();
            for (conn, bytes) in out.take_sent() {
                let client = clients.iter().position(|known| *known == conn).unwrap();
                sent.entry(client).or_default().extend_from_slice(&bytes);
            }
            prop_assert_eq!(&sent, &std::mem::take(&mut model.sent), "{} of {}", said, client);
            for (client, conn) in clients.iter().enumerate() {
                let missing = model.waits.iter().find(|(waiting, _)| *waiting == client).map(|(_, keys)| keys.clone());
                prop_assert_eq!(keys.waiting_for(*conn), missing);
            }
        }
    }
}
