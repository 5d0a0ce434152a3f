import PipeClient
import PipeMachines
import PipeSystem
import PipeTopology
import PipeWire

/// A topology that was read and checked against its programs, ready to be launched.
package struct LoadedTopology {
  /// The path of the file, as the user gave it.
  let file: String
  package let topology: Topology
  /// The path of each program, by its name in the file.
  package let programs: [String: String]
  /// The description of each machine node with its parameters.
  package let descriptions: [String: MachineDescription]
  /// The composites, grouped into conflict classes with one coordinator each.
  package let conflictClasses: [ConflictClassPlan]
  package internal(set) var warnings: [Diagnostic]
  /// The warnings that the file silences.
  package let silenced: [Diagnostic]
  /// The placement of the nodes; `nil` if the nodes run on one host.
  package let deployment: Deployment?
  /// The absolute path of the deployment file.
  let deploymentFile: String?
  /// The source locations of the parts of the topology in its file.
  package let source: SourceMap

  /// Reads and checks a file. Runs its programs with `describe` only.
  /// - Parameters:
  ///   - name: A name that replaces the name in the file.
  ///   - variables: The values for `${NAME}` in the file. They take precedence over a file `.env`
  ///     beside it.
  ///   - deployment: The placement of the nodes; `nil` if the nodes run on one host.
  /// - Throws: ``TopologyErrors`` with all errors at once.
  package static func load(
    _ input: TopologyInput, name: String? = nil,
    variables: [String: String] = ProcessEnvironment.current,
    in deployment: DeploymentFile.Examination? = nil
  ) throws(TopologyErrors) -> LoadedTopology {
    var (topology, source, found) = try TopologyReader.examine(input, environment: variables)
    if let name { topology.name = name }
    var collector = DescriptionCollector(topology: topology, source: source)
    collector.run(locator: ProgramLocator(directory: input.directory))
    let descriptions = TopologyChecker.Descriptions(
      programs: collector.programs, nodes: collector.nodes)
    let checked = TopologyChecker.check(topology, source: source, against: descriptions)
    // The errors in composites have already been reported.
    let classes =
      (try? TopologyComposites(topology, machines: collector.nodes))?.plans ?? []
    let placed =
      deployment.map {
        PlacementChecker.check(topology, source: source, classes: classes, in: $0)
      } ?? []
    // A warning about something missing may be caused by the part that an error left out.
    let isComplete = !found.hasErrors
    let warnings = directoryProblems(of: topology, source, in: input.directory) + placed + checked
    let all =
      found + collector.diagnostics + warnings.filter { isComplete || $0.severity == .error }
    let diagnostics = all.without(warnings: topology.silence)
    if diagnostics.hasErrors { throw TopologyErrors(diagnostics) }
    return LoadedTopology(
      file: input.name, topology: topology, programs: collector.paths,
      descriptions: collector.nodes, conflictClasses: classes, warnings: diagnostics,
      silenced: all.silenced(by: topology.silence),
      deployment: deployment.map(Self.placed),
      deploymentFile: deployment.map { FileSystem.absolute($0.source.file) }, source: source)
  }

  /// Returns errors for working directories on this host that are not directories.
  private static func directoryProblems(
    of topology: Topology, _ source: SourceMap, in directory: String
  ) -> [Diagnostic] {
    topology.nodes.compactMap { node in
      guard node.place == nil, let path = node.workingDirectory,
        !FileSystem.isDirectory(FileSystem.path(path, from: directory))
      else { return nil }
      return source.diagnostic(
        .badValue, at: ["nodes", node.name, "working_directory"],
        "node '\(node.name)': 'working_directory': no such directory '\(path)'; create the "
          + "directory or correct the path"
      )
    }
  }

  /// Returns the deployment, with its paths resolved against the directory of its file.
  private static func placed(_ examined: DeploymentFile.Examination) -> Deployment {
    var deployment = examined.deployment
    if let journals = deployment.journals, !journals.hasPrefix("/") {
      let directory = FileSystem.directory(of: examined.source.file)
      deployment.journals = FileSystem.absolute(FileSystem.path(journals, from: directory))
    }
    return deployment
  }
}

extension LoadedTopology {
  /// The pipes. A pipe that sends a composite an event of one of its nodes connects to that node instead.
  package var pipes: [PipeSpecification] {
    topology.pipes.map { pipe in
      guard let event = pipe.send?.caseName,
        let plan = conflictClasses.lazy.compactMap({ $0[pipe.receiver] }).first,
        let owner = plan.own[event]
      else { return pipe }
      var pipe = pipe
      pipe.receiver = owner
      return pipe
    }
  }

  /// Returns the dependencies of a node, sorted by name. The condition for a state that is a struct
  /// gets the fields of the struct.
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
  var paths: [String: String] = [:]
  var programs: [String: ProgramDescription] = [:]
  var nodes: [String: MachineDescription] = [:]
  var diagnostics: [Diagnostic] = []

  mutating func run(locator: ProgramLocator) {
    let environment = locator.environment.merging(topology.environment) { _, own in own }
    let describer = ProgramDescriber(timeout: topology.timeouts.start)
    for program in topology.programs {
      do {
        let path = try locator.locate(program)
        paths[program] = path
        programs[program] = try describer.describe(path, environment: environment)
        try describeNodes(of: program, at: path, describer, environment)
      } catch {
        report(.badProgram, at: topology.path(ofProgram: program), "\(error)")
      }
    }
  }

  private mutating func describeNodes(
    of program: String, at path: String, _ describer: ProgramDescriber,
    _ environment: [String: String]
  ) throws {
    let registered = Set(programs[program]?.machines.map(\.machine) ?? [])
    var byRequest: [DescriptionRequest: [String]] = [:]
    for node in topology.nodes where topology.program(of: node) == program {
      guard let machine = node.machine, registered.contains(machine) else { continue }
      let isPlain = node.parameters == [:] || node.parameters == .null
      if isPlain, let description = programs[program]?.machine(machine), description.error == nil {
        nodes[node.name] = description
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
      // Separate requests show which of them makes the program exit.
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

  /// Takes the description of a machine for the nodes that host it with these parameters.
  private mutating func take(_ answer: MachineDescription, for names: [String]) {
    for node in names {
      guard let problem = answer.error else {
        nodes[node] = answer
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

/// Checks that the socket paths of a topology's processes, which contain their names, are valid on this
/// host.
package enum SocketPathChecker {
  /// - Parameters:
  ///   - classes: The names of the processes that coordinate composites.
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
          let mark = source.mark(ofKey: [section, name])
          return source.diagnostic(.badName, at: mark, "\(kind) '\(name)': \(error)")
        }
      }
    } catch {
      return [
        source.diagnostic(
          .badName, at: source.mark(of: ["topology"]), "topology '\(topology.name)': \(error)")
      ]
    }
  }
}
