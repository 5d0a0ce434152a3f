import PipeMachines
import PipeNode
import PipeWire
import TestSupport

/// Coordinators, participants and callers under faults, in random steps.
///
/// After a crash only recorded data is left. Links behave like connections, or are wild.
struct Simulation {
  struct Settings: Sendable {
    var isUnreliable = false
    var steps = 400
    var hasFaults = true
  }

  /// A composite with its participants and the index of its coordinator.
  struct Composite {
    let name: String
    let participants: [String]
    let coordinator: Int
  }

  /// Two conflict classes: three composites that overlap, and a single composite.
  static let composites = [
    Composite(name: "ab", participants: ["a", "b"], coordinator: 0),
    Composite(name: "bcd", participants: ["b", "c", "d"], coordinator: 0),
    Composite(name: "ad", participants: ["a", "d"], coordinator: 0),
    Composite(name: "ef", participants: ["e", "f"], coordinator: 1),
  ]
  static let classes = [["a", "b", "c", "d"], ["e", "f"]]
  static let names = classes.flatMap { $0 }
  /// The index of each name, and the class at each index.
  static let participantIndices = Dictionary(uniqueKeysWithValues: zip(names, names.indices))
  static let classOf = classes.enumerated().flatMap { index, names in names.map { _ in index } }
  /// The participants with asynchronous transitions.
  static let slow: Set = ["b", "e"]

  struct SimulatedRequest {
    let composite: Composite
    let mode: TransactionMode
    var replies: [TransactionReply] = []
    var body: [UInt8]
    var isAnswered: Bool { !replies.isEmpty }
  }

  var random: Seeded
  let settings: Settings
  var isHealing = false
  var coordinators: [SimulatedCoordinator]
  /// The participants, their connection states and both links, in the order of the names.
  var participants: [SimulatedParticipant]
  var isUp: [Bool]
  var toParticipant: [SimulatedLink<CoordinatorMessage>]
  var toCoordinator: [SimulatedLink<ParticipantMessage>]
  var requests: [SimulatedLink<(RequestID, TransactionRequest)>]
  var replies: [SimulatedLink<(RequestID, TransactionReply)>]
  var simulatedRequests: [RequestID: SimulatedRequest] = [:]
  var messageCount = 0
  var faultCount = 0
  var queriesAnswered = 0

  init(seed: UInt64, settings: Settings = Settings()) {
    random = Seeded(state: seed)
    self.settings = settings
    coordinators = Self.classes.indices.map { SimulatedCoordinator(name: "class\($0)") }
    requests = coordinators.map { _ in SimulatedLink(isUnreliable: false) }
    replies = coordinators.map { _ in SimulatedLink(isUnreliable: false) }
    participants = Self.names.map {
      SimulatedParticipant(name: $0, isSlow: Self.slow.contains($0))
    }
    isUp = participants.map { _ in false }
    toParticipant = participants.map { _ in SimulatedLink(isUnreliable: settings.isUnreliable) }
    toCoordinator = participants.map { _ in SimulatedLink(isUnreliable: settings.isUnreliable) }
    for index in coordinators.indices { deliver(coordinators[index].restart(), from: index) }
    for participantIndex in participants.indices { connect(participantIndex) }
  }

  // MARK: Delivery of messages

  mutating func deliver(_ output: SimulatedCoordinator.Output, from index: Int) {
    for (name, message) in output.messages {
      let participantIndex = Self.participantIndices[name]!
      guard isUp[participantIndex] else { continue }
      toParticipant[participantIndex].send(message)
      messageCount += 1
    }
    for reply in output.replies {
      replies[index].send(reply)
      messageCount += 1
    }
  }

  mutating func deliver(_ messages: [ParticipantMessage], from participantIndex: Int) {
    guard isUp[participantIndex] else { return }
    for message in messages {
      toCoordinator[participantIndex].send(message)
      messageCount += 1
    }
  }

  mutating func connect(_ participantIndex: Int) {
    let index = Self.classOf[participantIndex]
    guard !isUp[participantIndex], let machine = participants[participantIndex].machine,
      coordinators[index].machine != nil
    else { return }
    isUp[participantIndex] = true
    var prepared: [TransactionID] = []
    if case .prepared(let step) = machine.phase { prepared = [step.transaction] }
    deliver(
      coordinators[index].take {
        $0.connected(Self.names[participantIndex], watermark: machine.watermark, prepared: prepared)
      }, from: index)
    deliver(participants[participantIndex].connected(), from: participantIndex)
  }

  /// Breaks a connection: messages in flight are lost, and the coordinator notices.
  mutating func disconnect(_ participantIndex: Int) {
    guard isUp[participantIndex] else { return }
    isUp[participantIndex] = false
    // A wild link delivers old messages on a new connection.
    if !settings.isUnreliable {
      toParticipant[participantIndex].drop()
      toCoordinator[participantIndex].drop()
    }
    let index = Self.classOf[participantIndex]
    deliver(coordinators[index].take { $0.disconnected(Self.names[participantIndex]) }, from: index)
  }

  /// Breaks the callers' connection to a coordinator, after which each caller repeats its requests.
  mutating func reconnectRequesters(of index: Int) {
    requests[index].drop()
    replies[index].drop()
    let open = simulatedRequests.filter {
      $0.value.composite.coordinator == index && !$0.value.isAnswered
    }
    for (id, simulatedRequest) in open.sorted(by: { $0.key.number < $1.key.number }) {
      if simulatedRequest.mode == .broadcast {
        // A broadcast is not repeated, because some participants may have taken the event. The
        // outcome is unknown.
        simulatedRequests[id]?.replies.append(.broadcast([:]))
      } else {
        requests[index].send((id, Self.request(simulatedRequest)))
      }
    }
  }

  static func request(_ simulatedRequest: SimulatedRequest) -> TransactionRequest {
    TransactionRequest(
      composite: simulatedRequest.composite.name, event: "tick",
      participants: simulatedRequest.composite.participants,
      body: simulatedRequest.body, decisiveBody: Array("\"tick\"".utf8), mode: simulatedRequest.mode
    )
  }

  @discardableResult
  mutating func ask(_ composite: Composite, _ mode: TransactionMode) -> RequestID {
    let id = RequestID(caller: "caller", number: UInt64(simulatedRequests.count + 1))
    let simulatedRequest = SimulatedRequest(
      composite: composite, mode: mode, body: Array("\(id.number)".utf8))
    simulatedRequests[id] = simulatedRequest
    requests[composite.coordinator].send((id, Self.request(simulatedRequest)))
    messageCount += 1
    return id
  }
}
