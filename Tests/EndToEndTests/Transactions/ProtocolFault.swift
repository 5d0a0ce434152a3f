import PipeRuntime
import Testing

/// A fault at one failpoint of the protocol of synchronized events, and the possible replies.
struct ProtocolFault: Sendable, CustomTestStringConvertible {
  enum Kind: String, CaseIterable, Sendable {
    /// SIGKILL. A new process follows.
    case crash
    /// A cut of the connections between coordinator and participant, which are opened again.
    case cut
    /// SIGSTOP, followed by SIGCONT when the other processes have noticed.
    case stop
  }

  /// The events, besides the request, that lead to the failpoint.
  enum Path: Sendable {
    /// No other event: both participants are willing.
    case willing
    /// The right participant is not willing, and votes no after the left one has voted yes.
    case unwilling
    /// The left participant dies after its vote.
    case doubt
    /// The right participant is slow, so the left one sends a query before the decision.
    case undecided
    /// The left participant dies after it has recorded its step, and receives the commit again.
    case again

    /// The failpoints that create the path.
    var rules: [String] {
      switch self {
      case .willing: []
      case .unwilling: ["right:prepare.before=delay:100ms@1/1"]
      case .doubt: ["left:yes.after=crash@1/1"]
      case .undecided: ["right:prepare.before=delay:1200ms@1/1"]
      case .again: ["left:step.recorded=crash@1/1"]
      }
    }
  }

  /// The reply that the caller gets.
  enum ExpectedOutcome: Sendable { case committed, notTaken, either }

  /// The event after which a suspended process is resumed.
  enum ResumeCondition: Sendable {
    case nothing
    /// The caller has its reply.
    case answer
    /// This participant has timed out waiting for its coordinator and sends a query.
    case doubt(String)
  }

  let node: String
  let point: Failpoint
  let kind: Kind
  let path: Path
  private(set) var expectedOutcome: ExpectedOutcome
  private(set) var resumeCondition: ResumeCondition
  /// The carrier node of an embedded coordinator, or `nil` if it has a process of its own.
  private(set) var host: String?

  var testDescription: String {
    "\(node):\(point.rawValue)=\(kind)\(path)" + (host.map { ", within \($0)" } ?? "")
  }

  /// The failpoints of the topology.
  var rules: String {
    // If the left participant dies on the path to the failpoint, the rule applies to its second
    // process.
    let moment =
      switch path {
      case .again: "@1/2"
      case .doubt where node == "left": "@1/2"
      case .willing, .unwilling, .doubt, .undecided: "@1/1"
      }
    let own = "\(node):\(point.rawValue)=\(kind.rawValue)\(moment)"
    return (path.rules + [own]).joined(separator: ",")
  }

  /// Returns the same fault with the coordinator embedded in a participant.
  private func within(_ host: String) -> ProtocolFault {
    var fault = self
    fault.host = host
    // If a process that runs two nodes is suspended, neither node sends messages.
    let isShared = node == host || node == "pair"
    switch resumeCondition {
    case .answer where isShared: fault.resumeCondition = .nothing
    case .doubt(host): fault.resumeCondition = .nothing
    case .answer, .doubt, .nothing: break
    }
    // If the carrier is slow, so is its coordinator, and the votes may arrive before the query.
    if path == .undecided { fault.expectedOutcome = .either }
    return fault
  }

  /// Returns a fault of each kind at a failpoint.
  private static func faults(
    _ node: String, _ point: Failpoint, on path: Path = .willing, crash: ExpectedOutcome,
    cut: ExpectedOutcome,
    stop: ExpectedOutcome, until resumeCondition: ResumeCondition
  ) -> [ProtocolFault] {
    Kind.allCases.map { kind in
      let expectedOutcome =
        switch kind {
        case .crash: crash
        case .cut: cut
        case .stop: stop
        }
      return ProtocolFault(
        node: node, point: point, kind: kind, path: path, expectedOutcome: expectedOutcome,
        resumeCondition: resumeCondition)
    }
  }

  private static func faults(
    _ node: String, _ point: Failpoint, on path: Path = .willing,
    _ expectedOutcome: ExpectedOutcome,
    until resumeCondition: ResumeCondition
  ) -> [ProtocolFault] {
    faults(
      node, point, on: path, crash: expectedOutcome, cut: expectedOutcome, stop: expectedOutcome,
      until: resumeCondition)
  }

  static let ofParticipants =
    separateParticipantFaults + separateParticipantFaults.map { $0.within("right") }
  static let ofCoordinators =
    separateCoordinatorFaults + separateCoordinatorFaults.map { $0.within("right") }
    + separateCoordinatorFaults.filter { $0.path == .willing }.map { $0.within("left") }

  /// The faults of a participant. Each comment names the participant's condition, and then the
  /// frame that the participant receives.
  private static let separateParticipantFaults: [ProtocolFault] =
    // free, PREPARE: enabled. A cut may lose the YES that is in flight.
    faults("left", .prepareBefore, crash: .notTaken, cut: .either, stop: .notTaken, until: .answer)
    + faults(
      "left", .prepareRecorded, crash: .notTaken, cut: .either, stop: .notTaken, until: .answer)
    + faults("left", .yesAfter, .either, until: .answer)
    // free, PREPARE: not enabled.
    + faults("right", .noAfter, on: .unwilling, .notTaken, until: .answer)
    // prepared, COMMIT.
    + faults("left", .commitReceived, .committed, until: .answer)
    + faults("left", .stepRecorded, .committed, until: .answer)
    + faults("left", .acknowledgeAfter, .committed, until: .answer)
    // prepared, ABORT.
    + faults("left", .abortReceived, on: .unwilling, .notTaken, until: .answer)
    // prepared, timeout or restart.
    + faults("left", .querySent, on: .doubt, .either, until: .answer)
    // free, COMMIT of an applied transaction.
    + faults("left", .acknowledgeAfter, on: .again, .committed, until: .answer)

  /// The faults of a coordinator. If a coordinator dies before it has recorded a commit, the client
  /// repeats the request, and the next process of the coordinator tries the event again. A message
  /// that is sent just after a cut may go out on the next connection before the cut is noticed.
  private static let separateCoordinatorFaults: [ProtocolFault] =
    // idle, REQUEST.
    faults("pair", .synchronizeReceived, .either, until: .nothing)
    + faults("pair", .prepareSent, .either, until: .nothing)
    // collecting, all YES.
    + faults(
      "pair", .commitBefore, crash: .either, cut: .committed, stop: .committed,
      until: .doubt("left"))
    + faults("pair", .commitRecorded, .committed, until: .doubt("left"))
    + faults("pair", .commitSent, .committed, until: .doubt("right"))
    // collecting, NO.
    + faults("pair", .abortBefore, on: .unwilling, .notTaken, until: .doubt("left"))
    + faults("pair", .abortSent, on: .unwilling, .notTaken, until: .nothing)
    // committing, all ACK.
    + faults("pair", .commitFinished, .committed, until: .nothing)
    // QUERY: decided, and undecided.
    + faults("pair", .queryReceived, on: .doubt, .either, until: .nothing)
    + faults(
      "pair", .queryReceived, on: .undecided, crash: .either, cut: .notTaken, stop: .either,
      until: .nothing)
}
