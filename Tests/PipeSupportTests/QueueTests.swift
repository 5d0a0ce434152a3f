import PipeSupport
import Testing

@Suite("The queue type")
struct QueueTests {
  @Test("A queue returns its elements in order, whatever is inserted or removed in between")
  func order() {
    var generator = SplitMix64(seed: 7)
    var queue = Queue<Int>()
    var model: [Int] = []
    for number in 0..<5_000 {
      switch Int.random(in: 0..<8, using: &generator) {
      case 0..<4:
        queue.append(number)
        model.append(number)
      case 4..<7:
        #expect(queue.popFirst() == (model.isEmpty ? nil : model.removeFirst()))
      default:
        let front = Array(number..<(number + Int.random(in: 0...3, using: &generator)))
        queue.prepend(contentsOf: front)
        model.insert(contentsOf: front, at: 0)
      }
      #expect(queue.count == model.count)
      #expect(queue.isEmpty == model.isEmpty)
    }
    #expect(queue.removeAll() == model)
    #expect(queue.isEmpty)
  }
}
