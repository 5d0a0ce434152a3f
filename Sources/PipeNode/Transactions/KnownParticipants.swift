import PipeMachines
import PipeWire

/// What a coordinator knows of its participants: who is connected, and what they would refuse, so that
/// a request that waits does not ask them in vain.
///
/// `reduce` is pure: what a machine has refused in a state, it refuses in that state again. The state
/// of a participant is known from its last commit or refusal, until it tells of a step of its own.
struct KnownParticipants: Sendable {
  private struct Standing {
    /// Its state and version, where they are known.
    var present: ParticipantMove?
    /// What it has refused in which state; few, so that a look at each does.
    var refused: [(state: [UInt8], event: [UInt8], withholding: Withholding)] = []

    /// Why it would refuse an event in its present state.
    func withholding(_ event: [UInt8]) -> Withholding? {
      guard let present else { return nil }
      var known = refused.first { $0.event == event && $0.state == present.state }?.withholding
      known?.version = present.version
      return known
    }
  }

  private(set) var connected: Set<String> = []
  /// Those that were connected at any time, while the others may be about to be, after a start.
  private var joined: Set<String>? = []
  private var standings: [String: Standing] = [:]
  /// How many commits each has had part in, of this process.
  private var commitCounts: [String: UInt64] = [:]

  /// What is remembered of one participant before it is forgotten. Unit: refusals.
  private static let kept = 16
  /// Larger states and events are not remembered: they seldom come again. Unit: bytes.
  private static let longest = 256

  mutating func connect(_ participant: String) {
    connected.insert(participant)
    joined?.insert(participant)
    // It may be another process, and of another program.
    standings[participant] = nil
  }

  mutating func disconnect(_ participant: String) {
    connected.remove(participant)
    standings[participant] = nil
  }

  /// After a start, those that run have joined by now.
  mutating func endJoining() { joined = nil }

  /// Whether a participant that is not connected may be about to be, after a start.
  func mayJoin(_ participant: String) -> Bool { joined?.contains(participant) == false }

  /// How many commits these have had part in.
  func commitCount(of participants: [String]) -> UInt64 {
    participants.reduce(0) { $0 + commitCounts[$1, default: 0] }
  }

  /// A participant has refused an event, as its state does not allow it.
  mutating func refused(_ participant: String, _ event: [UInt8], _ refusal: ParticipantRefusal) {
    guard case .refused(_, let version, let state) = refusal else { return }
    var standing = standings[participant] ?? Standing()
    standing.present = ParticipantMove(version: version, state: state)
    if state.count <= Self.longest, event.count <= Self.longest,
      standing.withholding(event) == nil, let withholding = refusal.withholding(by: participant)
    {
      if standing.refused.count == Self.kept { standing.refused.removeFirst() }
      standing.refused.append((state, event, withholding))
    }
    standings[participant] = standing
  }

  /// A participant takes a step that was committed.
  mutating func moved(_ participant: String, _ move: ParticipantMove) {
    commitCounts[participant, default: 0] += 1
    standings[participant, default: Standing()].present = move
  }

  /// A participant has taken a step of its own, or may have.
  mutating func changed(_ participant: String) { standings[participant]?.present = nil }

  /// The same; returns whether it is news.
  mutating func told(_ participant: String, version: UInt64) -> Bool {
    guard let present = standings[participant]?.present, present.version < version else {
      return false
    }
    changed(participant)
    return true
  }

  /// Who is known to refuse an event now.
  func refusals(of event: [UInt8], by participants: [String]) -> [Withholding] {
    participants.compactMap { standings[$0]?.withholding(event) }
  }
}
