import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// A client's link to its orchestrator, on the thread of the client's loop.
final class OrchestratorLink {
  typealias Answer = @Sendable (Result<ControlAnswer, TopologyClientError>) -> Void

  private struct Pending {
    let command: ControlCommand
    let timer: TimerQueue.ID
    let completion: Answer
  }

  private let topology: String
  private let endpoint: String
  /// The topology, if it runs on another host.
  private let remote: RemoteTopology?
  private let loop: PollLoop
  private let socket: Socket
  private let connections: ConnectionMonitor
  private var connection: ControlConnection
  /// The timer that limits the wait for a connection.
  private var patience: TimerQueue.ID?
  private var commands: [UInt64: Pending] = [:]
  private var lastID: UInt64 = 0
  /// The reason why the orchestrator can no longer be reached.
  private var end: TopologyClientError?
  /// Whether the orchestrator has reported that the topology has ended and is not to be started again.
  private(set) var hasReportedEnd = false
  private var hasRequestedEndReport = false

  /// Called with each directory, before its requester receives it.
  var onDirectory: ((TopologyDirectory) -> Void)?
  /// Called once when the orchestrator is gone, with whether it has reported the end.
  var onGone: ((_ hasReportedEnd: Bool) -> Void)?

  /// How long to wait for a broken connection to another host. Longer than both ends need to notice
  /// the break.
  private static let reconnectTimeout: Duration = .seconds(10)
  /// Whether an orchestrator on this host was seen that has not answered yet.
  private var wasOrchestratorSeen = false
  /// The interval of checks whether an orchestrator on this host still exists, until it answers.
  private static let checkInterval: Duration = .milliseconds(250)

  /// - Parameter patience: How long to wait for the first answer of an orchestrator on another host.
  init(
    topology: String, at endpoint: String, keys: ClientKeys?, patience: Duration,
    _ context: Context, loop: PollLoop
  ) throws {
    self.topology = topology
    self.endpoint = endpoint
    self.loop = loop
    remote = keys?.remote
    connection = ControlConnection(isRemote: keys?.remote != nil)
    socket = try Socket(.dealer, in: context)
    connections = try ConnectionMonitor(
      of: socket, in: context, reportsAttempts: keys?.remote != nil)
    try socket.connect(to: keys?.peerEndpoint(of: endpoint) ?? PeerEndpoint(endpoint))
    loop.add(socket, for: self) { $0.readAnswers() }
    loop.add(connections.socket, for: self) { $0.readConnections() }
    if let remote {
      giveUp(after: patience) { remote.noAnswerError(after: patience, $0) }
    } else {
      wasOrchestratorSeen = !RunningTopology.isOrchestratorGone(from: endpoint)
      checkOrchestrator()
    }
  }

  /// Whether the orchestrator is on this host, where another one can replace it.
  var isLocal: Bool { remote == nil }

  /// Whether the orchestrator can no longer be reached.
  var hasEnded: Bool { end != nil }

  func close() {
    socket.setLinger(milliseconds: 200)
    connections.close()
    socket.close()
  }

  // MARK: Commands

  /// - Parameter timeoutError: The error if there is no answer in time.
  func command(
    _ command: ControlCommand, timeout: Duration, timeoutError: TopologyClientError,
    _ completion: @escaping Answer
  ) {
    if let end { return completion(.failure(end)) }
    lastID += 1
    let id = lastID
    let timer = loop.schedule(after: timeout, for: self) {
      $0.commands.removeValue(forKey: id)
      completion(.failure($0.noAnswerError(after: timeout) ?? timeoutError))
    }
    commands[id] = Pending(command: command, timer: timer, completion: completion)
    send(command, as: id)
  }

  private func send(_ command: ControlCommand, as id: UInt64) {
    guard let body = try? JSONRecord.encode(command) else {
      guard let pending = commands.removeValue(forKey: id) else { return }
      loop.cancel(pending.timer)
      return pending.completion(.failure(.failed("the command cannot be written as JSON")))
    }
    socket.send(FrameHeader(.command, sequence: id), body: body)
  }

  private func readAnswers() {
    while socket.receive({ _, bytes in
      guard let header = try? FrameHeader(bytes), header.kind == .answer,
        let pending = commands.removeValue(forKey: header.sequence)
      else { return }
      loop.cancel(pending.timer)
      let body = UnsafeRawBufferPointer(rebasing: bytes[FrameHeader.byteCount...])
      guard let answer = try? JSONRecord.decode(ControlAnswer.self, from: body) else {
        return pending.completion(
          .failure(.failed("the orchestrator sent an answer that this client cannot read")))
      }
      if case .directory(let directory) = answer { onDirectory?(directory) }
      pending.completion(.success(answer))
    }) {}
  }

  /// Returns why a command was not answered, if an orchestrator on another host was never connected.
  private func noAnswerError(after time: Duration) -> TopologyClientError? {
    connection.hasConnected ? nil : remote?.noAnswerError(after: time, connection)
  }

  /// Fails all pending commands.
  func fail(_ error: TopologyClientError) {
    let pending = commands.values
    commands = [:]
    for entry in pending {
      loop.cancel(entry.timer)
      entry.completion(.failure(error))
    }
  }

  // MARK: The connection

  private func readConnections() {
    connections.readAttempts { attempt in
      // Reads the answers that the orchestrator sent before the connection was lost.
      if attempt == .event(.disconnected) { readAnswers() }
      perform(connection.take(attempt, at: .now))
      if attempt == .event(.connected), let patience {
        loop.cancel(patience)
        self.patience = nil
      }
    }
  }

  /// Checks whether the orchestrator still exists: if it is killed before the connection is
  /// complete, no connection breaks. The link waits for an orchestrator that has not started yet.
  private func checkOrchestrator() {
    loop.schedule(after: Self.checkInterval, for: self) { link in
      guard !link.connection.hasConnected, link.end == nil else { return }
      let isOrchestratorGone = RunningTopology.isOrchestratorGone(from: link.endpoint)
      if isOrchestratorGone, link.wasOrchestratorSeen {
        return link.perform(link.connection.giveUp())
      }
      link.wasOrchestratorSeen = !isOrchestratorGone
      link.checkOrchestrator()
    }
  }

  private func perform(_ action: ControlConnection.Action) {
    switch action {
    case .nothing: break
    case .waitForRecovery:
      giveUp(after: Self.reconnectTimeout) { [topology] _ in .orchestratorGone(topology) }
      for (id, pending) in commands where !pending.command.isRepeatable {
        commands[id] = nil
        loop.cancel(pending.timer)
        pending.completion(.failure(.unreachable(remote?.endpoint ?? "", .lost)))
      }
    case .resendCommands: for (id, pending) in commands { send(pending.command, as: id) }
    case .end(let ending): end(because: error(of: ending))
    }
  }

  private func error(of ending: ControlConnection.Ending) -> TopologyClientError {
    switch (ending, remote) {
    case (.gone, _), (_, nil): .orchestratorGone(topology)
    case (.otherKey, let remote?): .unreachable(remote.endpoint, .otherKey)
    case (.keyRejected, let remote?): .unreachable(remote.endpoint, .keyRejected)
    }
  }

  private func giveUp(
    after time: Duration,
    because error: @escaping (_ connection: ControlConnection) -> TopologyClientError
  ) {
    patience = loop.schedule(after: time, for: self) {
      $0.patience = nil
      let connection = $0.connection
      if $0.connection.giveUp() != .nothing { $0.end(because: error(connection)) }
    }
  }

  // MARK: The end

  /// Asks the orchestrator to report the end of the topology. From another host, only this report
  /// distinguishes the end from a network failure. On one host, it distinguishes the end from an
  /// orchestrator that was killed, or is about to be started again.
  func requestEndReport() {
    guard !hasRequestedEndReport else { return }
    hasRequestedEndReport = true
    let owner = LoopOwned(Weak(self))
    let handle = loop.handle
    let gone = TopologyClientError.orchestratorGone(topology)
    command(.outcome, timeout: .seconds(1 << 30), timeoutError: gone) { answer in
      guard case .success(.ended(let outcome)) = answer, outcome.isInterrupted != true else {
        return
      }
      handle.post {
        owner.value.link?.hasReportedEnd = true
        owner.value.link?.end(because: gone)
      }
    }
  }

  private struct Weak {
    weak var link: OrchestratorLink?
    init(_ link: OrchestratorLink) { self.link = link }
  }

  private func end(because error: TopologyClientError) {
    guard end == nil else { return }
    end = error
    // The completions of pending commands may ask for the reason.
    onGone?(hasReportedEnd)
    fail(error)
  }
}

/// The state of a client's connection to the orchestrator, and the actions that its changes require.
///
/// On one host, the connection breaks when the orchestrator ends. A connection to another host may recover.
package struct ControlConnection {
  /// An action for the link.
  package enum Action: Hashable {
    case nothing
    /// The connection has broken, and may recover.
    case waitForRecovery
    /// The connection has recovered. Commands sent before may be lost.
    case resendCommands
    case end(Ending)
  }

  /// The reason why the connection cannot recover.
  package enum Ending: Hashable { case gone, otherKey, keyRejected }

  private enum State: Hashable {
    case connecting(Attempts)
    case connected
    case broken(Attempts)
    case ended
  }

  /// The attempts in a row that the other end has aborted during the handshake.
  private struct Attempts: Hashable {
    var openedAt: ContinuousClock.Instant?
    var refused = 0

    /// Records a failed attempt. Returns whether the failures show a refusal.
    mutating func isRefused(at now: ContinuousClock.Instant) -> Bool {
      guard let openedAt, now - openedAt < refusalWindow else {
        refused = 0
        return false
      }
      refused += 1
      return refused >= refusalThreshold
    }
  }

  private let isRemote: Bool
  private var state = State.connecting(Attempts())

  /// A peer that aborts a handshake sooner than this has another key. libzmq waits 2 s for a silent peer.
  private static let refusalWindow: Duration = .seconds(1)
  /// The number of aborted handshakes in a row that show a refusal. Some may be due to the network
  /// or to libzmq, which keeps a peer waiting that it must not admit now, but aborts the handshake
  /// if this is decided at once. All these attempts are over in a second.
  private static let refusalThreshold = 8

  package init(isRemote: Bool) { self.isRemote = isRemote }

  /// Whether the connection was complete at some time.
  package var hasConnected: Bool { if case .connecting = state { false } else { true } }

  /// Whether the connection was never complete, but a process has begun to answer.
  package var hasBegun: Bool {
    if case .connecting(let attempts) = state { attempts.openedAt != nil } else { false }
  }

  /// Processes the outcome of an attempt to connect.
  package mutating func take(
    _ attempt: ConnectionMonitor.Attempt, at now: ContinuousClock.Instant
  ) -> Action {
    switch (state, attempt) {
    case (.ended, _): return .nothing
    case (.connecting, .event(.connected)):
      state = .connected
      return .nothing
    case (.broken, .event(.connected)):
      state = .connected
      return .resendCommands
    case (.connected, .event(.disconnected)):
      guard isRemote else { return end(.gone) }
      state = .broken(Attempts())
      return .waitForRecovery
    case (.connecting, .keyRejected): return end(.keyRejected)
    case (.broken, .keyRejected): return end(.gone)
    case (.connecting(var attempts), .opened):
      attempts.openedAt = now
      state = .connecting(attempts)
    case (.broken(var attempts), .opened):
      attempts.openedAt = now
      state = .broken(attempts)
    case (.connecting(var attempts), .failed):
      if attempts.isRefused(at: now) { return end(.otherKey) }
      state = .connecting(attempts)
    case (.broken(var attempts), .failed):
      // The topology has ended, and another process has its address.
      if attempts.isRefused(at: now) { return end(.gone) }
      state = .broken(attempts)
    case (.connecting, .event(.disconnected)), (.broken, .event(.disconnected)),
      (.connected, .event(.connected)), (.connected, .opened), (.connected, .failed),
      (.connected, .keyRejected):
      break
    }
    return .nothing
  }

  /// Stops waiting for the connection.
  package mutating func giveUp() -> Action {
    switch state {
    case .connecting, .broken: end(.gone)
    case .connected, .ended: .nothing
    }
  }

  private mutating func end(_ ending: Ending) -> Action {
    state = .ended
    return .end(ending)
  }
}
