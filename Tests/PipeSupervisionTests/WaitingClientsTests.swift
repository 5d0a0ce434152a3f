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

  private func requester(_ number: Int, by transport: ControlPeer.Transport) -> Requester {
    Requester(
      peer: ControlPeer(transport: transport, id: Array("client \(number)".utf8)),
      id: UInt64(number))
  }

  @Test("A remote client is answered even if more local clients than the limit wait")
  func remote() {
    var clients = WaitingClients()
    clients.appendUntilEnd(requester(0, by: .network))
    for number in 1...(2 * WaitingClients.maximumRequestCount) {
      clients.appendUntilEnd(requester(number, by: .host))
    }
    let answered = answers(&clients)
    #expect(answered.contains(requester(0, by: .network)))
    #expect(answered.contains(requester(2 * WaitingClients.maximumRequestCount, by: .host)))
    #expect(answered.count <= WaitingClients.maximumRequestCount + 1)
  }

  @Test("Every client up to the limit gets exactly one reply")
  func limit() {
    var clients = WaitingClients()
    for number in 0..<WaitingClients.maximumRequestCount {
      clients.appendUntilEnd(requester(number, by: .host))
    }
    #expect(answers(&clients).count == WaitingClients.maximumRequestCount)
    #expect(answers(&clients).isEmpty)
  }
}
