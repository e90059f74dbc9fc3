//! A minimal HTTP client, as a liveness probe has it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::deadline::PATIENCE;

/// Asks for a page; the status and the body.
pub fn get(address: SocketAddr, path: &str) -> (u16, String) {
    get_with(address, path, "")
}

/// Asks with more header lines, each ended by a line break.
pub fn get_with(address: SocketAddr, path: &str, headers: &str) -> (u16, String) {
    ask(address, path, headers).unwrap()
}

/// A GET with the job's token to a server that may not be running.
pub fn try_get(address: SocketAddr, path: &str, token: &str) -> io::Result<(u16, String)> {
    ask(address, path, &format!("Authorization: Bearer {token}\r\n"))
}

fn ask(address: SocketAddr, path: &str, headers: &str) -> io::Result<(u16, String)> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    socket.write_all(request.as_bytes())?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    let whole = answer.split_once("\r\n\r\n").and_then(|(head, body)| {
        let code = head.split(' ').nth(1)?.parse().ok()?;
        Some((code, body.to_owned()))
    });
    whole.ok_or_else(|| io::Error::other(format!("no answer but {answer:?}")))
}
