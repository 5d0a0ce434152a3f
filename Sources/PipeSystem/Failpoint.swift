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
