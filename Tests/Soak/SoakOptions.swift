import PipeRuntime

/// The command line of a soak.
struct SoakOptions: Equatable {
  var seed: UInt64 = 1
  /// What the topologies are made for.
  var topic = SoakTopic.pipes
  /// Faults to inject in all; 0 goes on until the time is over.
  var faults = 2_000
  /// Faults of one topology.
  var roundFaults = 100
  /// The longest time in which faults are injected.
  var time: Duration?
  /// What is written into the topologies.
  var durability = Durability.process
  /// Whether nothing is injected: each topology runs for two seconds.
  var isCalm = false
  var wantsHelp = false

  static let help = """
    usage: soak [--of TOPIC] [--seed N] [--faults N] [--round-faults N] [--time D]
                [--durability LEVEL] [--calm]

    Runs random topologies, injects faults, and checks that no event is lost, repeated or reordered,
    and that events of composites are taken by all who take part, or by none. Struck are nodes, the
    orchestrator, the files of both, and the disk, where this program may mount a small one.

      --of TOPIC         pipes (the default) or composites
      --seed N           the seed of all that is random; by default a new one
      --faults N         faults in all, by default 2000; 0 goes on until the time is over
      --round-faults N   faults of one topology, by default 100
      --time D           the longest time in which faults are injected, such as 10m
      --durability LEVEL none, process (the default) or power
      --calm             inject nothing: five topologies run for two seconds each
    """

  init(seed: UInt64) { self.seed = seed }

  /// - Parameter seed: The one that is taken where none is given.
  init(parsing arguments: some Sequence<String>, seed: UInt64) throws(SoakUsageError) {
    self.seed = seed
    var iterator = arguments.makeIterator()
    while let name = iterator.next() {
      func value<Value>(_ read: (String) -> Value?) throws(SoakUsageError) -> Value {
        guard let text = iterator.next() else { throw .init("'\(name)' needs a value") }
        guard let value = read(text) else {
          throw .init("the value of '\(name)' is malformed: '\(text)'")
        }
        return value
      }
      switch name {
      case "--of": topic = try value { SoakTopic(rawValue: $0) }
      case "--seed": self.seed = try value { UInt64($0) }
      case "--faults": faults = try value { Int($0).flatMap { $0 >= 0 ? $0 : nil } }
      case "--round-faults": roundFaults = try value { Int($0).flatMap { $0 > 0 ? $0 : nil } }
      case "--time": time = try value { DurationText.parse($0) }
      case "--durability": durability = try value { Durability(rawValue: $0) }
      case "--calm": isCalm = true
      case "--help", "-h": wantsHelp = true
      default: throw .init("there is no option '\(name)'")
      }
    }
    if faults == 0, time == nil, !isCalm, !wantsHelp {
      throw .init("'--faults 0' needs a '--time'")
    }
  }

  /// The arguments that repeat this soak.
  var text: String {
    var text = topic == .pipes ? "" : "--of \(topic.rawValue) "
    text += "--seed \(seed) --faults \(faults) --round-faults \(roundFaults)"
    if let time { text += " --time \(DurationText.write(time))" }
    if durability != .process { text += " --durability \(durability.rawValue)" }
    return isCalm ? text + " --calm" : text
  }
}

/// An argument that the soak does not take.
struct SoakUsageError: Error, Equatable, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
