/// The life of a node as its orchestrator steers it, as a value.
///
/// ```
/// greeting --configure--> configured --start--> running --stop--> draining --drained--> ended
/// ```
package struct NodeHandshake {
  package enum Phase: String, Codable, Hashable, CaseIterable, Sendable {
    case greeting, configured, running, draining, ended
  }
  package enum Input: Hashable, CaseIterable { case configure, start, stop, drained, drainTimeout }

  package enum Action: Hashable {
    /// Connect the pipes and say READY.
    case connect
    /// Open the pipes that lead from here and are not open yet.
    case extend
    /// Enter the initial state.
    case start
    /// Take no more input, and wait until what is queued is delivered.
    case drain
    /// Say goodbye to every peer and leave the loop.
    case leave
    /// Out of place: logged and passed over.
    case ignore
  }

  /// Set in `stop` where the whole topology stops.
  package static let allStopFlag: UInt8 = 1
  /// The exit code of a node whose disk is full, and the count of its `stopped`: `EX_TEMPFAIL` of sysexits.h.
  package static let diskFullCode: Int32 = 75

  package private(set) var phase: Phase = .greeting

  // Each turn asks for it: `==` would compare the texts of the phases.
  package var isRunning: Bool {
    switch phase {
    case .running: true
    case .greeting, .configured, .draining, .ended: false
    }
  }

  package init() {}

  package mutating func handle(_ input: Input) -> Action {
    switch (phase, input) {
    case (.greeting, .configure):
      phase = .configured
      return .connect
    case (.configured, .start):
      phase = .running
      return .start
    case (.running, .configure):
      return .extend
    case (.running, .stop):
      phase = .draining
      return .drain
    case (.greeting, .stop), (.configured, .stop), (.draining, .drained),
      (.draining, .drainTimeout):
      phase = .ended
      return .leave
    case (.greeting, .start), (.greeting, .drained), (.greeting, .drainTimeout),
      (.configured, .configure), (.configured, .drained), (.configured, .drainTimeout),
      (.running, .start), (.running, .drained), (.running, .drainTimeout),
      (.draining, .configure), (.draining, .start), (.draining, .stop),
      (.ended, .configure), (.ended, .start), (.ended, .stop), (.ended, .drained),
      (.ended, .drainTimeout):
      return .ignore
    }
  }
}
