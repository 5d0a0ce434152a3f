import PipeSupport
import Testing

@Suite("The bitmap of indices")
struct IndexBitmapTests {
  @Test(
    "The next index is found cyclically, whichever indices were inserted and removed",
    arguments: [0, 1, 63, 64, 65, 200])
  func places(count: Int) {
    var generator = SplitMix64(seed: UInt64(count))
    var set = IndexBitmap(count: count)
    var model: Set<Int> = []
    #expect(set.isEmpty)
    #expect(set.firstIndex(from: 0) == nil)
    guard count > 0 else { return }
    for _ in 0..<2_000 {
      let place = Int.random(in: 0..<count, using: &generator)
      switch Int.random(in: 0..<5, using: &generator) {
      case 0:
        set.insert(place)
        model.insert(place)
      case 1...2:
        set.remove(place)
        model.remove(place)
      default:
        #expect(set.firstIndex(from: place) == (model.filter { $0 >= place }.min() ?? model.min()))
      }
      #expect(set.isEmpty == model.isEmpty)
    }
  }
}
