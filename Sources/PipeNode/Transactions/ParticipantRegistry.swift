import PipeMachines
import PipeWire

/// A coordinator's knowledge of its participants: which are connected, and which events they would
/// refuse, so that waiting requests do not ask them needlessly.
///
/// `reduce` is pure: a machine that has refused an event in a state refuses it in that state again.
/// The state of a participant is known from its last commit or refusal, until it reports a step of
/// its own.
struct ParticipantRegistry: Sendable {
  private struct KnownParticipant {
    /// The participant's state and version, if they are known.
    var current: ParticipantMove?
    /// The refused events, with the states that refused them; few enough for a linear search.
    var refused: [(state: [UInt8], event: [UInt8], blockingParticipant: BlockingParticipant)] = []

    /// Returns the known refusal of an event in the present state.
    func blockingParticipant(_ event: [UInt8]) -> BlockingParticipant? {
      guard let current else { return nil }
      var knownRefusal = refused.first { $0.event == event && $0.state == current.state }?
        .blockingParticipant
      knownRefusal?.version = current.version
      return knownRefusal
    }
  }

  private(set) var connected: Set<String> = []
  /// The participants that have ever connected; `nil` once running participants have had time to
  /// join after a start.
  private var joined: Set<String>? = []
  private var knownParticipants: [String: KnownParticipant] = [:]
  /// The number of commits of this process that each participant was part of.
  private var commitCounts: [String: UInt64] = [:]

  /// The number of refusals that are remembered per participant. Unit: refusals.
  private static let refusalLimit = 16
  /// The size limit of remembered states and events: larger ones seldom come again. Unit: bytes.
  private static let sizeLimit = 256

  mutating func connect(_ participant: String) {
    connected.insert(participant)
    joined?.insert(participant)
    // The participant may be another process, even of another program.
    knownParticipants[participant] = nil
  }

  mutating func disconnect(_ participant: String) {
    connected.remove(participant)
    knownParticipants[participant] = nil
  }

  /// Notes that running participants have had time to join after a start.
  mutating func endJoining() { joined = nil }

  /// Whether an unconnected participant may be about to join, after a start.
  func mayJoin(_ participant: String) -> Bool { joined?.contains(participant) == false }

  /// Returns the number of commits that these participants were part of.
  func commitCount(of participants: [String]) -> UInt64 {
    participants.reduce(0) { $0 + commitCounts[$1, default: 0] }
  }

  /// Notes that a participant has refused an event because of its state.
  mutating func refused(_ participant: String, _ event: [UInt8], _ refusal: ParticipantRefusal) {
    guard case .refused(_, let version, let state) = refusal else { return }
    var knownParticipant = knownParticipants[participant] ?? KnownParticipant()
    knownParticipant.current = ParticipantMove(version: version, state: state)
    if state.count <= Self.sizeLimit, event.count <= Self.sizeLimit,
      knownParticipant.blockingParticipant(event) == nil,
      let blockingParticipant = refusal.blockingParticipant(by: participant)
    {
      if knownParticipant.refused.count == Self.refusalLimit {
        knownParticipant.refused.removeFirst()
      }
      knownParticipant.refused.append((state, event, blockingParticipant))
    }
    knownParticipants[participant] = knownParticipant
  }

  /// Notes that a participant takes a committed step.
  mutating func moved(_ participant: String, _ move: ParticipantMove) {
    commitCounts[participant, default: 0] += 1
    knownParticipants[participant, default: KnownParticipant()].current = move
  }

  /// Notes that a participant has taken a step of its own, or may have.
  mutating func changed(_ participant: String) { knownParticipants[participant]?.current = nil }

  /// Notes the reported version of a participant. Returns whether it shows a new step.
  mutating func reported(_ participant: String, version: UInt64) -> Bool {
    guard let current = knownParticipants[participant]?.current, current.version < version else {
      return false
    }
    changed(participant)
    return true
  }

  /// Returns the known refusals of an event, in the present states of the participants.
  func refusals(of event: [UInt8], by participants: [String]) -> [BlockingParticipant] {
    participants.compactMap { knownParticipants[$0]?.blockingParticipant(event) }
  }
}
