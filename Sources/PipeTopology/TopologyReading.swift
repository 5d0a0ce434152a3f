import PipeSystem
import PipeWire

/// The reading of one file: its diagnostics so far, and helpers to read values of several types.
///
/// A reading method returns `nil` after it has reported the error, so that one run finds all errors.
struct TopologyReading: DiagnosticCollector {
  /// The kinds of named items, which share one namespace within a file.
  enum Kind: String {
    case node, composite, monitor
    /// A place of a deployment.
    case place
  }

  var diagnostics: [Diagnostic] = []
  var source: SourceMap
  /// The names that the file defines. They include invalid items, so that these are not reported as
  /// unknown, too.
  var names: [String: (kind: Kind, mark: TextPosition)] = [:]

  init(file: String) {
    source = SourceMap(file: file)
  }

  /// Reads a whole topology; returns `nil` if the file is too broken to make one.
  mutating func topology(_ place: TopologyCursor) -> Topology? {
    let keys = TopologyKeys.top
    guard let topology = keys.read(&self, place, into: keys.start) else { return nil }
    checkReferences(of: topology)
    return topology
  }

  /// Returns the names of one kind, in file order.
  func names(of kind: Kind) -> [String] {
    names.filter { $0.value.kind == kind }
      .sorted { ($0.value.mark, $0.key) < ($1.value.mark, $1.key) }.map(\.key)
  }

  mutating func report(_ code: Diagnostic.Code, _ place: TopologyCursor, _ message: String) {
    guard !place.node.isBroken else { return }
    report(code, at: place.node.mark, "\(place.title) \(message)")
  }

  /// Reports a value whose kind differs from the wanted kind.
  mutating func refuse(_ place: TopologyCursor, wanted: String, _ code: Diagnostic.Code = .badValue)
  {
    report(code, place, "must be \(wanted), not \(place.node.summary)")
  }

  // MARK: Mappings and lists

  /// An entry of a mapping; `isText` is false for an unquoted key such as `1` or `true`.
  typealias Member = (key: String, value: TopologyCursor, mark: TextPosition, isText: Bool)

  /// Returns the entries of a mapping with free names, and reports duplicate names.
  mutating func members(
    of place: TopologyCursor, noun: String = "key", hint: String = "a mapping"
  ) -> [Member]? {
    guard case .mapping(let entries) = place.node.content else {
      refuse(place, wanted: hint)
      return nil
    }
    var first: [String: TextPosition] = [:]
    var members: [Member] = []
    for entry in entries {
      if let mark = first[entry.key] {
        let prefix = noun == "key" ? "\(place.title): " : ""
        report(
          .duplicateKey, at: entry.keyPosition,
          "\(prefix)duplicate \(noun) '\(entry.key)', first defined at line \(mark.line), column "
            + "\(mark.column); rename or remove one of them")
        continue
      }
      first[entry.key] = entry.keyPosition
      let value = place.child(entry.key, entry.value)
      source.record(value.path, key: entry.keyPosition, value: entry.value.mark)
      let isText = YAMLScalar(text: entry.key, isPlain: entry.isKeyPlain).value.string != nil
      members.append((entry.key, value, entry.keyPosition, isText))
    }
    return members
  }

  /// Returns the elements of a list.
  mutating func elements(of place: TopologyCursor, hint: String) -> [TopologyCursor]? {
    guard case .sequence(let nodes) = place.node.content else {
      refuse(place, wanted: hint)
      return nil
    }
    return nodes.enumerated().map { index, node in
      var element = place.child(String(index), node)
      element.key = place.key
      source.record(element.path, key: node.mark, value: node.mark)
      return element
    }
  }

  // MARK: Scalars

  mutating func string(_ place: TopologyCursor, hint: String) -> String? {
    if let scalar = place.node.scalar {
      // The value of a variable counts as text where text is wanted.
      let value = scalar.written == nil ? scalar.value : .string(scalar.text)
      if case .string(let text) = value, !text.isEmpty {
        if !text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) { return text }
        report(.badValue, place, "must be \(hint) without control characters; remove them")
        return nil
      }
      if !scalar.text.isEmpty, scalar.value != .null {
        report(.badValue, place, "must be \(hint); put \(scalar.text) in quotes")
        return nil
      }
    }
    refuse(place, wanted: hint)
    return nil
  }

  /// Returns whether a text is a valid name, and reports it if not.
  mutating func checkName(
    _ text: String, dots: Bool, at mark: TextPosition, title: String
  ) -> Bool {
    if NamePattern.matches(text, dots: dots) { return true }
    let marks = dots ? "_ - ." : "_ -"
    report(
      .badName, at: mark,
      "\(title): '\(text)' is not a valid name; use 1 to \(NamePattern.lengthLimit) characters of "
        + "A-Z a-z 0-9 \(marks), starting with a letter or digit")
    return false
  }

  /// Returns whether a name is free for a node; reports a name that the runtime uses for its files
  /// and commands.
  mutating func checkNotReserved(_ name: String, at mark: TextPosition, title: String) -> Bool {
    guard NamePattern.reserved.contains(name) else { return true }
    report(
      .badName, at: mark,
      "\(title): the name '\(name)' is reserved for the orchestrator's own log; choose another name"
    )
    return false
  }

  /// Reports a name that is not text, and could not be listed without quotes.
  mutating func checkText(of member: Member, title: String) {
    guard !member.isText else { return }
    report(
      .badName, at: member.mark,
      "\(title): a name must be text, and \(member.key) without quotes is not text; write "
        + "\"\(member.key)\", or start the name with a letter")
  }
}

/// The syntax of the names of topologies and nodes.
package enum NamePattern {
  /// The length limit of names. Unit: bytes.
  package static let lengthLimit = 41
  /// Names that a node must not have, because files and commands of the runtime use them.
  package static let reserved = ["orchestrator"]

  package static func matches(_ text: String, dots: Bool) -> Bool {
    let bytes = text.utf8
    guard (1...lengthLimit).contains(bytes.count), let first = bytes.first, isWord(first) else {
      return false
    }
    return bytes.allSatisfy {
      isWord($0) || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-")
        || dots && $0 == UInt8(ascii: ".")
    }
  }

  private static func isWord(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "a")...UInt8(ascii: "z"):
      true
    default: false
    }
  }
}

/// Reads topology files: YAML, which includes JSON.
///
/// The reader checks everything that depends on the file alone; ``TopologyChecker`` checks the rest
/// against the programs. Source: docs/TOPOLOGY.md.
public enum TopologyReader {
  /// A topology with a map of its source locations.
  public typealias Result = (topology: Topology, source: SourceMap)

  /// The largest file that is read. Unit: bytes.
  public static let byteLimit = 1 << 20

  /// Reads a file, with variables from the environment and from a `.env` file in the same directory.
  /// - Throws: All errors of the file, in its order.
  public static func read(path: String) throws(TopologyErrors) -> Result {
    try read(.file(path))
  }

  /// Reads the input of a command-line argument.
  /// - Throws: All errors of the text, in its order.
  package static func read(_ input: TopologyInput) throws(TopologyErrors) -> Result {
    try requireValid(examine(input))
  }

  /// Reads a text.
  /// - Parameters:
  ///   - file: The file's name in diagnostics.
  ///   - variables: The values of `${NAME}`. Default: the environment's variables.
  /// - Throws: All errors of the text, in its order.
  public static func read(
    text: some Sequence<UInt8>, file: String, variables: TopologyVariables = TopologyVariables()
  ) throws(TopologyErrors) -> Result {
    try requireValid(examine(text: Array(text), file: file, variables: variables))
  }

  /// Validates a topology that was built in code; the diagnostics point into its YAML text.
  /// - Throws: All errors of the topology.
  public static func read(_ topology: Topology) throws(TopologyErrors) -> Result {
    try read(
      text: topology.yaml.utf8, file: "topology '\(topology.name)'",
      variables: TopologyVariables([:]))
  }

  /// The readable part of a file, and its diagnostics.
  package typealias Examination = (
    topology: Topology, source: SourceMap, diagnostics: [Diagnostic]
  )

  /// Reads as much of a file as possible, for checks that work with a part of it.
  ///
  /// A malformed pipe is left out of the topology and of the source map.
  /// - Throws: All errors of a file that no topology can be made of.
  /// - Parameter environment: The variables that override the variables of a `.env` file in the same
  ///   directory.
  package static func examine(
    _ input: TopologyInput, environment: [String: String] = ProcessEnvironment.current
  ) throws(TopologyErrors) -> Examination {
    try examine(
      text: input.bytes(), file: input.name,
      variables: TopologyVariables(file: input.beside(".env"), environment: environment))
  }

  private static func requireValid(_ examined: Examination) throws(TopologyErrors) -> Result {
    guard !examined.diagnostics.hasErrors else {
      throw TopologyErrors(examined.diagnostics.without(warnings: examined.topology.silence))
    }
    return (examined.topology, examined.source)
  }

  /// Reads as much of a text as possible.
  package static func examine(
    text: [UInt8], file: String, variables: TopologyVariables
  ) throws(TopologyErrors) -> Examination {
    var (reading, place) = try TopologyReading.beginReading(
      text, file: file, as: .topology, variables: variables)
    guard let topology = reading.topology(place) else { throw TopologyErrors(reading.diagnostics) }
    return (topology, reading.source, reading.diagnostics)
  }
}

// The first steps of reading a file of any kind.
extension TopologyReading {
  /// Starts reading a text; returns its document with variables inserted and merge keys resolved.
  /// - Parameter file: The file's name in diagnostics.
  /// - Throws: The errors of a text that is not a mapping.
  static func beginReading(
    _ text: [UInt8], file: String, as kind: FileKind, variables: TopologyVariables
  ) throws(TopologyErrors) -> (reading: TopologyReading, place: TopologyCursor) {
    let root: YAMLNode?
    do {
      root = try YAMLDocument.parse(text)
    } catch {
      throw TopologyErrors([
        Diagnostic(file: file, mark: error.mark, code: error.code, message: error.message)
      ])
    }
    guard let root else {
      throw TopologyErrors([
        Diagnostic(
          file: file, mark: TextPosition(line: 1, column: 1), code: .missingKey,
          message: "the file is empty; a \(kind.noun) starts with '\(kind.start)'")
      ])
    }
    var reading = TopologyReading(file: file)
    let whole = reading.preprocessed(root, of: kind, variables: variables)
    let place = TopologyCursor(node: whole, path: [], owner: "the \(kind.noun)")
    reading.source.record([], key: root.mark, value: root.mark)
    guard case .mapping = whole.content else {
      reading.refuse(place, wanted: "a mapping that starts with '\(kind.start)'")
      throw TopologyErrors(reading.diagnostics)
    }
    return (reading, place)
  }
}

/// One value of a topology file while it is read, with its path and its title in messages.
struct TopologyCursor {
  var node: YAMLNode
  /// The path in the source map.
  var path: [String]
  /// The item that a message is about: `node 'door'`.
  var owner: String
  /// The dotted keys below the owner; empty for the owner itself.
  var key: String = ""

  /// `node 'door': 'restart.window'`
  var title: String { key.isEmpty ? owner : "\(owner): '\(key)'" }

  /// Returns a value below this one.
  func child(_ name: String, _ value: YAMLNode) -> TopologyCursor {
    TopologyCursor(
      node: value, path: path + [name], owner: owner, key: key.isEmpty ? name : "\(key).\(name)")
  }

  /// Returns the same value with a new owner.
  func named(_ owner: String) -> TopologyCursor {
    TopologyCursor(node: node, path: path, owner: owner)
  }
}

/// A kind of file, as named in messages.
struct FileKind: Sendable {
  /// The subject of the file: `topology`.
  let noun: String
  /// The first key of the file: `topology: NAME`.
  let start: String

  static let topology = FileKind(noun: "topology", start: "topology: NAME")
  static let scenario = FileKind(noun: "scenario", start: "scenario: NAME")
  static let deployment = FileKind(noun: "deployment", start: "engine: local")
}
