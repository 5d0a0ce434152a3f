import PipeMachines
import PipeSupport
import PipeSystem

/// The contents of a file about a node's process, which the orchestrator writes before it starts
/// the process. If the orchestrator is killed, a new orchestrator compares this record with the
/// process that it would start.
package struct ProcessRecord: Codable, Hashable, Sendable {
  /// The properties of a process that a new orchestrator compares.
  package struct Launch: Codable, Hashable, Sendable {
    /// The path of the program.
    package var program: String
    /// The identity of the program file, which differs after a rebuild.
    package var build: String
    /// The version of the pinned program: a hash of its contents; `nil` if the program is not
    /// pinned.
    package var version: String?
    /// The arguments without the incarnation.
    package var arguments: [String]
    /// The environment variables that the topology file sets, without inherited variables.
    package var environment: [String: String]
    /// The body of the node's `configure`. The type is a JSON value, so that encoding and decoding
    /// do not change the body.
    package var configuration: JSONValue
    /// The working directory; `nil` if it is inherited.
    package var directory: String?
    /// The carrier node of an embedded coordinator; `nil` if the node has its own process.
    package var host: String?

    package init(
      program: String, arguments: [String], environment: [String: String],
      configuration: NodeConfiguration, directory: String? = nil, host: String? = nil
    ) {
      self.directory = directory
      self.host = host
      self.program = program
      build = FileSystem.version(of: program)
      self.arguments = arguments
      self.environment = environment
      self.configuration = (try? JSONValue(encoding: configuration)) ?? .null
    }

    /// The network address at which the node listens; `nil` if other hosts cannot connect to the
    /// node.
    package var address: String? {
      guard let option = arguments.firstIndex(of: "--inbox") else { return nil }
      let prefix = "tcp://"
      guard let bound = arguments.dropFirst(option + 1).first, bound.hasPrefix(prefix) else {
        return nil
      }
      return bound.dropFirst(prefix.count).split(separator: ":").first.map(String.init)
    }

    /// Whether the process has a lease, which limits how long the process runs without its
    /// orchestrator. An embedded coordinator has no lease of its own: its carrier node has the
    /// lease.
    package var hasLease: Bool { arguments.contains("--lease") && host == nil }

    /// Whether the wanted process differs only in additional outbound pipes, which a running
    /// process can open.
    package func differsOnlyInAddedPipes(from wanted: Launch) -> Bool {
      guard case .object(var members) = configuration,
        case .object(let others) = wanted.configuration,
        // Coordinators, and nodes that other hosts can connect to, apply a changed configuration
        // only when they start.
        members["plan"] == nil, host == nil, address == nil,
        case .array(let outs) = members["outs"] ?? .array([]),
        case .array(let wantedOuts) = others["outs"] ?? .array([]),
        outs.allSatisfy(wantedOuts.contains)
      else { return false }
      let added = wantedOuts.filter { !outs.contains($0) }
      let names = Set(outs.map { $0["name"] })
      members["outs"] = others["outs"]
      var extended = self
      extended.configuration = .object(members)
      return !added.isEmpty && extended.difference(from: wanted) == nil
        && added.allSatisfy { $0["steps"] == nil && !names.contains($0["name"]) }
    }

    /// Returns the first difference between this process and the wanted process; `nil` if there is
    /// none.
    package func difference(from wanted: Launch) -> Difference? {
      if host != wanted.host { return .host(wanted: wanted.host) }
      if program != wanted.program { return .program(wanted: wanted.program) }
      if build != wanted.build { return .build }
      if let place = wanted.address, let former = address, place != former {
        return .place(wanted: place)
      }
      if arguments != wanted.arguments { return .hosted }
      if environment != wanted.environment { return .environment }
      if directory != wanted.directory { return .directory }
      guard configuration != wanted.configuration else { return nil }
      let isSame = { (key: String) in configuration[key] == wanted.configuration[key] }
      return isSame("outs") && isSame("ins") ? .composites : .pipes
    }
  }

  /// A difference between a process and the wanted process.
  package enum Difference: Codable, Hashable, Sendable, CustomStringConvertible {
    case program(wanted: String)
    /// The node should run in the process of the carrier node `wanted` or, if `wanted` is `nil`, in
    /// its own process.
    case host(wanted: String?)
    case build
    /// The deployment file gives the node's place another address.
    case place(wanted: String)
    /// The machine, its parameters or its durability.
    case hosted
    case environment
    case directory
    case pipes
    /// The node's part in composites: its role as a participant, or its plan as a coordinator.
    case composites

    package var description: String {
      switch self {
      case .program(let wanted): "its program is now '\(wanted)'"
      case .host(let wanted?): "its carrier node is now '\(wanted)'"
      case .host(wanted: nil): "it now has its own process"
      case .build: "its program was rebuilt"
      case .place(let wanted): "the address of its place is now \(wanted)"
      case .hosted: "its machine, parameters, durability or journal limits were changed"
      case .environment: "its environment was changed"
      case .directory: "its working directory was changed"
      case .pipes: "its pipes were changed"
      case .composites: "its composites were changed"
      }
    }
  }

  /// The step of a Slurm job in which a process runs on another host.
  package struct SlurmStep: Codable, Hashable, Sendable {
    package var name: String
    package var host: String
    package var job: String

    package init(_ name: String, on host: String, in job: String) {
      self.name = name
      self.host = host
      self.job = job
    }
  }

  package var node: String
  package var incarnation: UInt64
  package var launch: Launch
  /// Whether the process continues when its orchestrator is killed.
  package var isDetached: Bool
  /// The time of the start. Unit: nanoseconds since 1970.
  package var startedAt: Int64
  /// The nodes that this node depends on. This node stops before its dependencies.
  package var dependencies: [String]
  /// The time from the stop request to the kill. Unit: milliseconds.
  package var stopTimeout: Int64
  /// The number of the signal for a stop request; `nil` for SIGTERM.
  package var stopSignal: Int32?
  /// The Slurm step in which the process runs; `nil` if the process runs on the orchestrator's
  /// host. The `srun` command of a step holds the lock on this record.
  package var step: SlurmStep?

  package init(
    node: String, incarnation: UInt64, launch: Launch, isDetached: Bool, dependencies: [String],
    stopTimeout: Duration, stopSignal: Signal = .terminate,
    startedAt: Int64 = WallClock.nanoseconds
  ) {
    self.stopSignal = stopSignal == .terminate ? nil : stopSignal.number
    self.node = node
    self.incarnation = incarnation
    self.launch = launch
    self.isDetached = isDetached
    self.startedAt = startedAt
    self.dependencies = dependencies
    self.stopTimeout = Int64(stopTimeout.wholeMilliseconds)
  }
}
