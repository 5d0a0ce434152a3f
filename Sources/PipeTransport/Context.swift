import CProcess
import CZMQ

/// A ZeroMQ context. A process that takes part in a topology has one; a node with very many pipes
/// has a second one.
package final class Context: Sendable {
  /// The maximum number of sockets in a context. libzmq writes 12 bytes for each at the start.
  package enum SocketLimit: Int32, Sendable {
    case few = 1_000
    case many = 65_000
  }

  // libzmq's contexts are thread-safe; sockets are not.
  nonisolated(unsafe) let handle: UnsafeMutableRawPointer

  package init(_ socketLimit: SocketLimit = .many) {
    pr_protocols_from_file()
    handle = zmq_ctx_new()!
    _ = zmq_ctx_set(handle, ZMQ_MAX_SOCKETS, socketLimit.rawValue)
  }

  // Every socket holds its context, so all sockets are closed here. Their queued messages are sent
  // within each socket's linger period.
  deinit {
    while zmq_ctx_term(handle) != 0 && zmq_errno() == EINTR {}
  }
}

/// A failed libzmq call, with its endpoint and its errno.
package struct TransportError: Error, Hashable, Sendable, CustomStringConvertible {
  package var call: String
  package var endpoint: String?
  package var code: Int32

  package var description: String {
    let reason = String(cString: zmq_strerror(code))
    return "\(call)\(endpoint.map { " of '\($0)'" } ?? ""): \(reason)"
  }

  static func last(_ call: String, endpoint: String? = nil) -> TransportError {
    TransportError(call: call, endpoint: endpoint, code: zmq_errno())
  }
}
