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
