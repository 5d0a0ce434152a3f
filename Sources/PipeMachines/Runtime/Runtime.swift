import PipeSupport

/// What a machine's outputs do, who watches it, and which pipes it has.
///
/// A value: each function returns a runtime with one thing more.
///
/// ```swift
/// let runtime = Runtime<State, Event, Output>()
///   .map(output: Output.close(speed:), to: close(speed:))
///   .register(middleware: { (state: State) in print(state) })
/// ```
public struct Runtime<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible>: Sendable {
  var effects: [Int: Effect<State, Event, Output>] = [:]
  var stateMiddleware: [Middleware<State>] = []
  var eventMiddleware: [Middleware<Event>] = []
  var senders: [Sender<State>] = []
  var receivers: [EventPipe<Event>] = []
  var eventSenders: [Sender<Event>] = []
  var feedbacks: [Feedback<State, Event>] = []

  /// What is wrong with the runtime, in words; empty where nothing is.
  package private(set) var problems: [String] = []

  /// Makes a runtime that executes nothing.
  public init() {}

  @export(interface)
  func adding(
    _ gives: GivenEvents<Event>?, _ effect: Effect<State, Event, Output>
  ) -> Self {
    var runtime = self
    if runtime.effects[effect.tag] == nil {
      runtime.effects[effect.tag] = effect
      runtime.effects[effect.tag]?.gives = gives
    } else {
      let name = EnumCases<Output>.names[effect.tag]
      runtime.problems.append(
        "output '\(name)' is mapped twice, and the first effect counts; map it once, or give the second "
          + "effect its own output")
    }
    return runtime
  }
}

// Hosting.
extension Runtime {
  /// The same without those who watch its states and events.
  var withoutMiddleware: Self {
    var runtime = self
    runtime.stateMiddleware = []
    runtime.eventMiddleware = []
    return runtime
  }

  /// The named pipes that the machine sends into, each once, as first declared.
  package var outPorts: [PortDescription] {
    var ports: [PortDescription] = []
    // By hand: key paths of generic types are made with a look for conformances.
    var sending: [PortDescription] = []
    for sender in senders { if let port = sender.port { sending.append(port) } }
    for sender in eventSenders { if let port = sender.port { sending.append(port) } }
    for port in sending {
      guard let index = ports.firstIndex(where: { $0.name == port.name }) else {
        ports.append(port)
        continue
      }
      guard let known = ports[index].sent, let more = port.sent else {
        ports[index].sent = nil
        continue
      }
      ports[index].sent = known + more.filter { !known.contains($0) }
    }
    return ports
  }

  /// The named pipes that the machine receives from.
  package var inPorts: [PortDescription] {
    var seen: Set<String> = []
    var ports: [PortDescription] = []
    for pipe in receivers {
      guard let name = pipe.name, seen.insert(name).inserted else { continue }
      ports.append(
        PortDescription(
          name: name, eventType: TypeName.of(Event.self), events: EnumCases<Event>.descriptions))
    }
    return ports
  }

  /// The names of the outputs that no effect is mapped to; `nil` where there is none.
  package var unmappedOutputs: [String]? {
    // By hand, as below.
    let names = EnumCases<Output>.names
    var unmapped: [String] = []
    for tag in 0..<names.count where effects[tag] == nil { unmapped.append(names[tag]) }
    return unmapped.isEmpty ? nil : unmapped
  }

  /// The effects and feedbacks of which it is declared what they may give; `nil` where there is none.
  package var declaredEffects: [EffectDescription]? {
    var declared: [EffectDescription] = []
    // By hand, as above: sorting and counting in generic code would look for conformances, too.
    let names = EnumCases<Output>.names
    for tag in 0..<names.count {
      guard let gives = effects[tag]?.gives else { continue }
      declared.append(gives.description(of: names[tag]))
    }
    for place in 0..<feedbacks.count {
      guard let gives = feedbacks[place].gives else { continue }
      declared.append(gives.description(of: "feedback\(place + 1)"))
    }
    return declared.isEmpty ? nil : declared
  }

  /// How many connections have a pipe without a name, which no topology can lead anywhere.
  package var unnamedPipes: Int {
    // By hand: what the standard library counts in generic code has it look for conformances.
    var count = 0
    for sender in senders where sender.port == nil { count += 1 }
    for sender in eventSenders where sender.port == nil { count += 1 }
    for pipe in receivers where pipe.name == nil { count += 1 }
    return count
  }
}
