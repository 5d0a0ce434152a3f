import PipeMachines
import PipeNode
import PipeWire
import TestSupport

/// Coordinators, participants and callers under faults, in random steps.
///
/// After a crash only recorded data is left. Links behave like connections, or are wild.
struct Simulation {
  struct Settings: Sendable {
    var isWild = false
    var steps = 400
    var hasFaults = true
  }

  /// A composite with its participants and the index of its coordinator.
  struct Composite {
    let name: String
    let participants: [String]
    let coordinator: Int
  }

  /// Two classes of composites: three that overlap, and one that is alone.
  static let composites = [
    Composite(name: "ab", participants: ["a", "b"], coordinator: 0),
    Composite(name: "bcd", participants: ["b", "c", "d"], coordinator: 0),
    Composite(name: "ad", participants: ["a", "d"], coordinator: 0),
    Composite(name: "ef", participants: ["e", "f"], coordinator: 1),
  ]
  static let classes = [["a", "b", "c", "d"], ["e", "f"]]
  static let names = classes.flatMap { $0 }
  /// The index of each name, and the class at each index.
  static let places = Dictionary(uniqueKeysWithValues: zip(names, names.indices))
  static let classOf = classes.enumerated().flatMap { index, names in names.map { _ in index } }
  /// The participants with asynchronous transitions.
  static let slow: Set = ["b", "e"]

  struct Asked {
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
  var asked: [RequestID: Asked] = [:]
  var messageCount = 0
  var faultCount = 0
  var queriesAnswered = 0

  init(seed: UInt64, settings: Settings = Settings()) {
    random = Seeded(state: seed)
    self.settings = settings
    coordinators = Self.classes.indices.map { SimulatedCoordinator(name: "class\($0)") }
    requests = coordinators.map { _ in SimulatedLink(isWild: false) }
    replies = coordinators.map { _ in SimulatedLink(isWild: false) }
    participants = Self.names.map {
      SimulatedParticipant(name: $0, isSlow: Self.slow.contains($0))
    }
    isUp = participants.map { _ in false }
    toParticipant = participants.map { _ in SimulatedLink(isWild: settings.isWild) }
    toCoordinator = participants.map { _ in SimulatedLink(isWild: settings.isWild) }
    for index in coordinators.indices { deliver(coordinators[index].restart(), from: index) }
    for place in participants.indices { connect(place) }
  }

  // MARK: Carrying

  mutating func deliver(_ output: SimulatedCoordinator.Output, from index: Int) {
    for (name, message) in output.messages {
      let place = Self.places[name]!
      guard isUp[place] else { continue }
      toParticipant[place].send(message)
      messageCount += 1
    }
    for reply in output.replies {
      replies[index].send(reply)
      messageCount += 1
    }
  }

  mutating func deliver(_ messages: [ParticipantMessage], from place: Int) {
    guard isUp[place] else { return }
    for message in messages {
      toCoordinator[place].send(message)
      messageCount += 1
    }
  }

  mutating func connect(_ place: Int) {
    let index = Self.classOf[place]
    guard !isUp[place], let machine = participants[place].machine,
      coordinators[index].machine != nil
    else { return }
    isUp[place] = true
    var prepared: TransactionID?
    if case .prepared(let step) = machine.phase { prepared = step.transaction }
    deliver(
      coordinators[index].take {
        $0.connected(Self.names[place], watermark: machine.watermark, prepared: prepared)
      }, from: index)
    deliver(participants[place].connected(), from: place)
  }

  /// Breaks a connection: messages in flight are lost, and the coordinator notices.
  mutating func disconnect(_ place: Int) {
    guard isUp[place] else { return }
    isUp[place] = false
    // A wild link delivers old messages on a new connection.
    if !settings.isWild {
      toParticipant[place].drop()
      toCoordinator[place].drop()
    }
    let index = Self.classOf[place]
    deliver(coordinators[index].take { $0.disconnected(Self.names[place]) }, from: index)
  }

  /// Breaks the callers' connection to a coordinator, after which each caller repeats its requests.
  mutating func reconnectCallers(of index: Int) {
    requests[index].drop()
    replies[index].drop()
    let open = asked.filter { $0.value.composite.coordinator == index && !$0.value.isAnswered }
    for (id, one) in open.sorted(by: { $0.key.number < $1.key.number }) {
      if one.mode == .broadcast {
        // A broadcast is not repeated, because some participants may have taken it. Its outcome is
        // unknown.
        asked[id]?.replies.append(.broadcast([:]))
      } else {
        requests[index].send((id, Self.request(one)))
      }
    }
  }

  static func request(_ one: Asked) -> TransactionRequest {
    TransactionRequest(
      composite: one.composite.name, event: "tick", participants: one.composite.participants,
      body: one.body, question: Array("\"tick\"".utf8), mode: one.mode)
  }

  @discardableResult
  mutating func ask(_ composite: Composite, _ mode: TransactionMode) -> RequestID {
    let id = RequestID(caller: "caller", number: UInt64(asked.count + 1))
    let one = Asked(composite: composite, mode: mode, body: Array("\(id.number)".utf8))
    asked[id] = one
    requests[composite.coordinator].send((id, Self.request(one)))
    messageCount += 1
    return id
  }
}
