//! Accepts the signal of `flexor kill` as kill(1) does: `flexor kill POD -9`, `flexor kill -TERM POD`.

use std::ffi::OsString;

/// Spells out the signal of `flexor kill` as `--signal`. Leaves any other command line unchanged.
pub fn spelled_out(mut line: Vec<OsString>) -> Vec<OsString> {
    if line.get(1).is_none_or(|verb| verb != "kill") {
        return line;
    }
    let words = line.iter().enumerate().skip(2).take_while(|(_, word)| *word != "--");
    let mut signals = words.filter_map(|(at, word)| Some((at, OsString::from(signal(word.to_str()?)?))));
    if let Some((at, signal)) = signals.next() {
        line.splice(at..=at, ["--signal".into(), signal]);
    }
    line
}

/// The signal in `-9` or `-KILL`. Options of one letter are in lower case.
fn signal(word: &str) -> Option<&str> {
    let signal = word.strip_prefix('-')?;
    let is_number = !signal.is_empty() && signal.chars().all(|c| c.is_ascii_digit());
    let is_name = signal.len() > 1 && signal.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    (is_number || is_name).then_some(signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_signal_of_kill_is_spelled_out() {
        for (written, read) in [
            ("flexor kill p -9", "flexor kill p --signal 9"),
            ("flexor kill -TERM p -n a", "flexor kill --signal TERM p -n a"),
            ("flexor kill -USR1 p", "flexor kill --signal USR1 p"),
            ("flexor kill p -s 9", "flexor kill p -s 9"),
            ("flexor kill p -- -9", "flexor kill p -- -9"),
            ("flexor scale j --worker -9", "flexor scale j --worker -9"),
            ("flexor kill", "flexor kill"),
        ] {
            let line = spelled_out(written.split(' ').map(OsString::from).collect());
            assert_eq!(line, read.split(' ').map(OsString::from).collect::<Vec<_>>(), "{written}");
        }
    }
}
