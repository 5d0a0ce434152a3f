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
