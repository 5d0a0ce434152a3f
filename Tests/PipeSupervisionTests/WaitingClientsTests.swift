import PipeSupervision
import PipeWire
import Testing

@Suite("Clients that wait for the end of a run")
struct WaitingClientsTests {
  /// Returns the clients that are answered at the end of a run.
  private func answers(_ clients: inout WaitingClients) -> Set<Requester> {
    var topology = SimulatedTopology([.init("a")])
    topology.take(.start)
    topology.take(.stop(.stopped))
    #expect(topology.outcome == .stopped)
    let answers = clients.takeAnswered(by: topology.lifecycle) { .ended($0) }
    #expect(answers.count == Set(answers.map(\.0)).count)
    return Set(answers.map(\.0))
  }

  private func requester(_ number: Int, by way: ControlPeer.Way) -> Requester {
    Requester(
      peer: ControlPeer(way: way, id: Array("client \(number)".utf8)), id: UInt64(number))
  }

  @Test("A remote client is answered, however many local clients have asked since")
  func remote() {
    var clients = WaitingClients()
    clients.appendUntilEnd(requester(0, by: .network))
    for number in 1...(2 * WaitingClients.limit) {
      clients.appendUntilEnd(requester(number, by: .host))
    }
    let answered = answers(&clients)
    #expect(answered.contains(requester(0, by: .network)))
    #expect(answered.contains(requester(2 * WaitingClients.limit, by: .host)))
    #expect(answered.count <= WaitingClients.limit + 1)
  }

  @Test("All clients up to the limit are answered, and once")
  func limit() {
    var clients = WaitingClients()
    for number in 0..<WaitingClients.limit { clients.appendUntilEnd(requester(number, by: .host)) }
    #expect(answers(&clients).count == WaitingClients.limit)
    #expect(answers(&clients).isEmpty)
  }
}
