import PipeRuntime
import Synchronization

/// A client of a topology whose orchestrator comes and goes. It attaches to each new orchestrator
/// by itself.
final class ReattachingClient: Sendable {
  private struct State {
    var current: TopologyClient
    /// The number of pending calls of each client.
    var users: [ObjectIdentifier: Int] = [:]
  }

  private let topology: String
  private let control: String
  private let state: Mutex<State>

  private static let answerTimeout: Duration = .seconds(30)
  /// The longest time without an orchestrator, and for one request.
  let patience: Duration
  private let keys: ClientKeys

  init(_ directories: RuntimeDirectories, patience: Duration) throws {
    topology = directories.topology
    control = try directories.endpoint(.control)
    keys = ClientKeys(in: directories)
    self.patience = patience
    state = Mutex(State(current: try Self.attach(topology, control, keys)))
  }

  private static func attach(
    _ topology: String, _ control: String, _ keys: ClientKeys
  ) throws -> TopologyClient {
    try TopologyClient(
      topology: topology, control: control, keys: keys, answerTimeout: answerTimeout)
  }

  func close() { state.withLock { $0.current }.close() }

  /// Sends a request, and repeats it to the next orchestrator if there was none. Nothing was done
  /// in that case.
  private func perform<Value: Sendable>(
    _ body: (TopologyClient) async throws -> Value
  ) async throws -> Value {
    let deadline = ContinuousClock.now + patience
    while true {
      let client = enter()
      do {
        let value = try await body(client)
        leave(client)
        return value
      } catch {
        defer { leave(client) }
        guard ContinuousClock.now < deadline else { throw error }
        switch error {
        case TopologyClientError.orchestratorGone: try replace(client)
        // On a busy machine, a new orchestrator takes time to find the surviving nodes.
        case TopologyClientError.notAnswering: break
        default: throw error
        }
      }
      try await Task.sleep(for: .milliseconds(5))
    }
  }

  private func enter() -> TopologyClient {
    state.withLock { state in
      state.users[ObjectIdentifier(state.current), default: 0] += 1
      return state.current
    }
  }

  /// Closes a former client after its last pending call.
  private func leave(_ client: TopologyClient) {
    let isUnused = state.withLock { state in
      let users = state.users[ObjectIdentifier(client), default: 1] - 1
      state.users[ObjectIdentifier(client)] = users == 0 ? nil : users
      return users == 0 && state.current !== client
    }
    if isUnused { client.close() }
  }

  private func replace(_ client: TopologyClient) throws {
    try state.withLock { state in
      guard state.current === client else { return }
      state.current = try Self.attach(topology, control, keys)
    }
  }

  // MARK: Calls

  func directory(fresh: Bool = true) async throws -> TopologyDirectory {
    try await perform { try await $0.directory(fresh: fresh) }
  }

  func send(
    _ node: String, _ event: some MachineEvent, timeout: Duration
  ) async throws -> RequestOutcome {
    try await perform { try await $0.send(node, event, timeout: timeout) }
  }

  func synchronize(
    _ composite: String, json event: JSONValue, mode: SynchronizedMode, timeout: Duration
  ) async throws -> SynchronizedReply {
    try await perform {
      try await $0.synchronize(composite, json: event, mode: mode, timeout: timeout)
    }
  }

  func ask(
    _ composite: String, about transaction: TransactionID
  ) async throws -> SynchronizedReply {
    try await perform { try await $0.ask(composite, about: transaction) }
  }

  /// - Returns: Whether all nodes ran in the end. Other faults may have prevented it.
  func start(_ nodes: [String]) async throws -> Bool {
    try await performLifecycleRequest { try await $0.start(nodes) }
  }

  /// - Returns: Whether the node has stopped in order and runs again. Other faults may have
  ///   prevented it.
  func restart(_ node: String) async throws -> Bool {
    try await performLifecycleRequest { try await $0.restart([node]) }
  }

  private func performLifecycleRequest(_ body: (TopologyClient) async throws -> Void) async throws
    -> Bool
  {
    do {
      try await perform(body)
      return true
    } catch TopologyClientError.timedOut, TopologyClientError.failed {
      return false
    }
  }
}
