import PipeRuntime

/// Coordinators, participants and callers under faults, one random step after the other.
///
/// Crashes leave only what was recorded. Links are those of a connection, or wild.
struct Simulation {
  struct Settings: Sendable {
    var isWild = false
    var steps = 400
    var hasFaults = true
  }

  /// A composite, its participants, and the coordinator of its class.
  struct Composite {
    let name: String
    let participants: [String]
    let coordinator: Int
  }

  /// Two classes: three composites that overlap, and one that is alone.
  static let composites = [
    Composite(name: "ab", participants: ["a", "b"], coordinator: 0),
    Composite(name: "bcd", participants: ["b", "c", "d"], coordinator: 0),
    Composite(name: "ad", participants: ["a", "d"], coordinator: 0),
    Composite(name: "ef", participants: ["e", "f"], coordinator: 1),
  ]
  static let classes = [["a", "b", "c", "d"], ["e", "f"]]
  /// Those whose transitions take their time.
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
  var participants: [String: SimulatedParticipant] = [:]
  let names: [String]
  var isUp: [String: Bool] = [:]
  var toParticipant: [String: SimulatedLink<CoordinatorMessage>] = [:]
  var toCoordinator: [String: SimulatedLink<ParticipantMessage>] = [:]
  var requests: [SimulatedLink<(RequestID, TransactionRequest)>]
  var replies: [SimulatedLink<(RequestID, TransactionReply)>]
  var asked: [RequestID: Asked] = [:]
  var messageCount = 0
  var faultCount = 0
  var queriesAnswered = 0

  init(seed: UInt64, settings: Settings = Settings()) {
    random = Seeded(state: seed)
    self.settings = settings
    names = Self.classes.flatMap { $0 }
    coordinators = Self.classes.indices.map { SimulatedCoordinator(name: "class\($0)") }
    requests = coordinators.map { _ in SimulatedLink(isWild: false) }
    replies = coordinators.map { _ in SimulatedLink(isWild: false) }
    for name in names {
      participants[name] = SimulatedParticipant(name: name, isSlow: Self.slow.contains(name))
      toParticipant[name] = SimulatedLink(isWild: settings.isWild)
      toCoordinator[name] = SimulatedLink(isWild: settings.isWild)
      isUp[name] = false
    }
    for index in coordinators.indices { deliver(coordinators[index].restart(), from: index) }
    for name in names { connect(name) }
  }

  static func coordinator(of name: String) -> Int {
    classes.firstIndex { $0.contains(name) } ?? 0
  }

  // MARK: Carrying

  mutating func deliver(_ output: SimulatedCoordinator.Output, from index: Int) {
    for (name, message) in output.messages where isUp[name] == true {
      toParticipant[name]?.send(message)
      messageCount += 1
    }
    for reply in output.replies {
      replies[index].send(reply)
      messageCount += 1
    }
  }

  mutating func deliver(_ messages: [ParticipantMessage], from name: String) {
    guard isUp[name] == true else { return }
    for message in messages {
      toCoordinator[name]?.send(message)
      messageCount += 1
    }
  }

  mutating func connect(_ name: String) {
    let index = Self.coordinator(of: name)
    guard isUp[name] == false, participants[name]?.machine != nil,
      coordinators[index].machine != nil
    else { return }
    isUp[name] = true
    let machine = participants[name]?.machine
    let heard = machine?.watermark ?? .zero
    var prepared: TransactionID?
    if case .prepared(let step) = machine?.phase { prepared = step.transaction }
    deliver(
      coordinators[index].take { $0.connected(name, watermark: heard, prepared: prepared) },
      from: index)
    deliver(participants[name]?.connected() ?? [], from: name)
  }

  /// Breaks a connection: what is under way is lost, and the coordinator notices.
  mutating func disconnect(_ name: String) {
    guard isUp[name] == true else { return }
    isUp[name] = false
    // A wild link lets old messages come through a new connection.
    if !settings.isWild {
      toParticipant[name]?.drop()
      toCoordinator[name]?.drop()
    }
    let index = Self.coordinator(of: name)
    deliver(coordinators[index].take { $0.disconnected(name) }, from: index)
  }

  /// The callers' connection to a coordinator breaks: each sends again.
  mutating func reconnectCallers(of index: Int) {
    requests[index].drop()
    replies[index].drop()
    let open = asked.filter { $0.value.composite.coordinator == index && !$0.value.isAnswered }
    for (id, one) in open.sorted(by: { $0.key.number < $1.key.number }) {
      if one.mode == .broadcast {
        // Not sent again: some may have taken it. Its caller knows no more.
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
