import PipeSupervision
import Testing

@Suite("Leases, as the orchestrator counts them")
struct LeasesTests {
  /// Leases of a second, which are 1.1 s here. Unit: milliseconds since the orchestrator has begun.
  private final class Bench {
    private var leases = Leases(term: 1_000_000_000, at: 0)

    init() { begin("door", 3) }

    func begin(_ node: String, _ incarnation: UInt64) {
      leases.begin(node, incarnation: incarnation)
    }
    func renew(_ node: String, _ incarnation: UInt64, at now: Int64) -> Bool {
      leases.renew(node, incarnation: incarnation, at: now * 1_000_000)
    }
    func isOver(_ node: String, at now: Int64) -> Bool {
      leases.isOver(node, at: now * 1_000_000)
    }
    func giveUp(_ node: String) { leases.giveUp(node) }
    func forget(_ node: String) { leases.forget(node) }
    var isEmpty: Bool { leases.isEmpty }
  }

  private let leases = Bench()

  @Test("one is over a tenth after its term, counted from the last answer")
  func term() {
    #expect(leases.renew("door", 3, at: 10_000))
    #expect(leases.renew("door", 3, at: 10_500))
    #expect(!leases.isOver("door", at: 11_599))
    #expect(leases.isOver("door", at: 11_600))
    // What is over is not taken up again.
    #expect(!leases.renew("door", 3, at: 11_600))
  }

  @Test("a process that was never answered has opened nothing, and its next one needs not wait")
  func never() {
    #expect(leases.isOver("door", at: 10_000))
    #expect(!leases.renew("door", 3, at: 10_000))
  }

  @Test("one that was given up is answered no more, and ends after its last answer")
  func givenUp() {
    #expect(leases.renew("door", 3, at: 10_000))
    leases.giveUp("door")
    #expect(!leases.renew("door", 3, at: 10_001))
    #expect(!leases.isOver("door", at: 11_099))
    #expect(leases.isOver("door", at: 11_100))
  }

  @Test("another start of a node, and one without a lease, are not answered")
  func others() {
    #expect(!leases.renew("door", 2, at: 10_000))
    #expect(!leases.renew("motor", 1, at: 10_000))
    #expect(!leases.isOver("motor", at: 10_000))
    leases.begin("door", 4)
    #expect(!leases.renew("door", 3, at: 10_000))
    #expect(leases.renew("door", 4, at: 10_000))
    leases.forget("door")
    #expect(leases.isEmpty)
    #expect(!leases.isOver("door", at: 100_000))
  }

  @Test("none is over before those would be that a former orchestrator has granted")
  func beginning() {
    #expect(!leases.isOver("door", at: 1_099))
    #expect(leases.isOver("door", at: 1_100))
  }
}
