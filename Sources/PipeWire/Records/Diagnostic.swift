/// One thing that is wrong with a topology: where it stands, and what to do about it.
public struct Diagnostic: Codable, Hashable, Sendable {
  /// Whether the topology can run all the same.
  public enum Severity: String, Codable, Hashable, Sendable {
    case error, warning
  }

  /// The file's path, as it was given.
  public var file: String
  /// Where it stands.
  public var mark: SourceMark
  /// Whether the topology can run all the same.
  public var severity: Severity
  /// What kind of thing is wrong.
  public var code: Code
  /// What is wrong, in a sentence.
  public var message: String

  /// Makes a diagnostic.
  public init(
    file: String, mark: SourceMark, severity: Severity = .error, code: Code, message: String
  ) {
    self.file = file
    self.mark = mark
    self.severity = severity
    self.code = code
    self.message = message
  }

  /// The line, from 1; 0 where it is not known.
  public var line: Int { mark.line }
  /// The column, from 1; 0 where it is not known.
  public var column: Int { mark.column }
}

extension Diagnostic: CustomStringConvertible {
  /// `path:line:column: error: text [code]`, or without a place where there is none.
  public var description: String {
    let place = mark == .unknown ? "" : ":\(line):\(column)"
    return "\(file)\(place): \(severity.rawValue): \(message) [\(code.rawValue)]"
  }
}

extension Diagnostic {
  fileprivate func isSilenced(by codes: [Code]) -> Bool {
    severity == .warning && codes.contains(code)
  }
}

extension [Diagnostic] {
  /// The same diagnostics in the order of the file, each once.
  public var inFileOrder: [Diagnostic] {
    var seen: Set<Diagnostic> = []
    return enumerated()
      .filter { seen.insert($0.element).inserted }
      .sorted { ($0.element.mark, $0.offset) < ($1.element.mark, $1.offset) }
      .map(\.element)
  }

  /// The same without the warnings that a file silences by their codes.
  package func without(warnings codes: [Diagnostic.Code]) -> [Diagnostic] {
    filter { !$0.isSilenced(by: codes) }
  }

  /// The warnings that a file silences by their codes.
  package func silenced(by codes: [Diagnostic.Code]) -> [Diagnostic] {
    filter { $0.isSilenced(by: codes) }
  }

  /// Whether one of them keeps the topology from running.
  public var hasErrors: Bool { contains { $0.severity == .error } }
}

/// Everything that is wrong with a topology file, in the order of the file.
public struct TopologyErrors: Error, Hashable, Sendable, CustomStringConvertible {
  /// The diagnostics; at least one is an error.
  public let diagnostics: [Diagnostic]

  /// Makes an error of some diagnostics, in any order.
  public init(_ diagnostics: [Diagnostic]) {
    self.diagnostics = diagnostics.inFileOrder
  }

  /// One line for each diagnostic.
  public var description: String {
    diagnostics.map(\.description).joined(separator: "\n")
  }
}

extension Diagnostic {
  /// The kinds of things that can be wrong with a topology or a deployment; stable, for scripts and for tests.
  public enum Code: String, CaseIterable, Codable, Hashable, Sendable {
    /// The file is missing, unreadable, too large, or no file.
    case unreadableFile = "unreadable-file"
    /// The text is not UTF-8.
    case notUTF8 = "not-utf-8"
    /// The text is not YAML, or uses what topology files do without.
    case notYAML = "not-yaml"
    /// A key, or a node, stands twice in one mapping.
    case duplicateKey = "duplicate-key"
    /// A key that the schema does not have.
    case unknownKey = "unknown-key"
    /// A key that must be there is not.
    case missingKey = "missing-key"
    /// Two keys that exclude each other, or one without its companion.
    case conflictingKeys = "conflicting-keys"
    /// A value of the wrong type, or out of its range.
    case badValue = "bad-value"
    /// A name with characters that names cannot have.
    case badName = "bad-name"
    /// A length of time that cannot be read.
    case badDuration = "bad-duration"
    /// A payload template with a `$` that means nothing.
    case badTemplate = "bad-template"
    /// A `${` that is no variable, or a line of `.env` that cannot be read.
    case badVariable = "bad-variable"
    /// A variable that is not set and has no default.
    case unsetVariable = "unset-variable"
    /// A `$name` where it is no variable.
    case plainDollar = "plain-dollar"
    /// Two nodes, composites, pipes or monitors of one name.
    case nameTaken = "name-taken"
    /// A node that the topology does not have.
    case unknownNode = "unknown-node"
    /// Nodes that wait for each other.
    case dependencyCycle = "dependency-cycle"
    /// A node without a program to run it.
    case noProgram = "no-program"
    /// A program that is missing, cannot be run, or does not describe itself.
    case badProgram = "bad-program"
    /// Parameters that the machine does not decode.
    case badParameters = "bad-parameters"
    /// A pipe from a node to itself.
    case selfPipe = "self-pipe"
    /// A pipe into a node that takes no events.
    case constantReceiver = "constant-receiver"
    /// A machine that the program does not register.
    case unknownMachine = "unknown-machine"
    /// A monitor that the program does not register.
    case unknownMonitor = "unknown-monitor"
    /// A port that the machine does not declare.
    case unknownPort = "unknown-port"
    /// A state that the machine does not have.
    case unknownState = "unknown-state"
    /// An event that the machine does not have.
    case unknownEvent = "unknown-event"
    /// An event that the machine takes in no state.
    case notInAlphabet = "not-in-alphabet"
    /// A field that the event or state does not carry.
    case unknownField = "unknown-field"
    /// A field that the event or state cannot do without.
    case missingField = "missing-field"
    /// A value that does not fit the Swift type of its field.
    case typeMismatch = "type-mismatch"
    /// A `$name` that the sender's state does not carry.
    case unknownVariable = "unknown-variable"
    /// A pipe between ports whose events differ.
    case unlikeEvents = "unlike-events"
    /// A component that can be none: a constant, or a monitor.
    case badComponent = "bad-component"
    /// Composites that contain each other.
    case compositeCycle = "composite-cycle"
    /// A participant that is no component of the composite.
    case unknownParticipant = "unknown-participant"
    /// A synchronized event that fewer than two machines would take.
    case tooFewParticipants = "too-few-participants"
    /// A synchronized event that could be taken in several ways.
    case ambiguousEvent = "ambiguous-event"
    /// A synchronized event whose payload differs between its participants.
    case unlikePayloads = "unlike-payloads"
    /// A participant that takes a synchronized event by an asynchronous transition.
    case asynchronousParticipant = "asynchronous-participant"
    /// Composites that share participants, and so a process, but not a program.
    case unlikePrograms = "unlike-programs"
    /// A node in whose process composites cannot be coordinated.
    case badHost = "bad-host"
    /// A composite state that the program does not register.
    case unknownProjection = "unknown-projection"
    /// A composite state that is made of other states than the components'.
    case unlikeProjection = "unlike-projection"
    /// A synchronized event that is sent to a component of its composite.
    case synchronizedEvent = "synchronized-event"
    /// An event that the composite does not synchronize.
    case notSynchronized = "not-synchronized"
    /// An output of a machine that no effect is mapped to: executing it does nothing.
    case unmappedOutput = "unmapped-output"
    /// An out-port without a pipe: what is sent there goes nowhere.
    case unconnectedPort = "unconnected-port"
    /// A number of restarts that cannot happen within its window.
    case unreachableLimit = "unreachable-limit"
    /// A place of a node that the deployment does not have.
    case unknownPlace = "unknown-place"
    /// A place of a deployment where no node runs.
    case unusedPlace = "unused-place"
    /// An address of a deployment that is not this machine's, where its processes are to start.
    case foreignAddress = "foreign-address"
    /// A host of a deployment that the engine does not have.
    case unknownHost = "unknown-host"
    /// A node that is to move when its host is lost, and what it has recorded cannot.
    case badHostLoss = "bad-host-loss"
    /// A name of a process in a cluster that is another's as well, or no service's.
    case clusterName = "cluster-name"
  }
}

/// A place in a text file; both counts start at 1, and 0 means not known.
public struct SourceMark: Codable, Hashable, Sendable {
  /// The line.
  public var line: Int
  /// The column, in characters.
  public var column: Int

  /// Makes a mark.
  public init(line: Int, column: Int) {
    self.line = line
    self.column = column
  }

  /// The mark of something that was not read from a file.
  public static let unknown = SourceMark(line: 0, column: 0)
}

extension SourceMark: Comparable {
  /// Whether one mark comes before another in the file.
  public static func < (left: SourceMark, right: SourceMark) -> Bool {
    (left.line, left.column) < (right.line, right.column)
  }
}
