import PipeClient
import PipeTransport
import Testing

@Suite("A client's connection to the orchestrator")
struct ControlConnectionTests {
  private typealias Attempt = ConnectionMonitor.Attempt
  private typealias Action = ControlConnection.Action

  private static let connected = Attempt.event(.connected)
  private static let disconnected = Attempt.event(.disconnected)

  /// What each of these attempts leads to; a number waits so many milliseconds before the next one.
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

  @Test("on one host it is over when it breaks, and not before")
  func local() {
    #expect(
      actions(
        isRemote: false,
        [(0, Self.disconnected), (0, Self.connected), (0, Self.disconnected), (0, Self.connected)])
        == [.nothing, .nothing, .end(.gone), .nothing])
  }

  @Test("from another host it may come again, and what was asked is asked again")
  func remote() {
    #expect(
      actions(
        isRemote: true,
        [
          (0, .opened), (10, Self.connected), (0, Self.disconnected), (5, .opened),
          (2_000, .failed), (5, .opened), (5, Self.connected), (0, Self.disconnected),
        ])
        == [
          .nothing, .nothing, .waitForIt, .nothing, .nothing, .nothing, .askAgain, .waitForIt,
        ])
  }

  @Test("who breaks off eight handshakes at once has another key; who is slow is waited for")
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
    // Something else is where it was.
    let broken: [(Int, Attempt)] = [(0, Self.connected), (0, Self.disconnected)]
    #expect(actions(isRemote: true, broken + times(8, refused))[2 + 7 * 3 + 1] == .end(.gone))
  }

  @Test("a key that is turned away is not tried again")
  func turnedAway() {
    #expect(
      actions(isRemote: true, [(0, .opened), (1, .turnedAway), (0, Self.connected)])
        == [.nothing, .end(.turnedAway), .nothing])
    #expect(
      actions(
        isRemote: true, [(0, Self.connected), (0, Self.disconnected), (1, .turnedAway)])
        == [.nothing, .waitForIt, .end(.gone)])
  }

  @Test("it is given up once, and not while it is there")
  func givingUp() {
    var connection = ControlConnection(isRemote: true)
    #expect(!connection.hasBegun && !connection.hasMet)
    _ = connection.take(.opened, at: .now)
    #expect(connection.hasBegun)
    _ = connection.take(Self.connected, at: .now)
    #expect(connection.hasMet && !connection.hasBegun)
    #expect(connection.giveUp() == .nothing)
    _ = connection.take(Self.disconnected, at: .now)
    #expect(connection.giveUp() == .end(.gone))
    #expect(connection.giveUp() == .nothing)
  }
}
