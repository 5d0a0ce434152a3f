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
        "engine", \.engine, .engine,
        "What starts processes: `local`, the orchestrator, on its own machine. `slurm` is not "
          + "available yet"),
      TopologyKey(
        "address", \.address, .address,
        "Where the orchestrator, and the nodes without a place, listen: an IPv4 address in numbers"),
      TopologyKey(
        "places", \.places, .named(.place, place, \.name),
        "The places by name, as nodes name them with `place`", standard: "none"),
      TopologyKey(
        "journals", \.journals, .text("a path"),
        "The directory of the nodes' journals, which all hosts see: a path from the file's "
          + "directory. Needed where a node with a journal has `on_host_loss: move`",
        standard: "each host's own"),
    ], rules: ["patternProperties": ["^x-": true]])

  static let place = TopologyMapping(
    meaning: "A place, and where it is.",
    start: DeploymentPlace(name: "", address: Deployment.standardAddress),
    keys: [
      TopologyKey(
        "address", \.address, .address, "Where its nodes listen: an IPv4 address in numbers",
        isNeeded: true)
    ])
}
