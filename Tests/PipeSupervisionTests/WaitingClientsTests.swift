import PipeSupervision
import PipeWire
import Testing

@Suite("Clients that wait for the end of a run")
struct WaitingClientsTests {
  /// The answers at the end of a run, of all that asked.
  private func answers(_ clients: inout WaitingClients) -> Set<Asker> {
    var topology = SimulatedTopology([.init("a")])
    topology.take(.start)
    topology.take(.stop(.stopped))
    #expect(topology.outcome == .stopped)
    let answers = clients.takeAnswered(by: topology.lifecycle) { .ended($0) }
    #expect(answers.count == Set(answers.map(\.0)).count)
    return Set(answers.map(\.0))
  }

  private func asker(_ number: Int, by way: ControlPeer.Way) -> Asker {
    Asker(
      peer: ControlPeer(way: way, id: Array("client \(number)".utf8)), id: UInt64(number))
  }

  @Test("one of another host is answered, however many of this host have asked since")
  func remote() {
    var clients = WaitingClients()
    clients.appendUntilEnd(asker(0, by: .network))
    for number in 1...(2 * WaitingClients.limit) {
      clients.appendUntilEnd(asker(number, by: .host))
    }
    let answered = answers(&clients)
    #expect(answered.contains(asker(0, by: .network)))
    #expect(answered.contains(asker(2 * WaitingClients.limit, by: .host)))
    #expect(answered.count <= WaitingClients.limit + 1)
  }

  @Test("all are answered up to the limit, and once")
  func limit() {
    var clients = WaitingClients()
    for number in 0..<WaitingClients.limit { clients.appendUntilEnd(asker(number, by: .host)) }
    #expect(answers(&clients).count == WaitingClients.limit)
    #expect(answers(&clients).isEmpty)
  }
}
