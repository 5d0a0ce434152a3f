import CZMQ

/// A DEALER socket of libzmq, without the runtime. It is a baseline for pipes.
final class RawSocket {
  private let context: UnsafeMutableRawPointer
  private let socket: UnsafeMutableRawPointer

  /// The size of the messages. Unit: bytes.
  static let byteCount = Payload.byteCount

  private init() {
    context = zmq_ctx_new()
    socket = zmq_socket(context, ZMQ_DEALER)
    var linger: Int32 = 0
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, MemoryLayout<Int32>.size)
  }

  static func bound(to endpoint: String, over transport: RawTransport) throws -> RawSocket {
    let raw = RawSocket()
    if transport == .curve {
      var isServer: Int32 = 1
      zmq_setsockopt(raw.socket, ZMQ_CURVE_SERVER, &isServer, MemoryLayout<Int32>.size)
      raw.set(ZMQ_CURVE_SECRETKEY, RawTransport.server.secret)
    }
    guard zmq_bind(raw.socket, endpoint) == 0 else { throw RawError.last("zmq_bind") }
    return raw
  }

  static func connected(to endpoint: String, over transport: RawTransport) throws -> RawSocket {
    let raw = RawSocket()
    if transport == .curve {
      raw.set(ZMQ_CURVE_SERVERKEY, RawTransport.server.public)
      raw.set(ZMQ_CURVE_PUBLICKEY, RawTransport.client.public)
      raw.set(ZMQ_CURVE_SECRETKEY, RawTransport.client.secret)
    }
    guard zmq_connect(raw.socket, endpoint) == 0 else { throw RawError.last("zmq_connect") }
    return raw
  }

  private func set(_ option: Int32, _ key: String) {
    zmq_setsockopt(socket, option, key, key.utf8.count)
  }

  /// The bound endpoint, including the port.
  var endpoint: String {
    var bytes = [UInt8](repeating: 0, count: 256)
    var count = bytes.count
    zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, &bytes, &count)
    return String(decoding: bytes.prefix(max(0, count - 1)), as: UTF8.self)
  }

  deinit {
    zmq_close(socket)
    zmq_ctx_term(context)
  }

  /// Sets the timeout of ``receive(into:)``. Unit: milliseconds.
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

/// The error of a failed libzmq call.
struct RawError: Error, CustomStringConvertible {
  let description: String

  static func last(_ call: String) -> RawError {
    RawError(
      description: "the raw baseline: \(call): \(String(cString: zmq_strerror(zmq_errno())))")
  }
}

/// The transport of a raw baseline.
enum RawTransport: String, CaseIterable {
  case ipc, tcp, curve

  /// The name of the transport in a report.
  var title: String {
    switch self {
    case .ipc: "ipc"
    case .tcp: "tcp"
    case .curve: "tcp with CURVE"
    }
  }

  func endpoint(in directory: TemporaryDirectory) -> String {
    switch self {
    case .ipc: "ipc://" + directory.uniquePath("raw")
    case .tcp, .curve: "tcp://127.0.0.1:*"
    }
  }

  /// The example keys of zmq_curve(7). They are public, which is acceptable because only the cost
  /// of encryption is measured.
  static let server = (
    public: "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7",
    secret: "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6"
  )
  static let client = (
    public: "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID",
    secret: "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"
  )
}
