import PipeMachines
import PipeWire

/// Stands in for a content that could not be made, so that the node can say why.
final class UnableContent: NodeContent {
  let problem: String?
  let description = MachineDescription(
    machine: "", initial: .null, states: [], events: [], alphabet: [], outputs: [], outPorts: [],
    inPorts: [])
  var onEntry: ((_ isCommitted: Bool) -> Void)?
  var onEnd: ((String?) -> Void)?

  init(problem: String?) { self.problem = problem }

  func connect(outs: [(NodeConfiguration.Out, OutPipe)], ins: [InPipe]) throws {
    throw NodeProblem(problem ?? "it cannot run")
  }

  func start() {}

  func accept(
    _ body: UnsafeRawBufferPointer, count: UInt32, skipping: Int, first: UInt64, from pipe: InPipe
  ) throws(FrameError) {}

  func request(
    _ body: UnsafeRawBufferPointer, key: RequestKey, oldest: UInt64,
    reply: @escaping (RequestReply) -> Void
  ) { reply(.unavailable(problem ?? "it cannot run")) }

  func takeTurn() {}
  var hasWork: Bool { false }
  func lastStep() -> FeedEntry? { nil }
  func fill(_ status: inout NodeStatus) {}
  func stop() {}
}
