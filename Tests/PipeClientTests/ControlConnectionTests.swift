import PipeClient
import PipeTransport
import Testing

@Suite("A client's connection to the orchestrator")
struct ControlConnectionTests {
  private typealias Attempt = ConnectionMonitor.Attempt
  private typealias Action = ControlConnection.Action

  private static let connected = Attempt.event(.connected)
  private static let disconnected = Attempt.event(.disconnected)

  /// Returns the actions that follow these attempts, each after a wait. Unit: milliseconds.
  private func actions(
    isRemote: Bool, _ attempts: [(after: Int, Attempt)]
  ) -> [Action] {
    var connection = ControlConnection(isRemote: isRemote)
    var now = ContinuousClock.now
    return attempts.map { after, attempt in
      now += .milliseconds(after)
      return connection.take(attempt, at: now)
    }
  }

  @Test("A lost local connection is not opened again")
  func local() {
    #expect(
      actions(
        isRemote: false,
        [(0, Self.disconnected), (0, Self.connected), (0, Self.disconnected), (0, Self.connected)])
        == [.nothing, .nothing, .end(.gone), .nothing])
  }

  @Test("A lost remote connection is opened again, and pending requests are repeated")
  func remote() {
    #expect(
      actions(
        isRemote: true,
        [
          (0, .opened), (10, Self.connected), (0, Self.disconnected), (5, .opened),
          (2_000, .failed), (5, .opened), (5, Self.connected), (0, Self.disconnected),
        ])
        == [
          .nothing, .nothing, .waitForRecovery, .nothing, .nothing, .nothing, .resendCommands,
          .waitForRecovery,
        ])
  }

  @Test("Eight immediate handshake failures count as a wrong key, and slow failures do not")
  func otherKey() {
    let refused: [(Int, Attempt)] = [(100, .opened), (5, .failed), (0, Self.disconnected)]
    func times(_ count: Int, _ attempts: [(Int, Attempt)]) -> [(Int, Attempt)] {
      (0..<count).flatMap { _ in attempts }
    }
    let ended = actions(isRemote: true, times(10, refused))
    #expect(ended.firstIndex(of: .end(.otherKey)) == 7 * 3 + 1)
    #expect(ended.count { $0 != .nothing } == 1)
    let slow: [(Int, Attempt)] = [(100, .opened), (2_000, .failed), (0, Self.disconnected)]
    #expect(
      actions(isRemote: true, times(7, refused) + slow + times(7, refused) + slow).allSatisfy {
        $0 == .nothing
      })
    // Another process listens at the former endpoint.
    let broken: [(Int, Attempt)] = [(0, Self.connected), (0, Self.disconnected)]
    #expect(actions(isRemote: true, broken + times(8, refused))[2 + 7 * 3 + 1] == .end(.gone))
  }

  @Test("A rejected key is not tried again")
  func keyRejected() {
    #expect(
      actions(isRemote: true, [(0, .opened), (1, .keyRejected), (0, Self.connected)])
        == [.nothing, .end(.keyRejected), .nothing])
    #expect(
      actions(
        isRemote: true, [(0, Self.connected), (0, Self.disconnected), (1, .keyRejected)])
        == [.nothing, .waitForRecovery, .end(.gone)])
  }

  @Test("A client gives up a lost connection only once, and never gives up an open connection")
  func givingUp() {
    var connection = ControlConnection(isRemote: true)
    #expect(!connection.hasBegun && !connection.hasConnected)
    _ = connection.take(.opened, at: .now)
    #expect(connection.hasBegun)
    _ = connection.take(Self.connected, at: .now)
    #expect(connection.hasConnected && !connection.hasBegun)
    #expect(connection.giveUp() == .nothing)
    _ = connection.take(Self.disconnected, at: .now)
    #expect(connection.giveUp() == .end(.gone))
    #expect(connection.giveUp() == .nothing)
  }
}
