import PipeWire

/// Answers libzmq's questions in handshakes, on the loop of those whose sockets are connected to.
///
/// One to a context. It asks the ``PeerGate`` of the socket's domain.
package final class ZapHandler {
  private let socket: Socket
  private struct Gate {
    weak var gate: PeerGate?
  }
  private var gates: [String: Gate] = [:]

  /// Where libzmq looks for it. Source: ZeroMQ RFC 27.
  private static let endpoint = "inproc://zeromq.zap.01"
  /// Handshakes answered in one turn.
  private static let readsPerTurn = 64

  package init(in context: Context, loop: PollLoop) throws(TransportError) {
    socket = try Socket(.router, in: context)
    try socket.setHighWaterMark(0)
    try socket.bind(Self.endpoint)
    loop.add(socket, for: self) { $0.read() }
  }

  deinit { socket.close() }

  /// Makes the gate of some sockets, which keeps this handler.
  /// - Parameters:
  ///   - domain: Of all gates, its own name.
  ///   - report: Told of those that are turned away: the first ones, and then ever fewer.
  package func makeGate(
    _ domain: String, report: @escaping (PeerRefusal) -> Void
  ) -> PeerGate {
    let gate = PeerGate(domain, of: self, report: report)
    gates[domain] = Gate(gate: gate)
    return gate
  }

  private func read() {
    var count = 0
    while count < Self.readsPerTurn, let parts = socket.receiveAll() {
      count += 1
      answer(parts)
    }
  }

  /// The parts: who asks, an empty one, and the request.
  private func answer(_ parts: [[UInt8]]) {
    guard parts.count > 2, parts[1].isEmpty, let request = ZapRequest(Array(parts[2...])) else {
      return
    }
    let reply =
      gates[request.domain]?.gate?.answer(request) ?? request.reply(.unknown, connection: 0)
    let all = [parts[0], []] + reply
    for (place, part) in all.enumerated() {
      // Who asked may be gone.
      guard case .queued = socket.sendPart(part, more: place < all.count - 1) else { return }
    }
  }
}
