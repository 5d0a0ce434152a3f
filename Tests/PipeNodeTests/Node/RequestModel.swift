import PipeClient
import PipeJournal
import PipeMachines
import PipeNode
import PipeWire
import TestSupport

/// A model of clients that send requests to a node, its request book, and its journal, as values
/// that a test steps at random.
struct RequestModel {
  /// The final outcome of an event, as its client knows it.
  enum Outcome: Hashable {
    case applied(version: UInt64)
    /// The event will never be applied.
    case notApplied
    /// The event may have been applied.
    case unknown
  }

  /// An event, as a number that is unique among all clients.
  typealias Event = Int

  struct Request {
    var event: Event
    var copies = 0
    var unavailable = 0
  }

  struct Client {
    var number: UInt64
    var window: RequestWindow
    var requests: [UInt64: Request] = [:]
    var connection: Int
  }

  struct Frame {
    var key: RequestKey
    var oldest: UInt64
    var event: Event
    var connection: Int
  }

  struct Journal {
    var applied: [Event] = []
    var requests: [RequestKey: (version: UInt64, state: [UInt8])] = [:]
    var forgottenThrough: UInt64 = 0

    mutating func take(_ record: RequestRegistry.Record) {
      switch record {
      case .answered(let key, let version, let state): requests[key] = (version, state)
      case .acknowledged(let client, let oldest):
        requests = requests.filter { $0.key.client != client || $0.key.id >= oldest }
      case .clientForgotten(let client, let last):
        requests = requests.filter { $0.key.client != client }
        forgottenThrough = last
      }
    }

    /// Returns the request book with which the next process starts.
    func book(_ limits: RequestRegistry.Limits) -> RequestRegistry {
      RequestRegistry(
        restored: requests.map { .init(key: $0, version: $1.version, state: $1.state) },
        lastForgottenNumber: forgottenThrough, limits: limits)
    }
  }

  /// The node's replies, by connection.
  final class Outbox {
    var replies: [Int: [(id: UInt64, reply: RequestReply)]] = [:]
  }

  /// Counters of what happened in the runs.
  struct Tally {
    var applied = 0
    var repeated = 0
    var forgotten = 0
    var stateless = 0
    var full = 0
    var kills = 0
    var replacedClients = 0
    var unknown = 0
  }

  private let limits: RequestRegistry.Limits
  private var random: Seeded
  private var time: UInt64 = 1_000
  private var lastEvent = 0
  private var lastConnection = 0
  private var clients: [Client] = []
  private var outcomes: [Event: Outcome] = [:]
  private(set) var tally = Tally()
  private(set) var violations: [String] = []
  // The node.
  private var journal = Journal()
  private var book: RequestRegistry
  /// The events that are applied and not recorded.
  private var steps: [Event] = []
  private var inbox: [Frame] = []
  private var pendingReplies: [(RequestReply, (RequestReply) -> Void)] = []
  private var isStarted = true
  /// The frames of each connection in order. Some frames of a cut connection may still be read.
  private var frames: [Int: [Frame]] = [:]
  private let outbox = Outbox()

  init(seed: UInt64, limits: RequestRegistry.Limits) {
    self.limits = limits
    random = Seeded(state: seed)
    book = journal.book(limits)
    for _ in 0..<3 { addClient() }
  }

  // MARK: Running a schedule

  mutating func run(steps count: Int) {
    for _ in 0..<count where violations.isEmpty { step() }
    settle()
    check()
  }

  private mutating func step() {
    time += 1
    switch randomIndex(100) {
    case ..<20: begin(randomIndex(clients.count))
    case ..<32: sendAgain(randomIndex(clients.count))
    case ..<55: readFrame()
    case ..<70: takeStep()
    case ..<80: record()
    case ..<92: readReply(randomIndex(clients.count))
    case ..<94: giveUp(randomIndex(clients.count))
    case ..<96: cut(randomIndex(clients.count))
    case ..<97: kill()
    case ..<98: isStarted = true
    default: replaceClient(randomIndex(clients.count))
    }
  }

  /// Completes all pending requests.
  private mutating func settle() {
    isStarted = true
    for _ in 0..<200 where clients.contains(where: { !$0.requests.isEmpty }) {
      for index in clients.indices { sendAll(index) }
      while frames.values.contains(where: { !$0.isEmpty }) { readFrame() }
      while !inbox.isEmpty { takeStep() }
      record()
      for index in clients.indices {
        while outbox.replies[clients[index].connection]?.isEmpty == false { readReply(index) }
      }
    }
    if clients.contains(where: { !$0.requests.isEmpty }) {
      violations.append("a request is never answered")
    }
  }

  private mutating func check() {
    var count: [Event: Int] = [:]
    for event in journal.applied { count[event, default: 0] += 1 }
    for (event, times) in count where times > 1 {
      violations.append("event \(event) was applied \(times) times")
    }
    for (event, outcome) in outcomes {
      switch outcome {
      case .applied(let version):
        if version == 0 || version > journal.applied.count
          || journal.applied[Int(version) - 1] != event
        {
          violations.append("event \(event) is not the one of version \(version)")
        }
      case .notApplied:
        if count[event] != nil {
          violations.append("event \(event) was applied, and said not to be")
        }
      case .unknown: break
      }
    }
    tally.applied = journal.applied.count
  }

  private mutating func randomIndex(_ count: Int) -> Int {
    Int.random(in: 0..<max(1, count), using: &random)
  }

  // MARK: Clients

  private mutating func addClient() {
    lastConnection += 1
    // The clocks of hosts differ.
    let first = max(1, time - UInt64(randomIndex(200))) << 4
    clients.append(
      Client(
        number: .random(in: 1...UInt64(Int64.max), using: &random),
        window: RequestWindow(first: first, limit: 4), connection: lastConnection))
  }

  private mutating func begin(_ index: Int) {
    guard let id = clients[index].window.open() else { return }
    lastEvent += 1
    clients[index].requests[id] = Request(event: lastEvent)
    send(id, of: index)
  }

  private mutating func send(_ id: UInt64, of index: Int) {
    let client = clients[index]
    guard let request = client.requests[id] else { return }
    clients[index].requests[id]?.copies += 1
    let frame = Frame(
      key: RequestKey(client: client.number, id: id), oldest: client.window.oldestNumber,
      event: request.event, connection: client.connection)
    frames[client.connection, default: []].append(frame)
  }

  private mutating func sendAgain(_ index: Int) {
    let ids = clients[index].requests.keys.sorted()
    guard !ids.isEmpty else { return }
    tally.repeated += 1
    send(ids[randomIndex(ids.count)], of: index)
  }

  private mutating func sendAll(_ index: Int) {
    for id in clients[index].requests.keys.sorted() { send(id, of: index) }
  }

  private mutating func readReply(_ index: Int) {
    let connection = clients[index].connection
    guard outbox.replies[connection]?.isEmpty == false,
      let (id, reply) = outbox.replies[connection]?.removeFirst(),
      let request = clients[index].requests[id]
    else { return }
    switch reply {
    case .accepted(let version, let state):
      if state.isEmpty { tally.stateless += 1 }
      end(id, of: index, .applied(version: version))
    case .refused, .busy, .invalid: end(id, of: index, .notApplied)
    case .unavailable: clients[index].requests[id]?.unavailable += 1
    case .forgotten(let last):
      tally.forgotten += 1
      guard request.copies == request.unavailable + 1, clients[index].window.skip(through: last)
      else { return end(id, of: index, .unknown) }
      clients[index].requests[id] = nil
      clients[index].window.close(id)
      guard let new = clients[index].window.open() else {
        return outcomes[request.event] = .notApplied
      }
      clients[index].requests[new] = Request(event: request.event)
      send(new, of: index)
    case .done, .synchronized, .explained, .gated:
      violations.append("received an unexpected answer")
    }
  }

  private mutating func end(_ id: UInt64, of index: Int, _ outcome: Outcome) {
    guard let request = clients[index].requests.removeValue(forKey: id) else { return }
    clients[index].window.close(id)
    outcomes[request.event] = outcome
    if outcome == .unknown { tally.unknown += 1 }
  }

  /// Ends a request that has timed out.
  private mutating func giveUp(_ index: Int) {
    guard let (id, request) = clients[index].requests.min(by: { $0.key < $1.key }) else { return }
    end(id, of: index, request.copies == request.unavailable ? .notApplied : .unknown)
  }

  /// Replaces a client by a new one.
  private mutating func replaceClient(_ index: Int) {
    tally.replacedClients += 1
    outbox.replies[clients[index].connection] = nil
    clients.remove(at: index)
    addClient()
  }

  // MARK: Connections

  /// Cuts a connection. The client has read some of the replies, and the node may still read some
  /// of the requests.
  private mutating func cut(_ index: Int) {
    let old = clients[index].connection
    for _ in 0..<randomIndex(3) { readReply(index) }
    outbox.replies[old] = nil
    if let waiting = frames[old] {
      frames[old] = Array(waiting.prefix(randomIndex(waiting.count + 1)))
    }
    lastConnection += 1
    clients[index].connection = lastConnection
    sendAll(index)
  }

  // MARK: The node

  private mutating func readFrame() {
    let connections = frames.keys.filter { frames[$0]?.isEmpty == false }.sorted()
    guard !connections.isEmpty else { return }
    let connection = connections[randomIndex(connections.count)]
    guard let frame = frames[connection]?.removeFirst() else { return }
    let reply: (RequestReply) -> Void = { [outbox] in
      outbox.replies[connection, default: []].append((frame.key.id, $0))
    }
    guard isStarted else { return reply(.unavailable("not started")) }
    var key = frame.key
    switch book.admit(&key, oldest: frame.oldest, hasCapacity: inbox.count < 5, reply: reply) {
    case .new: inbox.append(frame)
    case .waiting: break
    case .answered(let answer): pendingReplies.append((answer, reply))
    case .full:
      tally.full += 1
      reply(.unavailable("full"))
    case .forgotten(let last): reply(.forgotten(through: last))
    }
    if book.entryCount > limits.maximumNumberCount + 1 {
      violations.append("the book has \(book.entryCount) numbers")
    }
  }

  private mutating func takeStep() {
    guard !inbox.isEmpty else { return }
    let frame = inbox.removeFirst()
    let answer: RequestReply
    let isDeadLetter = randomIndex(20) == 0
    if isDeadLetter {
      answer = .refused(.thrown("it has ended its node three times"), version: 0, state: [])
    } else if randomIndex(4) == 0 {
      answer = .refused(.noTransition, version: 0, state: [1, 2, 3])
    } else {
      steps.append(frame.event)
      let version = UInt64(journal.applied.count + steps.count)
      answer = .accepted(version: version, state: Array(repeating: 7, count: 1 + randomIndex(9)))
    }
    if let reply = book.finish(frame.key, answer, isDeadLetter: isDeadLetter) {
      pendingReplies.append((answer, reply))
    }
  }

  private mutating func record() {
    if !steps.isEmpty || book.hasUnrecordedChanges {
      journal.applied += steps
      steps = []
      for record in book.takeRecords() { journal.take(record) }
    }
    for (answer, reply) in pendingReplies { reply(answer) }
    pendingReplies = []
  }

  /// Kills the process. The next one has not started yet.
  private mutating func kill() {
    tally.kills += 1
    if randomIndex(2) == 0 { record() }
    (steps, inbox, pendingReplies) = ([], [], [])
    for index in clients.indices { cut(index) }
    let alive = Set(clients.map(\.connection))
    frames = frames.filter { alive.contains($0.key) }
    book = journal.book(limits)
    isStarted = randomIndex(2) == 0
  }
}
