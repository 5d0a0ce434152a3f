import PipeClient
import PipeSupport
import PipeSystem

/// The verb `inspector web`.
struct WebVerb: InspectorVerb {
  let description = CommandDescription(
    "web", of: InspectorCommand.program, "Serves the inspector, a page for the browser",
    discussion:
      "Prints the address of the page and serves the page until ^C. The page shows nodes and "
      + "pipes as they change, the states and events of a node, and the cause of each event. The "
      + "page loads nothing from other servers. By default, the page is served only on this "
      + "host, and only to browsers that open the printed address. With the token after # in "
      + "this address, a browser can read all data and, without --read-only, send events. To "
      + "see the page from another host, use ssh -L or TLS. With RUN, the page shows a recorded "
      + "run; the orchestrator beside this program reads the run.",
    options: [.topology] + Option.pageOptions,
    positionals: [.run],
    examples: [
      ("inspector web", "Serves the only running topology"),
      (
        "inspector web -p shop --port 8080 --read-only",
        "Serves one of several topologies, for reading only"
      ),
      (
        "inspector web --socket page.socket",
        "Serves the page on a socket, for 'ssh -L 8080:/path/to/page.socket HOST'"
      ),
      (
        "inspector web --address 0.0.0.0 --host page.example --tls-certificate page.pem --tls-key page.key",
        "Serves the page to other hosts, with TLS"
      ),
    ])

  func run(_ arguments: ParsedArguments) throws -> Never {
    let endpoint = try WebAddress(arguments)
    let (name, source, start) = try Self.source(arguments)
    let signals = try SignalDescriptor([.interrupt, .terminate, .hangUp])
    let listener = try endpoint.listen()
    let token = WebGuard.makeToken()
    let accessControl = WebGuard(
      hosts: endpoint.hosts(port: listener.port), token: token,
      isReadOnly: arguments.contains(option: "read-only"))
    let address = endpoint.address(of: listener)
    let service = WebService(source, accessControl: accessControl)
    let server = try WebServer(listener, certificate: endpoint.certificate) {
      await service.answer($0)
    }
    start()
    InspectorCommand.printLine("\(name): \(address)#token=\(token)")
    InspectorCommand.serve(server, until: signals)
  }

  /// Returns the data source of the page with a name for the user, and a function that starts the
  /// recording.
  private static func source(
    _ arguments: ParsedArguments
  ) throws -> (name: String, source: any PageDataSource, start: () -> Void) {
    guard let directory = arguments.positionals.first else {
      let (target, name) = try InspectorCommand.topology(arguments)
      let recording = LiveRecording(target, name: name)
      return ("topology '\(name)'", recording, { recording.start() })
    }
    if let option = Option.targetOptions.first(where: { arguments.contains(option: $0.long) }) {
      throw UsageError.conflict("RUN", "--\(option.long)")
    }
    let recording = try RunRecording(directory: directory)
    return ("run '\(directory)' of topology '\(recording.name)'", recording, {})
  }
}

/// The address of the page and the page's host names. They are validated together, since
/// command-line options for the address and the names depend on each other.
struct WebAddress {
  private enum Endpoint {
    case address(SocketAddress, text: String, port: UInt16)
    case socket(String)
  }

  private let endpoint: Endpoint
  let certificate: WebCertificate?
  /// The host names of the page, in addition to the server's own names.
  private let names: [String]

  init(_ arguments: ParsedArguments) throws {
    names = arguments.values("host")
    for name in names where !Self.isHost(name) { throw WebAddressError.invalidHost(name) }
    if let path = arguments.value("socket") {
      try InspectorCommand.expectNoPort(arguments)
      endpoint = .socket(path)
      certificate = nil
      return
    }
    let text = arguments.value("address") ?? "127.0.0.1"
    let port = try InspectorCommand.port(arguments, default: 0)
    guard let address = SocketAddress(text, port) else {
      throw WebListenerError.invalidAddress(text)
    }
    certificate = try InspectorCommand.certificate(arguments)
    guard address.isLoopback || certificate != nil else { throw WebAddressError.notEncrypted(text) }
    if address.isAny, names.isEmpty { throw WebAddressError.missingHostName(text) }
    endpoint = .address(address, text: text, port: port)
  }

  func listen() throws(WebListenerError) -> WebListener {
    switch endpoint {
    case .address(_, let text, let port): try WebListener(address: text, port: port)
    case .socket(let path): try WebListener(socket: path)
    }
  }

  /// Returns the names under which a browser can reach the page, if the server listens at this
  /// port.
  func hosts(port: UInt16) -> WebHosts {
    switch endpoint {
    case .address(let address, _, _):
      WebHosts(own: own(address), port: port, others: names, isEncrypted: certificate != nil)
    case .socket: WebHosts(own: Self.localNames, port: nil, others: names)
    }
  }

  /// Returns the page's address for a browser, without the fragment. For a socket in the file
  /// system, the text also says how to reach the socket.
  func address(of listener: borrowing WebListener) -> String {
    let scheme = certificate == nil ? "http" : "https"
    switch endpoint {
    case .address(let address, _, _):
      return "\(scheme)://\(own(address)[0]):\(listener.port)/"
    case .socket:
      if let name = names.first { return "\(listener.endpoint), through a proxy: https://\(name)/" }
      return
        "\(listener.endpoint), through 'ssh -L 8080:\(listener.endpoint) HOST': "
        + "http://\(Self.localNames[0]):8080/"
    }
  }

  private static let localNames = ["127.0.0.1", "localhost"]

  private func own(_ address: SocketAddress) -> [String] {
    // With TLS, a host name comes first, because certificates usually contain names and no IP
    // addresses.
    let names = certificate == nil ? [] : names
    if address.isAny { return names }
    return names + [address.host] + (address.isLoopback ? ["localhost"] : [])
  }

  /// Returns whether a text is a valid host without a port: `page.example`, `192.0.2.1`,
  /// `[2001:db8::1]`.
  private static func isHost(_ text: String) -> Bool {
    if text.hasPrefix("["), text.hasSuffix("]") {
      return SocketAddress(String(text.dropFirst().dropLast()), 0) != nil
    }
    return !text.isEmpty
      && text.utf8.allSatisfy { byte in
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
          || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
          || [UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_")].contains(byte)
      }
  }
}

/// An error in the options for the address: they exclude each other, or an option is missing.
enum WebAddressError: Error, Hashable {
  /// The server would listen on the network without TLS, so others could read the page's data.
  case notEncrypted(String)
  case missing(String, beside: String)
  /// The server would listen at every address, but the options give no host name.
  case missingHostName(String)
  case invalidHost(String)
  case conflictsWithSocket(String)
}

extension WebAddressError: CustomStringConvertible {
  var description: String {
    switch self {
    case .notEncrypted(let address):
      "other hosts can reach \(address) and read unencrypted traffic; omit --address and "
        + "use 'ssh -L 8080:127.0.0.1:8080 HOST' with --port 8080, or use TLS with "
        + "--tls-certificate FILE and --tls-key FILE"
    case .missing(let option, let other): "--\(other) requires --\(option) FILE"
    case .missingHostName(let address):
      "\(address) stands for every address of this host; name the host with --host NAME, as "
        + "in the certificate"
    case .invalidHost(let text):
      "'\(text)' is not a valid value for --host; give a name without scheme and port, such "
        + "as page.example or [2001:db8::1]"
    case .conflictsWithSocket(let option):
      "\(UsageError.conflict("--socket", "--\(option)")); with a socket, a proxy or ssh "
        + "provides the port and TLS"
    }
  }
}
