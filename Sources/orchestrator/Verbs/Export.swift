import PipeModelChecker
import PipeRuntime
import PipeSupervision

/// `orchestrator export`
struct Export: Verb {
  /// The format of the export.
  private enum Form: String, CaseIterable {
    case promela, kubernetes
  }

  let description = VerbDescription(
    "export", "Writes a topology for another tool",
    discussion:
      "promela: all that 'check --explore' has asked the programs for, as a model for SPIN, so "
      + "that the "
      + "search can be checked by another one: 'orchestrator export promela FILE > model.pml', "
      + "then 'spin -a model.pml', 'cc -DSAFETY -o pan pan.c', './pan -m1000000'. A deadlock is an "
      + "invalid end state there.\n\n"
      + "kubernetes: manifests of a topology that runs in pods, by a deployment file with 'engine: kubernetes': "
      + "'orchestrator export kubernetes FILE --deployment DEPLOYMENT > hall.yaml', then 'kubectl apply -f hall.yaml'. "
      + "The keys of its processes are written apart, new ones each time: '… --secrets | kubectl apply -f -'; with --key "
      + "those of the named NODEs alone. Without --secrets nothing secret is written, and the same each time. "
      + "docs/CLUSTERS.md has the rest.",
    options: [
      Option(
        "time", value: .duration, "promela: how long is searched, at most. Default: no limit"),
      Option("deployment", value: .file, "kubernetes: the deployment file; needed"),
      Option("secrets", "kubernetes: writes the Secrets, with new keys, and nothing else"),
      Option(
        "key", value: .file,
        "kubernetes, with --secrets: the 'client.key' of the topology as it is in the cluster. All keys stay but "
          + "those of the NODEs, such as have been added"),
    ],
    positionals: [
      Positional(
        "FORM", .choice("FORM", Form.allCases.map(\.rawValue)), .one,
        "What is written: promela or kubernetes"),
      Positional("FILE", .file, .one, "The topology file; - is standard input, for promela"),
      Positional("NODE", .node, .any, "With --key: the nodes and coordinators that get keys"),
    ],
    examples: [
      ("orchestrator export promela topologies/lift.yaml", "The lift as a model for SPIN"),
      (
        "orchestrator export kubernetes hall.yaml --deployment cluster.yaml",
        "The hall as manifests"
      ),
      (
        "orchestrator export kubernetes hall.yaml lamp --deployment cluster.yaml --secrets --key client.key",
        "The Secret of a lamp that the hall has got, which runs in a cluster"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let file = arguments.positionals[1]
    switch arguments.positionals[0] {
    case Form.kubernetes.rawValue:
      if arguments.value("time") != nil {
        throw CommandError("--time limits a search, and 'kubernetes' has none", code: .usage)
      }
      guard let deployment = arguments.value("deployment") else {
        throw CommandError(
          "'export kubernetes' asks for --deployment FILE, which says in which image and at which hosts the "
            + "processes are", code: .usage)
      }
      return try KubernetesExport(
        file: file, deployment: deployment,
        part: .init(
          hasSecrets: arguments.flag("secrets"), key: arguments.value("key"),
          nodes: Array(arguments.positionals.dropFirst(2)))
      ).run(console)
    default:
      if ["deployment", "secrets", "key"].contains(where: arguments.flag)
        || arguments.positionals.count > 2
      {
        throw CommandError(
          "--deployment, --secrets, --key and NODE are for 'kubernetes': a model is the same wherever its nodes run",
          code: .usage)
      }
      return try await promela(file, time: arguments.duration("time"), console)
    }
  }

  private func promela(
    _ file: String, time: Duration?, _ console: Console
  ) async throws -> ExitCode {
    var settings = ExplorationSettings()
    settings.time = time
    let loaded = try LoadedTopology.load(TopologyInput(argument: file))
    let meter = ProgressMeter(console)
    let explorer = TopologyExplorer(loaded, loaded.topology.explore, settings)
    let exported = try await explorer.promela { meter.show($0) }
    try console.write(exported.text)
    guard exported.report.verdict.degree == .incomplete else { return .success }
    for remark in exported.report.verdict.remarks where remark.effect == .incomplete {
      console.warning("the model is not complete: \(remark.message)")
    }
    return .incomplete
  }
}
