import PipeMachines
import PipeWire

/// The metrics that nodes and composites report.
struct NodeMetrics {
  private let topology: MetricLabel
  private var info = MetricFamily(
    .info, "piperuntime_node", "What the node is; always 1.")
  private var up = MetricFamily(
    .gauge, "piperuntime_node_up", "Whether the node runs and takes events: 1 or 0.")
  private var state = MetricFamily(
    .gauge, "piperuntime_node_state",
    "1 for the state that the node is in, and 0 for its others, by the names of their cases.")
  private var restarts = MetricFamily(
    .counter, "piperuntime_node_restarts", "Starts after the first of this run.")
  private var started = MetricFamily(
    .gauge, "piperuntime_node_start_time_seconds", unit: "seconds",
    "When the node's process was started, since 1970.")
  private var events = MetricFamily(
    .counter, "piperuntime_node_events", "Events that the node has taken or refused.")
  private var letters = MetricFamily(
    .gauge, "piperuntime_node_dead_letters", "Refused events that the node keeps.")
  private var lettersLost = MetricFamily(
    .counter, "piperuntime_node_dead_letters_lost",
    "Refused events that were not kept, since there were as many as a node keeps.")
  private var effects = MetricFamily(
    .gauge, "piperuntime_node_effects", "Effects that run.")
  private var doubts = MetricFamily(
    .gauge, "piperuntime_node_in_doubt_transactions",
    "Synchronized events that it, or of a composite its nodes, have promised to take and are not told the "
      + "end of.")
  private var blocked = MetricFamily(
    .gauge, "piperuntime_node_blocking_pipes",
    "Full pipes because of which the node takes no input.")
  private var unconnected = MetricFamily(
    .counter, "piperuntime_node_unconnected_events", "Events sent to ports that no pipe leads from."
  )
  private var gaps = MetricFamily(
    .counter, "piperuntime_node_gaps",
    "How often events of an incoming pipe were, or may have been, missed.")
  private var garbage = MetricFamily(
    .counter, "piperuntime_node_garbage_frames", "Frames that the node has not understood.")
  private var steps = MetricFamily(
    .histogram, "piperuntime_node_step_duration_seconds", unit: "seconds",
    "Time of steps, without their record: of each turn the first, and those of effects.")
  private var records = MetricFamily(
    .counter, "piperuntime_node_journal_records", "Records made in the node's journal.")
  private var recording = MetricFamily(
    .histogram, "piperuntime_node_journal_record_duration_seconds", unit: "seconds",
    "Time of records in the node's journal.")
  private var messages = MetricFamily(
    .counter, "piperuntime_node_synchronization_messages",
    "Messages between a coordinator and others because of synchronized events.")
  private var outcomes = MetricFamily(
    .counter, "piperuntime_synchronized_events",
    "Synchronized events that somebody has asked for, by what has become of them.")
  private var durations = MetricFamily(
    .histogram, "piperuntime_synchronized_event_duration_seconds", unit: "seconds",
    "Time from the request for a synchronized event to its answer.")
  /// The processes whose counters have been added. Composites that share a process share its
  /// counters.
  private var told: Set<String> = []

  init(topology: MetricLabel) { self.topology = topology }

  var families: [MetricFamily] {
    [
      info, up, state, restarts, started, events, letters, lettersLost, effects, doubts, blocked,
      unconnected, gaps, garbage, steps, records, recording, messages, outcomes, durations,
    ]
  }

  /// - Parameter states: The names of the states, as the machine declares them.
  mutating func add(_ node: NodeInformation, states: [String]) {
    let labels = [topology, MetricLabel("node", node.name)]
    info.add(
      .count(1),
      labels + [
        .init("kind", node.kind.rawValue), .init("machine", node.hosts ?? ""),
        .init("durability", node.durability.rawValue),
      ])
    up.add(.flag(node.isRunning), labels)
    doubts.add(.count(UInt64(node.doubts.count)), labels)
    let isFirst = told.insert(node.inboxName).inserted
    if isFirst {
      restarts.add(.count(node.restarts), labels)
      if let time = node.startedAt { started.add(.number(Double(time) / 1e9), labels) }
    }
    guard node.isRunning, let status = node.status else { return }
    add(status.state, of: states, labels)
    for composite in status.composites { add(composite, labels) }
    if isFirst { add(status, labels) }
  }

  private mutating func add(_ status: NodeStatus, _ labels: [MetricLabel]) {
    let taken = status.events - min(status.events, status.refused)
    events.add(.count(taken), labels + [.init("outcome", "taken")])
    events.add(.count(status.refused), labels + [.init("outcome", "refused")])
    letters.add(.count(status.letters), labels)
    lettersLost.add(.count(status.lettersLost ?? 0), labels)
    effects.add(.count(UInt64(max(0, status.effects))), labels)
    blocked.add(.count(UInt64(status.blocked.count)), labels)
    unconnected.add(.count(status.unconnected), labels)
    gaps.add(.count(status.gaps), labels)
    garbage.add(.count(status.garbage), labels)
    if let durations = status.steps, durations.isComplete {
      steps.add(.durations(durations), labels)
    }
    if let count = status.records { records.add(.count(count), labels) }
    if let durations = status.recording, durations.isComplete {
      recording.add(.durations(durations), labels)
    }
    if let sent = status.synchronization {
      messages.add(.count(sent.sent), labels + [.init("direction", "sent")])
      messages.add(.count(sent.received), labels + [.init("direction", "received")])
    }
  }

  private mutating func add(_ composite: NodeStatus.Composite, _ labels: [MetricLabel]) {
    guard let requests = composite.requests else { return }
    let labels = [labels[0], MetricLabel("composite", composite.name)]
    // Other outcomes that a foreign coordinator counts are left out, because their number is
    // unbounded.
    for outcome in TransactionReply.Outcome.allCases {
      outcomes.add(
        .count(requests.outcomes[outcome.rawValue] ?? 0),
        labels + [.init("outcome", outcome.rawValue)])
    }
    if requests.durations.isComplete { durations.add(.durations(requests.durations), labels) }
  }
}

// A state's values would create an unbounded number of labels. So labels contain only case names,
// up to a limit.
extension NodeMetrics {
  /// The maximum number of states with a sample each. For a machine with more, only the current
  /// state has one.
  package static let statesTold = 50
  /// The maximum length of a state's name. States with longer names have no samples. Unit: bytes.
  package static let nameByteCount = 100

  private mutating func add(_ current: JSONValue?, of states: [String], _ labels: [MetricLabel]) {
    let name = current?.caseName
    for one in states where one.utf8.count <= Self.nameByteCount {
      guard states.count <= Self.statesTold || one == name else { continue }
      state.add(.flag(one == name), labels + [.init("state", one)])
    }
  }
}

extension JSONValue {
  /// The name of the case, if the state is a case of an enum.
  package var caseName: String? {
    switch self {
    case .string(let name): name
    case .object(let members) where members.count == 1: members.keys.first
    default: nil
    }
  }
}

/// The metrics that the ends of pipes count.
struct PipeMetrics {
  private let topology: MetricLabel
  private let nodes: [String: NodeInformation]
  private var sent = MetricFamily(
    .counter, "piperuntime_pipe_sent_events", "Events that the sender has put into the pipe.")
  private var applied = MetricFamily(
    .counter, "piperuntime_pipe_applied_events",
    "Events of these that the receiver has applied or refused, as the sender knows.")
  private var underWay = MetricFamily(
    .gauge, "piperuntime_pipe_under_way_events",
    "Events that were sent and are not applied yet; a pipe is full when these reach its capacity.")
  private var waiting = MetricFamily(
    .gauge, "piperuntime_pipe_waiting_events", "Events that wait at an end of the pipe.")
  private var capacity = MetricFamily(
    .gauge, "piperuntime_pipe_capacity_events", "Events that may be under way in the pipe.")
  private var full = MetricFamily(
    .gauge, "piperuntime_pipe_full", "Whether the sender waits for room in the pipe: 1 or 0.")
  private var lost = MetricFamily(
    .counter, "piperuntime_pipe_lost_events",
    "Events that a receiver without a journal had taken, and lost with its process.")
  private var unsendable = MetricFamily(
    .counter, "piperuntime_pipe_unsendable_events",
    "Events that could not be written, or were too large to be sent.")

  init(topology: MetricLabel, nodes: [NodeInformation]) {
    self.topology = topology
    self.nodes = Dictionary(nodes.map { ($0.name, $0) }) { first, _ in first }
  }

  var families: [MetricFamily] {
    [sent, applied, underWay, waiting, capacity, full, lost, unsendable]
  }

  mutating func add(_ pipe: PipeInformation) {
    let labels = [
      topology, MetricLabel("pipe", pipe.name), MetricLabel("from", pipe.from),
      MetricLabel("to", pipe.to),
    ]
    capacity.add(.count(UInt64(max(0, pipe.capacity))), labels)
    let sender = nodes[pipe.from].flatMap { $0.isRunning ? $0.status : nil }
    if let sender, let end = sender.outs.first(where: { $0.name == pipe.name }) {
      sent.add(.count(end.events), labels)
      applied.add(.count(end.applied), labels)
      underWay.add(.count(end.underWay), labels)
      add(end, "sender", labels)
      full.add(.flag(sender.blocked.contains(pipe.name)), labels)
      lost.add(.count(end.lost ?? 0), labels)
      unsendable.add(.count(end.unsendable ?? 0), labels)
    }
    let receiver = nodes[pipe.to].flatMap { $0.isRunning ? $0.status : nil }
    if let end = receiver?.ins.first(where: { $0.name == pipe.name }) {
      add(end, "receiver", labels)
    }
  }

  private mutating func add(_ end: NodeStatus.Pipe, _ name: String, _ labels: [MetricLabel]) {
    waiting.add(.count(UInt64(max(0, end.waiting))), labels + [.init("end", name)])
  }
}
