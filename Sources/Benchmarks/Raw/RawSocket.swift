import CZMQ

/// A DEALER of plain libzmq: what the runtime is compared with.
final class RawSocket {
  private let context: UnsafeMutableRawPointer
  private let socket: UnsafeMutableRawPointer

  /// Messages of this size are sent. Unit: bytes.
  static let byteCount = Payload.byteCount

  private init() {
    context = zmq_ctx_new()
    socket = zmq_socket(context, ZMQ_DEALER)
    var linger: Int32 = 0
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, MemoryLayout<Int32>.size)
  }

  static func bound(to endpoint: String) throws -> RawSocket {
    let raw = RawSocket()
    guard zmq_bind(raw.socket, endpoint) == 0 else { throw RawError.last("zmq_bind") }
    return raw
  }

  static func connected(to endpoint: String) throws -> RawSocket {
    let raw = RawSocket()
    guard zmq_connect(raw.socket, endpoint) == 0 else { throw RawError.last("zmq_connect") }
    return raw
  }

  deinit {
    zmq_close(socket)
    zmq_ctx_term(context)
  }

  /// Gives up on `receive` after this long. Unit: milliseconds.
  func setTimeout(_ milliseconds: Int32) {
    var milliseconds = milliseconds
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &milliseconds, MemoryLayout<Int32>.size)
  }

  @inline(__always)
  func send(_ bytes: UnsafeRawBufferPointer) throws {
    while zmq_send(socket, bytes.baseAddress, bytes.count, 0) < 0 {
      guard zmq_errno() == EINTR else { throw RawError.last("zmq_send") }
    }
  }

  @inline(__always)
  func receive(into bytes: UnsafeMutableRawBufferPointer) throws {
    while zmq_recv(socket, bytes.baseAddress, bytes.count, 0) < 0 {
      guard zmq_errno() == EINTR else { throw RawError.last("zmq_recv") }
    }
  }
}

/// A failed call of a baseline.
struct RawError: Error, CustomStringConvertible {
  let description: String

  static func last(_ call: String) -> RawError {
    RawError(
      description: "the raw baseline: \(call): \(String(cString: zmq_strerror(zmq_errno())))")
  }
}
