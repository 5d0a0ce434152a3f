import PipeSupport

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

    package init(
      program: String, arguments: [String], environment: [String: String],
      configuration: NodeConfiguration
    ) {
      self.program = program
      build = FileSystem.version(of: program)
      self.arguments = arguments
      self.environment = environment
      self.configuration = (try? JSONValue(encoding: configuration)) ?? .null
    }

    /// How the wanted one differs, or `nil` where it does not.
    package func difference(from wanted: Launch) -> String? {
      if program != wanted.program { return "its program is now '\(wanted.program)'" }
      if build != wanted.build { return "its program was built anew" }
      if arguments != wanted.arguments { return "what it hosts, or a parameter of it, was changed" }
      if environment != wanted.environment { return "its environment was changed" }
      if configuration != wanted.configuration { return "its pipes were changed" }
      return nil
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

  package init(
    node: String, incarnation: UInt64, launch: Launch, isDetached: Bool, dependencies: [String],
    stopTimeout: Duration, startedAt: Int64 = WallClock.nanoseconds
  ) {
    self.node = node
    self.incarnation = incarnation
    self.launch = launch
    self.isDetached = isDetached
    self.startedAt = startedAt
    self.dependencies = dependencies
    self.stopTimeout = Int64(stopTimeout.wholeMilliseconds)
  }
}
