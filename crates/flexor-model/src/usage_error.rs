//! Recognises programs that refuse their command line.

/// Whether the message of a program that exits with 2 says that its command line is wrong: in the words of argparse, clap,
/// Python and shells.
pub fn is_usage_error(message: &str) -> bool {
    let words = [": error: ", ": can't open file ", ": cannot open ", ": Can't open "];
    message.starts_with("error: ") || words.iter().any(|words| message.contains(words))
}
