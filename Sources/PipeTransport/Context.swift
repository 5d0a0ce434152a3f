import CProcess
import CZMQ

/// A ZeroMQ context. Each process of a topology has one context. A node with very many pipes has
/// two contexts.
package final class Context: Sendable {
  /// The maximum number of sockets in a context. libzmq writes 12 bytes for each possible socket
  /// when the first socket is created.
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

  // Every socket has a strong reference to its context, so all sockets are closed here.
  // `zmq_ctx_term` waits until their queued messages are sent, or their linger periods are over.
  deinit {
    while zmq_ctx_term(handle) != 0 && zmq_errno() == EINTR {}
  }
}

/// An error from libzmq or the socket API: the failed call, its endpoint and the errno.
package struct TransportError: Error, Hashable, Sendable, CustomStringConvertible {
  package var call: String
  package var endpoint: String?
  /// The errno of the failed call, which can be an errno that only libzmq defines.
  package var code: Int32

  package var description: String {
    let reason = String(cString: zmq_strerror(code))
    return "\(call)\(endpoint.map { " of '\($0)'" } ?? ""): \(reason)"
  }

  /// Returns the error of the libzmq call that has just failed.
  static func lastError(_ call: String, endpoint: String? = nil) -> TransportError {
    TransportError(call: call, endpoint: endpoint, code: zmq_errno())
  }
}
