//! The end of a program's log, which the kubelet hands on as the message of a container that failed without one of its
//! own.

/// torchrun's own error, of which its log is full when a process of it has failed.
const OF_TORCHRUN: &str = "ChildFailedError";
/// torchrun's last error when the master has ended the run, because its program failed too often.
const RUN_ENDED: &str = "torch.distributed.elastic.rendezvous.api.RendezvousClosedError";
/// Where the process has left no error.
const NOT_LEFT: &str = "<N/A>";
const ADVICE: &str = "a process of torchrun failed; its traceback is in the pod's log, and stands here if its main \
                      function has torch's @record and the pod template names its runAsUser";

/// What the end of a log says of the failure. A message of one line is the program's own.
pub(super) fn cause(message: &str) -> &str {
    if message.contains(OF_TORCHRUN) && message.contains(NOT_LEFT) {
        return ADVICE;
    }
    // A traceback ends with its exception, and its other lines are indented.
    let mut lines = message.lines().map(str::trim_end).filter(|line| !line.is_empty()).rev();
    let last = lines.find(|line| !line.starts_with(char::is_whitespace)).unwrap_or(message);
    if last.starts_with(RUN_ENDED) { ADVICE } else { last }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exception_is_the_cause_and_torchruns_own_is_none() {
        let traceback = "3, in <module>\n  File \"/a.py\", line 3\n    raise NoDigit(12)\nNoDigit: label 12\n\n";
        assert_eq!(cause(traceback), "NoDigit: label 12");
        assert_eq!(cause("no data at /data"), "no data at /data");
        assert_eq!(cause("step 1\nerror: no data at /data\n"), "error: no data at /data");
        assert_eq!(cause("  \n"), "  \n");
        let torchrun = "errors.ChildFailedError: \n=====\na.py FAILED\nRoot Cause (first observed failure):\n\
                        [0]:\n  error_file: <N/A>\n  traceback : To enable traceback see: elastic/errors.html\n=====\n";
        assert!(cause(torchrun).contains("@record"));
        let ended = "  File \"/e/dynamic.py\", line 9\n    raise RendezvousClosedError\n\
                     torch.distributed.elastic.rendezvous.api.RendezvousClosedError\n";
        assert!(cause(ended).contains("@record"));
    }
}
