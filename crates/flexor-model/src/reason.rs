//! Why something was decided: one closed list of CamelCase words.
//!
//! A reason is stable, because scripts match on it. `docs/reference/reasons.md`, generated from this file, explains each.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How bad what a reason stands for is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The document cannot be used, or the job cannot go on.
    Error,
    /// It works, but not everything does what it seems to, or something was lost.
    Warning,
    /// Nothing is wrong: this is why something was done, or why it was not done yet.
    Notice,
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident: $severity:ident,)*) => {
        /// Why something was decided or said.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)*
        }

        impl Reason {
            /// Every reason, in the order of the reference page.
            pub const ALL: &'static [Reason] = &[$(Reason::$name,)*];

            /// The word itself.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Reason::$name => stringify!($name),)*
                }
            }

            /// The line that the reference page has about it.
            pub fn explanation(self) -> &'static str {
                match self {
                    $(Reason::$name => concat!($($doc),+).trim_ascii(),)*
                }
            }

            /// How bad it is.
            pub fn severity(self) -> Severity {
                match self {
                    $(Reason::$name => Severity::$severity,)*
                }
            }
        }
    };
}

impl FromStr for Reason {
    type Err = UnknownReason;

    fn from_str(word: &str) -> Result<Self, UnknownReason> {
        Reason::ALL.iter().copied().find(|reason| reason.as_str() == word).ok_or_else(|| UnknownReason(word.to_owned()))
    }
}

/// A word that is none of the reasons: another version of Flexor may know it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0} is no reason that is known here")]
pub struct UnknownReason(String);

reasons! {
    /// A file or folder could not be opened, searched or read to its end.
    UnreadableInput: Error,
    /// The file could not be read as YAML; the line says where reading stopped.
    InvalidYaml: Error,
    /// A key stands twice in one map. kubectl would silently keep one of the two.
    DuplicateKey: Error,
    /// The document is no Kubernetes object: it is no map, or `apiVersion` or `kind` is missing or no string.
    NotAnObject: Error,
    /// The kind belongs to a system Flexor takes over, but not in this API version.
    UnknownVersion: Error,
    /// The group belongs to a system Flexor takes over, but it has no such kind.
    UnknownKind: Error,
    /// No generation of the system has such a field here; the API server refuses it too.
    UnknownField: Error,
    /// A field that must be there is missing.
    MissingField: Error,
    /// The value is of another type than the field holds: a string where a number belongs, a list for a map.
    WrongType: Error,
    /// The value has the right type but lies outside what the field may hold.
    InvalidValue: Error,
    /// Two or more fields contradict each other, or the name breaks a rule about names.
    RuleBroken: Error,
    /// Nothing reads this field: the original accepted it without effect, and so does Flexor.
    FieldUnused: Warning,
    /// The field stands or is spelt as not every generation of the original reads it. Flexor does.
    FieldMisplaced: Warning,
    /// The quantity is possible but hardly meant, such as 128 thousandths of a byte.
    SuspiciousQuantity: Warning,
    /// The command asks for a rendezvous backend that only a patched image has.
    BackendUnavailable: Warning,
    /// The command line overrides a setting that Flexor makes, and so switches off what depends on it.
    CommandOverrides: Warning,
    /// Arguments that Flexor adds for the launcher reach another program, because of how the command is written.
    ArgumentsMisplaced: Warning,
    /// Kubernetes cannot read the pod template, so no pod could be made from it.
    UnreadablePod: Error,
    /// Kubernetes knows no such field of a pod; it is passed on as it is.
    UnknownPodField: Warning,
    /// The container that trains has no image, so no pod can be made.
    NoImage: Warning,
    /// A role's name is none that the system knows; its pods are kept running, and that is all.
    UnknownRole: Warning,
    /// A role is missing without which a job of this strategy hardly makes sense.
    MissingRole: Warning,
    /// A role that the planner should size does not say what its pods need.
    NoResources: Warning,
    /// The value is accepted but something else takes its place, or it is cut to a limit.
    ValueReplaced: Warning,
    /// The command has no such option, or its name is not written in full.
    UnknownOption: Error,
    /// The option is one of the original's that Flexor does not carry out; the message says why.
    UnsupportedOption: Error,
    /// The round completed because as many nodes as are expected had joined.
    ExpectedReached: Notice,
    /// The round completed because the greatest size of the world was reached.
    MaximumReached: Notice,
    /// The round completed because every node that is alive had joined, and none is announced that has not.
    EveryoneJoined: Notice,
    /// The round completed with the nodes that had joined, because the last call for more was over.
    LastCallOver: Notice,
    /// The round completed without a node that is alive but did not come back to join in time.
    StragglerLeftOut: Warning,
    /// A round waits until at least the smallest size of the world has joined.
    WaitingForMinimum: Notice,
    /// A round waits for nodes of the last world that are alive and have not joined again yet.
    WaitingForMembers: Notice,
    /// A round waits for nodes that are expected or announced, at most until the last call is over.
    WaitingForExpected: Notice,
    /// The world is complete and nothing asks for another.
    WorldStands: Notice,
    /// A node wants to join, so the world has to meet again.
    NodeJoined: Notice,
    /// A node of the world was lost, so the others have to meet again.
    NodeLost: Warning,
    /// The world met again although no node was lost or joined: the program failed. This is counted.
    ProgramFailed: Warning,
    /// The node's connection closed: its launcher has ended.
    ConnectionClosed: Warning,
    /// The node went after the run was closed: its launcher has ended as it should.
    NodeEnded: Notice,
    /// The node's launcher gave up by itself, before its workers had ended well. The others go on without it.
    LauncherGaveUp: Warning,
    /// The way to the node, its launcher's session or its sidecar's, was lost and did not come back in time.
    ConnectionLost: Warning,
    /// Nothing was heard of the node for too long.
    NodeSilent: Warning,
    /// The node did not come back after the master was started again.
    NotReconnected: Warning,
    /// The node's pod is gone, as its controller says.
    PodGone: Warning,
    /// The same node came again in a later life, which ends the earlier one.
    NodeReplaced: Warning,
    /// The node was taken out of the world before; what it still says about that world does not count.
    NodeFenced: Warning,
    /// There is no place for the node in the world; it waits and is used when another is lost.
    SpareKept: Notice,
    /// A node closed the run: its launcher has ended, well or badly, and nobody can join any more.
    ClosedByNode: Warning,
    /// The program failed more often than it may; the run is closed.
    RestartsExhausted: Error,
    /// The run was closed and is opened again, because its controller tries again.
    RunReopened: Notice,
    /// The pod's program ended well.
    ProgramSucceeded: Notice,
    /// The controller removed the pod on purpose, and it is not replaced.
    NodeRemoved: Notice,
    /// A pod of higher priority needed the room. This costs no retry.
    Preempted: Warning,
    /// The pod's machine ran short of a resource or is drained. This costs no retry.
    Evicted: Warning,
    /// The pod's machine is gone, shut down, or does not answer. This costs no retry.
    MachineLost: Warning,
    /// The machine refused the pod before any of its containers ran. This costs no retry.
    PodRejected: Warning,
    /// The pod was deleted, or is gone without a trace. This costs no retry.
    PodDeleted: Warning,
    /// The pod's program was killed from outside by an unknown sender (exit code 137 or 143). This costs no retry.
    ProgramKilled: Warning,
    /// The program used more memory than its limit. It is retried with twice as much, which is counted.
    OutOfMemory: Warning,
    /// The program reports that its machine is broken (exit code 14, 201 or 202). This is counted.
    HardwareError: Warning,
    /// The pod ran longer than its template allows. This is counted.
    PodDeadlineExceeded: Warning,
    /// The pod's program failed. This is counted.
    ProgramError: Warning,
    /// A retry would change nothing: the program refused its input (exit code 78, or 2 with a usage error), or a shell
    /// could not start it (126 or 127). It is not started again; the job fails if the pod is critical.
    ProgramRefused: Error,
    /// The job cannot run here as it is described: its program is missing or not executable, or a container cannot be
    /// made. A retry would change nothing; the job fails.
    CannotRun: Error,
    /// The pod used up its retries and is not started again; the job goes on without it as long as it can.
    RetriesExhausted: Error,
    /// A critical pod used up its retries; the job fails.
    CriticalNodeFailed: Error,
    /// A dataset was registered before with other records, batches, epochs or order; what has changed needs another name.
    DatasetChanged: Error,
    /// The program had ended well on another node, and the run was over, before this one could take part again.
    RunOver: Notice,
    /// The replication factor is 2, and there is no second server to keep the backups.
    NoServerForBackup: Warning,
    /// The job trains another model than the worker wants; nothing was changed.
    ModelDiffers: Error,
    /// What a worker declared is no model, or a model that no server could hold; nothing was changed.
    ModelInvalid: Error,
    /// All expected parameter servers are connected, and every partition has its servers.
    PsMembershipFormed: Notice,
    /// A parameter server is lost; backups take over its partitions, or the partitions restart from a checkpoint.
    ServerLost: Warning,
    /// A later incarnation of the parameter server has connected; this one keeps nothing any more.
    ServerReplaced: Warning,
    /// Partitions have moved to their target servers, while training went on.
    PartitionsMoved: Notice,
    /// Partitions without a surviving replica restart from the last checkpoint, or from their initial values.
    PartitionsRestored: Warning,
    /// The job found a checkpoint in its directory when it started, and resumes from it.
    CheckpointFound: Notice,
    /// Every partition has all its replicas again.
    ReplicationRestored: Notice,
    /// A checkpoint could not be written; the one before is intact, and the next attempt follows.
    CheckpointFailed: Warning,
    /// A checkpoint cannot be read; the one before it is used.
    CheckpointDamaged: Warning,
    /// A server cannot read a checkpoint that may be intact; it is read again.
    CheckpointUnreadable: Warning,
    /// A primary cannot reach the backup of its partitions; another backup will be synced.
    BackupUnreachable: Warning,
    /// Nobody has registered a dataset of this name.
    UnknownDataset: Error,
    /// The epoch that was asked for comes after one that has not begun.
    UnknownEpoch: Error,
    /// A position of the data is damaged, or is not one of this job.
    InvalidPosition: Error,
    /// The worker does not hold these batches: the lease expired or was released, or the ledger was rewound. Its work on
    /// them does not count.
    LeaseVoid: Warning,
    /// A later incarnation of the worker runs; this one holds no leases any more.
    WorkerReplaced: Warning,
    /// The master was restarted, and the worker must resume before it leases more.
    WorkerInDoubt: Notice,
    /// The worker was lost. Other workers get its unacknowledged batches.
    WorkerLost: Warning,
    /// The worker ended before it acknowledged all its batches. Other workers get them.
    WorkerEnded: Notice,
    /// The worker made no progress for three times its batch time. Other workers get its batches.
    LeaseExpired: Warning,
    /// The worker released batches that it did not use.
    LeaseReleased: Notice,
    /// The worker resumed with a restarted master and did not claim these batches.
    LeaseNotResumed: Notice,
    /// An idle worker took over batches that were granted to another and not leased yet.
    LeaseStolen: Notice,
    /// No batch is available at present: other workers hold the rest of the epoch.
    NoBatchesAvailable: Notice,
    /// Batches of the next step are leased when the step before it is complete.
    StepNotCommitted: Notice,
    /// A batch that the program may have failed on is leased to a worker that holds nothing else.
    SuspectIsolated: Notice,
    /// The program fails on this batch every time, so no worker leases it any more.
    BatchQuarantined: Error,
    /// The journal cannot be written, so the job pauses; it goes on by itself when there is room.
    JournalFull: Error,
    /// The journal can be written again, and the job goes on.
    JournalWritable: Notice,
    /// The journal had lost acknowledged facts; the job goes on from what could be read.
    JournalDamaged: Error,
    /// The journal ended in a record that was not written completely.
    JournalTorn: Warning,
    /// The program has ended well on every node of the world.
    RunFinished: Notice,
    /// The disk under the state directory is full, so decisions wait; they go on by themselves when there is room.
    StateDirectoryFull: Error,
    /// The state directory can be written again, and decisions go on.
    StateDirectoryWritable: Notice,
    /// The controller hit a defect of its own while it reconciled this job; other jobs are not concerned.
    ReconcileFailed: Error,
    /// The controller has seen the job for the first time.
    JobCreated: Notice,
    /// The first worker of the job runs.
    JobRunning: Notice,
    /// The job's user holds it back; none of its pods runs.
    JobSuspended: Notice,
    /// The program has ended well in every pod that decides about the job.
    JobSucceeded: Notice,
    /// The job did not end within the time that its description allows.
    JobDeadlineExceeded: Error,
    /// For longer than the job waits, fewer of its pods ran than it needs.
    ShortTooLong: Error,
    /// So many pods have failed for good that the job is below its minimum.
    TooFewLeft: Error,
    /// The job is over, and its clean-up policy is applied.
    JobOver: Notice,
    /// Its user has deleted the job.
    JobDeleted: Notice,
    /// The job's description set the target replicas of a role.
    SizeFromSpec: Notice,
    /// A plan set the target replicas of a role.
    SizeFromPlan: Notice,
    /// The cluster's planner set the target replicas of a role: room became free, or other jobs need some.
    SizeFromPlanner: Notice,
    /// The job waits until all pods that it cannot do without fit into the cluster at once.
    JobHeld: Warning,
    /// The plan is carried out.
    PlanBegun: Notice,
    /// All pods are as the plan says.
    PlanDone: Notice,
    /// The job's master has compared what an automatic plan promised with what it brought.
    PlanMeasured: Notice,
    /// The plan asks for something impossible; none of it was done.
    PlanRefused: Error,
    /// A later plan or an edit of the job set the same role before the plan was done.
    PlanSuperseded: Notice,
    /// The successor of a pod runs and takes over its partitions and then its slot. Training goes on.
    PodMigrates: Notice,
    /// The successor of a pod could not take its slot; the pod stays.
    MigrationFailed: Warning,
    /// A pod is created: its role needs one more, or a pod is gone and its slot is filled again.
    PodWanted: Notice,
    /// The pod waits: more CPUs would have to be free than are.
    Unschedulable: Warning,
    /// The pod cannot be created or started at present: a quota, a webhook, a port or a full disk refuses it. It is tried
    /// again.
    CreateRefused: Warning,
    /// The pod waits: it refers to a ConfigMap or Secret, or a key of one, that is not there yet.
    MissingReference: Warning,
    /// The pod is removed because another takes its slot.
    PodReplaced: Notice,
    /// What a program prints cannot be written any more, so its log ends before it does. The program goes on.
    LogCut: Warning,
    /// Somebody did harm to the job on purpose, to see it survive (`flexor run --chaos`).
    FaultInjected: Notice,
    /// Another master of the same job has started; this one ends.
    Superseded: Error,
    /// What a client sent is not what its protocol allows; its connection was closed.
    ProtocolViolation: Warning,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_a_camel_case_word_with_a_line_about_it() {
        for reason in Reason::ALL {
            assert!(reason.as_str().chars().all(|c| c.is_ascii_alphabetic()), "{reason}");
            assert!(reason.explanation().ends_with('.'), "{reason}");
        }
    }
}
