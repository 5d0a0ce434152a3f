import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// The socket on which nodes report, and clients ask.
final class ControlSocket {
  let socket: Socket
  /// Messages that were passed over.
  private var garbage: UInt64 = 0

  init(at endpoint: String, in context: Context) throws(TransportError) {
    socket = try Socket(.router, in: context)
    try socket.setHighWaterMark(0)
    try socket.setMaximumMessage(byteCount: WireLimits.messageByteCount)
    try socket.bind(endpoint)
  }

  func close() {
    socket.setLinger(milliseconds: 500)
    socket.close()
  }

  /// Reads all that has come.
  /// - Parameters:
  ///   - take: Takes a frame; throws where it makes no sense.
  ///   - warn: Called with what was passed over, ever less often.
  func read(
    _ take: (FrameHeader, [UInt8], _ peer: [UInt8]) throws -> Void, warn: (String) -> Void
  ) {
    while socket.receive({ peer, bytes in
      do {
        try take(FrameHeader(bytes), Array(bytes[FrameHeader.byteCount...]), peer)
      } catch {
        garbage += 1
        if garbage.isWorthLogging {
          warn("passed over \(error) on the control socket (\(garbage) so far)")
        }
      }
    }) {}
  }

  /// The node that has this routing id, where it is one of a node.
  static func node(of peer: [UInt8]) -> String? {
    let prefix = Array(WireName.node("").utf8)
    guard peer.starts(with: prefix) else { return nil }
    return String(decoding: peer.dropFirst(prefix.count), as: UTF8.self)
  }

  /// Sends a frame to a node; one that is not connected misses it, and its timeouts see to that.
  @discardableResult
  func send(_ header: FrameHeader, to node: String) -> Socket.Sent {
    socket.send(header, body: [], to: Array(WireName.node(node).utf8))
  }

  /// Sends a frame with a body to a node.
  func send(_ header: FrameHeader, _ body: [UInt8], to node: String) {
    socket.send(header, body: body, to: Array(WireName.node(node).utf8))
  }

  /// Sends a frame with a record to a node.
  @discardableResult
  func send(_ header: FrameHeader, _ record: some Encodable, to node: String) -> Socket.Sent {
    guard let body = try? JSONRecord.encode(record) else { return .unroutable }
    return socket.send(header, body: body, to: Array(WireName.node(node).utf8))
  }

  func answer(_ answer: ControlAnswer, to asker: Asker) {
    guard let body = try? JSONRecord.encode(answer) else { return }
    socket.send(FrameHeader(.answer, sequence: asker.id), body: body, to: asker.peer)
  }
}
