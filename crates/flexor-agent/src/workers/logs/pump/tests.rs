//! Pumps with pipes of our own in place of workers, and consoles that misbehave.

use std::sync::{Arc, Mutex};

use super::*;

/// A console that keeps what is written, after it has refused as often as it was told to.
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

fn tee(prefix: &str, file: Option<File>) -> (PipeWriter, Tee) {
    let (source, worker) = io::pipe().unwrap();
    let lines = ConsoleLines::new(prefix.to_owned());
    (worker, Tee { stream: Stream::Stdout, source, file, lines })
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Waits until the thread has ended by itself.
fn ended(pump: &mut Pump) {
    run(async { tokio::time::timeout(Duration::from_secs(20), &mut pump.done).await.unwrap().unwrap_err() });
}

#[test]
fn a_pump_ends_when_all_streams_have() {
    let screen = Screen::default();
    let ((mut a, tee_a), (mut b, tee_b)) = (tee("a:", None), tee("b:", None));
    a.write_all(b"one\n").unwrap();
    b.write_all(b"two").unwrap();
    drop((a, b));
    let mut pump = Pump::start(vec![tee_a, tee_b], screen.clone()).unwrap();
    ended(&mut pump);
    assert_eq!(screen.text(), "a:one\nb:two\n");
}

#[test]
fn a_pipe_that_stays_open_does_not_keep_the_pump() {
    let screen = Screen::default();
    let (mut daemon, tee) = tee("a:", None);
    daemon.write_all(b"last wor").unwrap();
    let mut pumps = Pumps(vec![Pump::start(vec![tee], screen.clone()).unwrap()]);
    run(pumps.finish(Duration::from_secs(20)));
    assert_eq!(screen.text(), "a:last wor\n");
}

#[test]
fn a_console_that_nobody_reads_does_not_stop_the_log_file() {
    let screen = Screen::default();
    screen.refusals.lock().unwrap().push(io::ErrorKind::BrokenPipe);
    let file = tempfile::NamedTempFile::new().unwrap();
    let (mut worker, tee) = tee("a:", Some(file.reopen().unwrap()));
    let mut pump = Pump::start(vec![tee], screen.clone()).unwrap();
    let text = "a line\n".repeat(20_000);
    worker.write_all(text.as_bytes()).unwrap();
    drop(worker);
    ended(&mut pump);
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), text);
    assert_eq!(screen.text(), "", "what is given up is not tried again");
}

#[test]
fn a_console_that_would_block_is_waited_for() {
    let screen = Screen::default();
    screen.refusals.lock().unwrap().extend([io::ErrorKind::WouldBlock; 3]);
    let (mut worker, tee) = tee("a:", None);
    worker.write_all(b"one\n").unwrap();
    drop(worker);
    ended(&mut Pump::start(vec![tee], screen.clone()).unwrap());
    assert_eq!(screen.text(), "a:one\n");
}

#[test]
fn a_log_file_that_cannot_be_written_does_not_stop_the_console() {
    let screen = Screen::default();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (mut worker, tee) = tee("a:", Some(full));
    worker.write_all(b"one\n").unwrap();
    drop(worker);
    ended(&mut Pump::start(vec![tee], screen.clone()).unwrap());
    assert_eq!(screen.text(), "a:one\n");
}
