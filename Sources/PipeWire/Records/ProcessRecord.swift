import PipeMachines
import PipeSupport
import PipeSystem

/// What was started as a node's process. It is written before the process is, so that whoever comes
/// after an orchestrator that was killed can tell whether the process is the one that is wanted.
package struct ProcessRecord: Codable, Hashable, Sendable {
  /// What makes a process the one that is wanted.
  package struct Launch: Codable, Hashable, Sendable {
    /// The path of the program.
    package var program: String
    /// Tells one build of the program from another.
    package var build: String
    /// The arguments but for the incarnation.
    package var arguments: [String]
    /// The variables that the topology sets, and not those of whoever started it.
    package var environment: [String: String]
    /// The `configure` that it gets, as JSON: the same however often it was written and read.
    package var configuration: JSONValue
    /// The directory in which it runs; `nil` for that of who starts it.
    package var directory: String?
    /// The node in whose process it lives; `nil` where it has one of its own.
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

    /// Where it listens, of one that is bound for other hosts.
    package var address: String? {
      guard let option = arguments.firstIndex(of: "--inbox") else { return nil }
      let prefix = "tcp://"
      guard let bound = arguments.dropFirst(option + 1).first, bound.hasPrefix(prefix) else {
        return nil
      }
      return bound.dropFirst(prefix.count).split(separator: ":").first.map(String.init)
    }

    /// Whether it must not go on for long without its orchestrator; of a lodger, the process in which it lives.
    package var hasLease: Bool { arguments.contains("--lease") && host == nil }

    /// Whether the wanted one differs only in more pipes that lead from it, which a process opens while it runs.
    package func isExtended(by wanted: Launch) -> Bool {
      guard case .object(var members) = configuration,
        case .object(let others) = wanted.configuration,
        // A coordinator takes what it coordinates when it starts, and so does one that is bound for other hosts.
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

    /// How the wanted one differs, or `nil` where it does not.
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

  /// Why a process is not the one that is wanted.
  package enum Difference: Codable, Hashable, Sendable, CustomStringConvertible {
    case program(wanted: String)
    /// It is to live in the process of another node, or in one of its own.
    case host(wanted: String?)
    case build
    /// Its place has another address.
    case place(wanted: String)
    /// The machine, its parameters, or how durable it is.
    case hosted
    case environment
    case directory
    case pipes
    /// Its part in synchronized events, or what it coordinates.
    case composites

    package var description: String {
      switch self {
      case .program(let wanted): "its program is now '\(wanted)'"
      case .host(let wanted?): "it is to live within '\(wanted)' now"
      case .host(wanted: nil): "it is to have a process of its own now"
      case .build: "its program was built anew"
      case .place(let wanted): "its place is at \(wanted) now"
      case .hosted: "what it hosts, or a parameter of it, was changed"
      case .environment: "its environment was changed"
      case .directory: "its working directory was changed"
      case .pipes: "its pipes were changed"
      case .composites: "its composites were changed"
      }
    }
  }

  /// Where a process runs that was started on another host: a step of a job of Slurm's.
  package struct Step: Codable, Hashable, Sendable {
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
  /// Whether it goes on when its orchestrator is killed.
  package var isDetached: Bool
  /// Unit: nanoseconds since 1970.
  package var startedAt: Int64
  /// The nodes that it stops before.
  package var dependencies: [String]
  /// From asking it to stop to killing it. Unit: milliseconds.
  package var stopTimeout: Int64
  /// The number of the signal that asks it to stop; `nil` for SIGTERM.
  package var stopSignal: Int32?
  /// Where it runs; `nil` on the orchestrator's host. What the record is locked by is its `srun` then.
  package var step: Step?

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
