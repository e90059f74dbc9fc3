//! A minimal HTTP client for the master's API, as a program without libraries would write it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::super::faults::deadline::PATIENCE;

/// A GET below `/api`: the status and the body.
pub fn get(master: SocketAddr, path: &str) -> (u16, Value) {
    ask(master, "GET", path, "")
}

/// A POST below `/api`: the status and the answer.
pub fn post(master: SocketAddr, path: &str, body: &Value) -> (u16, Value) {
    ask(master, "POST", path, &body.to_string())
}

fn ask(master: SocketAddr, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut socket = TcpStream::connect(master).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!("{method} /api/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close");
    let length = body.len();
    write!(socket, "{head}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer to {path}: {answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|_| panic!("{path} answers {body:?}")))
}
