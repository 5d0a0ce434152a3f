import PipeRuntime
import Testing

/// A fault at one place of the protocol of synchronized events, and what the caller may be told.
struct ProtocolFault: Sendable, CustomTestStringConvertible {
  enum Kind: String, CaseIterable, Sendable {
    /// SIGKILL; a new process follows.
    case crash
    /// The connections between the coordinator and the participant end, and are made anew.
    case cut
    /// SIGSTOP; SIGCONT when the others have noticed.
    case stop
  }

  /// What leads to the place, beside an event that is asked for.
  enum Path: Sendable {
    /// Nothing: both participants are willing.
    case willing
    /// The right one is not willing, and says so when the left one has promised.
    case unwilling
    /// The left one dies when it has promised.
    case doubt
    /// The right one takes its time, so that the left one asks before anything is decided.
    case undecided
    /// The left one dies when its step is recorded, and is told of the commit again.
    case again

    /// The failpoints that make it.
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

  /// What the caller is told.
  enum Told: Sendable { case committed, notTaken, either }

  /// What a process that stands still is left to until it goes on.
  enum Hold: Sendable {
    case nothing
    /// The caller has been answered.
    case answer
    /// This participant has waited for its coordinator in vain, and asks.
    case doubt(String)
  }

  let node: String
  let point: Failpoint
  let kind: Kind
  let path: Path
  private(set) var told: Told
  private(set) var hold: Hold
  /// The participant in whose process the coordinator lives; `nil` where it has one of its own.
  private(set) var host: String?

  var testDescription: String {
    "\(node):\(point.rawValue)=\(kind)\(path)" + (host.map { ", within \($0)" } ?? "")
  }

  /// The failpoints of the topology.
  var rules: String {
    // Where the left one dies on the way, its second process is meant.
    let moment =
      switch path {
      case .again: "@1/2"
      case .doubt where node == "left": "@1/2"
      case .willing, .unwilling, .doubt, .undecided: "@1/1"
      }
    let own = "\(node):\(point.rawValue)=\(kind.rawValue)\(moment)"
    return (path.rules + [own]).joined(separator: ",")
  }

  /// The same where the coordinator lives within a participant.
  private func within(_ host: String) -> ProtocolFault {
    var fault = self
    fault.host = host
    // One process strikes two at once: who stands still in it neither asks nor answers.
    let isShared = node == host || node == "pair"
    switch hold {
    case .answer where isShared: fault.hold = .nothing
    case .doubt(host): fault.hold = .nothing
    case .answer, .doubt, .nothing: break
    }
    // Where it takes its time, so does the coordinator, and the answers may be there before the question.
    if path == .undecided { fault.told = .either }
    return fault
  }

  /// A fault of each kind at a place.
  private static func each(
    _ node: String, _ point: Failpoint, on path: Path = .willing, crash: Told, cut: Told,
    stop: Told, until hold: Hold
  ) -> [ProtocolFault] {
    Kind.allCases.map { kind in
      let told =
        switch kind {
        case .crash: crash
        case .cut: cut
        case .stop: stop
        }
      return ProtocolFault(
        node: node, point: point, kind: kind, path: path, told: told, hold: hold)
    }
  }

  private static func each(
    _ node: String, _ point: Failpoint, on path: Path = .willing, _ told: Told,
    until hold: Hold
  ) -> [ProtocolFault] {
    each(node, point, on: path, crash: told, cut: told, stop: told, until: hold)
  }

  static let ofParticipants = ofParticipantsApart + ofParticipantsApart.map { $0.within("right") }
  static let ofCoordinators =
    ofCoordinatorsApart + ofCoordinatorsApart.map { $0.within("right") }
    + ofCoordinatorsApart.filter { $0.path == .willing }.map { $0.within("left") }

  /// The participant's rows of DESIGN.md 3.3.
  private static let ofParticipantsApart: [ProtocolFault] =
    // free, PREPARE: enabled. Where YES is on its way, nobody can say whether it arrives.
    each("left", .prepareBefore, crash: .notTaken, cut: .either, stop: .notTaken, until: .answer)
    + each(
      "left", .prepareRecorded, crash: .notTaken, cut: .either, stop: .notTaken, until: .answer)
    + each("left", .yesAfter, .either, until: .answer)
    // free, PREPARE: not enabled.
    + each("right", .noAfter, on: .unwilling, .notTaken, until: .answer)
    // prepared, COMMIT.
    + each("left", .commitReceived, .committed, until: .answer)
    + each("left", .stepRecorded, .committed, until: .answer)
    + each("left", .acknowledgeAfter, .committed, until: .answer)
    // prepared, ABORT.
    + each("left", .abortReceived, on: .unwilling, .notTaken, until: .answer)
    // prepared, timeout or restart.
    + each("left", .querySent, on: .doubt, .either, until: .answer)
    // free, COMMIT of an applied transaction.
    + each("left", .acknowledgeAfter, on: .again, .committed, until: .answer)

  /// The coordinator's rows. One that dies before its record is asked again, and tries again. What is
  /// sent just after a cut may go out with the next connection, before anybody notices.
  private static let ofCoordinatorsApart: [ProtocolFault] =
    // idle, REQUEST.
    each("pair", .synchronizeReceived, .either, until: .nothing)
    + each("pair", .prepareSent, .either, until: .nothing)
    // collecting, all YES.
    + each(
      "pair", .commitBefore, crash: .either, cut: .committed, stop: .committed,
      until: .doubt("left"))
    + each("pair", .commitRecorded, .committed, until: .doubt("left"))
    + each("pair", .commitSent, .committed, until: .doubt("right"))
    // collecting, NO.
    + each("pair", .abortBefore, on: .unwilling, .notTaken, until: .doubt("left"))
    + each("pair", .abortSent, on: .unwilling, .notTaken, until: .nothing)
    // committing, all ACK.
    + each("pair", .commitFinished, .committed, until: .nothing)
    // QUERY: decided, and undecided.
    + each("pair", .queryReceived, on: .doubt, .either, until: .nothing)
    + each(
      "pair", .queryReceived, on: .undecided, crash: .either, cut: .notTaken, stop: .either,
      until: .nothing)
}
