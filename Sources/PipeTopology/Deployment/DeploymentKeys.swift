import PipeMachines

/// The keys of deployment files, described as those of topology files are.
package enum DeploymentKeys {
  /// The tables of docs/DEPLOYMENT.md, by their headings.
  package static let tables = [("Top level", top.lines), ("A place", place.lines)]

  static let top = TopologyMapping(
    meaning: "Where the places are that the nodes of topologies name.",
    start: Deployment(),
    keys: [
      TopologyKey(
        "engine", \.engine, .choice,
        "What starts processes: `local`, the orchestrator, on its own machine; `slurm`, within a job; or "
          + "`kubernetes`, agents in pods"
      ),
      TopologyKey(
        "address", \.address, .address,
        "Where the orchestrator, and the nodes without a place, listen: an IPv4 address in numbers",
        standard: "`127.0.0.1`; with `slurm` that of the orchestrator's host"),
      TopologyKey(
        "places", \.places, .named(.place, place, \.name),
        "The places by name, as nodes name them with `place`", standard: "none"),
      TopologyKey(
        "journals", \.journals, .text("a path"),
        "The directory of the journals of nodes with `on_host_loss: move`, which all hosts see: a path from the "
          + "file's directory. Needed where such a node has a journal",
        standard: "each host's own"),
      TopologyKey(
        "lease", \.lease, .leaseTerm,
        "With `slurm`: how long a node with `on_host_loss: move` goes on without the orchestrator, from 2s to 30s. A "
          + "tenth later it can be started on another host", standard: "`5s`"),
      TopologyKey(
        "image", \.image, .image,
        "With `kubernetes`: the image of all containers, which has `orchestrator` and the topology's programs",
        standard: "needed with `kubernetes`"),
      TopologyKey(
        "namespace", \.namespace, .namespace, "With `kubernetes`: the namespace",
        standard: "the topology's name as a DNS label"),
      TopologyKey(
        "port", \.port, .port, "With `kubernetes`: the port where the orchestrator listens",
        standard: "7300"),
      TopologyKey(
        "storage", \.storage, .unlessDefault(storage),
        "With `kubernetes`: what is claimed for each process that records something",
        standard: "as follows"),
      TopologyKey(
        "silence", \.silence, .codes,
        "A list of the warnings of `check` about this file that are expected, by the codes that stand behind them: "
          + "`[unused-place]`",
        standard: "none"),
    ],
    rules: [
      "patternProperties": ["^x-": true],
      "allOf": .array(Deployment.Engine.allCases.map { EngineKeys.of($0).rule(of: $0) }),
    ]
  ) { reading, fields, deployment in
    // One that could not be read asks for nothing.
    if fields["engine"] == nil || fields.read.contains("engine") {
      reading.checkKeys(of: deployment)
    }
    return true
  }

  static let place = TopologyMapping(
    meaning: "A place, and where it is.",
    start: DeploymentPlace(name: ""),
    keys: [
      TopologyKey(
        "address", \.address, .address,
        "With `local`: where its nodes listen, an IPv4 address in numbers",
        standard: "needed with `local`"),
      TopologyKey(
        "hosts", \.hosts, .hosts,
        "With `slurm`: its hosts, by the names that Slurm has for them. Nodes are dealt to them in turn, in the "
          + "order of the topology. With `kubernetes`: nodes of the cluster, by their `kubernetes.io/hostname`; the "
          + "scheduler chooses among them",
        standard: "needed with `slurm`; with `kubernetes` this or `labels`"),
      TopologyKey(
        "spare", \.spare, .hosts,
        "With `slurm`: hosts to which its nodes with `on_host_loss: move` go first where theirs is lost",
        standard: "none"),
      TopologyKey(
        "labels", \.labels, .labels,
        "With `kubernetes`: labels that a node of the cluster has on which its pods may run: `{ NAME: value }`",
        standard: "with `kubernetes` this or `hosts`"),
    ])

  private static let storage = TopologyMapping(
    meaning: "What is claimed of a cluster's storage.",
    start: DeploymentStorage(),
    keys: [
      TopologyKey(
        "size", \.size, .storageSize,
        "The size of each volume: a number, and "
          + "a unit of `Ki`, `Mi`, `Gi`, `Ti`, `Pi`, `k`, `M`, `G`, `T`, `P`"
      ),
      TopologyKey(
        "class", \.className, .storageClass, "The storage class of each volume",
        standard: "the cluster's default one"),
    ])
}
