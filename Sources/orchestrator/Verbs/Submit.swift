import PipeRuntime
import PipeSupervision

/// The verb `orchestrator submit`.
struct Submit: Verb {
  let description = VerbDescription(
    "submit", "Runs a topology as a Slurm batch job",
    discussion:
      "Submits a job that requests every host in the deployment file, including spare hosts. The job "
      + "runs the topology on its first host, as 'orchestrator run' does. The job continues if "
      + "it loses a host, and Slurm does not requeue it. 'scancel -b -s TERM JOB' stops the "
      + "job gracefully. Programs and files must have the same paths on all hosts.",
    options: [
      .deployment,
      Option(
        "name", value: .topology, "Runs the topology under this name. Default: the name in the file"
      ),
      Option(
        "sbatch", value: .text("OPTIONS"),
        "Further options for sbatch, as one argument: '--time=1:00:00 --partition=long'"),
      Option("print", "Prints the job script without submitting it"),
    ],
    positionals: [Positional("FILE", .file, .one, "The topology file")],
    examples: [
      (
        "orchestrator submit topologies/elevator.yaml --deployment cluster.yaml",
        "Runs the elevator on the hosts of cluster.yaml"
      )
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    guard let path = arguments.value("deployment") else {
      throw CommandError(
        "'submit' requires --deployment FILE, which names the hosts of the job",
        code: .usage)
    }
    let file = arguments.positionals[0]
    var deploymentReport = DeploymentReport(.file(path))
    let loaded: LoadedTopology
    do {
      loaded = try LoadedTopology.load(
        .file(file), name: arguments.value("name"), in: deploymentReport.examination)
      try deploymentReport.check(for: loaded.topology)
    } catch let errors as TopologyErrors {
      for diagnostic in errors.diagnostics + deploymentReport.diagnostics {
        console.note("\(diagnostic)")
      }
      return .usage
    }
    for diagnostic in loaded.warnings + deploymentReport.diagnostics {
      console.note("\(diagnostic)")
    }
    guard deploymentReport.isValid, let deployment = loaded.deployment else { return .usage }
    guard deployment.engine == .slurm else {
      throw CommandError(
        "'submit' requires engine 'slurm', but '\(path)' has engine "
          + "'\(deployment.engine.rawValue)'; write 'engine: slurm' and the hosts of each "
          + "place, or run the topology on this host with 'orchestrator up \(file) --deployment "
          + "\(path)'",
        code: .usage)
    }
    let batch = SlurmBatch(
      loaded.topology.name, by: deployment,
      command: [
        OwnProcess.executablePath ?? "orchestrator", "run", FileSystem.absolutePath(file),
        "--deployment",
        FileSystem.absolutePath(path), "--name", loaded.topology.name, "--plain",
      ], options: arguments.value("sbatch"))
    if arguments.contains(option: "print") {
      try console.write(batch.script)
    } else {
      try console.print("\(loaded.topology.name): job \(try batch.submit())")
    }
    return .success
  }
}
