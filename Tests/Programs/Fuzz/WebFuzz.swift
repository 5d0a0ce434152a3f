import Dispatch
import PipeInspector
import PipeRuntime

/// Reads bytes as a request to the server of an inspector's page. Every request must get an answer,
/// and clients without authorization must get no data.
///
/// The first byte of an input contains two flags: 1 for a read-only page, and 2 for a request with
/// the headers of the page's own requests. The other bytes are the request.
enum WebFuzz {
  private static let token = "token"
  private static let host = "localhost"

  /// A data source that answers every request, and stores the request.
  private final class FakeSource: PageDataSource {
    let recorder = InspectionRecorder(capacity: 1 << 20)
    let receivedRequest = Locked<InspectionRequest?>(nil)

    init() {
      recorder.append(["is": "life", "node": "door"])
      recorder.set("door", ["node": "door", "state": "closed"])
    }

    func answer(_ request: InspectionRequest) async throws -> JSONValue {
      receivedRequest.withLock { $0 = request }
      if case .machine("gone") = request {
        throw InspectionRequestError("no such node 'gone'")
      }
      return ["asked": .string("\(request)")]
    }
  }

  static func take(_ bytes: UnsafeRawBufferPointer) {
    guard let kind = bytes.first,
      let request = request(bytes.dropFirst(), hasPageHeaders: kind & 2 != 0)
    else { return }
    let source = FakeSource()
    let isReadOnly = kind & 1 != 0
    let service = WebService(
      source,
      accessControl: WebGuard(
        hosts: WebHosts(own: [host], port: 80), token: token, isReadOnly: isReadOnly))
    let answer = answer(request, by: service)
    check((200..<500).contains(answer.status), "\(answer.status) to \(request)")
    for (name, value) in WebGuard.headers {
      check(answer.headers[name] == value, "no \(name) in the answer to \(request)")
    }
    expectGuarded(request, answer, source.receivedRequest.withLock { $0 }, isReadOnly: isReadOnly)
    if answer.headers["Content-Type"]?.hasPrefix("application/json") == true {
      check((try? JSONValue(parsing: answer.body)) != nil, "no JSON to \(request)")
    }
  }

  /// Checks that only authorized requests read or change data.
  private static func expectGuarded(
    _ request: WebRequest, _ answer: WebResponse, _ receivedRequest: InspectionRequest?,
    isReadOnly: Bool
  ) {
    let names = [host, "\(host):80"]
    let isNamed = request.headers["host"].map { names.contains($0.lowercased()) } ?? false
    check(isNamed || answer.status == 421, "\(answer.status) under another name: \(request)")
    guard receivedRequest != nil || (answer.status == 200 && request.path.hasPrefix("/api/")) else {
      return
    }
    check(isNamed, "answered under another name: \(request)")
    check(request.headers["authorization"] == "Bearer \(token)", "answered unasked: \(request)")
    if let origin = request.headers["origin"] {
      check(
        names.contains { origin.lowercased() == "http://\($0)" }, "answered elsewhere: \(request)")
    }
    guard let receivedRequest else { return }
    switch receivedRequest {
    case .machine, .enabled, .state, .deadLetters, .chart:
      check(request.method == "GET", "read by \(request)")
    case .send, .control, .deadLetter:
      check(request.method == "POST" && !isReadOnly, "changed by \(request)")
      check(
        request.headers["content-type"]?.hasPrefix("application/json") == true,
        "changed by a form: \(request)")
    }
  }

  private final class ResponseBox: Sendable {
    let response = Locked<WebResponse?>(nil)
    let isAvailable = DispatchSemaphore(value: 0)
  }

  /// Returns the service's answer. Does not wait for new data.
  private static func answer(_ request: WebRequest, by service: WebService) -> WebResponse {
    let responseBox = ResponseBox()
    let task = Task {
      // Sleeping returns immediately in a cancelled task.
      while !Task.isCancelled { await Task.yield() }
      let response = await service.answer(request)
      responseBox.response.withLock { $0 = response }
      responseBox.isAvailable.signal()
    }
    task.cancel()
    responseBox.isAvailable.wait()
    guard let response = responseBox.response.withLock({ $0 }) else {
      fail("no answer: \(request)")
    }
    return response
  }

  /// Parses a request in a simplified way.
  private static func request(
    _ bytes: Slice<UnsafeRawBufferPointer>, hasPageHeaders: Bool
  ) -> WebRequest? {
    var lines = bytes.split(
      separator: UInt8(ascii: "\n"), maxSplits: .max, omittingEmptySubsequences: false)[...]
    let words = lines.popFirst().map { $0.split(separator: UInt8(ascii: " ")) } ?? []
    guard words.count >= 2 else { return nil }
    let target = words[1].split(
      separator: UInt8(ascii: "?"), maxSplits: 1, omittingEmptySubsequences: false)
    var request = WebRequest(method: text(words[0]), path: text(target[0]))
    for pair in target.dropFirst().first?.split(separator: UInt8(ascii: "&")) ?? [] {
      let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1)
      guard let name = parts.first else { continue }
      request.query[text(name)] = parts.count > 1 ? text(parts[1]) : ""
    }
    if hasPageHeaders {
      request.headers = [
        "host": host, "authorization": "Bearer \(token)", "content-type": "application/json",
      ]
    }
    while let line = lines.popFirst(), !line.isEmpty {
      let parts = line.split(
        separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
      let value = parts.count > 1 ? text(parts[1]) : ""
      request.headers[text(parts[0]).lowercased()] = String(value.drop { $0 == " " })
    }
    request.body = Array(lines.joined(separator: [UInt8(ascii: "\n")]))
    return request
  }

  private static func text(_ bytes: some Collection<UInt8>) -> String {
    String(decoding: bytes, as: UTF8.self)
  }
}
