import Glibc
import PipeClient
import PipeSupervision
import Testing

/// The next state for every state and input, with `!` if the process gets a message or a signal,
/// `+` if a process is spawned, and `?` if the carrier node is asked to embed the coordinator. A
/// cell that is not listed does nothing.
@Suite("The transition table of a node's lifecycle")
struct NodeLifecycleTableTests {
  /// Inputs that lead to the states. The timeouts are so long that `tick` means "nothing is due".
  private static let states: [(name: String, inputs: [NodeLifecycle.Input])] = [
    ("idle", []), ("adopting", [.adopt(.init(pid: 7, incarnation: 3))]),
    ("starting", [.start, .spawned(pid: 7)]),
    ("configuring", [.start, .spawned(pid: 7), .hello(failure: nil)]),
    ("ready", [.start, .spawned(pid: 7), .hello(failure: nil), .ready]),
    ("running", [.start, .spawned(pid: 7), .hello(failure: nil), .ready, .startBarrierOpened]),
    ("stopping", [.start, .spawned(pid: 7), .hello(failure: nil), .stopRequested]),
    ("restarting", [.start, .spawned(pid: 7), .hello(failure: nil), .restartRequested]),
    ("backing off", [.start, .spawned(pid: 7), .exited(.signalled(number: 9))]),
    ("stopped", [.stopRequested]),
    (
      "completed",
      [
        .start, .spawned(pid: 7), .hello(failure: nil), .ready, .startBarrierOpened,
        .exited(.exited(code: 0)),
      ]
    ),
    (
      "failed",
      [.start, .spawned(pid: 7), .hello(failure: "x"), .exited(.signalled(number: 9))]
    ),
  ]

  private static let inputs: [(name: String, input: NodeLifecycle.Input)] = [
    ("start", .start), ("adopt", .adopt(.init(pid: 8, incarnation: 4))),
    ("is ready", .answered(.ready)), ("runs", .answered(.running)), ("ends", .answered(.ending)),
    ("differs", .answered(.doesNotMatchPlan(reason: "x"))), ("spawned", .spawned(pid: 7)),
    ("spawn failed", .spawnFailed(reason: "x")),
    ("hello", .hello(failure: nil)), ("wrong hello", .hello(failure: "x")), ("ready", .ready),
    ("complaint", .failureReported(reason: "x")), ("go", .startBarrierOpened),
    ("heartbeat", .heartbeat),
    ("exit 0", .exited(.exited(code: 0))), ("exit 1", .exited(.exited(code: 1))),
    ("crash", .exited(.signalled(number: 11))), ("stop", .stopRequested),
    ("kill", .killRequested), ("restart", .restartRequested), ("host", .carrierStarted),
    ("host leaves", .carrierStopping), ("host gone", .carrierEnded), ("tick", .tick),
  ]

  /// Inputs that lead an embedded coordinator into the states.
  private static let embeddedStates: [(name: String, inputs: [NodeLifecycle.Input])] = [
    ("waiting", [.start]), ("adopting", [.adopt(.init(pid: 7, incarnation: 3)), .carrierStarted]),
    ("starting", [.carrierStarted, .start, .spawned(pid: 7)]),
    (
      "running",
      [
        .carrierStarted, .start, .spawned(pid: 7), .hello(failure: nil), .ready,
        .startBarrierOpened,
      ]
    ),
    (
      "leaving",
      [
        .carrierStarted, .start, .spawned(pid: 7), .hello(failure: nil), .ready,
        .startBarrierOpened,
        .carrierStopping,
      ]
    ),
    (
      "restarting",
      [.carrierStarted, .start, .spawned(pid: 7), .hello(failure: nil), .restartRequested]
    ),
    ("backing off", [.carrierStarted, .start, .spawned(pid: 7), .exited(.signalled(number: 9))]),
    ("stopped", [.carrierStarted, .stopRequested]),
  ]

  private static let expectedOfEmbedded = """
    waiting | stop: stopped, kill: stopped, host: starting+
    adopting | is ready: ready, runs: running, ends: stopping, differs: stopping!, hello: \
    configuring!, wrong hello: stopping!, exit 0: starting+, exit 1: starting+, crash: starting+, \
    stop: stopping!, kill: stopping!, restart: stopping!, host leaves: stopping!
    starting | spawn failed: backing off, hello: configuring!, wrong hello: stopping!, exit 0: backing \
    off, exit 1: backing off, crash: backing off, stop: stopping!, kill: stopping!, restart: \
    stopping!, host leaves: stopping!
    running | ready: running!, exit 0: backing off, exit 1: backing off, crash: backing off, stop: \
    stopping!, kill: stopping!, restart: stopping!, host leaves: stopping!
    leaving | spawn failed: waiting, exit 0: waiting, exit 1: waiting, crash: waiting, stop: stopping, \
    kill: stopping!
    restarting | spawn failed: starting+, exit 0: starting+, exit 1: starting+, crash: starting+, stop: stopping, \
    kill: stopping!
    backing off | start: starting+, stop: stopped, kill: stopped, restart: starting+
    stopped | start: starting+, restart: starting+
    """

  private static let expected = """
    idle | start: starting+, adopt: adopting!, stop: stopped, kill: stopped, restart: starting+
    adopting | is ready: ready, runs: running, ends: stopping, differs: stopping!, hello: \
    configuring!, wrong hello: stopping!, exit 0: starting+, exit 1: starting+, crash: starting+, \
    stop: stopping!, kill: stopping!, restart: stopping!
    starting | spawn failed: backing off, hello: configuring!, wrong hello: stopping!, exit 0: backing off, \
    exit 1: backing off, crash: backing off, stop: stopping!, kill: stopping!, restart: stopping!
    configuring | wrong hello: stopping!, ready: ready, exit 0: backing off, exit 1: backing \
    off, crash: backing off, stop: stopping!, kill: stopping!, restart: stopping!
    ready | go: running!, exit 0: backing off, exit 1: backing off, crash: backing off, \
    stop: stopping!, kill: stopping!, restart: stopping!
    running | ready: running!, exit 0: completed, exit 1: backing off, crash: backing off, stop: stopping!, \
    kill: stopping!, restart: stopping!
    stopping | start: stopping, spawn failed: stopped, exit 0: stopped, exit 1: stopped, crash: stopped, kill: \
    stopping!, restart: stopping
    restarting | spawn failed: starting+, exit 0: starting+, exit 1: starting+, crash: starting+, stop: stopping, \
    kill: stopping!
    backing off | start: starting+, stop: stopped, kill: stopped, restart: starting+
    stopped | start: starting+, restart: starting+
    completed | start: starting+, restart: starting+
    failed | start: starting+, restart: starting+
    """

  @Test(
    "Every input in every state of a node has the effect that the table lists",
    arguments: states.indices)
  func row(index: Int) {
    let rows = Self.expected.split(separator: "\n")
    #expect(rows.count == Self.states.count)
    let row = Self.row(Self.states[index])
    #expect(index < rows.count && row == rows[index], "\(row)")
  }

  @Test(
    "Every input in every state of an embedded coordinator has the effect that the table lists",
    arguments: embeddedStates.indices)
  func rowOfLodger(index: Int) {
    let rows = Self.expectedOfEmbedded.split(separator: "\n")
    #expect(rows.count == Self.embeddedStates.count)
    let row = Self.row(Self.embeddedStates[index], isEmbedded: true)
    #expect(index < rows.count && row == rows[index], "\(row)")
  }

  private static func row(
    _ state: (name: String, inputs: [NodeLifecycle.Input]), isEmbedded: Bool = false
  ) -> String {
    let cells = inputs.compactMap { name, input -> String? in
      var node = SimulatedNode(isEmbedded: isEmbedded)
      for input in state.inputs { node.take(input) }
      let before = node.state
      let actions = node.take(input)
      var marks = ""
      for action in actions {
        switch action {
        case .spawn: marks += "+"
        case .greet, .sendConfigure, .sendStart, .sendStop, .kill: marks += "!"
        case .checkLiveness: marks += "?"
        case .report, .nodeFailed, .nodeStopped: break
        }
      }
      if node.state == before, marks.isEmpty { return nil }
      return "\(name): \(node.state.name)\(marks)"
    }
    return "\(state.name) | " + cells.joined(separator: ", ")
  }
}
