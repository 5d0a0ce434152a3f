import PipeMachines
import PipeWire

/// The metrics that nodes and composites report.
struct NodeMetrics {
  private let topology: MetricLabel
  private var info = MetricFamily(
    .info, "piperuntime_node", "Information about the node; always 1.")
  private var up = MetricFamily(
    .gauge, "piperuntime_node_up", "1 if the node runs and accepts events, otherwise 0.")
  private var state = MetricFamily(
    .gauge, "piperuntime_node_state",
    "1 for the current state of the node, 0 for its other states, by case name.")
  private var instances = MetricFamily(
    .gauge, "piperuntime_node_instances",
    "Instances of a node with a key, by the case name of their state.")
  private var restarts = MetricFamily(
    .counter, "piperuntime_node_restarts", "Restarts of the node in this run of the topology.")
  private var started = MetricFamily(
    .gauge, "piperuntime_node_start_time_seconds", unit: "seconds",
    "Start time of the node's process, since 1970.")
  private var events = MetricFamily(
    .counter, "piperuntime_node_events", "Events that the node has accepted, refused or ignored.")
  private var deadLetters = MetricFamily(
    .gauge, "piperuntime_node_dead_letters",
    "Refused events that the node has recorded as dead letters.")
  private var deadLettersLost = MetricFamily(
    .counter, "piperuntime_node_dead_letters_lost",
    "Refused events that were not recorded, because the limit of dead letters was reached.")
  private var effects = MetricFamily(
    .gauge, "piperuntime_node_effects", "Running effects.")
  private var doubts = MetricFamily(
    .gauge, "piperuntime_node_in_doubt_transactions",
    "Synchronized events in doubt: promised by the node, or by nodes of the composite, with "
      + "unknown decision.")
  private var blocked = MetricFamily(
    .gauge, "piperuntime_node_blocking_pipes",
    "Full pipes that block the input of the node.")
  private var unconnected = MetricFamily(
    .counter, "piperuntime_node_unconnected_events", "Events sent to ports without a pipe."
  )
  private var gaps = MetricFamily(
    .counter, "piperuntime_node_gaps",
    "Gaps in incoming pipes, at which events were or may have been missed.")
  private var invalidFrames = MetricFamily(
    .counter, "piperuntime_node_invalid_frames", "Invalid frames that the node has received.")
  private var steps = MetricFamily(
    .histogram, "piperuntime_node_step_duration_seconds", unit: "seconds",
    "Duration of steps without recording, for the first step of each turn and steps of effects.")
  private var records = MetricFamily(
    .counter, "piperuntime_node_journal_records", "Records written to the node's journal.")
  private var recording = MetricFamily(
    .histogram, "piperuntime_node_journal_record_duration_seconds", unit: "seconds",
    "Duration of writes to the node's journal.")
  private var journalSize = MetricFamily(
    .gauge, "piperuntime_node_journal_bytes", unit: "bytes",
    "Size of the files of the node's journal.")
  private var diskSize = MetricFamily(
    .gauge, "piperuntime_node_journal_disk_bytes", unit: "bytes",
    "Size of the disk with the node's journal.")
  private var diskFree = MetricFamily(
    .gauge, "piperuntime_node_journal_disk_free_bytes", unit: "bytes",
    "Free space on the disk with the node's journal.")
  private var messages = MetricFamily(
    .counter, "piperuntime_node_synchronization_messages",
    "Messages between a coordinator and other nodes about synchronized events.")
  private var outcomes = MetricFamily(
    .counter, "piperuntime_synchronized_events",
    "Requested synchronized events, by outcome.")
  private var durations = MetricFamily(
    .histogram, "piperuntime_synchronized_event_duration_seconds", unit: "seconds",
    "Time from the request of a synchronized event to the reply.")
  /// The processes whose counters were added. If composites run in the same process, they share the
  /// process's counters, which must be added only once.
  private var countedProcesses: Set<String> = []

  init(topology: MetricLabel) { self.topology = topology }

  var families: [MetricFamily] {
    [
      info, up, state, instances, restarts, started, events, deadLetters, deadLettersLost, effects,
      doubts,
      blocked,
      unconnected, gaps, invalidFrames, steps, records, recording,
      journalSize, diskSize, diskFree, messages, outcomes, durations,
    ]
  }

  /// Adds the metrics of a node.
  /// - Parameter states: The names of the states that the node's machine declares.
  mutating func add(_ node: NodeInformation, states: [String]) {
    let labels = [topology, MetricLabel("node", node.name)]
    info.add(
      .count(1),
      labels + [
        .init("kind", node.kind.rawValue), .init("machine", node.hosts ?? ""),
        .init("durability", node.durability.rawValue),
      ])
    up.add(.flag(node.isRunning), labels)
    doubts.add(
      .count(node.doubts.reduce(0) { $0 + 1 + UInt64(max(0, $1.otherInstances ?? 0)) }), labels)
    let isFirst = countedProcesses.insert(node.inboxName).inserted
    if isFirst {
      restarts.add(.count(node.restarts), labels)
      if let time = node.startedAt { started.add(.number(Double(time) / 1e9), labels) }
    }
    guard node.isRunning, let status = node.status else { return }
    if node.instanceField == nil || node.kind == .composite {
      add(status.state, of: states, labels)
    } else {
      addInstances(status.state, of: states, labels)
    }
    for composite in status.composites { add(composite, labels) }
    if isFirst { add(status, labels) }
  }

  private mutating func add(_ status: NodeStatus, _ labels: [MetricLabel]) {
    let ignored = status.ignored ?? 0
    let accepted = status.events - min(status.events, status.refused + ignored)
    events.add(.count(accepted), labels + [.init("outcome", "accepted")])
    events.add(.count(status.refused), labels + [.init("outcome", "refused")])
    events.add(.count(ignored), labels + [.init("outcome", "ignored")])
    deadLetters.add(.count(status.deadLetters), labels)
    deadLettersLost.add(.count(status.deadLettersLost ?? 0), labels)
    effects.add(.count(UInt64(max(0, status.effects))), labels)
    blocked.add(.count(UInt64(status.blocked.count)), labels)
    unconnected.add(.count(status.unconnected), labels)
    gaps.add(.count(status.gaps), labels)
    invalidFrames.add(.count(status.invalidFrames), labels)
    if let durations = status.steps, durations.isComplete {
      steps.add(.durations(durations), labels)
    }
    if let count = status.records { records.add(.count(count), labels) }
    if let durations = status.recording, durations.isComplete {
      recording.add(.durations(durations), labels)
    }
    if let journal = status.journal {
      for (file, size) in [
        ("database", journal.database), ("wal", journal.writeAheadLog), ("log", journal.recordLog),
      ] {
        journalSize.add(.count(UInt64(max(0, size))), labels + [.init("file", file)])
      }
      if let disk = journal.disk {
        diskSize.add(.count(UInt64(max(0, disk.size))), labels)
        diskFree.add(.count(UInt64(max(0, disk.free))), labels)
      }
    }
    if let sent = status.synchronization {
      messages.add(.count(sent.sent), labels + [.init("direction", "sent")])
      messages.add(.count(sent.received), labels + [.init("direction", "received")])
    }
  }

  private mutating func add(_ composite: NodeStatus.Composite, _ labels: [MetricLabel]) {
    guard let requests = composite.requests else { return }
    let labels = [labels[0], MetricLabel("composite", composite.name)]
    // Omits outcomes with unknown names, which a coordinator of another version may report. The
    // number of such names is unbounded.
    for outcome in TransactionReply.Outcome.allCases {
      outcomes.add(
        .count(requests.outcomes[outcome.rawValue] ?? 0),
        labels + [.init("outcome", outcome.rawValue)])
    }
    if requests.durations.isComplete { durations.add(.durations(requests.durations), labels) }
  }
}

// A `state` label contains the name of a state's case, without its values, because the number of
// different values is unbounded. The number of labelled states is limited as well.
extension NodeMetrics {
  /// The maximum number of states of a machine whose states all have a sample. If a machine has
  /// more states, only current states have a sample: the node's state, or the states of its
  /// instances.
  package static let stateSampleLimit = 50
  /// The maximum length of a state's name. States with longer names have no sample. Unit: bytes.
  package static let nameByteCount = 100

  /// - Parameter counts: The numbers of instances by state.
  private mutating func addInstances(
    _ counts: JSONValue?, of states: [String], _ labels: [MetricLabel]
  ) {
    guard case .object(let members)? = counts else { return }
    let names = states.isEmpty ? members.keys.sorted() : states
    for name in names where name.utf8.count <= Self.nameByteCount {
      var count: UInt64 = 0
      if case .integer(let number)? = members[name] { count = UInt64(max(0, number)) }
      guard states.count <= Self.stateSampleLimit || count > 0 else { continue }
      instances.add(.count(count), labels + [.init("state", name)])
    }
  }

  private mutating func add(_ current: JSONValue?, of states: [String], _ labels: [MetricLabel]) {
    let name = current?.caseName
    for stateName in states where stateName.utf8.count <= Self.nameByteCount {
      guard states.count <= Self.stateSampleLimit || stateName == name else { continue }
      state.add(.flag(stateName == name), labels + [.init("state", stateName)])
    }
  }
}

extension JSONValue {
  /// The name of the enum case that this value encodes; `nil` for other values.
  package var caseName: String? {
    switch self {
    case .string(let name): name
    case .object(let members) where members.count == 1: members.keys.first
    default: nil
    }
  }
}

/// The metrics of pipes, as counted by senders and receivers.
struct PipeMetrics {
  private let topology: MetricLabel
  private let nodes: [String: NodeInformation]
  private var sent = MetricFamily(
    .counter, "piperuntime_pipe_sent_events", "Events that the sender has sent into the pipe.")
  private var applied = MetricFamily(
    .counter, "piperuntime_pipe_applied_events",
    "Sent events that the receiver has applied or refused, as acknowledged to the sender.")
  private var underWay = MetricFamily(
    .gauge, "piperuntime_pipe_in_flight_events",
    "Sent events that are not yet applied; a pipe is full when the number reaches its capacity.")
  private var waiting = MetricFamily(
    .gauge, "piperuntime_pipe_waiting_events", "Events waiting at an end of the pipe.")
  private var capacity = MetricFamily(
    .gauge, "piperuntime_pipe_capacity_events", "Maximum number of events in flight in the pipe.")
  private var full = MetricFamily(
    .gauge, "piperuntime_pipe_full", "1 if the sender waits for capacity in the pipe, otherwise 0.")
  private var lost = MetricFamily(
    .counter, "piperuntime_pipe_lost_events",
    "Events that were lost because the process of a receiver without a journal ended.")
  private var unsendable = MetricFamily(
    .counter, "piperuntime_pipe_unsendable_events",
    "Events that could not be encoded, or were too large to send.")
  private var ignored = MetricFamily(
    .counter, "piperuntime_pipe_ignored_events",
    "Refused events that the receiver has dropped because of 'on_refused: ignore'.")

  init(topology: MetricLabel, nodes: [NodeInformation]) {
    self.topology = topology
    self.nodes = Dictionary(nodes.map { ($0.name, $0) }) { first, _ in first }
  }

  var families: [MetricFamily] {
    [sent, applied, underWay, waiting, capacity, full, lost, unsendable, ignored]
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
      if let count = end.ignored { ignored.add(.count(count), labels) }
      add(end, "receiver", labels)
    }
  }

  private mutating func add(_ end: NodeStatus.Pipe, _ name: String, _ labels: [MetricLabel]) {
    waiting.add(.count(UInt64(max(0, end.waiting))), labels + [.init("end", name)])
  }
}
