//! A service that asks for ticks and closes connections.

use std::net::SocketAddr;
use std::time::Duration;

use flexor_store::codec::{Reply, Request};
use flexor_store::server::Limits;
use flexor_store::service::{ConnId, Now, Outbox, Refused, Service};

use crate::client::{Store, eventually};

/// Answers a PING after a delay, and closes connections that send anything else.
#[derive(Default)]
struct DelayedPong {
    due: Vec<(Now, ConnId, u32)>,
    open: usize,
}

const DELAY: Duration = Duration::from_millis(30);

impl Service for DelayedPong {
    fn opened(&mut self, _: ConnId, _: SocketAddr, _: Now, _: &mut Outbox) {
        self.open += 1;
    }

    fn request(&mut self, conn: ConnId, request: Request, now: Now, out: &mut Outbox) -> Result<(), Refused> {
        match request {
            Request::Ping { nonce } => self.due.push((now + DELAY, conn, nonce)),
            Request::Validate => {}
            other => {
                out.send(conn, Reply::Number(7));
                out.close(conn, format!("{:?} is not for this service", other.opcode()));
            }
        }
        Ok(())
    }

    fn closed(&mut self, _: ConnId, _: Now, _: &mut Outbox) {
        self.open -= 1;
    }

    fn tick(&mut self, now: Now, out: &mut Outbox) {
        for (_, conn, nonce) in self.due.extract_if(.., |(due, ..)| *due <= now) {
            out.send(conn, Reply::Pong(nonce));
        }
    }

    fn next_tick(&self) -> Option<Now> {
        self.due.iter().map(|(due, ..)| *due).min()
    }
}

#[test]
fn a_service_is_ticked_when_it_wants_to_be() {
    let store = Store::with(DelayedPong::default(), Limits::default());
    let start = std::time::Instant::now();
    let mut client = store.client();
    assert!(start.elapsed() >= DELAY);
    client.ping();
}

#[test]
fn a_connection_closed_by_the_service_gets_what_was_sent_before() {
    let store = Store::with(DelayedPong::default(), Limits::default());
    let mut client = store.client();
    client.send(&Request::GetNumKeys);
    client.expect(&[7, 0, 0, 0, 0, 0, 0, 0]);
    client.expect_closed();
    eventually("the service knows", || store.handle.with(|service, _, _| service.open == 0));
}
