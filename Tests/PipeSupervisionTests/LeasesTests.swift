import PipeSupervision
import Testing

@Suite("The leases that the orchestrator has granted")
struct LeasesTests {
  /// Leases of one second, which last 1.1 s here. Unit: milliseconds since the orchestrator's
  /// start.
  private final class Bench {
    private var leases = Leases(term: 1_000_000_000, at: 0)

    init() { begin("door", 3) }

    func begin(_ node: String, _ incarnation: UInt64) {
      leases.begin(node, incarnation: incarnation)
    }
    func renew(_ node: String, _ incarnation: UInt64, at now: Int64) -> Bool {
      leases.renew(node, incarnation: incarnation, at: now * 1_000_000)
    }
    func confirmEnd(_ node: String, at now: Int64) -> Bool {
      leases.confirmEnd(node, at: now * 1_000_000)
    }
    func giveUp(_ node: String) { leases.giveUp(node) }
    func forget(_ node: String) { leases.forget(node) }
    var isEmpty: Bool { leases.isEmpty }
  }

  private let leases = Bench()

  @Test("A lease expires 1.1 times its term after the last renewal")
  func term() {
    #expect(leases.renew("door", 3, at: 10_000))
    #expect(leases.renew("door", 3, at: 10_500))
    #expect(!leases.confirmEnd("door", at: 11_599))
    #expect(leases.confirmEnd("door", at: 11_600))
    // An expired lease is not renewed.
    #expect(!leases.renew("door", 3, at: 11_600))
  }

  @Test("A process without a granted lease does not delay its successor")
  func never() {
    #expect(leases.confirmEnd("door", at: 10_000))
    #expect(!leases.renew("door", 3, at: 10_000))
  }

  @Test("A lease that the orchestrator gives up is not renewed, and expires after its term")
  func givenUp() {
    #expect(leases.renew("door", 3, at: 10_000))
    leases.giveUp("door")
    #expect(!leases.renew("door", 3, at: 10_001))
    #expect(!leases.confirmEnd("door", at: 11_099))
    #expect(leases.confirmEnd("door", at: 11_100))
  }

  @Test("A lease is not renewed for another incarnation or for a node without a lease")
  func others() {
    #expect(!leases.renew("door", 2, at: 10_000))
    #expect(!leases.renew("motor", 1, at: 10_000))
    #expect(!leases.confirmEnd("motor", at: 10_000))
    leases.begin("door", 4)
    #expect(!leases.renew("door", 3, at: 10_000))
    #expect(leases.renew("door", 4, at: 10_000))
    leases.forget("door")
    #expect(leases.isEmpty)
    #expect(!leases.confirmEnd("door", at: 100_000))
  }

  @Test("No lease counts as expired while a lease of the former orchestrator may be valid")
  func beginning() {
    #expect(!leases.confirmEnd("door", at: 1_099))
    #expect(leases.confirmEnd("door", at: 1_100))
  }
}
