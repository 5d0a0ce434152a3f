import CProcess
import Dispatch
import Glibc
import PipeJournal
import PipeMachines
import PipeSystem
import PipeTransport
import PipeWire

/// Runs a node in this process. The node hosts one of the machines or monitors of the program, or
/// composites.
package struct NodeHost {
  private let machines: [any Machine.Type]
  private let monitors: [HostedMonitor]
  private let composites: [any CompositeState.Type]

  package init(
    machines: [any Machine.Type], monitors: [HostedMonitor], composites: [any CompositeState.Type]
  ) {
    self.machines = machines
    self.monitors = monitors
    self.composites = composites
  }

  /// Runs the node until it ends, and returns the exit code. When this function returns, all
  /// sockets are closed and have sent their pending messages.
  package func serve(_ arguments: NodeArguments, log: NodeLog) throws -> Int32 {
    Failpoint.arm(node: arguments.node, incarnation: arguments.incarnation)
    // The signals must be blocked before any thread starts, since threads inherit the signal mask.
    let signals = try SignalDescriptor([.terminate, .interrupt])
    // The lock on the process record shows that this process is running. Child processes must not
    // inherit the descriptor, because they would keep the lock.
    _ = fcntl(NodeArguments.recordDescriptor, F_SETFD, FD_CLOEXEC)
    signal(SIGPIPE, SIG_IGN)
    pr_line_buffer_output()
    let loop = PollLoop()
    // The loop occupies the main thread. Between its turns, it runs the work of the main actor,
    // which effects and features may use.
    loop.add(descriptor: pr_main_queue_descriptor()) { pr_run_main_queue() }
    let context = Context(.few)
    // The handler must exist before any socket is bound, because libzmq admits every peer if there
    // is no handler.
    let handler = try arguments.keys.map { _ in try ZapHandler(in: context, loop: loop) }
    let environment = NodeEnvironment(loop: loop, context: context, zapHandler: handler)
    let embeddedNodes = EmbeddedNodes(at: environment) { arguments, environment, log in
      let link = try NodeLink(arguments, at: environment, log: log)
      return try openNode(arguments, at: environment, by: link, embeddedNodes: nil, log: log)
    }
    let link = try NodeLink(arguments, at: environment, log: log)
    if let term = arguments.lease {
      guard try NodeLease.acquire(term, from: link.control, on: loop, interruptedBy: signals) else {
        return 0
      }
    }
    switch try openNode(
      arguments, at: environment, by: link, embeddedNodes: embeddedNodes, log: log)
    {
    case .running(let shell): return shell.run(stoppingOn: signals)
    case .leaving(let shell, let reason, let code):
      return shell.leaveAtOnce(because: reason, code: code)
    }
  }

  /// Opens the journal and the content of a node, and creates its ``NodeShell``.
  /// - Parameter embeddedNodes: The nodes that are embedded in this node's process; `nil` if the
  ///   node is embedded itself.
  private func openNode(
    _ arguments: NodeArguments, at environment: NodeEnvironment, by link: NodeLink,
    embeddedNodes: EmbeddedNodes?,
    log: NodeLog
  ) throws -> EmbeddedNodes.OpenedNode {
    func makeShell(_ content: HostedContent, _ journal: Journal?) throws -> NodeShell {
      try NodeShell(
        arguments: arguments, content: content, journal: journal, at: environment, by: link,
        embeddedNodes: embeddedNodes, log: log)
    }
    do {
      let journal = try openJournal(arguments, log: log)
      let content = try makeContent(
        arguments, journal: journal, log: log, loop: environment.loop.handle)
      // The journal is not changed before the content exists. If the machine does not accept the
      // recorded state, the journal must remain unchanged.
      try journal?.begin()
      let shell = try makeShell(content, journal)
      if let bindFailure = shell.bindFailure { return .leaving(shell, because: bindFailure) }
      return .running(shell)
    } catch let error as JournalError {
      log.failure("\(error)")
      guard error.isTransient else {
        // The node would fail in the same way after a restart. So the node starts, and reports this
        // error as permanent.
        return .running(try makeShell(HostedContent(FailedContent(failureReason: "\(error)")), nil))
      }
      let content = HostedContent(FailedContent(failureReason: nil))
      return .leaving(try makeShell(content, nil), because: "\(error)", code: error.exitCode)
    }
  }

  private func openJournal(_ arguments: NodeArguments, log: NodeLog) throws(JournalError)
    -> Journal?
  {
    let machine: String
    switch arguments.content {
    case .machine(let name, _): machine = name
    case .composites: machine = CoordinatorContent.machineName
    case .constant, .monitor: return nil
    }
    guard let location = arguments.journal else { return nil }
    let mayMove = arguments.lease != nil
    // Creates only the journal's own directory. If the parent directory is missing, this host has
    // not mounted the shared file system.
    if mayMove { mkdir(FileSystem.parentDirectory(of: location.path), 0o700) }
    let journal = try Journal(
      opening: location.path,
      identity: .init(topology: arguments.topology, node: arguments.node, machine: machine),
      durability: location.durability, keeping: location.retention,
      heldBy: mayMove ? arguments.incarnation : nil)
    if journal.isFirstJournal, arguments.incarnation > 1 {
      log.warning(
        "incarnation \(arguments.incarnation) found no journal '\(location.path)': the node starts in "
          + "its initial state; if the node had a journal before, its records are lost")
    }
    if journal.lacksLog {
      log.warning(
        "the file '\(location.path).step' of the journal is missing after a reboot: the node may have "
          + "lost the records of the last 0.25 s before the reboot")
    }
    return journal
  }

  private func makeContent(
    _ arguments: NodeArguments, journal: Journal?, log: NodeLog, loop: LoopHandle
  ) throws -> HostedContent {
    switch arguments.content {
    case .machine(let name, let parameters):
      let hosted = try machine(name)._host(
        HostingContext(
          parameters: parameters, log: log, loop: loop, topology: arguments.topology,
          node: arguments.node, incarnation: arguments.incarnation, journal: journal,
          instances: arguments.instances)
      )
      guard let content = hosted as? HostedContent else {
        throw NodeSetupError("machine '\(name)' is hosted by another runtime")
      }
      return content
    case .composites:
      return HostedContent(
        try CoordinatorContent(
          node: arguments.node, incarnation: arguments.incarnation, journal: journal,
          projections: CompositeFeed.projections(composites), log: log))
    case .constant(let state, let name):
      if let name { try machine(name).check(state: state) }
      return HostedContent(ConstantContent(state: state, machine: name))
    case .monitor(let name, let watch, let parameters):
      guard let monitor = monitors.first(where: { $0.name == name }) else {
        throw NodeSetupError("this program has no monitor '\(name)'")
      }
      return HostedContent(
        MonitorContent(
          monitor, watch: watch, parameters: parameters, topology: arguments.topology,
          control: arguments.control,
          keys: arguments.keys, loop: loop))
    }
  }

  /// Returns the function that computes a composite state from the states of the components.
  /// Returns `nil` if the program has no composite state with this name.
  func projection(_ name: String) -> CompositeStates.Projection? {
    CompositeFeed.projections(composites)[name]
  }

  package func machine(_ name: String) throws -> any Machine.Type {
    guard let machine = machines.first(where: { $0.name == name }) else {
      throw NodeSetupError("this program has no machine '\(name)'")
    }
    return machine
  }
}

/// The parts of a node that are created first: its keys, if it has any, and its connection to the
/// orchestrator.
struct NodeLink {
  /// The keys; `nil` if all nodes are on one host.
  let keys: NodeKeys?
  let control: ControlLink

  /// - Throws: ``NodeSetupError`` or ``TransportError``. The reason appears only in the node's log,
  ///   because a node without its keys cannot connect to the orchestrator.
  init(_ arguments: NodeArguments, at environment: NodeEnvironment, log: NodeLog) throws {
    keys = try NodeKeys(arguments, at: environment, log: log)
    control = try ControlLink(
      arguments, keys: keys, context: environment.context, loop: environment.loop, log: log)
  }
}
