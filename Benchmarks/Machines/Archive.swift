import PipeRuntime

/// A receiver like ``Sink``, but with a large dictionary in its state. Each event changes one entry
/// of the dictionary.
enum Archive: Machine {
  struct Entry: Codable, Hashable, Sendable {
    var reads: Int
    var title: String
  }

  enum State: MachineState {
    case holding(entries: [String: Entry], count: Int)
    case complete(entries: [String: Entry])
  }

  typealias Event = Sink.Event

  struct Parameters: MachineParameters {
    /// The approximate size of the state as JSON. Unit: bytes.
    var byteCount = 100_000
    /// The number of events after which the machine reports.
    var count = 1_000_000
  }

  static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    let entries = entries(parameters.byteCount)
    let keys = entries.keys.sorted()
    return StateMachine(initial: State.holding(entries: entries, count: 0)) {
      When(state: State.holding(entries:count:)) { _, _ in
        Execute.noOutput
      } transitions: { entries, count in
        On(event: Event.tick) {
          Transition(to: following(entries, count, keys, parameters))
        }
      }

      When(state: State.complete(entries:)) { _ in
        Execute.noOutput
      } transitions: { entries in
        On(event: Event.tick) { Transition(to: following(entries, 0, keys, parameters)) }
      }
    }
  }

  private static func following(
    _ entries: [String: Entry], _ count: Int, _ keys: [String], _ parameters: Parameters
  ) -> State {
    var entries = entries
    entries[keys[count &* 7_919 % keys.count]]?.reads += 1
    return count + 1 == parameters.count
      ? .complete(entries: entries) : .holding(entries: entries, count: count + 1)
  }

  /// Returns entries that have this size as JSON. Unit: bytes.
  private static func entries(_ byteCount: Int) -> [String: Entry] {
    let entryByteCount = #""key-100000":{"reads":100,"title":"title of entry 100000"},"#.utf8.count
    return Dictionary(
      uniqueKeysWithValues: (0..<(byteCount / entryByteCount)).map {
        ("key-\(100_000 + $0)", Entry(reads: 100, title: "title of entry \(100_000 + $0)"))
      })
  }

  static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<State, Event, Never> {
    Runtime().connectAsReceiver(to: ports.pipe("in"))
  }
}
