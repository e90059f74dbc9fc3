//! Runs a program on a pseudo terminal that the test holds, and gives the screen that a user would see.

use std::fs::File;
use std::io::Read;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::super::faults::deadline::{eventually, eventually_or_explain};

/// A program on its own terminal. Killed when dropped.
pub struct OnTerminal {
    child: Child,
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
    size: (u16, u16),
}

/// The result of a program on a terminal.
pub struct TerminalOutput {
    /// The exit code.
    pub code: Option<i32>,
    /// The full output, with control sequences.
    pub raw: String,
    /// The screen, and the lines that have scrolled off it.
    pub text: String,
    pub cursor_is_hidden: bool,
}

impl OnTerminal {
    /// Starts a command on a terminal of this many rows and columns.
    pub fn start(command: &mut Command, size: (u16, u16)) -> Self {
        let (ws_row, ws_col) = size;
        let window = Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&window), None).unwrap();
        let stream = || pty.slave.try_clone().unwrap();
        let child = command.stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap();
        // The command holds copies of the terminal's descriptors, which would keep it open.
        command
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        drop(pty.slave);
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&bytes);
        let mut master = File::from(pty.master);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            // Reading a terminal without a holder fails.
            while let Ok(count @ 1..) = master.read(&mut buffer) {
                written.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Self { child, bytes, reader, size }
    }

    /// Waits until a text is on the screen.
    pub fn await_text(&self, text: &str) {
        let look = || self.seen(None).text.contains(text).then_some(());
        eventually_or_explain(&format!("{text:?}"), look, || self.seen(None).text);
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Waits for its end and returns the final screen.
    pub fn wait(mut self) -> TerminalOutput {
        let ended = || self.reader.is_finished().then_some(());
        eventually_or_explain("the end of its output", ended, || self.seen(None).text);
        let code = eventually("its end", || self.child.try_wait().unwrap()).code();
        self.seen(code)
    }

    fn seen(&self, code: Option<i32>) -> TerminalOutput {
        let bytes = self.bytes.lock().unwrap().clone();
        let (rows, columns) = self.size;
        let mut terminal = vt100::Parser::new(rows, columns, 10_000);
        terminal.process(&bytes);
        let cursor_is_hidden = terminal.screen().hide_cursor();
        let mut text = String::new();
        terminal.screen_mut().set_scrollback(usize::MAX);
        for left in (1..=terminal.screen().scrollback()).rev() {
            terminal.screen_mut().set_scrollback(left);
            text.extend(terminal.screen().rows(0, columns).next());
            text.push('\n');
        }
        terminal.screen_mut().set_scrollback(0);
        text.push_str(&terminal.screen().contents());
        TerminalOutput { code, raw: String::from_utf8_lossy(&bytes).into_owned(), text, cursor_is_hidden }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
