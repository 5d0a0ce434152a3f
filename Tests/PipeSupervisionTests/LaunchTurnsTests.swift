import PipeSupervision
import Testing

@Suite("The queue of launches on other hosts")
struct LaunchTurnsTests {
  private let begin = LaunchQueue.Instant.now

  /// Returns a queue with the maximum number of launches in progress on a host, and two waiting
  /// launches.
  private func full() -> LaunchQueue {
    var turns = LaunchQueue()
    for index in 0..<(LaunchQueue.maximumStartsPerHost + 2) {
      let hasTurn = turns.begin("n\(index)", incarnation: 1, on: "fh1", at: begin)
      #expect(hasTurn == (index < LaunchQueue.maximumStartsPerHost))
    }
    return turns
  }

  @Test("Each host has a separate limit of launches in progress")
  func hosts() {
    var turns = full()
    let other = turns.begin("other", incarnation: 1, on: "fh2", at: begin)
    #expect(other)
    let next = turns.next { _ in false }
    #expect(next == nil)
  }

  @Test("Waiting launches begin in order when other launches end")
  func order() {
    var turns = full()
    turns.freeCapacity { $0 == "n3" }
    // A later launch does not overtake the waiting ones.
    let late = turns.begin("late", incarnation: 1, on: "fh1", at: begin)
    #expect(!late)
    let first = turns.next { _ in false }
    #expect(first?.node == "n\(LaunchQueue.maximumStartsPerHost)" && first?.incarnation == 1)
    let none = turns.next { _ in false }
    #expect(none == nil)
    turns.freeCapacity { _ in true }
    let others = [turns.next { _ in false }, turns.next { _ in false }, turns.next { _ in false }]
    #expect(others.map { $0?.node } == ["n\(LaunchQueue.maximumStartsPerHost + 1)", "late", nil])
  }

  @Test("An obsolete launch is removed from the queue and does not begin")
  func obsolete() {
    var turns = full()
    let gone = turns.next { $0.node == "n\(LaunchQueue.maximumStartsPerHost + 1)" }
    #expect(gone?.node == "n\(LaunchQueue.maximumStartsPerHost + 1)")
    turns.freeCapacity { $0 == "n0" }
    let next = turns.next { _ in false }
    #expect(next?.node == "n\(LaunchQueue.maximumStartsPerHost)")
  }

  @Test("A launch waits for a host that does not answer, or moves to another host")
  func lost() {
    var turns = LaunchQueue()
    for node in ["a", "b"] {
      let hasTurn = turns.begin(node, incarnation: 1, on: "fh1", isLost: true, at: begin)
      #expect(!hasTurn)
    }
    let none = turns.next(isLost: { $0 == "fh1" }) { _ in false }
    #expect(none == nil)
    turns.move { $0.node == "b" ? "fh2" : nil }
    let moved = turns.next(isLost: { $0 == "fh1" }) { _ in false }
    #expect(moved?.node == "b" && moved?.host == "fh2")
    let back = turns.next(isLost: { _ in false }) { _ in false }
    #expect(back?.node == "a" && back?.host == "fh1")
  }

  @Test("Each part of a launch's waiting time is reported once")
  func times() {
    var turns = full()
    let first = turns.takeWaitTimes(at: begin + .seconds(2))
    #expect(
      first.map(\.node) == [
        "n\(LaunchQueue.maximumStartsPerHost)", "n\(LaunchQueue.maximumStartsPerHost + 1)",
      ])
    #expect(first.allSatisfy { $0.time == .seconds(2) })
    let second = turns.takeWaitTimes(at: begin + .seconds(3))
    #expect(second.allSatisfy { $0.time == .seconds(1) })
  }
}
