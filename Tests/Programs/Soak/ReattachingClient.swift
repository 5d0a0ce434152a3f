import PipeClient
import PipeRuntime
import PipeWire
import Synchronization

/// A client of a topology whose orchestrator may be killed and replaced. The client attaches to
/// each new orchestrator.
final class ReattachingClient: Sendable {
  private struct State {
    var current: TopologyClient
    /// For each connection, the number of pending calls.
    var users: [ObjectIdentifier: Int] = [:]
  }

  private let topology: String
  private let control: String
  private let state: Mutex<State>

  private static let answerTimeout: Duration = .seconds(30)
  /// The maximum time without an orchestrator, and for one request.
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

  /// Sends a request. If there was no orchestrator, the request had no effect, so it is sent again
  /// to the next orchestrator.
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
        // On a busy host, a new orchestrator takes time to find the surviving nodes.
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

  /// Ends a call. Closes a replaced connection after its last pending call.
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

  // MARK: Client calls

  func directory(fresh: Bool = true) async throws -> TopologyDirectory {
    try await perform { try await $0.directory(fresh: fresh) }
  }

  func send(
    _ node: String, _ event: some MachineEvent, timeout: Duration
  ) async throws -> RequestOutcome {
    try await perform { try await $0.send(node, event, timeout: timeout) }
  }

  func send(
    _ node: String, json event: JSONValue, timeout: Duration
  ) async throws -> RequestOutcome {
    try await perform { try await $0.send(node, json: event, timeout: timeout) }
  }

  /// Returns the state of each instance of a keyed node, by key.
  func instances(of node: String) async throws -> [String: JSONValue] {
    try await perform { client in
      let instances = try await TopologyRecords.orchestrator(client)
        .instances(of: node, InstanceSelection(limit: .max))
      var states: [String: JSONValue] = [:]
      for instance in instances {
        guard
          states.updateValue(try JSONValue(parsing: instance.state), forKey: instance.key.text)
            == nil
        else { throw SoakFailure("two shards of '\(node)' have the instance '\(instance.key)'") }
      }
      return states
    }
  }

  /// Applies a topology file.
  /// - Returns: Whether the file was applied. Other faults may prevent this.
  func apply(_ file: String) async throws -> Bool {
    let request = ChangeRequest(file: file, variables: [:], keepsName: false, isDryRun: false)
    return try await performLifecycleRequest { client in
      let planned = try await client.plan(request, within: .seconds(30))
      try await client.apply(planned, within: .seconds(60))
    }
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

  /// Starts nodes.
  /// - Returns: Whether all nodes are running at the end. Other faults may prevent this.
  func start(_ nodes: [String]) async throws -> Bool {
    try await performLifecycleRequest { try await $0.start(nodes) }
  }

  /// Restarts a node gracefully.
  /// - Returns: Whether the node has stopped gracefully and is running again. Other faults may
  ///   prevent this.
  func restart(_ node: String) async throws -> Bool {
    try await performLifecycleRequest { try await $0.restart([node]) }
  }

  private func performLifecycleRequest(_ body: (TopologyClient) async throws -> Void) async throws
    -> Bool
  {
    do {
      try await perform(body)
      return true
    } catch TopologyClientError.timedOut, TopologyClientError.failed, TopologyClientError
      .unknownNode
    {
      return false
    }
  }
}
