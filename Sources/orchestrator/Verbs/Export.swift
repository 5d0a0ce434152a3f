import PipeModelChecker
import PipeRuntime
import PipeSupervision

/// The verb `orchestrator export`.
struct Export: Verb {
  /// The format of the export.
  private enum ExportFormat: String, CaseIterable {
    case promela, kubernetes
  }

  let description = VerbDescription(
    "export", "Writes a topology for another tool",
    discussion:
      "promela: the model that 'check --explore' searches, in the language of the model checker "
      + "SPIN, which can verify the result: 'orchestrator export promela FILE > model.pml', "
      + "then 'spin -a model.pml', 'cc -DSAFETY -o pan pan.c', './pan -m1000000'. SPIN reports "
      + "a deadlock as an invalid end state.\n\nkubernetes: the manifests with which a "
      + "topology runs in pods. Requires a deployment file with 'engine: kubernetes': "
      + "'orchestrator export kubernetes FILE --deployment DEPLOYMENT > hall.yaml', then "
      + "'kubectl apply -f hall.yaml'. With --secrets, only the Secrets are written, with new "
      + "keys each time: '… --secrets | kubectl apply -f -'. With --key as well, only the "
      + "Secrets of the given NODEs are written. Without --secrets, the output contains no "
      + "secrets, and is the same each time. See docs/CLUSTERS.md.",
    options: [
      Option(
        "time", value: .duration, "promela: maximum search time. Default: no limit"),
      Option("deployment", value: .file, "kubernetes: the deployment file; required"),
      Option("secrets", "kubernetes: writes only the Secrets, with new keys"),
      Option(
        "key", value: .file,
        "kubernetes, with --secrets: the file 'client.key' of the topology in the cluster. Only "
          + "the given NODEs get new keys, for example nodes that were added"),
    ],
    positionals: [
      Positional(
        "FORMAT", .choice("FORMAT", ExportFormat.allCases.map(\.rawValue)), .one,
        "The format: promela or kubernetes"),
      Positional("FILE", .file, .one, "The topology file. For promela, '-' means standard input"),
      Positional("NODE", .node, .any, "With --key: the nodes and coordinators that get keys"),
    ],
    examples: [
      ("orchestrator export promela topologies/lift.yaml", "Writes the lift as a model for SPIN"),
      (
        "orchestrator export kubernetes hall.yaml --deployment cluster.yaml",
        "Writes the hall as Kubernetes manifests"
      ),
      (
        "orchestrator export kubernetes hall.yaml lamp --deployment cluster.yaml --secrets --key client.key",
        "Writes the Secret of node 'lamp', which was added to the topology 'hall'"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let file = arguments.positionals[1]
    switch arguments.positionals[0] {
    case ExportFormat.kubernetes.rawValue:
      if arguments.value("time") != nil {
        throw CommandError("--time is only for 'export promela'", code: .usage)
      }
      guard let deployment = arguments.value("deployment") else {
        throw CommandError(
          "'export kubernetes' requires --deployment FILE, which names the image and the hosts",
          code: .usage)
      }
      return try KubernetesExport(
        file: file, deployment: deployment,
        part: .init(
          hasSecrets: arguments.contains(option: "secrets"), key: arguments.value("key"),
          nodes: Array(arguments.positionals.dropFirst(2)))
      ).run(console)
    default:
      if ["deployment", "secrets", "key"].contains(where: arguments.contains(option:))
        || arguments.positionals.count > 2
      {
        throw CommandError(
          "--deployment, --secrets, --key and NODE are only for 'export kubernetes'",
          code: .usage)
      }
      return try await promela(file, time: arguments.duration("time"), console)
    }
  }

  private func promela(
    _ file: String, time: Duration?, _ console: Console
  ) async throws -> ExitCode {
    var settings = ExplorationSettings()
    settings.timeLimit = time
    let loaded = try LoadedTopology.load(TopologyInput(argument: file))
    let meter = ProgressMeter(console)
    let explorer = TopologyExplorer(loaded, loaded.topology.explore, settings)
    let exported = try await explorer.promela { meter.show($0) }
    try console.write(exported.text)
    guard exported.report.verdict.degree == .incomplete else { return .success }
    for remark in exported.report.verdict.remarks where remark.effect == .incomplete {
      console.warning("the model is incomplete: \(remark.message)")
    }
    return .incomplete
  }
}
