import PipeClient
import PipeRuntime
import PipeRuntimeTestKit
import PipeWire
import Synchronization

/// Keeps keyed nodes busy, and compares their instances with the requests that were accepted.
final class InstancesLoad: SoakLoad {
  private struct State {
    var isStopped = false
    /// For each caller, the number of visits that it was asked to send.
    var visits: [String: Int] = [:]
    /// For each offer, how often it was opened.
    var openings: [String: Int] = [:]
    /// For each offer, the number of requests to open it that may have had an effect: the shard
    /// ended without an answer.
    var possibleOpenings: [String: Int] = [:]
    /// The number of guests for whom a request was sent.
    var guests = 0
    /// The guests who have accepted all their requests.
    var acceptedGuests: [String] = []
  }

  private let client: ReattachingClient
  private let plan: InstancesPlan
  private let seed: UInt64
  private let state = Mutex(State())

  /// The longest time without progress after the last fault.
  private static let verifyLimit: Duration = .seconds(60)
  /// The number of consecutive unchanged polls of a quiet topology after which it is considered
  /// stuck.
  private static let unchangedLimit = 20

  init(_ client: ReattachingClient, _ plan: InstancesPlan, seed: UInt64) {
    self.client = client
    self.plan = plan
    self.seed = seed
  }

  func stop() { state.withLock { $0.isStopped = true } }

  private var isStopped: Bool { state.withLock { $0.isStopped } }

  // MARK: Requests

  func run() async throws {
    try await withThrowingTaskGroup { group in
      for line in plan.lines {
        group.addTask { [self] in try await sendVisits(line) }
      }
      group.addTask { [self] in try await openOffers() }
      group.addTask { [self] in try await createGuests() }
      try await group.waitForAll()
    }
  }

  private func sendVisits(_ line: InstancesPlan.Line) async throws {
    let batch = 50
    while !isStopped {
      // A caller refuses the request while it still sends.
      if try await outcome(
        of: ["go": ["count": .integer(Int64(batch)), "keys": .integer(Int64(line.keys))]],
        at: line.caller)
        == .accepted
      {
        state.withLock { $0.visits[line.caller, default: 0] += batch }
      }
      try await Task.sleep(for: .milliseconds(5))
    }
  }

  private func openOffers() async throws {
    var generator = SplitMix64(seed: seed)
    while !isStopped {
      let offer = "o\(Int.random(in: 0..<InstancesPlan.offerCount, using: &generator))"
      let limit = Int.random(in: 0...200, using: &generator)
      // An open offer refuses the request.
      let outcome = try await outcome(
        of: ["open": ["key": .string(offer), "limit": .integer(Int64(limit))]],
        at: InstancesPlan.offers)
      state.withLock { state in
        switch outcome {
        case .accepted: state.openings[offer, default: 0] += 1
        case .refused: break
        case .unknown: state.possibleOpenings[offer, default: 0] += 1
        }
      }
      try await Task.sleep(for: .milliseconds(10))
    }
  }

  private func createGuests() async throws {
    while !isStopped {
      let number = state.withLock { state in
        state.guests += 1
        return state.guests
      }
      let key = "g\(number)"
      if try await isAccepted(["visit": ["key": .string(key), "n": 1]], by: key),
        try await isAccepted(["rest": ["key": .string(key)]], by: key)
      {
        state.withLock { $0.acceptedGuests.append(key) }
      }
      try await Task.sleep(for: .milliseconds(10))
    }
  }

  /// Sends an event to a guest.
  /// - Returns: Whether the guest has certainly accepted the event.
  private func isAccepted(_ event: JSONValue, by guest: String) async throws -> Bool {
    switch try await outcome(of: event, at: InstancesPlan.guests) {
    case .accepted: return true
    case .refused: throw SoakFailure("the new guest '\(guest)' refused \(event.text)")
    case .unknown: return false
    }
  }

  private enum Outcome {
    case accepted, refused
    /// The process has ended before it answered, and its successor has another journal, since the
    /// number of shards has changed.
    case unknown
  }

  /// Sends an event until the node has answered.
  private func outcome(of event: JSONValue, at node: String) async throws -> Outcome {
    let deadline = ContinuousClock.now + client.patience
    while true {
      do {
        switch try await client.send(node, json: event, timeout: client.patience) {
        case .accepted, .done: return .accepted
        case .refused: return .refused
        }
      } catch let error as TopologyClientError {
        switch error {
        case .unknownOutcome: return .unknown
        // The request was not executed: its shard does not run, or the instance has moved.
        case .nodeDown, .busy, .timedOut, .unknownNode, .hasShards, .invalidEvent:
          guard ContinuousClock.now < deadline else { throw error }
        default: throw error
        }
      }
      try await Task.sleep(for: .milliseconds(5))
    }
  }

  // MARK: Verification

  func verify(_ outcome: inout SoakOutcome) async throws {
    var (last, unchanged, good) = (InstancesView(), 0, 0)
    _ = try await poll(every: .milliseconds(200), within: Self.verifyLimit) {
      let view = try await view()
      // Wait for two equal views, because a repeated event would arrive after the others.
      good = view.violations.isEmpty && view.isQuiet ? good + 1 : 0
      unchanged = view == last ? unchanged + 1 : 0
      last = view
      return good == 2 || unchanged >= Self.unchangedLimit ? true : nil
    }
    outcome.arrived = last.arrived
    outcome.violations += last.violations
    if !last.isQuiet { outcome.violations.append("a pipe, a timer or an effect has not ended") }
  }

  private static func visited(_ times: Int, last: Int) -> JSONValue {
    [
      "visited": [
        "times": .integer(Int64(times)), "last": .integer(Int64(last)), "wrong": 0,
      ]
    ]
  }

  private func view() async throws -> InstancesView {
    let directory = try await client.directory()
    var view = InstancesView()
    view.add(directory)
    let state = state.withLock { $0 }
    for line in plan.lines {
      let count = state.visits[line.caller] ?? 0
      let visitors = try await client.instances(of: line.visitors)
      let mirrors = try await client.instances(of: line.mirrors)
      for key in 0..<line.keys {
        let numbers = stride(from: key == 0 ? line.keys : key, through: count, by: line.keys)
        let (times, latest) = (numbers.underestimatedCount, Array(numbers).last ?? 0)
        view.compare(
          line.visitors, "k\(key)", visitors,
          with: times == 0 ? nil : Self.visited(times, last: latest))
        view.compare(
          line.mirrors, "k\(key)", mirrors,
          with: times == 0 ? nil : Self.visited(times, last: times))
        view.arrived += times
      }
    }
    let offers = try await client.instances(of: InstancesPlan.offers)
    for (offer, count) in state.openings {
      let possible = state.possibleOpenings[offer] ?? 0
      if possible > 0, let state = offers[offer]?.caseMembers?["expired"]?.integer,
        (Int64(count)...Int64(count + possible)).contains(state)
      {
        continue
      }
      view.compare(
        InstancesPlan.offers, offer, offers, with: ["idle": ["expired": .integer(Int64(count))]])
    }
    let guests = try await client.instances(of: InstancesPlan.guests)
    for guest in state.acceptedGuests {
      view.compare(InstancesPlan.guests, guest, guests, with: ["rested": ["times": 1]])
    }
    return view
  }

  func inspect(_ directories: RuntimeDirectories, _ outcome: inout SoakOutcome) {}
}

/// The differences of all instances from their expected states.
private struct InstancesView: Equatable {
  var violations: [String] = []
  /// Whether no event is in flight.
  var isQuiet = true
  var arrived = 0

  mutating func add(_ directory: TopologyDirectory) {
    for node in directory.nodes {
      guard node.isRunning, let status = node.status else {
        isQuiet = false
        violations.append("node '\(node.name)' is not running: \(node.phase)")
        continue
      }
      if !status.outs.allSatisfy({ $0.applied == $0.events && $0.waiting == 0 })
        || !status.ins.allSatisfy({ $0.applied == $0.events && $0.waiting == 0 })
        || status.effects > 0
      {
        isQuiet = false
      }
      if status.deadLetters > 0 {
        violations.append("node '\(node.name)' has \(status.deadLetters) dead letters")
      }
    }
  }

  mutating func compare(
    _ node: String, _ key: String, _ instances: [String: JSONValue], with expected: JSONValue?
  ) {
    let found = instances[key]
    guard let expected else {
      if let found { violations.append("\(node)[\(key)] exists, in state \(found.text)") }
      return
    }
    guard let found else { return violations.append("\(node)[\(key)] does not exist") }
    guard found != expected else { return }
    violations.append("\(node)[\(key)] is in state \(found.text), and not in \(expected.text)")
  }
}
