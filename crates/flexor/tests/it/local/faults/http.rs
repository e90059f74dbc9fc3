//! As much of an HTTP client as a probe is.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::waiting::PATIENCE;

/// Asks for a page; the status and the body.
pub fn get(address: SocketAddr, path: &str) -> (u16, String) {
    get_with(address, path, "")
}

/// Asks with more header lines, each ended by a line break.
pub fn get_with(address: SocketAddr, path: &str, headers: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}
