//! Pumps with pipes in place of programs, and consoles that misbehave.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;

/// A console that first fails with the given errors, and then keeps what is written.
#[derive(Clone, Default)]
struct Screen {
    text: Arc<Mutex<Vec<u8>>>,
    refusals: Arc<Mutex<Vec<io::ErrorKind>>>,
}

impl Screen {
    fn text(&self) -> String {
        String::from_utf8(self.text.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(refusal) = self.refusals.lock().unwrap().pop() {
            return Err(refusal.into());
        }
        self.text.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn source(prefix: &str, file: Option<&Path>) -> (PipeWriter, PumpSource) {
    let (pipe, program) = io::pipe().unwrap();
    let file = file.map(|path| LogFile::open(path, None).unwrap());
    (program, PumpSource { pipe, file, console: ConsoleForm::Lines(ConsoleLines::new(prefix.to_owned())), watch: None })
}

fn pump(screen: &Screen) -> Pump {
    Pump::start(screen.clone()).unwrap()
}

/// Waits until the stream has ended.
fn ended(mut done: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), &mut done).await.unwrap().unwrap_err() });
}

#[test]
fn one_pump_takes_streams_as_they_come_and_go() {
    let screen = Screen::default();
    let mut pump = pump(&screen);
    for (start_id, text) in [(1, "one\n"), (2, "two")] {
        let (mut program, source) = source(&format!("{start_id}:"), None);
        let done = pump.open(StartId(start_id), source);
        program.write_all(text.as_bytes()).unwrap();
        drop(program);
        ended(done);
    }
    assert_eq!(screen.text(), "1:one\n2:two\n");
}

#[test]
fn a_pipe_that_stays_open_delays_nothing() {
    let screen = Screen::default();
    let mut pump = pump(&screen);
    let ((mut daemon, daemons), (mut other, others)) = (source("a:", None), source("b:", None));
    let done = pump.open(StartId(1), daemons);
    let others = pump.open(StartId(2), others);
    daemon.write_all(b"last wor").unwrap();
    pump.finish(StartId(1));
    ended(done);
    assert_eq!(screen.text(), "a:last wor\n");
    other.write_all(b"goes on").unwrap();
    drop(pump);
    ended(others);
    assert_eq!(screen.text(), "a:last wor\nb:goes on\n");
}

#[test]
fn a_broken_console_does_not_stop_the_log_file() {
    let screen = Screen::default();
    screen.refusals.lock().unwrap().push(io::ErrorKind::BrokenPipe);
    let file = tempfile::NamedTempFile::new().unwrap();
    let (mut program, source) = source("a:", Some(file.path()));
    let mut pump = pump(&screen);
    let done = pump.open(StartId(1), source);
    let text = "a line\n".repeat(20_000);
    program.write_all(text.as_bytes()).unwrap();
    drop(program);
    ended(done);
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), text);
    assert_eq!(screen.text(), "", "a console that was given up is not tried again");
}

#[test]
fn a_console_that_would_block_is_waited_for() {
    let screen = Screen::default();
    screen.refusals.lock().unwrap().extend([io::ErrorKind::WouldBlock; 3]);
    let (mut program, source) = source("a:", None);
    program.write_all(b"one\n").unwrap();
    drop(program);
    let mut pump = pump(&screen);
    ended(pump.open(StartId(1), source));
    assert_eq!(screen.text(), "a:one\n");
}

#[test]
fn a_log_file_that_cannot_be_written_does_not_stop_the_console() {
    let screen = Screen::default();
    let (mut program, source) = source("a:", Some(Path::new("/dev/full")));
    program.write_all(b"one\n").unwrap();
    drop(program);
    let mut pump = pump(&screen);
    ended(pump.open(StartId(1), source));
    assert_eq!(screen.text(), "a:one\n");
}
