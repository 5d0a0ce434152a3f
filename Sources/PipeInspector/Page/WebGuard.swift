/// Who may ask the page's server what: a web page of somebody else's, or another program of this machine,
/// may not.
package struct WebGuard: Hashable, Sendable {
  private let hosts: WebHosts
  private let token: String
  /// Whether nothing may be changed.
  package let isReadOnly: Bool

  /// - Parameters:
  ///   - hosts: By which it may be called.
  ///   - token: What a client has to have. It is in the fragment of the page's address, which no browser sends.
  package init(hosts: WebHosts, token: String, isReadOnly: Bool) {
    self.hosts = hosts
    self.token = token
    self.isReadOnly = isReadOnly
  }

  /// Why a request is not answered; `nil` where it is.
  package func refusal(of request: WebRequest) -> WebResponse? {
    guard let host = request.headers["host"], hosts.contains(host) else {
      return WebResponse(421, "this server is not called so; --host gives it another name")
    }
    if let origin = request.headers["origin"], !hosts.isOwn(origin: origin, of: host) {
      return WebResponse(403, "this is not for other pages")
    }
    if let site = request.headers["sec-fetch-site"], site != "same-origin", site != "none" {
      // The page itself may be opened from a link elsewhere.
      guard request.headers["sec-fetch-mode"] == "navigate", request.path == "/" else {
        return WebResponse(403, "this is not for other pages")
      }
    }
    guard request.path.hasPrefix("/api/") else {
      return ["GET", "HEAD"].contains(request.method) ? nil : Self.wrongMethod
    }
    guard isTold(request.headers["authorization"]) else {
      var response = WebResponse(
        401, "the token is missing or wrong: open the address that was printed")
      response.headers["WWW-Authenticate"] = "Bearer"
      return response
    }
    return refusalOfUse(request)
  }

  private func refusalOfUse(_ request: WebRequest) -> WebResponse? {
    switch request.method {
    case "GET": return nil
    case "POST":
      guard !isReadOnly else { return WebResponse(403, "this inspector only reads: --read-only") }
      // No form of another page can send this.
      guard request.headers["content-type"]?.hasPrefix("application/json") == true else {
        return WebResponse(415, "what is sent has to be application/json")
      }
      return nil
    default: return Self.wrongMethod
    }
  }

  private static let wrongMethod = WebResponse(405, "there is no such method here")

  /// Takes as long wherever the two differ.
  private func isTold(_ authorization: String?) -> Bool {
    let (told, wanted) = (Array((authorization ?? "").utf8), Array("Bearer \(token)".utf8))
    guard told.count == wanted.count else { return false }
    return zip(told, wanted).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
  }

  /// What every answer has.
  package static let headers = [
    "Content-Security-Policy":
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
      + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin", "X-Frame-Options": "DENY",
  ]

  /// A token that nobody guesses: 256 bits.
  package static func makeToken() -> String {
    var generator = SystemRandomNumberGenerator()
    return (0..<4).map { _ in
      let digits = String(generator.next() as UInt64, radix: 16)
      return String(repeating: "0", count: 16 - digits.count) + digits
    }.joined()
  }
}

/// By which names a server is called.
package struct WebHosts: Hashable, Sendable {
  /// Its own, with its port, as `Host` has them.
  private let exact: Set<String>
  /// Those that lead here by way of somebody else, with any port.
  private let names: Set<String>
  /// Of a page that is called by its own names.
  private let scheme: String

  /// - Parameters:
  ///   - own: By which it is reached itself: `127.0.0.1`, `[::1]`, `localhost`.
  ///   - port: `nil` where it has none: what leads there has one of its own.
  ///   - others: By which something else is reached that leads here, as a proxy or a forwarded port does.
  ///   - isEncrypted: Whether it is reached by TLS.
  package init(own: [String], port: UInt16?, others: [String] = [], isEncrypted: Bool = false) {
    let own = own.map { $0.lowercased() }
    var names = Set(others.map { $0.lowercased() })
    var exact: Set<String> = []
    if let port {
      exact = Set(own.map { "\($0):\(port)" })
      // The port of the scheme is left out.
      if port == (isEncrypted ? 443 : 80) { exact.formUnion(own) }
    } else {
      names.formUnion(own)
    }
    self.exact = exact
    self.names = names
    scheme = isEncrypted ? "https" : "http"
  }

  /// Whether a request's `Host` names this server. A name that leads here by a foreign server's will is not
  /// among them.
  func contains(_ host: String) -> Bool {
    let host = host.lowercased()
    return exact.contains(host) || Self.name(of: host).map(names.contains) ?? false
  }

  /// Whether a request's `Origin` is the page that this server has given out, under the name of the request.
  func isOwn(origin: String, of host: String) -> Bool {
    let host = host.lowercased()
    // What leads here may put TLS in front.
    let schemes = exact.contains(host) ? [scheme] : ["http", "https"]
    return schemes.contains { scheme in
      // A browser leaves the port of the scheme out; a proxy may have written it into the host.
      let port = scheme == "https" ? ":443" : ":80"
      let hosts = host.hasSuffix(port) ? [host, String(host.dropLast(port.utf8.count))] : [host]
      return hosts.contains { origin.lowercased() == "\(scheme)://\($0)" }
    }
  }

  /// A host without its port; `nil` where it is none.
  private static func name(of host: String) -> String? {
    let end =
      host.hasPrefix("[")
      ? host.firstIndex(of: "]").map(host.index(after:)) : host.firstIndex(of: ":")
    guard let end, end < host.endIndex else { return host }
    let port = host[end...].dropFirst()
    guard host[end] == ":", !port.isEmpty, port.utf8.allSatisfy({ (48...57).contains($0) }) else {
      return nil
    }
    return String(host[..<end])
  }
}
