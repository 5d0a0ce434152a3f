import PipeNode
import Testing

@Suite("A silent peer")
struct PeerSilenceTests {
  /// Returns the ticks at which an action was taken, among N ticks.
  private func actions(
    _ count: Int, _ input: (Int) -> (Bool, UInt64)
  ) -> [SilentPeerPolicy.Action: [Int]] {
    var silence = SilentPeerPolicy()
    return (1...count).reduce(into: [:]) { actions, tick in
      let (isWaiting, progress) = input(tick)
      let action = silence.tick(isWaiting: isWaiting, progress: progress)
      if action != .wait { actions[action, default: []].append(tick) }
    }
  }

  @Test("A silent peer is asked once and then reconnected at growing intervals")
  func waits() {
    #expect(
      actions(200) { _ in (true, 0) }
        == [.ask: [2], .reconnect: [6, 14, 30, 62, 94, 126, 158, 190]])
  }

  @Test("A peer causes no action if it answers, or if no answer is expected")
  func answered() {
    #expect(actions(100) { (true, UInt64($0)) } == [:])
    #expect(actions(100) { _ in (false, 0) } == [:])
  }

  @Test("A peer that has answered is asked before it is reconnected again")
  func again() {
    #expect(actions(12) { tick in (true, tick < 7 ? 0 : 1) } == [.ask: [2, 9], .reconnect: [6]])
  }
}
