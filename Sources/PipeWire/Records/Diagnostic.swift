/// An error or warning about a topology: its location, and what to do about it.
public struct Diagnostic: Codable, Hashable, Sendable {
  /// The severity. A topology with an error cannot run; a topology with a warning can.
  public enum Severity: String, Codable, Hashable, Sendable {
    case error, warning
  }

  /// The file's path, as given.
  public var file: String
  /// The location in the file.
  public var mark: TextPosition
  /// Whether this is an error or a warning.
  public var severity: Severity
  /// The kind of error or warning.
  public var code: Code
  /// A sentence that describes the error or warning.
  public var message: String

  /// Makes a diagnostic.
  public init(
    file: String, mark: TextPosition, severity: Severity = .error, code: Code, message: String
  ) {
    self.file = file
    self.mark = mark
    self.severity = severity
    self.code = code
    self.message = message
  }

  /// The line, from 1; 0 if unknown.
  public var line: Int { mark.line }
  /// The column, from 1; 0 if unknown.
  public var column: Int { mark.column }
}

extension Diagnostic: CustomStringConvertible {
  /// `path:line:column: error: text [code]`, without line and column if the location is unknown.
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
  /// The diagnostics in the order of the file, without duplicates.
  public var inFileOrder: [Diagnostic] {
    var seen: Set<Diagnostic> = []
    return enumerated()
      .filter { seen.insert($0.element).inserted }
      .sorted { ($0.element.mark, $0.offset) < ($1.element.mark, $1.offset) }
      .map(\.element)
  }

  /// Returns the diagnostics without the warnings that a file silences by their codes.
  package func without(warnings codes: [Diagnostic.Code]) -> [Diagnostic] {
    filter { !$0.isSilenced(by: codes) }
  }

  /// Returns the warnings that a file silences by their codes.
  package func silenced(by codes: [Diagnostic.Code]) -> [Diagnostic] {
    filter { $0.isSilenced(by: codes) }
  }

  /// Whether a diagnostic is an error, which keeps the topology from running.
  public var hasErrors: Bool { contains { $0.severity == .error } }
}

/// All errors and warnings about a topology file, in the order of the file.
public struct TopologyErrors: Error, Hashable, Sendable, CustomStringConvertible {
  /// The diagnostics; at least one is an error.
  public let diagnostics: [Diagnostic]

  /// Makes an error from diagnostics in any order.
  public init(_ diagnostics: [Diagnostic]) {
    self.diagnostics = diagnostics.inFileOrder
  }

  /// The diagnostics, one on each line.
  public var description: String {
    diagnostics.map(\.description).joined(separator: "\n")
  }
}

extension Diagnostic {
  /// The kinds of errors and warnings about a topology or a deployment. The codes are stable, for
  /// scripts and for tests.
  public enum Code: String, CaseIterable, Codable, Hashable, Sendable {
    /// The file is missing, unreadable or too large, or it is not a regular file.
    case unreadableFile = "unreadable-file"
    /// The text is not UTF-8.
    case notUTF8 = "not-utf-8"
    /// The text is not YAML, or uses YAML features that topology files do not allow.
    case notYAML = "not-yaml"
    /// A key, or a node, occurs twice in one mapping.
    case duplicateKey = "duplicate-key"
    /// A key that the schema does not define.
    case unknownKey = "unknown-key"
    /// A required key is missing.
    case missingKey = "missing-key"
    /// Two keys that exclude each other, or one without its companion.
    case conflictingKeys = "conflicting-keys"
    /// A value of the wrong type, or out of its range.
    case badValue = "bad-value"
    /// A name with characters that names cannot have.
    case badName = "bad-name"
    /// A duration that cannot be parsed.
    case badDuration = "bad-duration"
    /// A payload template with an invalid `$`.
    case badTemplate = "bad-template"
    /// A `${` without a valid variable, or a line of `.env` that cannot be parsed.
    case badVariable = "bad-variable"
    /// A variable that is not set and has no default.
    case unsetVariable = "unset-variable"
    /// A `$name` in a position where it is not a variable.
    case plainDollar = "plain-dollar"
    /// Two nodes, composites, pipes or monitors with one name.
    case nameTaken = "name-taken"
    /// A node that the topology does not have.
    case unknownNode = "unknown-node"
    /// Nodes that wait for each other.
    case dependencyCycle = "dependency-cycle"
    /// A node without a program to run it.
    case noProgram = "no-program"
    /// A program that is missing, cannot be run, or does not describe itself.
    case badProgram = "bad-program"
    /// Parameters that the machine cannot decode.
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
    /// A required field of an event or a state is missing.
    case missingField = "missing-field"
    /// A value that does not fit the Swift type of its field.
    case typeMismatch = "type-mismatch"
    /// A `$name` that the sender's state does not carry.
    case unknownVariable = "unknown-variable"
    /// A pipe between ports whose events differ.
    case unlikeEvents = "unlike-events"
    /// A component that composites cannot contain: a constant or a monitor.
    case badComponent = "bad-component"
    /// Composites that contain each other.
    case compositeCycle = "composite-cycle"
    /// A participant that is not a component of the composite.
    case unknownParticipant = "unknown-participant"
    /// A synchronized event that fewer than two machines would take.
    case tooFewParticipants = "too-few-participants"
    /// A synchronized event that the machines could take in several ways.
    case ambiguousEvent = "ambiguous-event"
    /// A synchronized event whose payload differs between its participants.
    case unlikePayloads = "unlike-payloads"
    /// A participant that takes a synchronized event by an asynchronous transition.
    case asynchronousParticipant = "asynchronous-participant"
    /// Composites that share participants, and so a process, but name different programs.
    case unlikePrograms = "unlike-programs"
    /// A node whose process cannot run the coordinator of composites.
    case badHost = "bad-host"
    /// A composite state that the program does not register.
    case unknownProjection = "unknown-projection"
    /// A composite state whose parts do not match the components' states.
    case unlikeProjection = "unlike-projection"
    /// A synchronized event that is sent to a component of its composite.
    case synchronizedEvent = "synchronized-event"
    /// An event that the composite does not synchronize.
    case notSynchronized = "not-synchronized"
    /// An output of a machine without an effect: executing it does nothing.
    case unmappedOutput = "unmapped-output"
    /// An out-port without a pipe: events sent there are discarded.
    case unconnectedPort = "unconnected-port"
    /// A number of restarts that cannot occur within its window.
    case unreachableLimit = "unreachable-limit"
    /// A node's place that the deployment does not define.
    case unknownPlace = "unknown-place"
    /// A place of a deployment where no node runs.
    case unusedPlace = "unused-place"
    /// An address of a deployment that does not belong to this host, where its processes would start.
    case foreignAddress = "foreign-address"
    /// A host of a deployment that the engine does not know.
    case unknownHost = "unknown-host"
    /// A node that should move when its host is lost, but has recorded data that cannot move.
    case badHostLoss = "bad-host-loss"
    /// A process name in a cluster that belongs to another process, or is not valid for a service.
    case clusterName = "cluster-name"
  }
}

/// A location in a text file. Both counts start at 1, and 0 means unknown.
public struct TextPosition: Codable, Hashable, Sendable {
  /// The line.
  public var line: Int
  /// The column, in characters.
  public var column: Int

  /// Makes a mark.
  public init(line: Int, column: Int) {
    self.line = line
    self.column = column
  }

  /// The location of an item that was not read from a file.
  public static let unknown = TextPosition(line: 0, column: 0)
}

extension TextPosition: Comparable {
  /// Whether the left location comes before the right one in the file.
  public static func < (left: TextPosition, right: TextPosition) -> Bool {
    (left.line, left.column) < (right.line, right.column)
  }
}
