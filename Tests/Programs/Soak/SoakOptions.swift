import PipeRuntime

/// The command line of a soak.
struct SoakOptions: Equatable {
  var seed: UInt64 = 1
  /// The topic of the topologies.
  var topic = SoakTopic.pipes
  /// Whether topologies are searched, and run without faults: see ``ExploredSoak``.
  var isExplored = false
  /// Whether topologies run on hosts of a cluster while some hosts are lost: see ``HostsPlan``.
  var isOnHosts = false
  /// The number of topologies of such a soak.
  var topologies = 10
  /// The total number of faults; 0 continues until the time is over.
  var faults = 2_000
  /// The number of faults per topology.
  var roundFaults = 100
  /// The longest time during which faults are injected.
  var time: Duration?
  /// The durability of the topologies.
  var durability = Durability.process
  /// Whether no faults are injected. Each topology then runs for two seconds.
  var isCalm = false

  /// The topic of a soak without faults.
  static let explored = "explored"
  /// The topic of a soak on hosts.
  static let onHosts = "hosts"

  /// The default numbers of faults on hosts, which are small because each lasts for seconds.
  private static let hostFaults = (all: 100, ofRound: 15)

  static let description = CommandDescription(
    of: "soak",
    "Runs random topologies, injects faults, and checks that no event is lost, repeated or reordered",
    discussion:
      "Events of composites are to be taken by all who take part, or by none. Struck are nodes, the "
      + "orchestrator, the files of both, and the disk, where this program may mount a small one. Of 'explored' "
      + "all states of small topologies are searched, and each run must be a way through them; nothing is "
      + "injected. Of 'hosts' topologies run on hosts that are namespaces of this machine, under Slurm; hosts are "
      + "cut off and lose their power. It needs root, Slurm and Munge.",
    options: [
      Option(
        "of", value: .choice("TOPIC", SoakTopic.allCases.map(\.rawValue) + [explored, onHosts]),
        "What the topologies are made for. Default: pipes"),
      Option("seed", value: .count("N"), "The seed of all that is random. Default: a new one"),
      Option(
        "faults", value: .count("N"),
        "Faults in all; 0 goes on until the time is over. Default: 2000; of 'hosts' 100"),
      Option(
        "round-faults", value: .count("N", from: 1),
        "Faults of one topology. Default: 100; of 'hosts' 15"),
      Option(
        "time", value: .duration, "The longest time in which faults are injected, such as 10m"),
      Option(
        "durability", value: .choice("LEVEL", Durability.allCases.map(\.rawValue)),
        "What is written into the topologies. Default: process"),
      Option(
        "topologies", value: .count("N", from: 1),
        "Topologies of 'explored' that are searched and run. Default: 10"),
      Option("calm", "Injects nothing: five topologies run for a second each, of 'hosts' one"),
    ])

  init(seed: UInt64) { self.seed = seed }

  /// - Parameter seed: The default seed.
  init(_ arguments: ParsedArguments, seed: UInt64) throws(UsageError) {
    self.seed = arguments.number("seed") ?? seed
    topic = arguments.value("of") ?? topic
    isExplored = arguments.value("of") == Self.explored
    isOnHosts = arguments.value("of") == Self.onHosts
    if isOnHosts { (faults, roundFaults) = Self.hostFaults }
    topologies = arguments.count("topologies") ?? topologies
    faults = arguments.count("faults") ?? faults
    roundFaults = arguments.count("round-faults") ?? roundFaults
    time = arguments.duration("time")
    durability = arguments.value("durability") ?? durability
    isCalm = arguments.flag("calm")
    if faults == 0, time == nil, !isCalm, !isExplored {
      throw .invalidValue(of: "--faults", value: "0", wanted: "it needs a --time")
    }
  }

  /// The arguments that repeat this soak.
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
