import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// A client's link to its orchestrator, on the thread of the client's loop.
final class OrchestratorLink {
  typealias Answer = @Sendable (Result<ControlAnswer, TopologyClientError>) -> Void

  private struct PendingCommand {
    let command: ControlCommand
    let timer: TimerQueue.ID
    let completion: Answer
  }

  private let topology: String
  private let endpoint: String
  /// The topology on another host; `nil` if the orchestrator is on this host.
  private let remote: RemoteTopology?
  private let loop: PollLoop
  private let socket: Socket
  private let connections: ConnectionMonitor
  private var connection: ControlConnection
  /// The timer that ends the wait for a connection.
  private var connectTimer: TimerQueue.ID?
  private var commands: [UInt64: PendingCommand] = [:]
  private var lastID: UInt64 = 0
  /// The reason why the orchestrator can no longer be reached.
  private var endError: TopologyClientError?
  /// Whether the orchestrator has reported that the topology has ended and will not be started
  /// again.
  private(set) var hasReportedEnd = false
  private var hasRequestedEndReport = false

  /// Called with each received topology directory, before the topology directory is passed to the
  /// requester.
  var onDirectory: ((TopologyDirectory) -> Void)?
  /// Called once when the orchestrator can no longer be reached. `hasReportedEnd`: whether the
  /// orchestrator has reported the end of the topology.
  var onGone: ((_ hasReportedEnd: Bool) -> Void)?

  /// How long to wait until a broken connection to another host is restored: longer than the two
  /// hosts need to notice that the connection is broken.
  private static let reconnectTimeout: Duration = .seconds(10)
  /// Whether the last check found an orchestrator on this host.
  private var wasOrchestratorSeen = false
  /// The interval of checks whether an orchestrator still exists on this host. The checks end when
  /// the connection is complete.
  private static let checkInterval: Duration = .milliseconds(250)

  /// - Parameter patience: The maximum wait for the first answer of an orchestrator on another
  ///   host.
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

  /// Whether the orchestrator is on this host, where another orchestrator can replace it.
  var isLocal: Bool { remote == nil }

  /// Whether the orchestrator can no longer be reached.
  var hasEnded: Bool { endError != nil }

  func close() {
    socket.setLinger(milliseconds: 200)
    connections.close()
    socket.close()
  }

  // MARK: Commands

  /// Sends a command, and calls `completion` once, with the answer or an error.
  /// - Parameter timeoutError: The error if no answer arrives in time.
  func command(
    _ command: ControlCommand, timeout: Duration, timeoutError: TopologyClientError,
    _ completion: @escaping Answer
  ) {
    if let endError { return completion(.failure(endError)) }
    lastID += 1
    let id = lastID
    let timer = loop.schedule(after: timeout, for: self) {
      $0.commands.removeValue(forKey: id)
      completion(.failure($0.noAnswerError(after: timeout) ?? timeoutError))
    }
    commands[id] = PendingCommand(command: command, timer: timer, completion: completion)
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

  /// If the orchestrator is on another host and was never connected, returns the reason why it did
  /// not answer a command; otherwise, returns `nil`.
  private func noAnswerError(after time: Duration) -> TopologyClientError? {
    connection.hasConnected ? nil : remote?.noAnswerError(after: time, connection)
  }

  /// Fails all pending commands.
  func failPendingCommands(_ error: TopologyClientError) {
    let pending = commands.values
    commands = [:]
    for entry in pending {
      loop.cancel(entry.timer)
      entry.completion(.failure(error))
    }
  }

  // MARK: The connection to the orchestrator

  private func readConnections() {
    connections.readAttempts { attempt in
      // The orchestrator may have sent answers before the connection was lost.
      if attempt == .event(.disconnected) { readAnswers() }
      perform(connection.take(attempt, at: .now))
      if attempt == .event(.connected), let connectTimer {
        loop.cancel(connectTimer)
        self.connectTimer = nil
      }
    }
  }

  /// Checks whether the orchestrator still exists. If the orchestrator is killed before the
  /// connection is complete, no connection breaks, and the link would wait forever. If no
  /// orchestrator has been started yet, the link continues to wait.
  private func checkOrchestrator() {
    loop.schedule(after: Self.checkInterval, for: self) { link in
      guard !link.connection.hasConnected, link.endError == nil else { return }
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
    connectTimer = loop.schedule(after: time, for: self) {
      $0.connectTimer = nil
      let connection = $0.connection
      if $0.connection.giveUp() != .nothing { $0.end(because: error(connection)) }
    }
  }

  // MARK: The end of the topology

  /// Asks the orchestrator to report the end of the topology. For an orchestrator on another host,
  /// only this report distinguishes the end from a network failure. For an orchestrator on this
  /// host, the report shows that the orchestrator was not killed, and that the topology will not be
  /// started again.
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
    guard endError == nil else { return }
    endError = error
    // Calls `onGone` before the pending commands fail, since their completion functions may read
    // the data that `onGone` stores.
    onGone?(hasReportedEnd)
    failPendingCommands(error)
  }
}

/// The state of a client's connection to the orchestrator. Decides what the link must do when the
/// connection changes.
///
/// A broken connection on one host means that the orchestrator has ended. A broken connection to
/// another host may be restored.
package struct ControlConnection {
  /// An action for the link.
  package enum Action: Hashable {
    case nothing
    /// Wait, because the broken connection may be restored.
    case waitForRecovery
    /// Send the pending commands again: the connection is restored, and commands that were sent
    /// earlier may be lost.
    case resendCommands
    case end(Ending)
  }

  /// The reason why the connection cannot be restored.
  package enum Ending: Hashable { case gone, otherKey, keyRejected }

  private enum State: Hashable {
    case connecting(Attempts)
    case connected
    case broken(Attempts)
    case ended
  }

  /// The recent attempts to connect. `openedAt` is the time of the last attempt that reached the
  /// peer, and `refusedCount` the number of consecutive attempts that the peer has aborted during
  /// the handshake.
  private struct Attempts: Hashable {
    var openedAt: ContinuousClock.Instant?
    var refusedCount = 0

    /// Records a failed attempt. Returns whether there are enough failed attempts to conclude that
    /// the orchestrator refuses the connection.
    mutating func recordFailure(at now: ContinuousClock.Instant) -> Bool {
      guard let openedAt, now - openedAt < refusalWindow else {
        refusedCount = 0
        return false
      }
      refusedCount += 1
      return refusedCount >= refusalThreshold
    }
  }

  private let isRemote: Bool
  private var state = State.connecting(Attempts())

  /// If a peer aborts the handshake sooner than this, the peer does not have the expected key. If a
  /// peer does not answer at all, libzmq aborts the handshake only after 2 s.
  private static let refusalWindow: Duration = .seconds(1)
  /// The number of consecutive aborted handshakes after which the client assumes that the
  /// orchestrator refuses its key. Fewer aborted handshakes may have other causes: the network, or
  /// libzmq itself. All these attempts together take less than a second.
  private static let refusalThreshold = 8

  package init(isRemote: Bool) { self.isRemote = isRemote }

  /// Whether the connection was complete at some time, or can no longer be established.
  package var hasConnected: Bool { if case .connecting = state { false } else { true } }

  /// Whether a process has begun to answer, but the connection was never complete.
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
      if attempts.recordFailure(at: now) { return end(.otherKey) }
      state = .connecting(attempts)
    case (.broken(var attempts), .failed):
      // The topology has ended, and another process now uses the address.
      if attempts.recordFailure(at: now) { return end(.gone) }
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
