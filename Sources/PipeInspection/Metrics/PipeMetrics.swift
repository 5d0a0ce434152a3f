import PipeWire

/// What the ends of pipes count.
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
