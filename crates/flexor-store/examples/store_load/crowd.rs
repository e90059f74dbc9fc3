//! Thousands of clients in one thread.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::BytesMut;
use flexor_store::codec::Request;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::one_client::Times;
use crate::socket::{self, PATIENCE};

/// Connected clients whose greeting was answered.
pub(crate) struct Crowd {
    address: SocketAddr,
    clients: Vec<TcpStream>,
    events: Events,
}

impl Crowd {
    pub(crate) fn connect(address: SocketAddr, count: usize) -> Result<Crowd> {
        let events = Events::new()?;
        let (greeting, answer) = socket::greeting();
        let mut clients = Vec::with_capacity(count);
        for number in 0..count {
            let mut client: TcpStream = socket::connected(address)?.into();
            client.write_all(&greeting)?;
            client.read_exact(&mut vec![0; answer])?;
            client.set_nonblocking(true)?;
            events.watch(&client, number, EpollFlags::EPOLLIN)?;
            clients.push(client);
        }
        Ok(Crowd { address, clients, events })
    }

    /// Lets every client wait for a key. The reply to the PING after the WAIT shows that the server has registered the wait.
    pub(crate) fn all_wait_for(&mut self, key: &'static str) -> Result<()> {
        let mut bytes = BytesMut::new();
        Request::Wait { keys: vec![key.into()] }.encode(&mut bytes);
        Request::Ping { nonce: 1 }.encode(&mut bytes);
        for client in &mut self.clients {
            client.set_nonblocking(false)?;
            client.write_all(&bytes)?;
            client.read_exact(&mut [0; 4])?;
            client.set_nonblocking(true)?;
        }
        // Drop the events of the replies.
        while !self.events.poll(EpollTimeout::ZERO)?.is_empty() {}
        Ok(())
    }

    /// Sets the key and waits until the last client can read its byte. Returns the seconds between.
    pub(crate) fn wake_all(&mut self, key: &'static str) -> Result<f64> {
        let mut setter: TcpStream = socket::connected(self.address)?.into();
        setter.write_all(&socket::greeting().0)?;
        setter.read_exact(&mut [0; 4])?;
        let set = Request::Set { key: key.into(), value: "1".into() }.to_bytes();
        let mut woken = 0;
        let start = Instant::now();
        setter.write_all(&set)?;
        while woken < self.clients.len() {
            // Polling a thousand times a second without reading leaves the cores to the server. An event is one byte.
            std::thread::sleep(Duration::from_millis(1));
            woken += self.events.wait()?.len();
        }
        let seconds = start.elapsed().as_secs_f64();
        for client in &mut self.clients {
            let mut bytes = [9; 2];
            ensure!(client.read(&mut bytes)? == 1 && bytes[0] == 0, "a client was not woken as it should be");
        }
        setter.write_all(&Request::DeleteKey { key: key.into() }.to_bytes())?;
        setter.read_exact(&mut [0; 8])?;
        Ok(seconds)
    }

    /// Lets every client add to its own key, again as soon as it has the reply.
    pub(crate) fn ping_pong(&mut self, count: usize) -> Result<Times> {
        let key = |number| format!("/bench-crowd-{number}").into();
        let add = |number| Request::Add { key: key(number), delta: 1 }.to_bytes();
        let requests: Vec<_> = (0..self.clients.len()).map(add).collect();
        let mut sent = vec![Instant::now(); self.clients.len()];
        let mut each = Vec::with_capacity(count);
        let start = Instant::now();
        for (number, client) in self.clients.iter_mut().enumerate() {
            sent[number] = Instant::now();
            client.write_all(&requests[number])?;
        }
        let mut left = count - self.clients.len();
        while each.len() < count {
            for event in self.events.wait()? {
                let number = usize::try_from(event.data())?;
                let client = &mut self.clients[number];
                client.read_exact(&mut [0; 8])?;
                each.push(sent[number].elapsed().as_secs_f64());
                if left > 0 {
                    left -= 1;
                    sent[number] = Instant::now();
                    client.write_all(&requests[number])?;
                }
            }
        }
        Times::of(start.elapsed().as_secs_f64(), each)
    }
}

/// Connects many clients at once and sends their greetings. Returns the seconds until all are answered.
pub(crate) fn storm(address: SocketAddr, count: usize) -> Result<f64> {
    let (events, (greeting, answer)) = (Events::new()?, socket::greeting());
    let sockets = (0..count).map(|_| socket::new()).collect::<Result<Vec<_>>>()?;
    let mut clients = Vec::with_capacity(count);
    let start = Instant::now();
    for (number, socket) in sockets.into_iter().enumerate() {
        socket.set_nonblocking(true)?;
        let connecting = socket.connect(&address.into());
        ensure!(connecting.is_ok_and_in_progress(), "cannot connect to {address}");
        let client: TcpStream = socket.into();
        events.watch(&client, number, EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT)?;
        clients.push((client, false));
    }
    let mut answered = 0;
    while answered < count {
        for event in events.wait()? {
            let (client, has_greeted) = &mut clients[usize::try_from(event.data())?];
            if event.events().contains(EpollFlags::EPOLLOUT) && !*has_greeted {
                client.write_all(&greeting)?;
                *has_greeted = true;
            }
            if event.events().contains(EpollFlags::EPOLLIN) {
                let mut buffer = vec![0; answer];
                match client.read_exact(&mut buffer) {
                    Ok(()) => answered += 1,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error).context("a client of the storm was not answered"),
                }
            }
        }
    }
    Ok(start.elapsed().as_secs_f64())
}

trait InProgress {
    fn is_ok_and_in_progress(&self) -> bool;
}

impl InProgress for std::io::Result<()> {
    /// Whether the connection is open or in progress.
    fn is_ok_and_in_progress(&self) -> bool {
        let in_progress = nix::errno::Errno::EINPROGRESS as i32;
        self.as_ref().err().is_none_or(|error| error.raw_os_error() == Some(in_progress))
    }
}

/// Edge-triggered events of many sockets.
struct Events {
    epoll: Epoll,
}

impl Events {
    fn new() -> Result<Events> {
        Ok(Events { epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)? })
    }

    fn watch(&self, client: &TcpStream, number: usize, what: EpollFlags) -> Result<()> {
        let event = EpollEvent::new(what | EpollFlags::EPOLLET, number as u64);
        Ok(self.epoll.add(client, event)?)
    }

    fn wait(&self) -> Result<Vec<EpollEvent>> {
        let events = self.poll(EpollTimeout::try_from(PATIENCE)?)?;
        ensure!(!events.is_empty(), "the server was silent for {PATIENCE:?}");
        Ok(events)
    }

    fn poll(&self, timeout: EpollTimeout) -> Result<Vec<EpollEvent>> {
        let mut events = vec![EpollEvent::empty(); 4096];
        let count = self.epoll.wait(&mut events, timeout)?;
        events.truncate(count);
        Ok(events)
    }
}
