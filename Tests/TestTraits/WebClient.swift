import Dispatch
import Glibc
import PipeRuntime

/// A client for web servers on this host that can send any text.
package struct WebClient: Sendable {
  /// The response of a server.
  package struct Answer: Sendable, CustomStringConvertible {
    /// The status line and the headers.
    package var head: String
    package var body: String
    /// The status code: 200, 404, …; 0 if there was no response.
    package var status: Int { Int(head.split(separator: " ").dropFirst().first ?? "") ?? 0 }
    package var description: String { "\(head)\n\n\(body.prefix(2_000))" }

    /// Returns the value of a header; `nil` if there is none.
    package func header(_ name: String) -> String? {
      head.split(separator: "\r\n").lazy.filter {
        $0.lowercased().hasPrefix(name.lowercased() + ":")
      }
      .first.map { String($0.drop { $0 != ":" }.dropFirst().drop { $0 == " " }) }
    }
  }

  /// The address of a server.
  private enum ServerAddress {
    case port(UInt16)
    case socket(String)
  }

  private let address: ServerAddress

  package init(port: UInt16) { address = .port(port) }
  package init(socket path: String) { address = .socket(path) }

  /// The default value of the `Host` header.
  package var host: String {
    switch address {
    case .port(let port): "127.0.0.1:\(port)"
    case .socket: "localhost:8080"
    }
  }

  /// Sends a request for a path, and waits for the whole response.
  package func get(
    _ path: String, _ method: String = "GET", headers: [String: String] = [:], body: String = ""
  ) async throws -> Answer {
    var lines = ["\(method) \(path) HTTP/1.1", "Connection: close"]
    if headers["Host"] == nil { lines.append("Host: \(host)") }
    if !body.isEmpty { lines.append("Content-Length: \(body.utf8.count)") }
    lines += headers.map { "\($0.key): \($0.value)" }
    return try await exchange(lines.joined(separator: "\r\n") + "\r\n\r\n" + body)
  }

  /// Sends text, and reads until the server closes the connection.
  package func exchange(_ text: String) async throws -> Answer {
    answer(
      try await onBlockingThread {
        let connection = try connected()
        connection.send(text)
        return connection.all()
      })
  }

  /// Sends bytes, closes the sending side, and reads until the server closes the connection.
  package func exchangeHalfClosed(_ bytes: [UInt8]) async throws -> Answer {
    answer(
      try await onBlockingThread {
        let connection = try connected()
        connection.send(bytes)
        connection.endSending()
        return connection.all()
      })
  }

  private func answer(_ text: String) -> Answer {
    let end = text.range(of: "\r\n\r\n")
    return Answer(
      head: end.map { String(text[..<$0.lowerBound]) } ?? text,
      body: end.map { String(text[$0.upperBound...]) } ?? "")
  }

  /// Opens connections and sends the text on each of them, without reading.
  package func begin(_ text: String, times: Int = 1) async throws -> [Connection] {
    try await onBlockingThread {
      try (0..<times).map { _ in
        let connection = try connected()
        connection.send(text)
        return connection
      }
    }
  }

  private func connected() throws -> Connection {
    switch address {
    case .port(let port): try Connection(port)
    case .socket(let path): try Connection(path)
    }
  }

  /// A connection to a server.
  package final class Connection: Sendable {
    private let descriptor: Int32

    fileprivate convenience init(_ port: UInt16) throws {
      var address = sockaddr_in()
      address.sin_family = sa_family_t(AF_INET)
      address.sin_port = port.bigEndian
      address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
      try self.init(AF_INET, address, "port \(port)")
    }

    fileprivate convenience init(_ path: String) throws {
      var address = sockaddr_un()
      address.sun_family = sa_family_t(AF_UNIX)
      withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix(107)) }
      try self.init(AF_UNIX, address, path)
    }

    private init<Address>(_ family: Int32, _ address: Address, _ subject: String) throws {
      descriptor = socket(family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
      let result = withUnsafePointer(to: address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          connect(descriptor, $0, socklen_t(MemoryLayout<Address>.size))
        }
      }
      // An invalid descriptor fails to connect, too. `deinit` closes a valid one.
      guard result == 0 else { throw SystemError("connect", on: subject, code: errno) }
    }

    deinit { close(descriptor) }

    /// Sends text, or only a part of it if the server has closed the connection.
    /// - Returns: Whether all of the text was sent.
    @discardableResult
    package func send(_ text: String) -> Bool { send(Array(text.utf8)) }

    /// Sends bytes, or only some of them if the server has closed the connection.
    /// - Returns: Whether all bytes were sent.
    @discardableResult
    package func send(_ bytes: [UInt8]) -> Bool {
      var rest = bytes[...]
      while !rest.isEmpty {
        let count = rest.withUnsafeBytes {
          Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
        }
        guard count > 0 else { return false }
        rest = rest.dropFirst(count)
      }
      return true
    }

    /// Closes the sending side of the connection.
    fileprivate func endSending() { _ = shutdown(descriptor, Int32(SHUT_WR)) }

    /// Reads until the server closes the connection.
    package func readAll() async throws -> String { try await onBlockingThread { self.all() } }

    /// Reads at most `limit` bytes. Returns `nil` if the server has closed the connection.
    package func read(_ limit: Int) async throws -> [UInt8]? {
      try await onBlockingThread { self.next(limit) }
    }

    fileprivate func all() -> String {
      var bytes: [UInt8] = []
      while let more = next(65_536) { bytes += more }
      return String(decoding: bytes, as: UTF8.self)
    }

    private func next(_ limit: Int) -> [UInt8]? {
      var buffer = [UInt8](repeating: 0, count: limit)
      let count = recv(descriptor, &buffer, limit, 0)
      return count > 0 ? Array(buffer[..<count]) : nil
    }
  }
}

/// Runs a blocking function on a thread outside the pool of the tasks.
private func onBlockingThread<Value: Sendable>(
  _ body: @escaping @Sendable () throws -> Value
) async throws -> Value {
  try await withCheckedThrowingContinuation { continuation in
    DispatchQueue.global().async { continuation.resume(with: Result { try body() }) }
  }
}

extension String {
  /// Returns the range of the first occurrence of a text; `nil` if there is none.
  fileprivate func range(of text: String) -> Range<Index>? {
    let (own, wanted) = (Array(utf8), Array(text.utf8))
    guard own.count >= wanted.count else { return nil }
    for place in 0...(own.count - wanted.count) where own[place] == wanted[0] {
      guard own[place..<(place + wanted.count)].elementsEqual(wanted) else { continue }
      let start = utf8.index(utf8.startIndex, offsetBy: place)
      return start..<utf8.index(start, offsetBy: wanted.count)
    }
    return nil
  }
}
