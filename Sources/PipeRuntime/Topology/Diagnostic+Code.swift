extension Diagnostic {
  /// The kinds of things that can be wrong with a topology; stable, for scripts and for tests.
  public enum Code: String, CaseIterable, Hashable, Sendable {
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
    /// Part of the design, but not built yet.
    case notYet = "not-yet"
    /// Two nodes, pipes or monitors of one name.
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
    /// An out-port without a pipe: what is sent there goes nowhere.
    case unconnectedPort = "unconnected-port"
  }
}
