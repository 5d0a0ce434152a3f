import PipeSystem
import PipeWire

/// The state of reading one file: the diagnostics so far, the source locations, and the names that
/// the file defines.
///
/// If a method cannot read a value, it reports errors and returns `nil`. Reading then continues, so
/// that one run finds all errors.
struct TopologyReading: DiagnosticCollector {
  /// The kinds of named items. All items of a file share one namespace.
  enum Kind: String {
    case node, composite, monitor
    /// A place of a deployment.
    case place
  }

  var diagnostics: [Diagnostic] = []
  var source: SourceMap
  /// The names that the file defines. Names of invalid items are included, so that references to an
  /// invalid item are not reported as errors.
  var definitionsByName: [String: (kind: Kind, position: TextPosition)] = [:]

  init(file: String) {
    source = SourceMap(file: file)
  }

  /// Reads the whole topology. Returns `nil` if the file has too many errors to produce a topology.
  mutating func topology(_ place: TopologyCursor) -> Topology? {
    let keys = TopologyKeys.topLevel
    guard let topology = keys.read(&self, place, into: keys.emptyModel) else { return nil }
    checkReferences(of: topology)
    return topology
  }

  /// Returns the names of one kind, in file order.
  func definedNames(of kind: Kind) -> [String] {
    definitionsByName.filter { $0.value.kind == kind }
      .sorted { ($0.value.position, $0.key) < ($1.value.position, $1.key) }.map(\.key)
  }

  mutating func report(_ code: Diagnostic.Code, _ place: TopologyCursor, _ message: String) {
    guard !place.node.isBroken else { return }
    report(code, at: place.node.position, "\(place.title) \(message)")
  }

  /// Reports that a value is not of the required kind.
  mutating func refuse(_ place: TopologyCursor, wanted: String, _ code: Diagnostic.Code = .badValue)
  {
    report(code, place, "must be \(wanted), not \(place.node.summary)")
  }

  // MARK: Reading mappings and lists

  /// An entry of a mapping. `isKeyText` is `false` for an unquoted key that YAML reads as a number or
  /// a Boolean, such as `1` or `true`. `position` is the location of the key.
  typealias Member = (key: String, value: TopologyCursor, position: TextPosition, isKeyText: Bool)

  /// Returns the entries of a mapping, and reports duplicate keys.
  mutating func members(
    of place: TopologyCursor, noun: String = "key", hint: String = "a mapping"
  ) -> [Member]? {
    guard case .mapping(let entries) = place.node.content else {
      refuse(place, wanted: hint)
      return nil
    }
    var firstPositions: [String: TextPosition] = [:]
    var members: [Member] = []
    for entry in entries {
      if let mark = firstPositions[entry.key] {
        let prefix = noun == "key" ? "\(place.title): " : ""
        report(
          .duplicateKey, at: entry.keyPosition,
          "\(prefix)duplicate \(noun) '\(entry.key)', first defined at line \(mark.line), column "
            + "\(mark.column); rename or remove one of them")
        continue
      }
      firstPositions[entry.key] = entry.keyPosition
      let value = place.child(entry.key, entry.value)
      source.record(value.path, key: entry.keyPosition, value: entry.value.position)
      let isKeyText = YAMLScalar(text: entry.key, isPlain: entry.isKeyPlain).value.string != nil
      members.append((entry.key, value, entry.keyPosition, isKeyText))
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
      element.keyPath = place.keyPath
      source.record(element.path, key: node.position, value: node.position)
      return element
    }
  }

  // MARK: Reading scalars

  mutating func string(_ place: TopologyCursor, hint: String) -> String? {
    if let scalar = place.node.scalar {
      // If a variable in the scalar was replaced, the value is always text, even if it looks like a
      // number.
      let value = scalar.writtenText == nil ? scalar.value : .string(scalar.text)
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

  /// Returns whether a text is a valid name. Reports an invalid name.
  mutating func checkName(
    _ text: String, allowingDots allowsDots: Bool, at mark: TextPosition, title: String
  ) -> Bool {
    if NamePattern.matches(text, allowingDots: allowsDots) { return true }
    let marks = allowsDots ? "_ - ." : "_ -"
    report(
      .badName, at: mark,
      "\(title): '\(text)' is not a valid name; use 1 to \(NamePattern.maximumLength) characters of "
        + "A-Z a-z 0-9 \(marks), starting with a letter or digit")
    return false
  }

  /// Returns whether a name is available: the runtime reserves some names for its own files and
  /// commands. Reports a reserved name.
  mutating func checkNotReserved(_ name: String, at mark: TextPosition, title: String) -> Bool {
    guard NamePattern.reservedNames.contains(name) else { return true }
    report(
      .badName, at: mark,
      "\(title): the name '\(name)' is reserved for the orchestrator's own log; choose another name"
    )
    return false
  }

  /// Reports an unquoted name that YAML does not read as text, such as `1` or `true`.
  ///
  /// In a list, such a name would require quotes.
  mutating func checkText(of member: Member, title: String) {
    guard !member.isKeyText else { return }
    report(
      .badName, at: member.position,
      "\(title): a name must be text, and \(member.key) without quotes is not text; write "
        + "\"\(member.key)\", or start the name with a letter")
  }
}

/// The syntax of the names of topologies and nodes.
package enum NamePattern {
  /// The length limit of names. Unit: bytes.
  package static let maximumLength = 41
  /// The names that a node must not have, because files and commands of the runtime use these
  /// names.
  package static let reservedNames = ["orchestrator"]

  package static func matches(_ text: String, allowingDots allowsDots: Bool) -> Bool {
    let bytes = text.utf8
    guard (1...maximumLength).contains(bytes.count), let first = bytes.first, isWord(first) else {
      return false
    }
    return bytes.allSatisfy {
      isWord($0) || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-")
        || allowsDots && $0 == UInt8(ascii: ".")
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
/// The reader makes the checks that require only the file itself. ``TopologyChecker`` makes the
/// checks that require descriptions of the programs. Source: docs/TOPOLOGY.md.
public enum TopologyReader {
  /// A topology with a map of its source locations.
  public typealias Result = (topology: Topology, source: SourceMap)

  /// The maximum size of a file. Unit: bytes.
  public static let byteLimit = 1 << 20

  /// Reads a file, with variables from the environment and from a `.env` file in the same directory.
  /// - Throws: All errors of the file, in the order of the file.
  public static func read(path: String) throws(TopologyErrors) -> Result {
    try read(.file(path))
  }

  /// Reads the topology from the input that a command-line argument names.
  /// - Throws: All errors of the text, in the order of the text.
  package static func read(_ input: TopologyInput) throws(TopologyErrors) -> Result {
    try requireValid(examine(input))
  }

  /// Reads a text.
  /// - Parameters:
  ///   - file: The file's name in diagnostics.
  ///   - variables: The values of `${NAME}`. Default: the environment's variables.
  /// - Throws: All errors of the text, in the order of the text.
  public static func read(
    text: some Sequence<UInt8>, file: String, variables: TopologyVariables = TopologyVariables()
  ) throws(TopologyErrors) -> Result {
    try requireValid(examine(text: Array(text), file: file, variables: variables))
  }

  /// Validates a topology that was built in code. The locations in diagnostics refer to the
  /// topology's YAML.
  /// - Throws: All errors of the topology.
  public static func read(_ topology: Topology) throws(TopologyErrors) -> Result {
    try read(
      text: topology.yaml.utf8, file: "topology '\(topology.name)'",
      variables: TopologyVariables([:]))
  }

  /// The readable part of a file, and the diagnostics of the file.
  package typealias Examination = (
    topology: Topology, source: SourceMap, diagnostics: [Diagnostic]
  )

  /// Reads all valid parts of a file, for checks that can work with an incomplete topology.
  ///
  /// A malformed pipe is omitted from the topology and from the source map.
  /// - Throws: All errors of the file, if the file has too many errors to produce a topology.
  /// - Parameter environment: The variables that override the variables of a `.env` file in the
  ///   same directory.
  package static func examine(
    _ input: TopologyInput, environment: [String: String] = ProcessEnvironment.current
  ) throws(TopologyErrors) -> Examination {
    try examine(
      text: input.bytes(), file: input.name,
      variables: TopologyVariables(file: input.pathBeside(".env"), environment: environment))
  }

  private static func requireValid(_ examined: Examination) throws(TopologyErrors) -> Result {
    guard !examined.diagnostics.hasErrors else {
      throw TopologyErrors(examined.diagnostics.without(warnings: examined.topology.silence))
    }
    return (examined.topology, examined.source)
  }

  /// Reads all valid parts of a text.
  package static func examine(
    text: [UInt8], file: String, variables: TopologyVariables
  ) throws(TopologyErrors) -> Examination {
    var (reading, place) = try TopologyReading.beginReading(
      text, file: file, as: .topology, variables: variables)
    guard let topology = reading.topology(place) else { throw TopologyErrors(reading.diagnostics) }
    return (topology, reading.source, reading.diagnostics)
  }
}

// The first steps of reading, for files of all kinds.
extension TopologyReading {
  /// Parses a text as YAML, resolves merge keys and replaces variables. Returns the document, and a
  /// `TopologyReading` that collects further diagnostics.
  /// - Parameter file: The file's name in diagnostics.
  /// - Throws: All errors, if the text is not valid YAML, or not a mapping.
  static func beginReading(
    _ text: [UInt8], file: String, as kind: FileKind, variables: TopologyVariables
  ) throws(TopologyErrors) -> (reading: TopologyReading, place: TopologyCursor) {
    let root: YAMLNode?
    do {
      root = try YAMLDocument.parse(text)
    } catch {
      throw TopologyErrors([
        Diagnostic(file: file, position: error.position, code: error.code, message: error.message)
      ])
    }
    guard let root else {
      throw TopologyErrors([
        Diagnostic(
          file: file, position: TextPosition(line: 1, column: 1), code: .missingKey,
          message: "the file is empty; a \(kind.noun) starts with '\(kind.usualFirstLine)'")
      ])
    }
    var reading = TopologyReading(file: file)
    let whole = reading.preprocessed(root, of: kind, variables: variables)
    let place = TopologyCursor(node: whole, path: [], owner: "the \(kind.noun)")
    reading.source.record([], key: root.position, value: root.position)
    guard case .mapping = whole.content else {
      reading.refuse(place, wanted: "a mapping that starts with '\(kind.usualFirstLine)'")
      throw TopologyErrors(reading.diagnostics)
    }
    return (reading, place)
  }
}

/// A value of a file that is being read, with its path and its title for messages.
struct TopologyCursor {
  var node: YAMLNode
  /// The path in the source map.
  var path: [String]
  /// The item that contains the value, as named in messages, such as `node 'door'`.
  var owner: String
  /// The keys from the owner to the value, joined by dots; empty for the owner itself.
  var keyPath: String = ""

  /// The title for messages, such as `node 'door': 'restart.window'`.
  var title: String { keyPath.isEmpty ? owner : "\(owner): '\(keyPath)'" }

  /// Returns the cursor of a value inside this value.
  func child(_ name: String, _ value: YAMLNode) -> TopologyCursor {
    TopologyCursor(
      node: value, path: path + [name], owner: owner,
      keyPath: keyPath.isEmpty ? name : "\(keyPath).\(name)")
  }

  /// Returns a cursor for the same value. Messages use `owner` as the name of the value.
  func named(_ owner: String) -> TopologyCursor {
    TopologyCursor(node: node, path: path, owner: owner)
  }
}

/// A kind of file, as named in messages.
struct FileKind: Sendable {
  /// The noun for the file's contents, such as `topology`.
  let noun: String
  /// The usual first line of the file, such as `topology: NAME`.
  let usualFirstLine: String

  static let topology = FileKind(noun: "topology", usualFirstLine: "topology: NAME")
  static let scenario = FileKind(noun: "scenario", usualFirstLine: "scenario: NAME")
  static let deployment = FileKind(noun: "deployment", usualFirstLine: "engine: local")
}
