import PipeNode
import Testing

@Suite("A peer that owes a word")
struct PeerSilenceTests {
  /// The ticks at which something is done about it, of so many.
  private func actions(
    _ count: Int, _ input: (Int) -> (Bool, UInt64)
  ) -> [PeerSilence.Action: [Int]] {
    var silence = PeerSilence()
    return (1...count).reduce(into: [:]) { actions, tick in
      let (isWaiting, progress) = input(tick)
      let action = silence.tick(isWaiting: isWaiting, progress: progress)
      if action != .wait { actions[action, default: []].append(tick) }
    }
  }

  @Test("is asked again once, then connected to anew, ever less often")
  func waits() {
    #expect(
      actions(200) { _ in (true, 0) }
        == [.ask: [2], .reconnect: [6, 14, 30, 62, 94, 126, 158, 190]])
  }

  @Test("is left alone while it answers, or owes nothing")
  func answered() {
    #expect(actions(100) { (true, UInt64($0)) } == [:])
    #expect(actions(100) { _ in (false, 0) } == [:])
  }

  @Test("is asked first again where it has answered meanwhile")
  func again() {
    #expect(actions(12) { tick in (true, tick < 7 ? 0 : 1) } == [.ask: [2, 9], .reconnect: [6]])
  }
}
