import PipeMachines
import PipeWire

/// A coordinator's knowledge about its participants: which of them are connected, and which events
/// they would refuse. So waiting requests do not ask participants that would refuse anyway.
///
/// A machine's `reduce` function is pure, so a machine that has refused an event in a state will
/// refuse the event in that state again. The coordinator knows a participant's state from the
/// participant's last commit or refusal, until the participant reports a step of its own.
struct ParticipantRegistry: Sendable {
  private struct KnownParticipant {
    /// The current state and version of the participant; `nil` if they are unknown.
    var current: ParticipantMove?
    /// The refused events, each with the state in which it was refused. The number of refusals is
    /// small, so a linear search suffices.
    var refused: [(state: [UInt8], event: [UInt8], blockingParticipant: BlockingParticipant)] = []

    /// Returns the known refusal of an event in the current state; `nil` if none is known.
    func blockingParticipant(_ event: [UInt8]) -> BlockingParticipant? {
      guard let current else { return nil }
      var knownRefusal = refused.first { $0.event == event && $0.state == current.state }?
        .blockingParticipant
      knownRefusal?.version = current.version
      return knownRefusal
    }
  }

  private(set) var connected: Set<String> = []
  /// The participants that have joined since the start; `nil` once all running participants have
  /// had time to join.
  private var joined: Set<String>? = []
  private var knownParticipants: [String: KnownParticipant] = [:]
  /// The number of commits of this process in which each participant has taken part, by
  /// participant.
  private var commitCountsByParticipant: [String: UInt64] = [:]

  /// The maximum number of refusals that are stored for each participant. Unit: refusals.
  private static let refusalLimit = 16
  /// The maximum size of a stored state or event. Larger values seldom occur again. Unit: bytes.
  private static let sizeLimit = 256

  mutating func connect(_ participant: String) {
    connected.insert(participant)
    joined?.insert(participant)
    // The participant may have a new process, and even a new program.
    discardStates(of: participant)
  }

  mutating func disconnect(_ participant: String) {
    connected.remove(participant)
    discardStates(of: participant)
  }

  /// Discards the data about a node and its instances.
  private mutating func discardStates(of node: String) {
    knownParticipants = knownParticipants.filter { InstanceName.node(of: $0.key) != node }
  }

  /// Notes that the running participants have had enough time to join after the coordinator's
  /// start.
  mutating func endJoining() { joined = nil }

  /// Returns whether a participant is connected. For an instance, returns whether its node is
  /// connected.
  func isConnected(_ participant: String) -> Bool {
    connected.contains(InstanceName.node(of: participant))
  }

  /// Returns whether a participant may be about to join, because the coordinator has just started.
  func mayJoin(_ participant: String) -> Bool {
    joined?.contains(InstanceName.node(of: participant)) == false
  }

  /// Discards the knowledge about an instance that no request asks for. Nodes are few, but there
  /// may be millions of instances.
  mutating func forget(_ instance: String) {
    knownParticipants[instance] = nil
    commitCountsByParticipant[instance] = nil
  }

  /// Returns the number of commits in which these participants have taken part, summed over the
  /// participants.
  func commitCount(of participants: [String]) -> UInt64 {
    participants.reduce(0) { $0 + commitCountsByParticipant[$1, default: 0] }
  }

  /// Notes that a participant has refused an event because of its state.
  mutating func noteRefusal(
    by participant: String, of event: [UInt8], _ refusal: ParticipantRefusal
  ) {
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

  /// Notes that a participant takes the step of a commit.
  mutating func noteCommit(of participant: String, _ move: ParticipantMove) {
    commitCountsByParticipant[participant, default: 0] += 1
    knownParticipants[participant, default: KnownParticipant()].current = move
  }

  /// Notes that a participant has taken a step alone, or may have.
  mutating func noteStep(of participant: String) { knownParticipants[participant]?.current = nil }

  /// Notes the version that a participant has reported. Returns whether the participant has taken a
  /// step since its last known version.
  mutating func reported(_ participant: String, version: UInt64) -> Bool {
    guard let current = knownParticipants[participant]?.current, current.version < version else {
      return false
    }
    noteStep(of: participant)
    return true
  }

  /// Returns the known refusals of an event by participants in their current states.
  func refusals(of event: [UInt8], by participants: [String]) -> [BlockingParticipant] {
    participants.compactMap { knownParticipants[$0]?.blockingParticipant(event) }
  }
}
