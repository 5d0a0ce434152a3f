import PipeRuntime
import Synchronization

/// Shows the live view of a topology that another process runs, until it is left.
struct LiveMonitor {
  private let client: TopologyClient
  private let nodes: [String]
  private let signals: SignalDescriptor
  private let deadline: ContinuousClock.Instant?
  private let startedAt: Timestamp?
  private let answers: Handover<Result<TopologyDirectory, any Error>>
  private let latest = Told()

  /// What the nodes tell, by a task of its own.
  private final class Told: Sendable {
    let states = Mutex(LatestStates())
  }

  /// When a frame is drawn: as the orchestrator answers, or does not, as the view is left, or when
  /// there is no more to see.
  private enum Moment {
    case now, silent, left, gone

    var isLast: Bool { self == .left || self == .gone }
  }

  /// Between an answer of the orchestrator and the next question.
  private static let pause: Duration = .milliseconds(250)

  /// Blocks the signals that it takes; call it before any thread starts.
  /// - Parameter nodes: The nodes that are shown; all where there are none.
  init(of target: TopologyTarget, nodes: [String], within timeout: Duration?) throws {
    var target = target
    var startedAt: Timestamp?
    if case .local(let name) = target {
      let directories = try RunningTopology.choose(name)
      target = .local(directories.topology)
      startedAt = RunningTopology.find(directories)?.startedAt
    }
    self.startedAt = startedAt
    signals = try SignalDescriptor([.interrupt, .terminate, .hangUp, .windowSize, .resume])
    deadline = timeout.map { .now + $0 }
    self.nodes = nodes
    answers = try Handover()
    client = try TopologyClient.attach(to: target)
  }

  func run(console: Console) throws -> ExitCode {
    defer { client.close() }
    console.detach()
    var view = LiveView(style: console.style)
    var shown: TopologyDirectory?
    var following: Task<Void, Never>?
    defer { following?.cancel() }
    func show(_ moment: Moment = .now) throws {
      guard let shown else { return }
      // A terminal that is not read, or is the shell's at the moment, gets the next frame.
      if moment.isLast { console.drain(patience: .milliseconds(500)) }
      guard moment.isLast || console.isInForeground && !console.isBehind else { return }
      try draw(shown, at: moment, on: console, &view)
      try console.flush()
    }
    ask(after: .zero, isFresh: true)
    while true {
      switch console.wait(for: [signals.descriptor, answers.descriptor], until: deadline) {
      case .readable(answers.descriptor):
        do {
          guard let directory = try answers.take()?.get() else { continue }
          shown = directory
          if following == nil { following = follow(try directory.nodes(named: nodes)) }
          try show()
        } catch let error as ConsoleClosed {
          throw error
        } catch TopologyClientError.notAnswering where shown != nil {
          try show(.silent)
        } catch {
          try show(.gone)
          guard shown != nil, case TopologyClientError.orchestratorGone = error else { throw error }
          if let problem = client.problemAtEnd { throw problem }
          console.note("topology '\(client.topology)' has gone down")
          return .success
        }
        ask(after: Self.pause, isFresh: false)
      case .readable:
        switch signals.next() {
        case .windowSize, nil: try show()
        case .resume:
          // What the shell has written meanwhile stays.
          view.leaveFrame()
          try show()
        default:
          try show(.left)
          return leave(console)
        }
      case .timedOut:
        try show(.left)
        return leave(console)
      case .readerGone: return .success
      }
    }
  }

  private func leave(_ console: Console) -> ExitCode {
    console.note(
      "topology '\(client.topology)' goes on; 'orchestrator down \(client.choice)' stops it")
    return .success
  }

  private func follow(_ nodes: [NodeInformation]) -> Task<Void, Never> {
    let names = nodes.filter { $0.kind != .monitor }.map(\.name)
    return Task { [client, latest] in
      // Without it, what the orchestrator knows is shown.
      guard let states = try? await client.states(of: names, .latest, tellingInDoubt: true)
      else { return }
      for await change in states { latest.states.withLock { $0.take(change) } }
    }
  }

  /// - Parameter isFresh: Whether the orchestrator asks the nodes first; else it tells what it has heard
  ///   within the last second.
  private func ask(after pause: Duration, isFresh: Bool) {
    Task { [client, answers] in
      try? await Task.sleep(for: pause)
      do {
        answers.put(.success(try await client.directory(fresh: isFresh)))
      } catch {
        answers.put(.failure(error))
      }
    }
  }

  private func draw(
    _ directory: TopologyDirectory, at moment: Moment, on console: Console, _ view: inout LiveView
  ) throws {
    let size = console.size
    let uptime = startedAt.map { "  up \($0.age.shortText)" } ?? ""
    let phase =
      switch moment {
      case .now, .left: directory.phase
      case .silent: "its orchestrator does not answer; last seen \(directory.phase)"
      case .gone: "last seen \(directory.phase)"
      }
    try console.write(
      view.frame(
        title: "\(directory.topology): \(phase)\(uptime)",
        rows: latest.states.withLock { $0 }.merged(into: directory.nodes(named: nodes))
          .rows(now: WallClock.nanoseconds),
        footer: moment.isLast ? "" : "^C leaves the view; the topology goes on",
        columns: size.columns, rows: size.rows))
  }
}
