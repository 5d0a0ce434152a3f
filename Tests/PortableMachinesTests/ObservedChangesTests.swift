import PipeMachines
import Testing

@MainActor
@Suite("Observed changes")
struct ObservedChangesTests {
  private let store = Store(feature: CountFeature(), initialState: .init())

  @Test("Each change is reported before it is made, even if changes follow without a pause")
  func everyChange() async {
    let model = Shown()
    var seen: [Int] = []
    let changes = ObservedChanges(of: { _ = model.value }, willChange: { seen.append(model.value) })
    model.value = 1
    model.value = 2
    model.value = 3
    #expect(seen == [0, 1, 2])
    changes.stop()
    model.value = 4
    #expect(seen == [0, 1, 2])
  }

  @Test("A change of a store's state by an action is reported")
  func store() async {
    let (changeStream, continuation) = AsyncStream.makeStream(of: Void.self)
    let changes = ObservedChanges(
      of: { _ = store.state }, willChange: { continuation.yield() })
    await store.send(action: .up)
    for await _ in changeStream { break }
    #expect(store.state.count == 1)
    changes.stop()
  }

  @Test("A released observer reports no changes")
  func letGo() {
    let model = Shown()
    var count = 0
    var changes: ObservedChanges? = ObservedChanges(
      of: { _ = model.value }, willChange: { count += 1 })
    model.value = 1
    withExtendedLifetime(changes) {}
    changes = nil
    model.value = 2
    #expect(count == 1)
  }
}
