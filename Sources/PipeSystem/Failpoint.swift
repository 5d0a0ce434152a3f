import Glibc
import PipeSupport

/// The points at which a test can make a process crash, stop, wait or fail; see docs/FAULTS.md.
package enum Failpoint: String, CaseIterable, Sendable {
  /// The inputs of one turn have arrived; the node has not taken steps for these inputs yet.
  case stepBefore = "step.before"
  /// The node has taken the steps of one turn; nothing is recorded yet.
  case stepAfter = "step.after"
  /// The steps are recorded; nothing is acknowledged, sent, published or answered yet.
  case recordAfter = "record.after"
  /// The node is about to write a record. The action `error` makes the write fail as if the disk
  /// were full.
  case recordError = "record.error"
  /// The node is about to write records from the journal's log into the database.
  case writeBefore = "write.before"
  /// The records are in the database; the log is not cleared yet.
  case writeAfter = "write.after"
  /// A step is recorded; the effect of the step is not started yet.
  case effectBefore = "effect.before"
  /// The event that an effect has sent is recorded; the end of the effect is not recorded yet.
  case effectAfter = "effect.after"
  /// The node has acknowledged events to their sender.
  case ackAfter = "ack.after"
  /// The node is about to send a batch of events through a pipe.
  case sendBefore = "send.before"
  /// The node has passed a batch of events to the socket of a pipe.
  case sendAfter = "send.after"
  /// A sender has sent the frame `open` to the receiver of a pipe.
  case openAfter = "open.after"
  /// A receiver has answered the frame `open` of a sender with the frame `welcome`.
  case welcomeAfter = "welcome.after"
  /// A request is recorded; it is not answered yet.
  case replyBefore = "reply.before"
  /// A request is answered.
  case replyAfter = "reply.after"
  /// The node has entered its initial state; the state is not recorded yet.
  case startAfter = "start.after"
  /// The node has restored its recorded state, but is not ready yet.
  case restoreAfter = "restore.after"
  /// The node has deleted acknowledged events from its outbox.
  case trimAfter = "trim.after"
  /// A dead letter is recorded.
  case deadLetterAfter = "dead-letter.after"
  /// The node has received the command to stop; it has not started to drain yet.
  case drainBefore = "drain.before"

  // Failpoints of the orchestrator, while it moves instances among shards.
  /// The undelivered events for the node are in the pipes to the node's new shards.
  case shardsRouted = "shards.routed"
  /// The instances of one shard are copied into the journal of another shard.
  case shardCopied = "shards.copied"
  /// The instances that a shard no longer owns are removed from its journal.
  case shardTrimmed = "shards.trimmed"
  /// The journal of a shard that no longer exists is removed.
  case shardRemoved = "shards.removed"

  // Failpoints of the orchestrator, while it pins programs.
  /// The program of a node is copied; no process runs the copy yet.
  case programCopied = "program.copied"

  // Failpoints of the orchestrator, while it moves a node to a new program.
  /// The upgrade is recorded; the node still runs the former program.
  case upgradeRecorded = "upgrade.recorded"
  /// The node has ended, and its journal is copied.
  case upgradeCopied = "upgrade.copied"
  /// The new program is selected; it is not started yet.
  case upgradeSwitched = "upgrade.switched"
  /// The node is ready on the new program; the upgrade is not permanent yet.
  case upgradeReady = "upgrade.ready"
  /// The journal is restored; the former program is not started yet.
  case upgradeRestored = "upgrade.restored"

  // Failpoints of the orchestrator, while it backs up the topology.
  /// The nodes are paused; their journals are not read yet.
  case backupPaused = "backup.paused"
  /// The contents of the backup are captured, and the nodes continue; nothing is written yet.
  case backupTaken = "backup.taken"
  /// The backup is written under a temporary name.
  case backupWritten = "backup.written"

  // Failpoints of the orchestrator, while it renames nodes, composites and pipes in journals.
  /// The rename is recorded; no journal is copied yet.
  case renameRecorded = "rename.recorded"
  /// The journals are copied; none is changed yet.
  case renameCopied = "rename.copied"
  /// The names in one journal are changed.
  case renameWritten = "rename.written"
  /// The files of one journal have their new name.
  case renameMoved = "rename.moved"
  /// The rename is permanent; the copies of the journals are not removed yet.
  case renameCommitted = "rename.committed"
  /// The journals are restored; the rename is still recorded.
  case renameRestored = "rename.restored"

  // Failpoints of a participant of synchronized events.
  /// The participant has received PREPARE.
  case prepareBefore = "prepare.before"
  /// An asynchronous transition has returned; nothing is recorded yet.
  case evaluateAfter = "evaluate.after"
  /// The participant has recorded that it is prepared; it has not sent YES yet.
  case prepareRecorded = "prepare.recorded"
  /// The participant has sent YES.
  case yesAfter = "yes.after"
  /// The participant has sent NO.
  case noAfter = "no.after"
  /// The participant has received COMMIT.
  case commitReceived = "commit.received"
  /// The participant has recorded the committed step, but has not acknowledged COMMIT yet.
  case stepRecorded = "step.recorded"
  /// The participant has acknowledged COMMIT.
  case acknowledgeAfter = "acknowledge.after"
  /// The participant has received ABORT.
  case abortReceived = "abort.received"
  /// The participant has sent QUERY, which asks for the outcome of a prepared event.
  case querySent = "query.sent"

  // Failpoints of a coordinator.
  /// A client has requested an event; the coordinator has not sent PREPARE to any participant yet.
  case synchronizeReceived = "synchronize.received"
  /// The coordinator has sent PREPARE to a participant.
  case prepareSent = "prepare.sent"
  /// All participants have voted YES; COMMIT is not recorded yet.
  case commitBefore = "commit.before"
  /// COMMIT is recorded; it is not sent yet.
  case commitRecorded = "commit.recorded"
  /// The coordinator has sent COMMIT to a participant.
  case commitSent = "commit.sent"
  /// An event is aborted; the coordinator is about to send ABORT to a participant.
  case abortBefore = "abort.before"
  /// The coordinator has sent ABORT to a participant.
  case abortSent = "abort.sent"
  /// All participants have acknowledged COMMIT.
  case commitFinished = "commit.finished"
  /// The coordinator has received QUERY; it has not answered yet.
  case queryReceived = "query.received"

  /// Whether only the orchestrator reaches this failpoint.
  package var isOfOrchestrator: Bool {
    [
      .shardsRouted, .shardCopied, .shardTrimmed, .shardRemoved, .programCopied, .upgradeRecorded,
      .upgradeCopied, .upgradeSwitched, .upgradeReady, .upgradeRestored, .backupPaused,
      .backupTaken, .backupWritten,
      .renameRecorded,
      .renameCopied, .renameWritten, .renameMoved, .renameCommitted, .renameRestored,
    ].contains(self)
  }

  /// Whether this failpoint belongs to synchronized events: only their participants, or only their
  /// coordinators, reach it.
  package var isOfSynchronizedEvents: Bool {
    switch self {
    case .stepBefore, .stepAfter, .recordAfter, .recordError, .writeBefore, .writeAfter,
      .effectBefore, .effectAfter, .ackAfter, .sendBefore, .sendAfter, .openAfter, .welcomeAfter,
      .replyBefore, .replyAfter,
      .startAfter, .restoreAfter, .trimAfter, .deadLetterAfter, .drainBefore,
      .shardsRouted, .shardCopied, .shardTrimmed, .shardRemoved, .programCopied,
      .upgradeRecorded, .upgradeCopied, .upgradeSwitched, .upgradeReady, .upgradeRestored,
      .backupPaused, .backupTaken, .backupWritten,
      .renameRecorded, .renameCopied, .renameWritten, .renameMoved, .renameCommitted,
      .renameRestored:
      false
    case .prepareBefore, .evaluateAfter, .prepareRecorded, .yesAfter, .noAfter, .commitReceived,
      .stepRecorded, .acknowledgeAfter, .abortReceived, .querySent, .synchronizeReceived,
      .prepareSent, .commitBefore, .commitRecorded, .commitSent, .abortBefore, .abortSent,
      .commitFinished, .queryReceived:
      true
    }
  }

  /// Whether failpoints can act in this process.
  ///
  /// Only `arm` writes this variable, once, before the process starts its threads.
  private nonisolated(unsafe) static var isArmed = false
  /// The path of a file that must exist for failpoints to act; `nil` if no file is required.
  /// Written together with `isArmed`.
  private nonisolated(unsafe) static var switchFile: String?
  /// The thread that runs the node and its embedded coordinators. Written together with `isArmed`.
  private nonisolated(unsafe) static var nodeThread = pthread_self()
  private static let processFailpoints = Locked(ProcessFailpoints())

  /// Reads this process's failpoints from its environment. Call this before the process starts any
  /// thread.
  ///
  /// If the failpoints are malformed, writes an error and exits with code 2.
  package static func arm(
    node: String, incarnation: UInt64, environment: [String: String] = ProcessEnvironment.current
  ) {
    do {
      let armed = try FailpointCounter(
        node: node, incarnation: incarnation, environment: environment)
      // Also arms a node without failpoints of its own, because its embedded coordinators may have
      // failpoints.
      guard environment[FailpointCounter.rulesVariable]?.isEmpty == false else { return }
      processFailpoints.withLock { $0.add(armed ?? FailpointCounter(), as: 0, prefix: "") }
      switchFile = environment[FailpointCounter.switchVariable]
      nodeThread = pthread_self()
      isArmed = true
    } catch {
      StandardError.write("error: \(error)\n")
      exit(2)
    }
  }

  /// Whether failpoints of this process, or of its embedded coordinators, can act.
  package static var mayAct: Bool { isArmed }

  /// Reads the failpoints of an embedded coordinator. Call this on the thread that called `arm` for
  /// the process.
  /// - Parameters:
  ///   - ownerID: The number by which ``setCurrentOwner(_:)`` identifies the embedded coordinator.
  ///   - prefix: The prefix of the embedded coordinator's lines in the log.
  package static func arm(
    ownerID: Int, prefix: String, node: String, incarnation: UInt64,
    environment: [String: String] = ProcessEnvironment.current
  ) {
    // Malformed failpoints cannot occur here, since the process would have exited at its start.
    guard isArmed,
      let armed = try? FailpointCounter(
        node: node, incarnation: incarnation, environment: environment)
    else { return }
    processFailpoints.withLock { $0.add(armed, as: ownerID, prefix: prefix) }
  }

  /// Sets the owner of the work that this thread does after this call: 0 for the node itself, or
  /// the number of an embedded coordinator.
  package static func setCurrentOwner(_ ownerID: Int) {
    processFailpoints.withLock { $0.currentOwnerID = ownerID }
  }

  /// Reports that the process has reached a failpoint. The call may crash, stop or delay the
  /// process.
  /// - Returns: Whether the caller must cut its connection.
  @discardableResult
  @inline(__always)
  package static func hit(_ point: Failpoint) -> Bool {
    isArmed && triggeredAction(at: point) == .cut
  }

  /// Reports that the process has reached a failpoint at which an operation can be made to fail.
  /// - Returns: Whether the caller must skip its operation and behave as if the operation had
  ///   failed.
  @inline(__always)
  package static func shouldFail(_ point: Failpoint) -> Bool {
    isArmed && triggeredAction(at: point) == .error
  }

  @inline(never)
  private static func triggeredAction(at point: Failpoint) -> FailpointAction? {
    // Work of any thread other than `nodeThread` belongs to the node itself.
    let belongsToNode = pthread_equal(nodeThread, pthread_self()) == 0
    guard
      let (action, count, prefix) = processFailpoints.withLock({
        $0.hit(point, belongsToNode: belongsToNode)
      })
    else { return nil }
    if let switchFile, !FileSystem.exists(switchFile) { return nil }
    // A single write makes the line complete in the log even if the action kills the process.
    StandardError.write("\(prefix)failpoint \(point.rawValue): \(action) (hit \(count))\n")
    action.perform()
    return action
  }
}

/// The action of a failpoint.
package enum FailpointAction: Hashable, Sendable, CustomStringConvertible {
  /// Sends SIGKILL to this process.
  case crash
  /// Exits with code 70, without any cleanup.
  case exit
  /// Sends SIGSTOP to this process; another process must continue or kill it.
  case stop
  case delay(Duration)
  /// Makes the caller cut its connection.
  case cut
  /// Makes the caller's operation fail.
  case error

  package static let actionExamples = ["crash", "exit", "stop", "delay:20ms", "cut", "error"]

  /// Parses `crash`, `delay:20ms` and so on. Returns `nil` if the text is not an action.
  package init?(_ text: some StringProtocol) {
    switch text {
    case "crash": self = .crash
    case "exit": self = .exit
    case "stop": self = .stop
    case "cut": self = .cut
    case "error": self = .error
    default:
      guard text.hasPrefix("delay:"),
        let duration = DurationText.parse(String(text.dropFirst("delay:".count)))
      else { return nil }
      self = .delay(duration)
    }
  }

  /// Whether the code at this failpoint can perform the action.
  package func isPossible(at point: Failpoint) -> Bool {
    switch self {
    case .crash, .exit, .stop, .delay: point != .recordError
    case .cut:
      point.isOfSynchronizedEvents || [.sendBefore, .sendAfter, .openAfter].contains(point)
    case .error: point == .recordError
    }
  }

  package var description: String {
    switch self {
    case .crash: "crash"
    case .exit: "exit"
    case .stop: "stop"
    case .delay(let duration): "delay:" + DurationText.write(duration)
    case .cut: "cut"
    case .error: "error"
    }
  }

  /// Performs the action, except the actions `cut` and `error`, which the caller performs.
  func perform() {
    switch self {
    // `raise` signals the calling thread, so the thread executes no further code.
    case .crash: raise(SIGKILL)
    case .exit: _exit(70)
    case .stop: raise(SIGSTOP)
    case .delay(let duration):
      let (seconds, attoseconds) = duration.components
      var time = timespec(tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000))
      var rest = time
      while nanosleep(&time, &rest) < 0, errno == EINTR { time = rest }
    case .cut, .error: break
    }
  }
}

/// The failpoint rules of one process, and the number of hits of each failpoint.
package struct FailpointCounter: Sendable {
  package static let rulesVariable = "PIPERUNTIME_FAILPOINTS"
  /// The name of the environment variable with the seed of the probabilities. If the variable is
  /// not set, the seed is 0.
  package static let seedVariable = "PIPERUNTIME_FAILPOINT_SEED"
  /// The name of the environment variable with the path of a file that must exist for failpoints to
  /// act. Hits are counted even if the file does not exist.
  package static let switchVariable = "PIPERUNTIME_FAILPOINT_SWITCH"

  private let rules: [FailpointRule]
  private var hitCounts: [Failpoint: UInt64] = [:]
  private var generator: SplitMix64

  /// Creates a counter without rules, which never acts.
  package init() { self.init(rules: [], seed: 0, node: "", incarnation: 0) }

  /// Creates a counter with the rules that apply to this node and incarnation.
  /// - Parameter seed: The seed of the probabilities. The generator also depends on the node and
  ///   the incarnation, so that a restarted process does not behave like the previous process.
  package init(rules: [FailpointRule], seed: UInt64, node: String, incarnation: UInt64) {
    self.rules = rules.filter { rule in
      (rule.node ?? node) == node && (rule.incarnation ?? incarnation) == incarnation
    }
    var mixed = seed
    for byte in node.utf8 { mixed = (mixed ^ UInt64(byte)) &* 0x100_0000_01B3 }
    generator = SplitMix64(seed: mixed &+ incarnation &* 0xD6E8_FEB8_6659_FD93)
  }

  /// Creates a counter from environment variables. Returns `nil` if no rule applies to this node
  /// and incarnation.
  package init?(
    node: String, incarnation: UInt64, environment: [String: String]
  ) throws(FailpointError) {
    guard let text = environment[Self.rulesVariable], !text.isEmpty else { return nil }
    let seedText = environment[Self.seedVariable] ?? "0"
    guard let seed = UInt64(seedText) else {
      throw FailpointError(
        seedText, "must be an integer of at least 0", variable: Self.seedVariable)
    }
    self.init(
      rules: try FailpointRule.parse(list: text), seed: seed, node: node,
      incarnation: incarnation)
    if rules.isEmpty { return nil }
  }

  /// Counts a hit. Returns the action of the first rule that applies to this hit, and the number of
  /// hits of the failpoint; `nil` if no rule applies.
  package mutating func hit(_ point: Failpoint) -> (action: FailpointAction, count: UInt64)? {
    let count = hitCounts[point, default: 0] + 1
    hitCounts[point] = count
    var action: FailpointAction?
    for rule in rules where rule.point == point {
      // A random number is drawn for each rule at each hit, so that no rule changes the random
      // numbers of another rule.
      if isDue(rule.trigger, at: count), action == nil { action = rule.action }
    }
    return action.map { ($0, count) }
  }

  private mutating func isDue(_ trigger: FailpointRule.Trigger, at count: UInt64) -> Bool {
    switch trigger {
    case .always: true
    case .hit(let number): number == count
    case .probability(let probability):
      Double.random(in: 0..<1, using: &generator) < probability
    }
  }
}

/// The failpoint counters of a process: one for the node, and one for each embedded coordinator.
struct ProcessFailpoints {
  private var counters: [Int: (counter: FailpointCounter, prefix: String)] = [:]
  /// The owner of the node thread's current work: 0 for the node, or the number of an embedded
  /// coordinator.
  var currentOwnerID = 0

  mutating func add(_ counter: FailpointCounter, as ownerID: Int, prefix: String) {
    counters[ownerID] = (counter, prefix)
  }

  /// Counts a hit. Returns the action of the rule that applies, the number of hits of the
  /// failpoint, and the prefix of the line in the log; `nil` if no rule applies.
  /// - Parameter belongsToNode: Whether the hit belongs to the node itself, regardless of
  ///   `currentOwnerID`.
  mutating func hit(
    _ point: Failpoint, belongsToNode: Bool
  ) -> (action: FailpointAction, count: UInt64, prefix: String)? {
    let ownerID = belongsToNode ? 0 : currentOwnerID
    guard let prefix = counters[ownerID]?.prefix,
      let (action, count) = counters[ownerID]?.counter.hit(point)
    else { return nil }
    return (action, count, prefix)
  }
}
