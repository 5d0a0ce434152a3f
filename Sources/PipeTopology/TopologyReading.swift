import PipeSystem
import PipeWire

/// The reading of one file: the diagnostics so far, and what values of several types are read with.
///
/// A reader returns `nil` after it has reported why, so that all errors are found at once.
struct TopologyReading: Examiner {
  /// What has a name of its own, of one space for each file.
  enum Kind: String {
    case node, composite, monitor
    /// Of a deployment.
    case place
  }

  var diagnostics: [Diagnostic] = []
  var source: SourceMap
  /// What the file gives names to, broken ones included, so that they are not also unknown.
  var names: [String: (kind: Kind, mark: SourceMark)] = [:]

  init(file: String) {
    source = SourceMap(file: file)
  }

  /// Reads a whole topology; `nil` where not even a value can be made of it.
  mutating func topology(_ place: TopologyPlace) -> Topology? {
    let keys = TopologyKeys.top
    guard let topology = keys.read(&self, place, into: keys.start) else { return nil }
    checkReferences(of: topology)
    return topology
  }

  /// The names of one kind, in the order of the file.
  func names(of kind: Kind) -> [String] {
    names.filter { $0.value.kind == kind }
      .sorted { ($0.value.mark, $0.key) < ($1.value.mark, $1.key) }.map(\.key)
  }

  mutating func report(_ code: Diagnostic.Code, _ place: TopologyPlace, _ message: String) {
    guard !place.node.isBroken else { return }
    report(code, at: place.node.mark, "\(place.title) \(message)")
  }

  /// Reports a value that is of another kind than the wanted one.
  mutating func refuse(_ place: TopologyPlace, wanted: String, _ code: Diagnostic.Code = .badValue)
  {
    report(code, place, "must be \(wanted), not \(place.node.summary)")
  }

  // MARK: Mappings and lists

  /// An entry of a mapping; `isText` is false for a key such as `1` or `true` without quotes.
  typealias Member = (key: String, value: TopologyPlace, mark: SourceMark, isText: Bool)

  /// The entries of a mapping with free names, each name once.
  mutating func members(
    of place: TopologyPlace, noun: String = "key", hint: String = "a mapping"
  ) -> [Member]? {
    guard case .mapping(let entries) = place.node.content else {
      refuse(place, wanted: hint)
      return nil
    }
    var first: [String: SourceMark] = [:]
    var members: [Member] = []
    for entry in entries {
      if let mark = first[entry.key] {
        let prefix = noun == "key" ? "\(place.title): " : ""
        report(
          .duplicateKey, at: entry.keyMark,
          "\(prefix)\(noun) '\(entry.key)' is named twice, first at line \(mark.line), column "
            + "\(mark.column); rename or remove one")
        continue
      }
      first[entry.key] = entry.keyMark
      let value = place.child(entry.key, entry.value)
      source.record(value.path, key: entry.keyMark, value: entry.value.mark)
      let isText = YAMLScalar(text: entry.key, isPlain: entry.isKeyPlain).value.string != nil
      members.append((entry.key, value, entry.keyMark, isText))
    }
    return members
  }

  /// The elements of a list.
  mutating func elements(of place: TopologyPlace, hint: String) -> [TopologyPlace]? {
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

  mutating func string(_ place: TopologyPlace, hint: String) -> String? {
    if let scalar = place.node.scalar {
      // What a variable gives is text where text is wanted.
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

  /// Whether a text is a name; reports it where it is not.
  mutating func checkName(
    _ text: String, dots: Bool, at mark: SourceMark, title: String
  ) -> Bool {
    if NamePattern.matches(text, dots: dots) { return true }
    let marks = dots ? "_ - ." : "_ -"
    report(
      .badName, at: mark,
      "\(title): '\(text)' is no name; use 1 to \(NamePattern.lengthLimit) of A-Z a-z 0-9 "
        + "\(marks), starting with a letter or digit")
    return false
  }

  /// Whether a name is free for a node; reports it where files and commands of the runtime use it.
  mutating func checkNotReserved(_ name: String, at mark: SourceMark, title: String) -> Bool {
    guard NamePattern.reserved.contains(name) else { return true }
    report(
      .badName, at: mark,
      "\(title): the name '\(name)' is reserved for the orchestrator's own log; choose another one")
    return false
  }

  /// Reports a name that is no text, so that a list could not name it without quotes.
  mutating func checkText(of member: Member, title: String) {
    guard !member.isText else { return }
    report(
      .badName, at: member.mark,
      "\(title): a name is text, and \(member.key) without quotes is none; write "
        + "\"\(member.key)\", or begin it with a letter")
  }
}

/// What a topology's or a node's name is made of.
package enum NamePattern {
  /// The longest name. Unit: bytes.
  package static let lengthLimit = 41
  /// Names that no node has: files and commands of the runtime use them.
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

/// Reads topology files: YAML, of which JSON is a subset.
///
/// Checks all that the file tells by itself; ``TopologyChecker`` checks the rest against the
/// programs. Source: DESIGN.md 5.
public enum TopologyReader {
  /// A topology, and where its parts stand.
  public typealias Result = (topology: Topology, source: SourceMap)

  /// The largest file that is read. Unit: bytes.
  public static let byteLimit = 1 << 20

  /// Reads a file. Its variables are the environment's, and those of a file `.env` beside it.
  /// - Throws: All errors of the file, in its order.
  public static func read(path: String) throws(TopologyErrors) -> Result {
    try read(.file(path))
  }

  /// Reads what a command line names.
  /// - Throws: All errors of the text, in its order.
  package static func read(_ input: TopologyInput) throws(TopologyErrors) -> Result {
    try sound(examine(input))
  }

  /// Reads a text.
  /// - Parameters:
  ///   - file: What diagnostics call it.
  ///   - variables: What `${NAME}` stands for. Default: the environment's variables.
  /// - Throws: All errors of the text, in its order.
  public static func read(
    text: some Sequence<UInt8>, file: String, variables: TopologyVariables = TopologyVariables()
  ) throws(TopologyErrors) -> Result {
    try sound(examine(text: Array(text), file: file, variables: variables))
  }

  /// Validates a topology that was built in code; its diagnostics point into its YAML text.
  /// - Throws: All errors of the topology.
  public static func read(_ topology: Topology) throws(TopologyErrors) -> Result {
    try read(
      text: topology.yaml.utf8, file: "topology '\(topology.name)'",
      variables: TopologyVariables([:]))
  }

  /// What could be read of a file, and what is wrong with it.
  package typealias Examined = (
    topology: Topology, source: SourceMap, diagnostics: [Diagnostic]
  )

  /// Reads what can be read of a file, for checks that can be made all the same.
  ///
  /// A pipe that is malformed is left out, of the topology and of the map.
  /// - Throws: All errors of a file that no topology can be made of.
  /// - Parameter environment: The variables that count before those of a file `.env` beside it.
  package static func examine(
    _ input: TopologyInput, environment: [String: String] = ProcessEnvironment.current
  ) throws(TopologyErrors) -> Examined {
    try examine(
      text: input.bytes(), file: input.name,
      variables: TopologyVariables(file: input.beside(".env"), environment: environment))
  }

  private static func sound(_ examined: Examined) throws(TopologyErrors) -> Result {
    guard !examined.diagnostics.hasErrors else {
      throw TopologyErrors(examined.diagnostics.without(warnings: examined.topology.silence))
    }
    return (examined.topology, examined.source)
  }

  /// Reads what can be read of a text.
  package static func examine(
    text: [UInt8], file: String, variables: TopologyVariables
  ) throws(TopologyErrors) -> Examined {
    var (reading, place) = try TopologyReading.opened(
      text, file: file, as: .topology, variables: variables)
    guard let topology = reading.topology(place) else { throw TopologyErrors(reading.diagnostics) }
    return (topology, reading.source, reading.diagnostics)
  }
}

// What the reading of a file starts with, of whatever kind it is.
extension TopologyReading {
  /// Starts reading a text: its document, with variables put in and keys merged, is the place.
  /// - Parameter file: What diagnostics call it.
  /// - Throws: What is wrong with a text that is no mapping at all.
  static func opened(
    _ text: [UInt8], file: String, as kind: FileKind, variables: TopologyVariables
  ) throws(TopologyErrors) -> (reading: TopologyReading, place: TopologyPlace) {
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
          file: file, mark: SourceMark(line: 1, column: 1), code: .missingKey,
          message: "the file is empty; a \(kind.noun) starts with '\(kind.start)'")
      ])
    }
    var reading = TopologyReading(file: file)
    let whole = reading.filledIn(root, of: kind, variables: variables)
    let place = TopologyPlace(node: whole, path: [], owner: "the \(kind.noun)")
    reading.source.record([], key: root.mark, value: root.mark)
    guard case .mapping = whole.content else {
      reading.refuse(place, wanted: "a mapping that starts with '\(kind.start)'")
      throw TopologyErrors(reading.diagnostics)
    }
    return (reading, place)
  }
}

/// One value of a topology file while it is read: where it is, and what messages call it.
struct TopologyPlace {
  var node: YAMLNode
  /// Its place for the source map.
  var path: [String]
  /// The thing that a message is about: `node 'door'`.
  var owner: String
  /// The dotted keys below the owner; empty for the owner itself.
  var key: String = ""

  /// `node 'door': 'restart.window'`
  var title: String { key.isEmpty ? owner : "\(owner): '\(key)'" }

  /// A value below this one.
  func child(_ name: String, _ value: YAMLNode) -> TopologyPlace {
    TopologyPlace(
      node: value, path: path + [name], owner: owner, key: key.isEmpty ? name : "\(key).\(name)")
  }

  /// The same value as a thing of its own.
  func named(_ owner: String) -> TopologyPlace {
    TopologyPlace(node: node, path: path, owner: owner)
  }
}

/// A kind of file, as messages put it.
struct FileKind: Sendable {
  /// What it describes: `topology`.
  let noun: String
  /// What it starts with: `topology: NAME`.
  let start: String

  static let topology = FileKind(noun: "topology", start: "topology: NAME")
  static let scenario = FileKind(noun: "scenario", start: "scenario: NAME")
  static let deployment = FileKind(noun: "deployment", start: "engine: local")
}
