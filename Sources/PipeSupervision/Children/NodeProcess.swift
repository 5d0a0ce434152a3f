import Glibc
import PipeClient
import PipeSystem
import PipeTransport
import PipeWire

/// The process of a node, and what it writes.
final class NodeProcess {
  /// Whose child it is.
  enum Origin {
    case own(ChildProcess)
    /// A former orchestrator's.
    case adopted(AdoptedProcess)
    /// The process of another node, in which this one lives.
    case lodging(NodeProcess)
    /// On another host, and what started it there has ended without knowing what became of it.
    case unattached(pid: Int32)
    /// Where its agent has started it.
    case agent(AgentRun)
  }

  /// Where on another host it runs, by an `srun` that is a child of ours.
  struct Elsewhere {
    let step: SlurmStep
    private let engine: SlurmEngine

    init(step: SlurmStep, _ engine: SlurmEngine) {
      self.step = step
      self.engine = engine
    }

    func signal(_ signal: Signal, srun: Int32?) { engine.signal(signal, to: step, srun: srun) }
    /// Slurm has given its host up, or may have done so.
    func lost() { engine.lost(step) }
    func attach() throws -> ChildProcess { try ChildProcess.spawn(engine.attach(to: step)) }
  }

  var origin: Origin
  let incarnation: UInt64
  let capture: OutputCapture
  /// The pipes of what it writes; none until an adopted process is given some.
  var pipes: [(stream: LogStream, descriptor: Int32)]
  /// The pipes that are still read.
  var registrations: [LogStream: PollLoop.Registration] = [:]
  /// Tells whether the program of a child of ours runs, or that an adopted process has ended.
  var watch: PollLoop.Registration?
  /// Why the program does not run.
  var startFailure: SpawnError?
  /// What reads the output of an adopted process on another host.
  var attachment: ChildProcess?
  /// What a former orchestrator had started it by on another host, and what may still linger when it has ended.
  var formerSrun: AdoptedProcess?
  /// Whether an adopted process has been told of its new orchestrator.
  var isGreeted = false
  /// Whether it told that it ends in order.
  var saidGoodbye = false
  /// Where it runs; `nil` on this host.
  let elsewhere: Elsewhere?
  /// What the srun has told of it that has started it elsewhere.
  var srun = SrunReport()
  /// How often in a row its host has said that there is no such process any more.
  var timesGone = 0
  /// Whether its host has answered when it was last asked.
  var hasHostAnswered = false
  /// The other nodes that live in it, or have done so.
  private(set) var lodgers: Set<String> = []

  /// While it is awaited.
  private var queue: ProcessorQueue?

  init(
    child: ChildProcess, incarnation: UInt64, capture: OutputCapture, on elsewhere: Elsewhere? = nil
  ) {
    self.elsewhere = elsewhere
    origin = .own(child)
    self.incarnation = incarnation
    self.capture = capture
    pipes = [(.out, child.output), (.err, child.error)]
  }

  /// - Parameter elsewhere: Where it runs, where the process is the `srun` that has started it.
  init(
    adopted process: AdoptedProcess, incarnation: UInt64, capture: OutputCapture,
    on elsewhere: Elsewhere? = nil
  ) {
    self.elsewhere = elsewhere
    origin = .adopted(process)
    self.incarnation = incarnation
    self.capture = capture
    pipes = []
  }

  /// A node that lives in the process of another one.
  init(lodgingIn host: NodeProcess, incarnation: UInt64) {
    elsewhere = nil
    origin = .lodging(host)
    self.incarnation = incarnation
    capture = host.capture
    pipes = []
  }

  /// A process that an agent runs.
  init(by agent: AgentRun, incarnation: UInt64, capture: OutputCapture) {
    elsewhere = nil
    origin = .agent(agent)
    self.incarnation = incarnation
    self.capture = capture
    pipes = []
  }

  /// What runs it; `nil` where that is no agent.
  var agent: AgentRun? { if case .agent(let run) = origin { run } else { nil } }

  /// The process in which it lives; `nil` where that is its own.
  var host: NodeProcess? {
    if case .lodging(let host) = origin { host } else { nil }
  }

  /// Whether it runs on another host.
  var isElsewhere: Bool { elsewhere != nil || agent != nil || host?.isElsewhere == true }

  /// Whether nothing on this host is left of what started it elsewhere.
  var isUnattached: Bool {
    if case .unattached = origin { true } else { false }
  }

  /// Takes another node in, whose lines are told apart from now on.
  func take(lodger node: String) {
    lodgers.insert(node)
    capture.tellApart(node)
  }

  var pid: Int32 {
    switch origin {
    case .own(let child): child.pid
    case .adopted(let process): process.pid
    case .lodging(let host): host.pid
    case .unattached(let pid): pid
    case .agent: 0
    }
  }

  /// Has what starts it on another host give that up.
  func giveUpStart() {
    if case .own(let child) = origin { child.signal(.terminate) }
  }

  /// How long it stood in the queue for a processor since this was last asked, or since it is awaited.
  func takeQueueTime(isAwaited: Bool) -> Duration {
    let threads = isAwaited && !isElsewhere ? ProcessorQueue.threads(of: pid) : [:]
    guard !threads.isEmpty else {
      queue = nil
      return .zero
    }
    var clock = queue ?? ProcessorQueue()
    defer { queue = clock }
    return clock.take(threads, at: .now)
  }

  /// - Returns: Whether there was still somebody to send it to.
  @discardableResult
  func signal(_ signal: Signal, group: Bool = false) -> Bool {
    if let elsewhere {
      elsewhere.signal(signal, srun: isUnattached ? nil : pid)
      return true
    }
    return switch origin {
    case .own(let child): child.signal(signal, group: group)
    case .adopted(let process): process.signal(signal, group: group)
    case .lodging(let host): host.signal(signal, group: group)
    case .unattached: false
    case .agent(let run):
      {
        run.send(signal)
        return true
      }()
    }
  }
}

/// One process's output on its way from the pipes into the log of its node. The lines of lodgers, other
/// nodes in the process, are told apart by what they begin with.
///
/// Not safe for concurrent use: one thread owns it. Use a new one for each process of a node, with
/// the same writer.
package final class OutputCapture {
  package struct Drained: Hashable, Sendable {
    /// Whether more can come; at `false` the descriptor can be closed.
    package var isOpen: Bool
    /// What was read: whole lines.
    package var lines: [String]
    /// What was read of lodgers, and not logged here, without what it begins with.
    package var ofLodgers: [String: [String]] = [:]
    /// Trouble with the log file that begins or ends.
    package var notice: LogWriter.Notice?
  }

  package let writer: LogWriter
  /// The last lines, oldest first, to show when the node fails.
  package private(set) var recentLines: [String] = []
  /// The same of lodgers.
  private var recentOfLodgers: [String: [String]] = [:]
  private static let recentLimit = 5
  private var splitters: [LogStream: LogLineSplitter] = [:]

  package init(writer: LogWriter) { self.writer = writer }

  /// Reads what waits in a non-blocking pipe, up to a bound that keeps one chatty node from
  /// holding up the others, and logs its lines.
  package func drain(_ descriptor: Int32, as stream: LogStream) -> Drained {
    let (lines, isOpen) = splitters[stream, default: LogLineSplitter()].drain(descriptor)
    var drained = take(lines, from: stream)
    drained.isOpen = isOpen
    return drained
  }

  /// Takes lines that were read elsewhere, and logs them.
  package func take(_ lines: [String], from stream: LogStream) -> Drained {
    var lines = lines
    let ofLodgers = takeOut(&lines)
    Self.remember(lines, in: &recentLines)
    return Drained(
      isOpen: true, lines: lines, ofLodgers: ofLodgers, notice: writer.write(lines, from: stream))
  }

  /// The last lines of the node, or of a lodger.
  package func recentLines(ofLodger node: String?) -> [String] {
    guard let node else { return recentLines }
    return recentOfLodgers[node] ?? []
  }

  /// Tells the lines of a lodger apart from now on; those of a former one under its name are forgotten.
  package func tellApart(_ lodger: String) { recentOfLodgers[lodger] = [] }

  private func takeOut(_ lines: inout [String]) -> [String: [String]] {
    guard !recentOfLodgers.isEmpty else { return [:] }
    var found: [String: [String]] = [:]
    for lodger in recentOfLodgers.keys {
      let prefix = NodeLogPrefix.ofLodger(lodger)
      let own = lines.filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) }
      guard !own.isEmpty else { continue }
      lines.removeAll { $0.hasPrefix(prefix) }
      Self.remember(own, in: &recentOfLodgers[lodger, default: []])
      found[lodger] = own
    }
    return found
  }

  private static func remember(_ lines: [String], in recent: inout [String]) {
    guard !lines.isEmpty else { return }
    recent = (recent + lines.suffix(recentLimit)).suffix(recentLimit)
  }
}

extension LogLineSplitter {
  /// Reads what waits in a non-blocking descriptor, up to a bound.
  /// - Returns: Whole lines, and whether more can come.
  mutating func drain(_ descriptor: Int32) -> (lines: [String], isOpen: Bool) {
    var lines: [String] = []
    var isOpen = true
    let size = 65536
    withUnsafeTemporaryAllocation(byteCount: size, alignment: 1) { buffer in
      var rounds = 0
      while isOpen, rounds < 4 {
        let count = read(descriptor, buffer.baseAddress!, size)
        if count < 0, errno == EINTR { continue }
        if count < 0, errno == EAGAIN { return }
        isOpen = count > 0
        if isOpen { lines += append(UnsafeRawBufferPointer(rebasing: buffer[..<count])) }
        rounds += 1
      }
    }
    if !isOpen, let rest = finish() { lines.append(rest) }
    return (lines, isOpen)
  }
}
