import Glibc
import PipeRuntime
import PipeSupervision

/// The second process of a raw baseline. It is this program, started with a verb of its own.
enum RawPeer: String {
  /// Sends each message back.
  case echo
  /// Waits for a message, and then sends a given number of messages.
  case flood

  static let verb = "raw-peer"

  /// Runs the peer. The arguments after the verb are a role, an endpoint, a count and a transport.
  static func main(_ arguments: ArraySlice<String>) -> Never {
    let arguments = Array(arguments)
    guard arguments.count == 4, let role = RawPeer(rawValue: arguments[0]),
      let count = Int(arguments[2]), let transport = RawTransport(rawValue: arguments[3])
    else { exit(2) }
    do {
      try role.run(RawSocket.connected(to: arguments[1], over: transport), count: count)
      exit(0)
    } catch {
      StandardError.write("benchmarks: error: \(error)\n")
      exit(1)
    }
  }

  private func run(_ socket: RawSocket, count: Int) throws {
    try withUnsafeTemporaryAllocation(byteCount: RawSocket.byteCount, alignment: 8) { bytes in
      bytes.initializeMemory(as: UInt8.self, repeating: 0x61)
      switch self {
      case .echo:
        while true {
          try socket.receive(into: bytes)
          try socket.send(UnsafeRawBufferPointer(bytes))
        }
      case .flood:
        try socket.receive(into: bytes)
        for _ in 0..<count { try socket.send(UnsafeRawBufferPointer(bytes)) }
        // Wait until this process is killed, because the last messages are still in flight.
        while true { try socket.receive(into: bytes) }
      }
    }
  }
}

/// The results of several measurements of a raw baseline.
struct RawFigures {
  /// The time per message. Unit: seconds.
  private(set) var times = Samples()
  /// The number of messages per second.
  private(set) var rates = Samples()
  private(set) var own = ProcessorUses()
  private(set) var peer = ProcessorUses()

  mutating func add(_ result: RawPair.Result, of count: Int) {
    times.add(result.elapsed / Double(count))
    rates.add(Double(count) / result.elapsed)
    own.add(result.own)
    peer.add(result.peer)
  }
}

/// A raw baseline: a DEALER socket in this process, and another one in a second process.
final class RawPair {
  private let socket: RawSocket
  private var peer: ChildProcess
  private let bytes = UnsafeMutableRawBufferPointer.allocate(
    byteCount: RawSocket.byteCount, alignment: 8)

  init(
    _ role: RawPeer, count: Int, over transport: RawTransport = .ipc,
    in directory: TemporaryDirectory
  ) throws {
    bytes.initializeMemory(as: UInt8.self, repeating: 0x61)
    socket = try RawSocket.bound(to: transport.endpoint(in: directory), over: transport)
    let endpoint = socket.endpoint
    socket.setTimeout(10_000)
    peer = try ChildProcess.spawn(
      ChildCommand(
        path: Programs.own,
        arguments: [
          RawPeer.verb, role.rawValue, endpoint, String(count), transport.rawValue,
        ],
        environment: ProcessEnvironment.current, output: .inherited))
  }

  deinit {
    peer.signal(.kill)
    peer.wait()
    bytes.deallocate()
  }

  /// The result of one measurement.
  struct Result {
    /// The total time of all messages. Unit: seconds.
    let elapsed: Double
    /// The processor use per message in this process (`own`) and in the second process (`peer`).
    let own: ProcessorUse
    let peer: ProcessorUse
  }

  /// Measures a number of round trips, in sequence.
  func roundTrip(count: Int) throws -> Result {
    try measure(count) {
      for _ in 0..<count {
        try socket.send(UnsafeRawBufferPointer(bytes))
        try socket.receive(into: bytes)
      }
    }
  }

  /// Measures how fast this process receives messages that the second process sends.
  func flood(count: Int) throws -> Result {
    try measure(count) {
      try socket.send(UnsafeRawBufferPointer(bytes))
      for _ in 0..<count { try socket.receive(into: bytes) }
    }
  }

  private func measure(_ count: Int, _ body: () throws -> Void) rethrows -> Result {
    let before = (own: ProcessorUse(of: getpid()), peer: ProcessorUse(of: peer.pid))
    let start = Clock.nanoseconds
    try body()
    let elapsed = Double(Clock.nanoseconds - start) / 1e9
    return Result(
      elapsed: elapsed, own: ProcessorUse(of: getpid()).perOperation(of: count, since: before.own),
      peer: ProcessorUse(of: peer.pid).perOperation(of: count, since: before.peer))
  }
}

/// A raw baseline for journals: a file that is written and synced like a log.
final class RawDisk {
  /// The size of one write, which is a page of a journal. Unit: bytes.
  static let byteCount = 4_096

  private let path: String
  private let descriptor: Int32
  private let bytes = [UInt8](repeating: 0x61, count: byteCount)

  init(in directory: TemporaryDirectory) throws {
    path = directory.uniquePath("disk")
    descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
  }

  deinit { close(descriptor) }

  /// Writes and syncs a number of pages.
  /// - Returns: The time of one write with its sync. Unit: seconds.
  func write(count: Int) throws -> Double {
    let start = Clock.nanoseconds
    for _ in 0..<count {
      guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count else {
        throw SystemError("write", on: path, code: errno)
      }
      guard fdatasync(descriptor) == 0 else {
        throw SystemError("fdatasync", on: path, code: errno)
      }
    }
    return Double(Clock.nanoseconds - start) / 1e9 / Double(count)
  }
}
