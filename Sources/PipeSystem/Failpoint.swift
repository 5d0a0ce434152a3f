import Glibc
import PipeSupport

/// The places in a node where a test may let it die, stand still or fail; see docs/FAULTS.md.
package enum Failpoint: String, CaseIterable, Sendable {
  /// The inputs of a burst are there, and no step of it is taken.
  case stepBefore = "step.before"
  /// The steps of a burst are taken, and nothing is recorded.
  case stepAfter = "step.after"
  /// The steps are recorded; nothing is acknowledged, sent, published or replied.
  case recordAfter = "record.after"
  /// The record cannot be written, as on a full disk.
  case recordError = "record.error"
  /// Records are about to be written from the log into the database.
  case writeBefore = "write.before"
  /// They are written, and the log has not begun anew.
  case writeAfter = "write.after"
  /// A step is recorded, and its effect not started.
  case effectBefore = "effect.before"
  /// The event of an effect is recorded, and the effect's end is not.
  case effectAfter = "effect.after"
  /// Events are acknowledged to their sender.
  case ackAfter = "ack.after"
  /// A batch is about to go to the socket.
  case sendBefore = "send.before"
  /// A batch has gone to the socket.
  case sendAfter = "send.after"
  /// A sender has announced itself to its receiver.
  case openAfter = "open.after"
  /// A receiver has welcomed a sender.
  case welcomeAfter = "welcome.after"
  /// A request is recorded, and not answered.
  case replyBefore = "reply.before"
  /// A request is answered.
  case replyAfter = "reply.after"
  /// The initial state is entered, and not recorded.
  case startAfter = "start.after"
  /// The state is restored, and the node not ready.
  case restoreAfter = "restore.after"
  /// Outbox entries that were acknowledged are deleted.
  case trimAfter = "trim.after"
  /// A dead letter is recorded.
  case letterAfter = "letter.after"
  /// The node is told to stop, and has not begun to drain.
  case drainBefore = "drain.before"

  // A participant of synchronized events.
  /// PREPARE has come.
  case prepareBefore = "prepare.before"
  /// A transition that takes its time has returned; nothing is recorded.
  case evaluateAfter = "evaluate.after"
  /// It is recorded that the node is prepared; YES is not said.
  case prepareRecorded = "prepare.recorded"
  /// YES is said.
  case yesAfter = "yes.after"
  /// NO is said.
  case noAfter = "no.after"
  /// COMMIT has come.
  case commitReceived = "commit.received"
  /// The step is recorded, and not acknowledged.
  case stepRecorded = "step.recorded"
  /// The step is acknowledged.
  case acknowledgeAfter = "acknowledge.after"
  /// ABORT has come.
  case abortReceived = "abort.received"
  /// QUERY is sent: how a prepared event has ended.
  case querySent = "query.sent"

  // A coordinator.
  /// A caller has asked for an event, and no participant is asked.
  case synchronizeReceived = "synchronize.received"
  /// PREPARE has gone to a participant.
  case prepareSent = "prepare.sent"
  /// All have said yes; COMMIT is not recorded.
  case commitBefore = "commit.before"
  /// COMMIT is recorded, and not sent.
  case commitRecorded = "commit.recorded"
  /// COMMIT has gone to a participant.
  case commitSent = "commit.sent"
  /// An event is aborted, and a participant is not told.
  case abortBefore = "abort.before"
  /// ABORT has gone to a participant.
  case abortSent = "abort.sent"
  /// All have acknowledged COMMIT.
  case commitFinished = "commit.finished"
  /// QUERY has come, and is not answered.
  case queryReceived = "query.received"

  /// Whether only participants of synchronized events, or their coordinators, come there.
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
  /// Written once, by `arm`, before the process starts its threads.
  private nonisolated(unsafe) static var isArmed = false
  /// The file without which none acts; written with `isArmed`.
  private nonisolated(unsafe) static var switchFile: String?
  /// The thread on which lodgers are at work beside the node; written with `isArmed`.
  private nonisolated(unsafe) static var thread = pthread_self()
  private static let residents = Locked(FailpointResidents())

  /// Reads this process's failpoints from its environment. To be called before threads are started.
  ///
  /// Where they are malformed, says so and ends the process with code 2.
  package static func arm(
    node: String, incarnation: UInt64, environment: [String: String] = ProcessEnvironment.current
  ) {
    do {
      let armed = try FailpointCounter(
        node: node, incarnation: incarnation, environment: environment)
      // Also where this node has none: a lodger may have some.
      guard environment[FailpointCounter.rulesVariable]?.isEmpty == false else { return }
      residents.withLock { $0.add(armed ?? FailpointCounter(), as: 0, prefix: "") }
      switchFile = environment[FailpointCounter.switchVariable]
      thread = pthread_self()
      isArmed = true
    } catch {
      StandardError.write("error: \(error)\n")
      exit(2)
    }
  }

  /// Whether any failpoint of this process, or of its lodgers, may act.
  package static var mayAct: Bool { isArmed }

  /// Reads those of a lodger, another node in this process; to be called on the thread of `arm`.
  /// - Parameters:
  ///   - resident: The number by which ``enter(_:)`` names it.
  ///   - prefix: What the lines begin with that tell of it.
  package static func arm(
    resident: Int, prefix: String, node: String, incarnation: UInt64,
    environment: [String: String] = ProcessEnvironment.current
  ) {
    // What is malformed would have ended the process at its start.
    guard isArmed,
      let armed = try? FailpointCounter(
        node: node, incarnation: incarnation, environment: environment)
    else { return }
    residents.withLock { $0.add(armed, as: resident, prefix: prefix) }
  }

  /// Says whose work this thread does from now on: the node's own, 0, or a lodger's.
  package static func enter(_ resident: Int) { residents.withLock { $0.current = resident } }

  /// Says that the process is at this place, where it may be told to die or to stand still.
  /// - Returns: Whether the caller must cut its connection.
  @discardableResult
  @inline(__always)
  package static func hit(_ point: Failpoint) -> Bool {
    isArmed && act(at: point) == .cut
  }

  /// Says that the process is at this place.
  /// - Returns: Whether the caller must behave as if what it is about to do had failed.
  @inline(__always)
  package static func shouldFail(_ point: Failpoint) -> Bool {
    isArmed && act(at: point) == .error
  }

  @inline(never)
  private static func act(at point: Failpoint) -> FailpointAction? {
    // What is done on other threads is the node's own.
    let isAtHome = pthread_equal(thread, pthread_self()) == 0
    guard let (action, count, prefix) = residents.withLock({ $0.hit(point, isAtHome: isAtHome) })
    else { return nil }
    if let switchFile, !FileSystem.exists(switchFile) { return nil }
    // One write, so that the line is whole in the log of a process that dies of it.
    StandardError.write("\(prefix)failpoint \(point.rawValue): \(action) (hit \(count))\n")
    action.perform()
    return action
  }
}

/// What a failpoint does.
package enum FailpointAction: Hashable, Sendable, CustomStringConvertible {
  /// SIGKILL to this process.
  case crash
  /// Ends the process with code 70, without any cleanup.
  case exit
  /// SIGSTOP to this process, which somebody else continues or kills.
  case stop
  case delay(Duration)
  /// The caller cuts its connection.
  case cut
  /// The caller fails.
  case error

  package static let names = ["crash", "exit", "stop", "delay:20ms", "cut", "error"]

  /// Reads `crash`, `delay:20ms` and so on; `nil` where the text is none.
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

  /// Whether the code at this place can do it.
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

  /// Does what needs no help of the caller.
  func perform() {
    switch self {
    // Raised in this thread, which therefore does not take another step.
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

/// The failpoints of one process: how often each was hit, and what it does at a hit; a value.
package struct FailpointCounter: Sendable {
  package static let rulesVariable = "PIPERUNTIME_FAILPOINTS"
  /// The seed of the probabilities; 0 where it is not set.
  package static let seedVariable = "PIPERUNTIME_FAILPOINT_SEED"
  /// Names a file without which no failpoint acts; hits are counted all the same.
  package static let switchVariable = "PIPERUNTIME_FAILPOINT_SWITCH"

  private let rules: [FailpointRule]
  private var hits: [Failpoint: UInt64] = [:]
  private var generator: SplitMix64

  /// One that never acts.
  package init() { self.init(rules: [], seed: 0, node: "", incarnation: 0) }

  /// - Parameter seed: Mixed with the node and the incarnation, so that a restarted process does
  ///   not do what the one before it did.
  package init(rules: [FailpointRule], seed: UInt64, node: String, incarnation: UInt64) {
    self.rules = rules.filter { rule in
      (rule.node ?? node) == node && (rule.incarnation ?? incarnation) == incarnation
    }
    var mixed = seed
    for byte in node.utf8 { mixed = (mixed ^ UInt64(byte)) &* 0x100_0000_01B3 }
    generator = SplitMix64(seed: mixed &+ incarnation &* 0xD6E8_FEB8_6659_FD93)
  }

  /// What the environment says for this process; `nil` where it has no failpoint.
  package init?(
    node: String, incarnation: UInt64, environment: [String: String]
  ) throws(FailpointError) {
    guard let text = environment[Self.rulesVariable], !text.isEmpty else { return nil }
    let seedText = environment[Self.seedVariable] ?? "0"
    guard let seed = UInt64(seedText) else {
      throw FailpointError(seedText, "is no whole number", variable: Self.seedVariable)
    }
    self.init(
      rules: try FailpointRule.parse(list: text), seed: seed, node: node,
      incarnation: incarnation)
    if rules.isEmpty { return nil }
  }

  /// Counts a hit. Returns what it does, and the count; the first rule whose moment it is wins.
  package mutating func hit(_ point: Failpoint) -> (action: FailpointAction, count: UInt64)? {
    let count = hits[point, default: 0] + 1
    hits[point] = count
    var action: FailpointAction?
    for rule in rules where rule.point == point {
      // Every probability is drawn at every hit, so that one rule does not shift another's.
      if isDue(rule.moment, at: count), action == nil { action = rule.action }
    }
    return action.map { ($0, count) }
  }

  private mutating func isDue(_ moment: FailpointRule.Moment, at count: UInt64) -> Bool {
    switch moment {
    case .always: true
    case .hit(let number): number == count
    case .probability(let probability):
      Double.random(in: 0..<1, using: &generator) < probability
    }
  }
}

/// The failpoints of a node's process and of the lodgers in it, each with a count of its own; a value.
struct FailpointResidents {
  private var counters: [Int: (counter: FailpointCounter, prefix: String)] = [:]
  /// Whose work the process's main thread does.
  var current = 0

  mutating func add(_ counter: FailpointCounter, as resident: Int, prefix: String) {
    counters[resident] = (counter, prefix)
  }

  /// Counts a hit. Returns what it does, the count, and what the line begins with that tells of it.
  /// - Parameter isAtHome: Whether it is the node's own, whoever is at work on the main thread.
  mutating func hit(
    _ point: Failpoint, isAtHome: Bool
  ) -> (action: FailpointAction, count: UInt64, prefix: String)? {
    let resident = isAtHome ? 0 : current
    guard let prefix = counters[resident]?.prefix,
      let (action, count) = counters[resident]?.counter.hit(point)
    else { return nil }
    return (action, count, prefix)
  }
}
