/// An error or warning about a topology, with its location in a file.
public struct Diagnostic: Codable, Hashable, Sendable {
  /// The severity. A topology with an error cannot run; a topology with a warning can.
  public enum Severity: String, Codable, Hashable, Sendable {
    case error, warning
  }

  /// The file's path, as given.
  public var file: String
  /// The location in the file.
  public var position: TextPosition
  /// Whether this is an error or a warning.
  public var severity: Severity
  /// The kind of error or warning.
  public var code: Code
  /// A sentence that describes the error or warning.
  public var message: String

  private enum CodingKeys: String, CodingKey {
    case file, severity, code, message
    case position = "mark"
  }

  /// Makes a diagnostic.
  public init(
    file: String, position: TextPosition, severity: Severity = .error, code: Code, message: String
  ) {
    self.file = file
    self.position = position
    self.severity = severity
    self.code = code
    self.message = message
  }

  /// The line, from 1; 0 if unknown.
  public var line: Int { position.line }
  /// The column, from 1; 0 if unknown.
  public var column: Int { position.column }
}

extension Diagnostic: CustomStringConvertible {
  /// The diagnostic as text: `path:line:column: error: text [code]`. Without line and column if the
  /// location is unknown.
  public var description: String {
    let place = position == .unknown ? "" : ":\(line):\(column)"
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
    var seenDiagnostics: Set<Diagnostic> = []
    return enumerated()
      .filter { seenDiagnostics.insert($0.element).inserted }
      .sorted { ($0.element.position, $0.offset) < ($1.element.position, $1.offset) }
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

  /// Whether at least one diagnostic is an error, so that the topology cannot run.
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
    /// The file is missing, unreadable or too large, or the path leads to a directory.
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
    /// Two keys that exclude each other, or a key without another key that it requires.
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
    /// Two nodes, composites, pipes or monitors with the same name.
    case nameTaken = "name-taken"
    /// A reference to a node that the topology does not have.
    case unknownNode = "unknown-node"
    /// Nodes that depend on each other in a cycle.
    case dependencyCycle = "dependency-cycle"
    /// A node without a program to run it.
    case noProgram = "no-program"
    /// A program that is missing, cannot be run, or does not support `describe`.
    case badProgram = "bad-program"
    /// Parameters that the machine cannot decode.
    case badParameters = "bad-parameters"
    /// A pipe from a node to itself.
    case selfPipe = "self-pipe"
    /// A pipe to a constant node, which accepts no events.
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
    /// An event that the machine accepts in no state.
    case notInAlphabet = "not-in-alphabet"
    /// A field that the event or state does not have.
    case unknownField = "unknown-field"
    /// A required field of an event or a state is missing.
    case missingField = "missing-field"
    /// A value that does not fit the Swift type of its field.
    case typeMismatch = "type-mismatch"
    /// A `$name` in a payload template that is not a field of the sender's state.
    case unknownVariable = "unknown-variable"
    /// A pipe between ports with different event types.
    case unlikeEvents = "unlike-events"
    /// A component that composites cannot contain: a constant or a monitor.
    case badComponent = "bad-component"
    /// Composites that contain each other.
    case compositeCycle = "composite-cycle"
    /// A participant that is not a component of the composite.
    case unknownParticipant = "unknown-participant"
    /// A synchronized event with fewer than two participants.
    case tooFewParticipants = "too-few-participants"
    /// A synchronized event with more than one possible set of participants.
    case ambiguousEvent = "ambiguous-event"
    /// A synchronized event whose payload differs between its participants.
    case unlikePayloads = "unlike-payloads"
    /// A participant that accepts a synchronized event by an asynchronous transition.
    case asynchronousParticipant = "asynchronous-participant"
    /// Composites that name different programs, although they share participants and therefore a
    /// coordinator.
    case unlikePrograms = "unlike-programs"
    /// A composite whose `within` does not name a node that can run the composite's coordinator.
    case badHost = "bad-host"
    /// A projection that the program does not register.
    case unknownProjection = "unknown-projection"
    /// A projection whose parameters do not match the components' states.
    case unlikeProjection = "unlike-projection"
    /// A pipe that sends a synchronized event to a component instead of the composite.
    case synchronizedEvent = "synchronized-event"
    /// An event sent to a composite that does not synchronize the event.
    case notSynchronized = "not-synchronized"
    /// An output that its machine maps to no effect, so that the output does nothing.
    case unmappedOutput = "unmapped-output"
    /// An out-port without a pipe: events sent there are discarded.
    case unconnectedPort = "unconnected-port"
    /// A limit on restarts that can never be reached within its time window.
    case unreachableLimit = "unreachable-limit"
    /// A node names a place that the deployment file does not define.
    case unknownPlace = "unknown-place"
    /// A place in a deployment file to which no node is assigned.
    case unusedPlace = "unused-place"
    /// An address in a deployment file for processes on this host, although the address belongs to
    /// another host.
    case foreignAddress = "foreign-address"
    /// A host in a deployment file that the engine, such as Slurm or Kubernetes, does not know.
    case unknownHost = "unknown-host"
    /// A node that should move to another host when its host is lost, but whose journal cannot move.
    case badHostLoss = "bad-host-loss"
    /// A process name that another process of the cluster has, or that is not a valid name of a
    /// service.
    case clusterName = "cluster-name"
  }
}

/// A location in a text file. Lines and columns are counted from 1; 0 means unknown.
public struct TextPosition: Codable, Hashable, Sendable {
  /// The line.
  public var line: Int
  /// The column, in characters.
  public var column: Int

  /// Makes a location.
  public init(line: Int, column: Int) {
    self.line = line
    self.column = column
  }

  /// The location of an item that was not read from a file.
  public static let unknown = TextPosition(line: 0, column: 0)
}

extension TextPosition: Comparable {
  /// Whether the left location comes before the right location in the file.
  public static func < (left: TextPosition, right: TextPosition) -> Bool {
    (left.line, left.column) < (right.line, right.column)
  }
}
