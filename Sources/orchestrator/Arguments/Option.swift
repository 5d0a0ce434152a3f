/// What the value of an option or a positional is: how it is shown, checked and completed.
package enum ValueKind: Hashable, Sendable {
  case text(String)
  /// A whole number from 0.
  case count(String)
  /// `200ms`, `10s`, `2m`, `1h`.
  case duration
  /// `5m` ago, or a time: see ``MomentArgument``.
  case moment
  case choice(String, [String])
  case topology
  case node
  /// One of the events of the node that stands before it: a label, or JSON.
  case event
  case file
  /// What ``FileAndNodes`` tells apart.
  case fileOrNode
  case directory
  case signal

  /// How help shows it.
  package var placeholder: String {
    switch self {
    case .text(let name), .count(let name): name
    case .duration: "DURATION"
    case .moment: "AGE|TIME"
    case .choice(_, let choices): choices.joined(separator: "|")
    case .topology: "NAME"
    case .node: "NODE"
    case .event: "EVENT"
    case .file: "FILE"
    case .fileOrNode: "FILE|NODE"
    case .directory: "DIRECTORY"
    case .signal: "SIGNAL"
    }
  }
}

/// One option of a verb: a card that help, completion and the parser read.
package struct Option: Hashable, Sendable {
  package var long: String
  package var short: Character?
  /// `nil` for a flag.
  package var value: ValueKind?
  /// What it does, with unit and default.
  package var summary: String
  /// Whether every occurrence counts; otherwise the last one does.
  package var repeats: Bool

  package init(
    _ long: String, _ short: Character?, value: ValueKind? = nil, repeats: Bool = false,
    _ summary: String
  ) {
    self.long = long
    self.short = short
    self.value = value
    self.repeats = repeats
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
    "The running topology meant; needed only where several run")
  package static let output = Option(
    "output", "o", value: .choice("FORMAT", ["text", "json", "jsonl"]),
    "How data is written to stdout. Default: text")
  package static let noDependencies = Option(
    "no-deps", "Of the nodes that are named: these alone, without others")
  package static let noColor = Option("no-color", "Writes no colours; NO_COLOR=1 does the same")
  package static let help = Option("help", "h", "Shows this help")
  package static let version = Option("version", "V", "Shows the version")

  /// Taken by every verb.
  static let universal = [noColor, help]

  /// What completion offers before the verb.
  static let beforeVerb = [topology, output, help, version]
}

/// One positional argument of a verb.
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

  /// Whether all further arguments are it.
  package var repeats: Bool { arity == .any || arity == .some }

  /// `FILE`, `[FILE]`, `[NODE...]` or `NODE...`.
  package var usage: String {
    switch arity {
    case .one: name
    case .optional: "[\(name)]"
    case .any: "[\(name)...]"
    case .some: "\(name)..."
    }
  }
}
