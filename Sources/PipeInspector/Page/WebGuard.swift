/// The access control of the page's server. It rejects requests from other web pages and from other
/// programs on this host.
package struct WebGuard: Hashable, Sendable {
  private let hosts: WebHosts
  private let token: String
  /// Whether requests that change something are rejected.
  package let isReadOnly: Bool

  /// - Parameters:
  ///   - hosts: The host names under which clients can reach the server.
  ///   - token: The secret that a client must send. The page's address contains the token in its
  ///     fragment, which browsers do not send to servers.
  package init(hosts: WebHosts, token: String, isReadOnly: Bool) {
    self.hosts = hosts
    self.token = token
    self.isReadOnly = isReadOnly
  }

  /// Returns the response that rejects a request; `nil` if the request is allowed.
  package func refusal(of request: WebRequest) -> WebResponse? {
    guard let host = request.headers["host"], hosts.contains(host) else {
      return WebResponse(421, "unknown host name; allow this name with --host")
    }
    if let origin = request.headers["origin"], !hosts.allows(origin: origin, of: host) {
      return WebResponse(403, "cross-origin request rejected")
    }
    if let site = request.headers["sec-fetch-site"], site != "same-origin", site != "none" {
      // A link on another site may lead to the page itself, but to nothing else.
      guard request.headers["sec-fetch-mode"] == "navigate", request.path == "/" else {
        return WebResponse(403, "cross-origin request rejected")
      }
    }
    guard request.path.hasPrefix("/api/") else {
      return ["GET", "HEAD"].contains(request.method) ? nil : Self.wrongMethod
    }
    guard isAuthorized(request.headers["authorization"]) else {
      var response = WebResponse(
        401, "missing or invalid token: open the address that 'inspector web' has printed")
      response.headers["WWW-Authenticate"] = "Bearer"
      return response
    }
    return methodRefusal(request)
  }

  private func methodRefusal(_ request: WebRequest) -> WebResponse? {
    switch request.method {
    case "GET": return nil
    case "POST":
      guard !isReadOnly || WebRoute(request)?.onlyReads == true else {
        return WebResponse(403, "read-only: started with --read-only")
      }
      // An HTML form on another site's page cannot send this content type.
      guard request.headers["content-type"]?.hasPrefix("application/json") == true else {
        return WebResponse(415, "unsupported content type: send application/json")
      }
      return nil
    default: return Self.wrongMethod
    }
  }

  private static let wrongMethod = WebResponse(405, "method not allowed")

  /// Compares the token in constant time, so that response times do not reveal the token.
  private func isAuthorized(_ authorization: String?) -> Bool {
    let (received, expected) = (Array((authorization ?? "").utf8), Array("Bearer \(token)".utf8))
    guard received.count == expected.count else { return false }
    return zip(received, expected).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
  }

  /// The headers of every response.
  package static let headers = [
    "Content-Security-Policy":
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
      + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin", "X-Frame-Options": "DENY",
  ]

  /// Creates a random token of 256 bits.
  package static func makeToken() -> String {
    var generator = SystemRandomNumberGenerator()
    return (0..<4).map { _ in
      let digits = String(generator.next() as UInt64, radix: 16)
      return String(repeating: "0", count: 16 - digits.count) + digits
    }.joined()
  }
}

/// The host names under which clients may reach a server.
package struct WebHosts: Hashable, Sendable {
  /// The server's own names, each with the server's port, as in a `Host` header.
  private let namesWithPort: Set<String>
  /// The names of proxies and forwarded ports, which are allowed with any port.
  private let names: Set<String>
  /// The scheme that clients use if they reach the server under its own names: `http` or `https`.
  private let scheme: String

  /// - Parameters:
  ///   - own: The names of the server itself: `127.0.0.1`, `[::1]`, `localhost`.
  ///   - port: The server's port; `nil` for a socket in the file system. A server with such a
  ///     socket is behind a proxy, which has its own port.
  ///   - others: The names of a proxy or a forwarded port in front of the server.
  ///   - isEncrypted: Whether the server uses TLS.
  package init(own: [String], port: UInt16?, others: [String] = [], isEncrypted: Bool = false) {
    let own = own.map { $0.lowercased() }
    var names = Set(others.map { $0.lowercased() })
    var namesWithPort: Set<String> = []
    if let port {
      namesWithPort = Set(own.map { "\($0):\(port)" })
      // Clients omit the port if it is the scheme's default port.
      if port == (isEncrypted ? 443 : 80) { namesWithPort.formUnion(own) }
    } else {
      names.formUnion(own)
    }
    self.namesWithPort = namesWithPort
    self.names = names
    scheme = isEncrypted ? "https" : "http"
  }

  /// Returns whether a `Host` header names this server. This check prevents DNS rebinding: a
  /// foreign DNS server could resolve its own names to this server's address.
  func contains(_ host: String) -> Bool {
    let host = host.lowercased()
    return namesWithPort.contains(host) || Self.name(of: host).map(names.contains) ?? false
  }

  /// Returns whether an `Origin` header names this server's own page. `host` is the value of the
  /// request's `Host` header.
  func allows(origin: String, of host: String) -> Bool {
    let host = host.lowercased()
    // A proxy may add TLS, so the scheme can be `http` or `https`.
    let schemes = namesWithPort.contains(host) ? [scheme] : ["http", "https"]
    return schemes.contains { scheme in
      // Browsers omit the scheme's default port in the origin, but a proxy may have added it to the
      // host.
      let port = scheme == "https" ? ":443" : ":80"
      let hosts = host.hasSuffix(port) ? [host, String(host.dropLast(port.utf8.count))] : [host]
      return hosts.contains { origin.lowercased() == "\(scheme)://\($0)" }
    }
  }

  /// Returns a host without its port; `nil` if the text is not a valid host.
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
