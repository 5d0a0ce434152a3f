import PipeSupport

/// The kind of value of an option or a positional. The kind determines the placeholder in the help,
/// the validation, and the shell completion.
package enum ValueKind: Hashable, Sendable {
  case text(String)
  /// An integer of at least `from`. The string is the placeholder in the help.
  case count(String, from: UInt64 = 0)
  /// A duration: `200ms`, `1.5s`, `1m30s`, `2h`.
  case duration
  /// An age such as `5m`, or a time: see ``MomentArgument``.
  case moment
  case choice(String, [String])
  case topology
  case node
  /// A node, or an instance of a node: `orders[4711]`.
  case nodeOrInstance
  /// An event of the node in the preceding argument: the event's name, or JSON.
  case event
  case file
  /// A file, or a node if the value does not look like a file.
  case fileOrNode
  case directory
  /// A network endpoint: `tcp://HOST:PORT`.
  case endpoint
  case signal

  /// The placeholder of the value in the help.
  package var placeholder: String {
    switch self {
    case .text(let name), .count(let name, _): name
    case .duration: "DURATION"
    case .moment: "AGE|TIME"
    case .choice(_, let choices): choices.joined(separator: "|")
    case .topology: "NAME"
    case .node, .nodeOrInstance: "NODE"
    case .event: "EVENT"
    case .file: "FILE"
    case .fileOrNode: "FILE|NODE"
    case .directory: "DIRECTORY"
    case .endpoint: "tcp://HOST:PORT"
    case .signal: "SIGNAL"
    }
  }
}

extension ValueKind {
  /// Returns a description of the expected value if the value is invalid; otherwise `nil`.
  package func problem(with value: String) -> String? {
    switch self {
    case .text, .event, .file, .fileOrNode, .directory: value.isEmpty ? "must not be empty" : nil
    case .count(_, let least):
      UInt64(value).map { $0 < least } ?? true ? "must be an integer of at least \(least)" : nil
    case .duration:
      DurationText.parse(value) == nil ? "\(DurationText.ParseFailure(with: value))" : nil
    case .moment: MomentArgument.parse(value) == nil ? MomentArgument.expectedForms : nil
    case .choice(_, let choices):
      choices.contains(value)
        ? nil
        : "must be one of " + choices.joined(separator: ", ")
          + Suggestion.hint(for: value, among: choices)
    case .topology, .node:
      isSafeName(value) ? nil : "names consist of the characters A-Z a-z 0-9 _ . -"
    case .nodeOrInstance:
      isSafeName(value) || isInstance(value)
        ? nil : "names consist of the characters A-Z a-z 0-9 _ . -, and instances are NODE[KEY]"
    case .endpoint: NetworkAddress(value) == nil ? "must have the form tcp://HOST:PORT" : nil
    case .signal: Signal(value) == nil ? "must be a signal such as TERM, SIGKILL or 9" : nil
    }
  }
}

extension ValueKind {
  private func isInstance(_ value: String) -> Bool {
    guard value.hasSuffix("]"), let bracket = value.firstIndex(of: "[") else { return false }
    return isSafeName(String(value[..<bracket])) && value[bracket...].count > 2
  }
}

/// An option of a command, for the help, the shell completion and the parser.
package struct Option: Hashable, Sendable {
  package var long: String
  package var short: Character?
  /// The kind of the option's value; `nil` for a flag, which has no value.
  package var value: ValueKind?
  /// The meaning of the option, with the unit and the default of its value.
  package var summary: String
  /// Whether the option can be repeated. If not, only the last occurrence of the option counts.
  package var isRepeatable: Bool

  package init(
    _ long: String, _ short: Character?, value: ValueKind? = nil, repeats: Bool = false,
    _ summary: String
  ) {
    self.long = long
    self.short = short
    self.value = value
    self.isRepeatable = repeats
    self.summary = summary
  }

  package init(
    _ long: String, value: ValueKind? = nil, repeats: Bool = false, _ summary: String
  ) {
    self.init(long, nil, value: value, repeats: repeats, summary)
  }
}

extension Option {
  package static let topology = Option(
    "topology", "p", value: .topology,
    "The running topology; required only if several topologies run")
  package static let key = Option(
    "key", value: .file,
    "For a topology on another host: a copy of its 'client.key' (mode 600), which contains the "
      + "endpoint of the orchestrator"
  )
  package static let connect = Option(
    "connect", value: .endpoint,
    "With --key: the endpoint at which this host reaches the orchestrator. Default: the endpoint "
      + "in the file")
  /// The options that select a running topology, on this host or on another host.
  package static let targetOptions = [topology, key, connect]
  package static let help = Option("help", "h", "Shows this help")
}

/// A positional argument of a command.
package struct Positional: Hashable, Sendable {
  package enum Arity: Hashable, Sendable { case one, optional, any, some }

  package var name: String
  package var kind: ValueKind
  package var arity: Arity
  package var summary: String

  package init(_ name: String, _ kind: ValueKind, _ arity: Arity, _ summary: String) {
    self.name = name
    self.kind = kind
    self.arity = arity
    self.summary = summary
  }

  /// Whether all following arguments belong to this positional.
  package var isRepeatable: Bool { arity == .any || arity == .some }

  /// The usage text: `FILE`, `[FILE]`, `[NODE...]` or `NODE...`.
  package var usage: String {
    switch arity {
    case .one: name
    case .optional: "[\(name)]"
    case .any: "[\(name)...]"
    case .some: "\(name)..."
    }
  }
}

extension Positional {
  /// The directory of a recorded run, which the page shows instead of a running topology.
  package static let run = Positional(
    "RUN", .directory, .optional, "The directory of a recorded run. Default: a running topology")
}

extension Option {
  /// The options for the TLS certificate and the private key of a web server.
  package static let tlsOptions = [
    Option("tls-certificate", value: .file, "Serves over TLS with this certificate (PEM)"),
    Option(
      "tls-key", value: .file,
      "The private key of the certificate (PEM); only the owner may have read permission"),
  ]

  /// The option for the path of a Unix socket at which a web server listens.
  package static let socket = Option(
    "socket", value: .text("PATH"),
    "Listens on a Unix socket (mode 0600) instead of a port, for ssh -L and proxies")

  /// The options of the inspector's web page. The orchestrator also accepts these options, because
  /// it starts the inspector.
  package static let pageOptions =
    [
      Option(
        "port", value: .count("PORT"),
        "The port to listen on; 0 chooses a free port. Default: 0"),
      Option(
        "address", value: .text("ADDRESS"),
        "The numeric address to listen on; an address that other hosts can reach requires TLS. "
          + "Default: 127.0.0.1"
      ),
    ] + tlsOptions + [
      Option(
        "host", value: .text("NAME"), repeats: true,
        "An additional host name that browsers use, from the certificate or of a proxy; can be "
          + "repeated"
      ),
      socket, Option("read-only", "Accepts no events, and changes no dead letters"),
    ]
}

/// A `tcp://HOST:PORT` endpoint to connect to.
package struct NetworkAddress: Hashable, Sendable {
  /// A host name, or a numeric address.
  package let host: String
  package let port: UInt16

  /// - Returns: `nil` if the text is not a `tcp://` endpoint with a host and a port.
  package init?(_ text: some StringProtocol) {
    let prefix = "tcp://"
    guard text.hasPrefix(prefix), let colon = text.lastIndex(of: ":"),
      let port = UInt16(text[text.index(after: colon)...]), port > 0
    else { return nil }
    let start = text.index(text.startIndex, offsetBy: prefix.count)
    guard start < colon else { return nil }
    let host = text[start..<colon]
    // Rejects two forms that libzmq accepts: the wildcard `*`, and an endpoint with a source
    // address.
    guard host.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || "-._".contains($0)) })
    else { return nil }
    self.host = String(host)
    self.port = port
  }
}
