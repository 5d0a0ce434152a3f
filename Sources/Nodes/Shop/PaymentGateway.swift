import Dispatch
import Glibc
import PipeRuntime

/// A client of the payment service, which `gateway.py` provides.
struct PaymentGateway: Sendable {
  /// The TCP port of the service on this host.
  let port: Int

  private static let longestPause = Duration.seconds(2)

  /// Charges a customer.
  /// - Returns: `false` if the service declines; `nil` if the effect was cancelled.
  func charge(order: String, amount: Int) async -> Bool? {
    let body: JSONValue = ["order": .string(order), "amount": .integer(Int64(amount))]
    return await status(of: "/charges", body).map { $0 == 200 }
  }

  /// Refunds what a customer has paid for an order.
  /// - Returns: `false` if the effect was cancelled.
  func refund(order: String) async -> Bool {
    await status(of: "/refunds", ["order": .string(order)]) != nil
  }

  /// Repeats a request until the service gives a final answer.
  ///
  /// All attempts have the same key, also the attempts after a crash of the node. So the service
  /// recognizes a repeated request, even if its answer to the first one was lost.
  /// - Returns: The status of the HTTP response; `nil` if the effect was cancelled.
  private func status(of path: String, _ body: JSONValue) async -> Int? {
    let key = IdempotencyKey.current?.description ?? ""
    var pause = Duration.milliseconds(50)
    while true {
      let status = await post(path, body, key: key)
      if let status, status < 500 { return status }
      do { try await EffectClock.sleep(for: pause) } catch { return nil }
      pause = min(pause * 2, Self.longestPause)
    }
  }

  /// Sends one request on another thread, because the functions of a socket block.
  /// - Returns: The status of the HTTP response; `nil` if there is no response.
  private func post(_ path: String, _ body: JSONValue, key: String) async -> Int? {
    let text = body.text
    let request = """
      POST \(path) HTTP/1.0\r
      Idempotency-Key: \(key)\r
      Content-Type: application/json\r
      Content-Length: \(text.utf8.count)\r
      \r
      \(text)
      """
    return await withCheckedContinuation { continuation in
      DispatchQueue.global().async { continuation.resume(returning: exchange(request)) }
    }
  }

  private func exchange(_ request: String) -> Int? {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var limit = timeval(tv_sec: 2, tv_usec: 0)
    let size = socklen_t(MemoryLayout<timeval>.size)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, size)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(port).bigEndian
    address.sin_addr.s_addr = in_addr_t(INADDR_LOOPBACK).bigEndian
    let isConnected = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
      }
    }
    let bytes = Array(request.utf8)
    guard isConnected, send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count
    else { return nil }
    // The response ends with the connection. It begins, for example, with 'HTTP/1.0 200 OK'.
    var response: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 4_096)
    while true {
      let count = recv(descriptor, &part, part.count, 0)
      if count <= 0 { break }
      response += part[..<count]
    }
    let words = response.split(separator: UInt8(ascii: " "), maxSplits: 2)
    return words.count > 2 ? Int(String(decoding: words[1], as: UTF8.self)) : nil
  }
}
