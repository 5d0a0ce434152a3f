import PipeRuntime

/// The command line of a soak.
struct SoakOptions: Equatable {
  var seed: UInt64 = 1
  /// The topic of the random topologies.
  var topic = SoakTopic.pipes
  /// Whether to run searched topologies without faults: see ``ExploredSoak``.
  var isExplored = false
  /// Whether to run topologies on several hosts, and to inject host faults: see ``HostsPlan``.
  var isOnHosts = false
  /// The number of topologies, for a soak without faults.
  var topologies = 10
  /// The total number of faults; 0 for no limit other than the time.
  var faults = 2_000
  /// The number of faults per topology.
  var roundFaults = 100
  /// The maximum time during which faults are injected; `nil` for no limit.
  var time: Duration?
  /// The durability of the topologies' journals.
  var durability = Durability.process
  /// Whether to inject no faults. Each topology then runs for two seconds.
  var isCalm = false

  /// The value of the option that selects a soak with searches.
  static let explored = "explored"
  /// The value of the option that selects a soak on hosts.
  static let onHosts = "hosts"

  /// The default numbers of host faults: in total (`all`), and per topology (`ofRound`).
  ///
  /// They are small, because each fault lasts for seconds.
  private static let hostFaults = (all: 100, ofRound: 15)

  static let description = CommandDescription(
    of: "soak",
    "Runs random topologies, injects faults, and checks that no event is lost, repeated or reordered",
    discussion:
      "Injects faults into nodes, the orchestrator and their files, and fills the disk if this program may "
      + "mount a small one. 'composites' and 'models' check that all participants accept a synchronized event, "
      + "or none. 'instances' also changes the numbers of shards. 'explored' searches all states of small "
      + "topologies, and checks that each run is a path through these states, without faults. 'hosts' runs "
      + "topologies under Slurm on hosts that are namespaces of this machine; it requires root, Slurm and "
      + "Munge, and disconnects hosts and turns them off.",
    options: [
      Option(
        "of", value: .choice("TOPIC", SoakTopic.allCases.map(\.rawValue) + [explored, onHosts]),
        "The topic of the topologies. Default: pipes"),
      Option(
        "seed", value: .count("N"), "The seed of all random choices. Default: a random number"),
      Option(
        "faults", value: .count("N"),
        "The total number of faults; 0 for no limit but the time. Default: 2000; 100 for 'hosts'"),
      Option(
        "round-faults", value: .count("N", from: 1),
        "The number of faults in a topology. Default: 100; 15 for 'hosts'"),
      Option(
        "time", value: .duration, "The maximum time during which faults are injected, such as 10m"),
      Option(
        "durability", value: .choice("LEVEL", Durability.allCases.map(\.rawValue)),
        "The durability of the nodes. Default: process"),
      Option(
        "topologies", value: .count("N", from: 1),
        "The number of topologies of 'explored'. Default: 10"),
      Option("calm", "Injects no faults: five topologies run for a second each; one for 'hosts'"),
    ])

  init(seed: UInt64) { self.seed = seed }

  /// Reads the command line.
  /// - Parameter seed: The default seed.
  init(_ arguments: ParsedArguments, seed: UInt64) throws(UsageError) {
    self.seed = arguments.numberValue("seed") ?? seed
    topic = arguments.value("of") ?? topic
    isExplored = arguments.value("of") == Self.explored
    isOnHosts = arguments.value("of") == Self.onHosts
    if isOnHosts { (faults, roundFaults) = Self.hostFaults }
    topologies = arguments.countValue("topologies") ?? topologies
    faults = arguments.countValue("faults") ?? faults
    roundFaults = arguments.countValue("round-faults") ?? roundFaults
    time = arguments.duration("time")
    durability = arguments.value("durability") ?? durability
    isCalm = arguments.contains(option: "calm")
    if topic == .instances, durability == .volatile {
      throw .invalidValue(
        for: "--durability", value: durability.rawValue,
        expected: "must be process or power for instances")
    }
    if faults == 0, time == nil, !isCalm, !isExplored {
      throw .invalidValue(
        for: "--faults", value: "0", expected: "must be a number above 0, or used with --time")
    }
  }

  /// The arguments with which this soak can be repeated.
  var text: String {
    if isExplored {
      return "--of \(Self.explored) --seed \(seed) --topologies \(topologies) "
        + "--durability \(durability.rawValue)"
    }
    var text = topic == .pipes ? "" : "--of \(topic.rawValue) "
    if isOnHosts { text = "--of \(Self.onHosts) " }
    text += "--seed \(seed) --faults \(faults) --round-faults \(roundFaults)"
    if let time { text += " --time \(DurationText.write(time))" }
    if durability != .process { text += " --durability \(durability.rawValue)" }
    return isCalm ? text + " --calm" : text
  }
}
