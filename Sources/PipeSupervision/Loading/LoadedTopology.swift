import PipeClient
import PipeMachines
import PipeSystem
import PipeTopology
import PipeWire

/// A topology that was read from its file and checked against its programs, and is ready to be
/// launched.
package struct LoadedTopology {
  /// The path of the topology file, as the user gave it.
  let file: String
  package private(set) var topology: Topology
  /// The path of each program, by its name in the file.
  package let programs: [String: String]
  /// The description of each program, by its name in the file.
  let programDescriptions: [String: ProgramDescription]
  /// For each node with a machine: the description of the machine with the node's parameters.
  package let descriptions: [String: MachineDescription]
  /// The composites, grouped into conflict classes with one coordinator each.
  package let conflictClasses: [ConflictClassPlan]
  package internal(set) var warnings: [Diagnostic]
  /// For each node whose process has outlived a killed orchestrator, by name: the program of the
  /// process. These nodes keep their programs.
  package var pinnedPrograms: [String: PinnedProgram] = [:]
  /// The warnings that the topology file declares as expected.
  package let silencedWarnings: [Diagnostic]
  /// The placement of the nodes; `nil` if the nodes run on one host.
  package let deployment: Deployment?
  /// The absolute path of the deployment file.
  let deploymentFile: String?
  /// The source locations of the parts of the topology in its file.
  package let source: SourceMap

  /// Returns this topology with another number of shards of a node.
  func withShards(_ count: Int, of name: String) -> LoadedTopology {
    var changed = self
    for index in topology.nodes.indices where topology.nodes[index].name == name {
      changed.topology.nodes[index].shards = count
    }
    return changed
  }

  /// Reads and checks a topology file. Runs the programs that the file names, but only with
  /// `describe`.
  /// - Parameters:
  ///   - name: A name that replaces the name in the file.
  ///   - variables: The values for `${NAME}` in the file. These values take precedence over the
  ///     values in a file `.env` in the same directory.
  ///   - deployment: The placement of the nodes; `nil` if the nodes run on one host.
  ///   - keepsPrograms: Whether the remaining nodes of a killed orchestrator keep their programs.
  /// - Throws: ``TopologyErrors`` with all errors at once.
  package static func load(
    _ input: TopologyInput, name: String? = nil,
    variables: [String: String] = ProcessEnvironment.current,
    in deployment: DeploymentFile.Examination? = nil, keepsPrograms: Bool = false
  ) throws(TopologyErrors) -> LoadedTopology {
    var (topology, source, found) = try TopologyReader.examine(input, environment: variables)
    if let name { topology.name = name }
    var pinned: [String: PinnedProgram] = [:]
    if keepsPrograms, let directories = try? RuntimeDirectories(topology: topology.name) {
      pinned = PinnedPrograms.former(in: directories)
    }
    var collector = DescriptionCollector(topology: topology, source: source, pinned: pinned)
    collector.run(locator: ProgramLocator(directory: input.directory))
    let descriptions = TopologyChecker.Descriptions(
      programs: collector.descriptionsByProgram, nodes: collector.descriptionsByNode)
    let checked = TopologyChecker.check(topology, source: source, against: descriptions)
    // The errors in composites have already been reported.
    let conflictClasses =
      (try? TopologyComposites(topology, machines: collector.descriptionsByNode))?.coordinatorPlans
      ?? []
    let placed =
      deployment.map {
        PlacementChecker.check(topology, source: source, coordinatorPlans: conflictClasses, in: $0)
      } ?? []
    // A part that is missing because of an error may cause false warnings. So warnings are dropped
    // if there are errors.
    let isComplete = !found.hasErrors
    let warnings = directoryProblems(of: topology, source, in: input.directory) + placed + checked
    let all =
      found + collector.diagnostics + warnings.filter { isComplete || $0.severity == .error }
    let diagnostics = all.without(warnings: topology.silence)
    if diagnostics.hasErrors { throw TopologyErrors(diagnostics) }
    return LoadedTopology(
      file: input.name, topology: topology, programs: collector.programPaths,
      programDescriptions: collector.descriptionsByProgram,
      descriptions: collector.descriptionsByNode, conflictClasses: conflictClasses,
      warnings: diagnostics,
      pinnedPrograms: collector.pinned,
      silencedWarnings: all.silenced(by: topology.silence),
      deployment: deployment.map(Self.resolvedDeployment),
      deploymentFile: deployment.map { FileSystem.absolutePath($0.source.file) }, source: source)
  }

  /// Returns an error for each node on this host whose working directory is missing or not a
  /// directory.
  private static func directoryProblems(
    of topology: Topology, _ source: SourceMap, in directory: String
  ) -> [Diagnostic] {
    topology.nodes.compactMap { node in
      guard node.place == nil, let path = node.workingDirectory,
        !FileSystem.isDirectory(FileSystem.absolutePath(path, from: directory))
      else { return nil }
      return source.diagnostic(
        .badValue, at: ["nodes", node.name, "working_directory"],
        "node '\(node.name)': 'working_directory': no such directory '\(path)'; create the "
          + "directory or correct the path"
      )
    }
  }

  /// Returns the deployment with absolute paths. Relative paths are resolved against the directory
  /// of the deployment file.
  private static func resolvedDeployment(_ examined: DeploymentFile.Examination) -> Deployment {
    var deployment = examined.deployment
    if let journals = deployment.journals, !journals.hasPrefix("/") {
      let directory = FileSystem.parentDirectory(of: examined.source.file)
      deployment.journals = FileSystem.absolutePath(
        FileSystem.absolutePath(journals, from: directory))
    }
    return deployment
  }
}

extension LoadedTopology {
  /// The topology for the launch, with a node for each shard.
  var topologyWithShards: LoadedTopology {
    let launched = topology.withShards
    guard launched != topology else { return self }
    var descriptions = descriptions
    for node in launched.nodes {
      if let shard = node.shard { descriptions[node.name] = self.descriptions[shard.node] }
    }
    return LoadedTopology(
      file: file, topology: launched, programs: programs,
      programDescriptions: programDescriptions, descriptions: descriptions,
      conflictClasses: conflictClasses, warnings: warnings, pinnedPrograms: pinnedPrograms,
      silencedWarnings: silencedWarnings,
      deployment: deployment, deploymentFile: deploymentFile, source: source)
  }

  /// The pipes. If the receiver of a pipe is a composite, and a single component accepts the pipe's
  /// event, the pipe is connected to this component.
  package var pipes: [PipeSpecification] {
    topology.pipes.map { pipe in
      guard let event = pipe.eventTemplate?.caseName,
        let plan = conflictClasses.lazy.compactMap({ $0[pipe.receiver] }).first,
        let owner = plan.nodesByOwnEvent[event]
      else { return pipe }
      var pipe = pipe
      pipe.receiver = owner
      return pipe
    }
  }

  /// Returns the schema version of a pipe's events, which is a version of the receiver's machine.
  /// Returns `nil` for version 1, or if the receiver has no machine.
  func schema(of pipe: PipeSpecification) -> Int? {
    let described = TopologyChecker.Descriptions(programs: programDescriptions, nodes: descriptions)
    let schema = described.schema(ofEventsOf: pipe, in: topology)
    return schema == 1 ? nil : schema
  }

  /// Returns the dependencies of a node, sorted by name. If the required state of a dependency is a
  /// struct, the condition gets the names of the struct's fields.
  func dependencies(of node: NodeSpecification) -> [NodeDependency] {
    node.dependsOn.sorted { $0.node < $1.node }.map { dependency in
      guard case .state(var condition) = dependency.condition else { return dependency }
      condition.fields = descriptions[dependency.node]?.stateFields?.map(\.name)
      return NodeDependency(dependency.node, .state(condition))
    }
  }
}

/// Collects the descriptions of the programs and nodes of a topology.
private struct DescriptionCollector {
  let topology: Topology
  let source: SourceMap
  /// The pinned programs, by node.
  let pinned: [String: PinnedProgram]
  var programPaths: [String: String] = [:]
  var descriptionsByProgram: [String: ProgramDescription] = [:]
  var descriptionsByNode: [String: MachineDescription] = [:]
  var diagnostics: [Diagnostic] = []

  mutating func run(locator: ProgramLocator) {
    let environment = locator.environment.merging(topology.environment) { _, own in own }
    let describer = ProgramDescriber(timeout: topology.timeouts.start)
    for program in topology.programs {
      do {
        let path = try locate(program, locator)
        programPaths[program] = path
        var byExecutable: [String: [NodeSpecification]] = [:]
        for node in topology.nodes where topology.program(of: node) == program {
          byExecutable[executable(of: node, at: path), default: []].append(node)
        }
        // Without a file at the path, the nodes run the program that a killed orchestrator has
        // started.
        let main = byExecutable[path] == nil ? byExecutable.keys.sorted().first ?? path : path
        for executable in [main] + byExecutable.keys.sorted().filter({ $0 != main }) {
          let description = try describer.describe(executable, environment: environment)
          if executable == main { descriptionsByProgram[program] = description }
          try describeNodes(
            byExecutable[executable] ?? [], by: description, at: executable, describer, environment)
        }
      } catch {
        report(.badProgram, at: topology.path(ofProgram: program), "\(error)")
      }
    }
  }

  /// Returns the path of a program. If the file was removed, returns the path of the pinned
  /// program.
  private func locate(_ program: String, _ locator: ProgramLocator) throws -> String {
    do {
      return try locator.locate(program)
    } catch {
      let nodes = topology.nodes.filter { topology.program(of: $0) == program }
      guard case .missing = error, let former = nodes.lazy.compactMap(pinnedProgram).first,
        former.path.hasSuffix("/" + (program.split(separator: "/").last ?? ""))
      else { throw error }
      return former.path
    }
  }

  /// Returns the pinned program of a node. All shards of a node have the program of the first
  /// shard.
  private func pinnedProgram(of node: NodeSpecification) -> PinnedProgram? {
    pinned[node.name] ?? pinned[node.name + ".0"]
  }

  /// Returns the file that a node runs.
  private func executable(of node: NodeSpecification, at path: String) -> String {
    guard let program = pinnedProgram(of: node), program.path == path else { return path }
    return program.executable
  }

  private mutating func describeNodes(
    _ nodes: [NodeSpecification], by program: ProgramDescription, at path: String,
    _ describer: ProgramDescriber, _ environment: [String: String]
  ) throws {
    let registered = Set(program.machines.map(\.machine))
    var byRequest: [DescriptionRequest: [String]] = [:]
    for node in nodes {
      guard let machine = node.machine, registered.contains(machine) else { continue }
      let isPlain = node.parameters == [:] || node.parameters == .null
      if isPlain, let description = program.machine(machine),
        description.error == nil
      {
        descriptionsByNode[node.name] = description
      } else {
        let request = DescriptionRequest(machine: machine, parameters: node.parameters)
        byRequest[request, default: []].append(node.name)
      }
    }
    let requests = Array(byRequest.keys)
    guard !requests.isEmpty else { return }
    do {
      let answers = try describer.describe(requests, in: path, environment: environment)
      for (request, answer) in zip(requests, answers) { take(answer, for: byRequest[request]!) }
    } catch {
      // Sends one request at a time, to find out which request makes the program exit.
      for request in requests {
        describe(request, of: byRequest[request]!, at: path, describer, environment)
      }
    }
  }

  private mutating func describe(
    _ request: DescriptionRequest, of nodes: [String], at path: String,
    _ describer: ProgramDescriber, _ environment: [String: String]
  ) {
    do {
      take(try describer.describe([request], in: path, environment: environment)[0], for: nodes)
    } catch {
      take(MachineDescription(machine: request.machine, error: "\(error)"), for: nodes)
    }
  }

  /// Stores the description of a machine for the nodes that run this machine with these parameters.
  private mutating func take(_ answer: MachineDescription, for names: [String]) {
    for node in names {
      guard let problem = answer.error else {
        descriptionsByNode[node] = answer
        continue
      }
      report(
        .badParameters,
        at: ["nodes", node, "parameters"] + (answer.errorParameter.map { [$0] } ?? []),
        "node '\(node)': machine '\(answer.machine)' cannot run: \(problem)")
    }
  }

  private mutating func report(_ code: Diagnostic.Code, at path: [String], _ message: String) {
    diagnostics.append(source.diagnostic(code, at: path, message))
  }
}

/// Checks that the socket paths of a topology's processes are valid on this host. The paths contain
/// the names of the processes.
package enum SocketPathChecker {
  /// Checks the socket paths.
  /// - Parameters:
  ///   - classes: The conflict classes. The name of a conflict class is also the name of its
  ///     coordinator's process.
  ///   - roots: The directories of the sockets, which depend on the environment.
  package static func check(
    _ topology: Topology, source: SourceMap, classes: [String] = [],
    roots: RuntimeRoots = RuntimeRoots()
  ) -> [Diagnostic] {
    let processes =
      topology.nodes.map { ("node", "nodes", $0.name) }
      + classes.map { ("composite", "composites", $0) }
      + topology.monitors.map { ("monitor", "monitors", $0.name) }
    do throws(DirectoryError) {
      let directories = try RuntimeDirectories(topology: topology.name, roots: roots)
      _ = try directories.endpoint(.control)
      return processes.compactMap { kind, section, name in
        do throws(DirectoryError) {
          _ = try directories.endpoint(.feed(node: name))
          return nil
        } catch {
          let mark = source.position(ofKey: [section, name])
          return source.diagnostic(.badName, at: mark, "\(kind) '\(name)': \(error)")
        }
      }
    } catch {
      return [
        source.diagnostic(
          .badName, at: source.position(of: ["topology"]), "topology '\(topology.name)': \(error)")
      ]
    }
  }
}
