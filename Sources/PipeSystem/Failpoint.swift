import Glibc
import PipeSupport

/// The points in a node at which a test can make the node crash, stop, wait or fail; see docs/FAULTS.md.
package enum Failpoint: String, CaseIterable, Sendable {
  /// The inputs of a burst have arrived; no step of the burst is taken yet.
  case stepBefore = "step.before"
  /// The steps of a burst are taken; nothing is recorded yet.
  case stepAfter = "step.after"
  /// The steps are recorded; nothing is acknowledged, sent, published or answered yet.
  case recordAfter = "record.after"
  /// The record is about to be written; the action `error` makes the write fail, as on a full disk.
  case recordError = "record.error"
  /// The node is about to write records from the journal's log into the database.
  case writeBefore = "write.before"
  /// The records are in the database; the log is not restarted yet.
  case writeAfter = "write.after"
  /// A step is recorded; its effect is not started yet.
  case effectBefore = "effect.before"
  /// The event of an effect is recorded; the end of the effect is not.
  case effectAfter = "effect.after"
  /// Events are acknowledged to their sender.
  case ackAfter = "ack.after"
  /// A batch is about to be sent to the socket.
  case sendBefore = "send.before"
  /// A batch is sent to the socket.
  case sendAfter = "send.after"
  /// A sender has opened a pipe to its receiver.
  case openAfter = "open.after"
  /// A receiver has welcomed a sender.
  case welcomeAfter = "welcome.after"
  /// A request is recorded; it is not answered yet.
  case replyBefore = "reply.before"
  /// A request is answered.
  case replyAfter = "reply.after"
  /// The initial state is entered; it is not recorded yet.
  case startAfter = "start.after"
  /// The state is restored; the node is not ready yet.
  case restoreAfter = "restore.after"
  /// Acknowledged outbox entries are deleted.
  case trimAfter = "trim.after"
  /// A dead letter is recorded.
  case letterAfter = "letter.after"
  /// The node has received the command to stop; it has not started to drain yet.
  case drainBefore = "drain.before"

  // A participant of synchronized events.
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
  /// The step is recorded; it is not acknowledged yet.
  case stepRecorded = "step.recorded"
  /// The step is acknowledged.
  case acknowledgeAfter = "acknowledge.after"
  /// The participant has received ABORT.
  case abortReceived = "abort.received"
  /// The participant has sent QUERY, which asks for the outcome of a prepared event.
  case querySent = "query.sent"

  // A coordinator.
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

  /// Whether only participants of synchronized events, or only coordinators, reach this failpoint.
  package var isOfSynchronizedEvents: Bool {
    switch self {
    case .stepBefore, .stepAfter, .recordAfter, .recordError, .writeBefore, .writeAfter,
      .effectBefore, .effectAfter, .ackAfter, .sendBefore, .sendAfter, .openAfter, .welcomeAfter,
      .replyBefore, .replyAfter,
      .startAfter, .restoreAfter, .trimAfter, .letterAfter, .drainBefore:
      false
    case .prepareBefore, .evaluateAfter, .prepareRecorded, .yesAfter, .noAfter, .commitReceived,
      .stepRecorded, .acknowledgeAfter, .abortReceived, .querySent, .synchronizeReceived,
      .prepareSent, .commitBefore, .commitRecorded, .commitSent, .abortBefore, .abortSent,
      .commitFinished, .queryReceived:
      true
    }
  }

  /// Whether any failpoint of this process may act.
  ///
  /// `arm` writes it once, before the process starts its threads.
  private nonisolated(unsafe) static var isArmed = false
  /// The path of a file that must exist for failpoints to act; `nil` if none is required. Written
  /// together with `isArmed`.
  private nonisolated(unsafe) static var switchFile: String?
  /// The thread that runs the embedded coordinators beside the node; written together with `isArmed`.
  private nonisolated(unsafe) static var thread = pthread_self()
  private static let processFailpoints = Locked(ProcessFailpoints())

  /// Reads this process's failpoints from its environment. Must be called before the process starts
  /// threads.
  ///
  /// Writes an error and exits with code 2 if the failpoints are malformed.
  package static func arm(
    node: String, incarnation: UInt64, environment: [String: String] = ProcessEnvironment.current
  ) {
    do {
      let armed = try FailpointCounter(
        node: node, incarnation: incarnation, environment: environment)
      // Also arms a node without failpoints, because an embedded coordinator in it may have some.
      guard environment[FailpointCounter.rulesVariable]?.isEmpty == false else { return }
      processFailpoints.withLock { $0.add(armed ?? FailpointCounter(), as: 0, prefix: "") }
      switchFile = environment[FailpointCounter.switchVariable]
      thread = pthread_self()
      isArmed = true
    } catch {
      StandardError.write("error: \(error)\n")
      exit(2)
    }
  }

  /// Whether any failpoint of this process, or of its embedded coordinators, may act.
  package static var mayAct: Bool { isArmed }

  /// Reads the failpoints of an embedded coordinator. Must be called on the thread that called
  /// `arm` for the process.
  /// - Parameters:
  ///   - ownerID: The number by which ``enter(_:)`` identifies the embedded coordinator.
  ///   - prefix: The prefix of the embedded coordinator's lines in the log.
  package static func arm(
    ownerID: Int, prefix: String, node: String, incarnation: UInt64,
    environment: [String: String] = ProcessEnvironment.current
  ) {
    // Malformed failpoints have already ended the process when it started.
    guard isArmed,
      let armed = try? FailpointCounter(
        node: node, incarnation: incarnation, environment: environment)
    else { return }
    processFailpoints.withLock { $0.add(armed, as: ownerID, prefix: prefix) }
  }

  /// Sets the owner of the work that this thread does after this call: 0 for the node itself, or
  /// the number of an embedded coordinator.
  package static func enter(_ ownerID: Int) { processFailpoints.withLock { $0.current = ownerID } }

  /// Reports that the process has reached a failpoint, which may crash, stop or delay it.
  /// - Returns: Whether the caller must cut its connection.
  @discardableResult
  @inline(__always)
  package static func hit(_ point: Failpoint) -> Bool {
    isArmed && act(at: point) == .cut
  }

  /// Reports that the process has reached a failpoint at which an operation can fail.
  /// - Returns: Whether the caller must behave as if the operation that it is about to start had failed.
  @inline(__always)
  package static func shouldFail(_ point: Failpoint) -> Bool {
    isArmed && act(at: point) == .error
  }

  @inline(never)
  private static func act(at point: Failpoint) -> FailpointAction? {
    // The work of all other threads belongs to the node itself.
    let belongsToNode = pthread_equal(thread, pthread_self()) == 0
    guard
      let (action, count, prefix) = processFailpoints.withLock({
        $0.hit(point, belongsToNode: belongsToNode)
      })
    else { return nil }
    if let switchFile, !FileSystem.exists(switchFile) { return nil }
    // One write, so that the line is complete in the log even if the action kills the process.
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

  package static let names = ["crash", "exit", "stop", "delay:20ms", "cut", "error"]

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

  /// Performs the action if it does not depend on the caller.
  func perform() {
    switch self {
    // Raised in this thread, so that the thread cannot take another step.
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

/// The failpoints of one process: its rules and how often each failpoint was hit; a value type.
package struct FailpointCounter: Sendable {
  package static let rulesVariable = "PIPERUNTIME_FAILPOINTS"
  /// The variable with the seed of the probabilities; the seed is 0 if it is not set.
  package static let seedVariable = "PIPERUNTIME_FAILPOINT_SEED"
  /// The variable with the path of a file that must exist for failpoints to act. Hits are counted
  /// even if the file does not exist.
  package static let switchVariable = "PIPERUNTIME_FAILPOINT_SWITCH"

  private let rules: [FailpointRule]
  private var hits: [Failpoint: UInt64] = [:]
  private var generator: SplitMix64

  /// Creates a counter without rules, which never acts.
  package init() { self.init(rules: [], seed: 0, node: "", incarnation: 0) }

  /// Creates a counter with the rules that apply to this node and incarnation.
  /// - Parameter seed: The seed, which is mixed with the node and the incarnation, so that a restarted
  ///   process does not repeat the behavior of the previous one.
  package init(rules: [FailpointRule], seed: UInt64, node: String, incarnation: UInt64) {
    self.rules = rules.filter { rule in
      (rule.node ?? node) == node && (rule.incarnation ?? incarnation) == incarnation
    }
    var mixed = seed
    for byte in node.utf8 { mixed = (mixed ^ UInt64(byte)) &* 0x100_0000_01B3 }
    generator = SplitMix64(seed: mixed &+ incarnation &* 0xD6E8_FEB8_6659_FD93)
  }

  /// Creates a counter from the environment of this process. Returns `nil` if no failpoint applies to it.
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

  /// Counts a hit. Returns the action and the count if a rule applies at this hit; the first such rule
  /// wins.
  package mutating func hit(_ point: Failpoint) -> (action: FailpointAction, count: UInt64)? {
    let count = hits[point, default: 0] + 1
    hits[point] = count
    var action: FailpointAction?
    for rule in rules where rule.point == point {
      // Draws a random number for each rule at each hit, so that one rule does not shift the
      // sequence of another rule.
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

/// The failpoints of a node's process and of its embedded coordinators, each with its own counts; a
/// value type.
struct ProcessFailpoints {
  private var counters: [Int: (counter: FailpointCounter, prefix: String)] = [:]
  /// The owner of the work that the process's main thread does now: 0 for the node itself.
  var current = 0

  mutating func add(_ counter: FailpointCounter, as ownerID: Int, prefix: String) {
    counters[ownerID] = (counter, prefix)
  }

  /// Counts a hit. Returns the action, the count, and the prefix for the line in the log.
  /// - Parameter belongsToNode: Whether the hit belongs to the node itself, regardless of the
  ///   current owner of the main thread.
  mutating func hit(
    _ point: Failpoint, belongsToNode: Bool
  ) -> (action: FailpointAction, count: UInt64, prefix: String)? {
    let ownerID = belongsToNode ? 0 : current
    guard let prefix = counters[ownerID]?.prefix,
      let (action, count) = counters[ownerID]?.counter.hit(point)
    else { return nil }
    return (action, count, prefix)
  }
}
