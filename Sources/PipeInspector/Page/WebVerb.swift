import PipeClient
import PipeSupport
import PipeSystem

/// `inspector web`
struct WebVerb: InspectorVerb {
  let description = CommandDescription(
    "web", of: InspectorCommand.program, "Shows a topology on a page in a browser",
    discussion:
      "It prints the address of a page, which shows nodes and pipes as they live, a node's states and "
      + "events, and what has led to what, and serves it until ^C. The page asks nothing of any other "
      + "server. It is for this machine alone where nothing else is said, and for who has the address: what "
      + "stands behind # is the right to read, and to send events where --read-only is not given. To see it "
      + "from elsewhere use ssh -L, or TLS.",
    options: [.topology] + Option.page,
    examples: [
      ("inspector web", "The topology that runs"),
      ("inspector web -p shop --port 8080 --read-only", "One of several, to look at only"),
      ("inspector web --socket page.socket", "For 'ssh -L 8080:/path/to/page.socket HOST'"),
      (
        "inspector web --address 0.0.0.0 --host page.example --tls-certificate page.pem --tls-key page.key",
        "For other machines, by TLS"
      ),
    ])

  func run(_ arguments: ParsedArguments) throws -> Never {
    let place = try WebAddress(arguments)
    let (target, name) = try InspectorCommand.topology(arguments)
    let signals = try SignalDescriptor([.interrupt, .terminate, .hangUp])
    let listener = try place.listen()
    let token = WebGuard.makeToken()
    let guardian = WebGuard(
      hosts: place.hosts(port: listener.port), token: token,
      isReadOnly: arguments.flag("read-only"))
    let address = place.address(of: listener)
    let recording = LiveRecording(target, name: name)
    let service = WebService(recording, guardian: guardian)
    let server = try WebServer(listener, certificate: place.certificate) {
      await service.answer($0)
    }
    recording.start()
    InspectorCommand.say("topology '\(name)': \(address)#token=\(token)")
    InspectorCommand.serve(server, until: signals)
  }
}

/// The address of a page and its audience, from the command-line options, checked as a whole.
struct WebAddress {
  private enum Place {
    case address(SocketAddress, text: String, port: UInt16)
    case socket(String)
  }

  private let place: Place
  let certificate: WebCertificate?
  /// Further host names of the page.
  private let names: [String]

  init(_ arguments: ParsedArguments) throws {
    names = arguments.values("host")
    for name in names where !Self.isHost(name) { throw WebAddressError.noHost(name) }
    if let path = arguments.value("socket") {
      try InspectorCommand.expectNoPort(arguments)
      place = .socket(path)
      certificate = nil
      return
    }
    let text = arguments.value("address") ?? "127.0.0.1"
    let port = try InspectorCommand.port(arguments, default: 0)
    guard let address = SocketAddress(text, port) else { throw WebListenerError.noAddress(text) }
    certificate = try InspectorCommand.certificate(arguments)
    guard address.isLoopback || certificate != nil else { throw WebAddressError.notEncrypted(text) }
    if address.isAny, names.isEmpty { throw WebAddressError.noName(text) }
    place = .address(address, text: text, port: port)
  }

  func listen() throws(WebListenerError) -> WebListener {
    switch place {
    case .address(_, let text, let port): try WebListener(address: text, port: port)
    case .socket(let path): try WebListener(socket: path)
    }
  }

  /// Returns the names under which a browser reaches the page, if it listens at this port.
  func hosts(port: UInt16) -> WebHosts {
    switch place {
    case .address(let address, _, _):
      WebHosts(own: own(address), port: port, others: names, isEncrypted: certificate != nil)
    case .socket: WebHosts(own: Self.here, port: nil, others: names)
    }
  }

  /// Returns the address of the page for a browser, without the fragment, and instructions for a
  /// socket in the file system.
  func address(of listener: borrowing WebListener) -> String {
    let scheme = certificate == nil ? "http" : "https"
    switch place {
    case .address(let address, _, _):
      return "\(scheme)://\(own(address)[0]):\(listener.port)/"
    case .socket:
      if let name = names.first { return "\(listener.place), by a proxy: https://\(name)/" }
      return
        "\(listener.place), by 'ssh -L 8080:\(listener.place) HOST': http://\(Self.here[0]):8080/"
    }
  }

  private static let here = ["127.0.0.1", "localhost"]

  private func own(_ address: SocketAddress) -> [String] {
    // With TLS, a name comes first, because a certificate contains names rather than IP addresses.
    let names = certificate == nil ? [] : names
    if address.isAny { return names }
    return names + [address.host] + (address.isLoopback ? ["localhost"] : [])
  }

  /// Whether a text is a valid host without a port: `page.example`, `192.0.2.1`, `[2001:db8::1]`.
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

/// The errors of options about the page's address that exclude each other or are incomplete.
enum WebAddressError: Error, Hashable {
  /// Without TLS, others on the network could read the traffic.
  case notEncrypted(String)
  case missing(String, beside: String)
  /// The server listens at every address, and has no name.
  case noName(String)
  case noHost(String)
  case besideSocket(String)
}

extension WebAddressError: CustomStringConvertible {
  var description: String {
    switch self {
    case .notEncrypted(let address):
      "others reach \(address), and could read along: leave --address out, and see the page from elsewhere by "
        + "'ssh -L 8080:127.0.0.1:8080 HOST' and --port 8080; or serve it by TLS, with --tls-certificate FILE "
        + "and --tls-key FILE"
    case .missing(let option, let other): "--\(other) needs --\(option) FILE, too"
    case .noName(let address):
      "\(address) is every address of this machine: say by --host NAME which one a browser calls, as it stands "
        + "in the certificate"
    case .noHost(let text):
      "'\(text)' is no value for --host: give a name without scheme and port, as in page.example or [2001:db8::1]"
    case .besideSocket(let option):
      "--socket and --\(option) exclude each other: at a socket, a proxy or ssh has the port, and TLS"
    }
  }
}
