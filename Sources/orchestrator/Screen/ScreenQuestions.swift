import PipeExplorer
import PipeGraphs
import PipeRuntime
import PipeSupervision

/// Asks a topology what the screen wants to know, and does what it wants to be done.
struct ScreenQuestions: Sendable {
  let client: TopologyClient

  /// How long a node has to say what becomes of an event.
  private static let patience: Duration = .seconds(5)
  /// How long a node that is steered may take.
  private static let steeringTime: Duration = .seconds(30)

  func answer(_ question: Screen.Question, _ directory: TopologyDirectory?) async -> Screen.Answer {
    switch question {
    case .enabled(let name):
      return .enabled(of: name, await finding { try await client.enabledEvents(of: name) })
    case .chart(let name):
      return .chart(
        of: name,
        await finding {
          guard let directory else { throw CommandError("the topology is not known yet") }
          return try await chart(of: name, directory)
        })
    case .alphabet(let name):
      return .alphabet(of: name, await finding { try await alphabet(of: name) })
    case .why(let name):
      return .why(
        name,
        await finding {
          let page = EnabledPage(found: try await client.enabledEvents(of: name))
          let style = Style(isColored: false, hasLocalTimes: true)
          return page.lines(style) + [""] + page.details(style)
        })
    case .send(let event, let name):
      do {
        return try await send(event, to: name)
      } catch {
        return .failed("\(error)")
      }
    case .steer(let steering, let name):
      do {
        switch steering {
        case .restart: try await client.restart([name], within: Self.steeringTime)
        case .kill: try await client.kill(name)
        case .stop: try await client.stop([name], within: Self.steeringTime)
        case .start: try await client.start([name], within: Self.steeringTime)
        }
        return .done("\(name): \(Self.past[steering] ?? "")")
      } catch {
        return .failed("\(error)")
      }
    }
  }

  private static let past: [ScreenCommand.Steering: String] = [
    .restart: "restarted", .kill: "killed", .stop: "stopped", .start: "runs",
  ]

  private func finding<Value>(
    _ work: () async throws -> Value
  ) async -> ScreenData.Finding<Value> {
    do { return .found(try await work()) } catch { return .failed("\(error)") }
  }

  /// Where charts are made: its program tells what a machine does by single steps, which are waited for.
  private static let charts = LoopThread { _ in }

  /// What the machine does in each state.
  private func chart(of node: String, _ directory: TopologyDirectory) async throws -> StateChart {
    try await withCheckedThrowingContinuation { continuation in
      Self.charts.handle.post {
        continuation.resume(
          with: Result { try LoadedTopology.load(fileOf: directory).chart(of: node) })
      }
    }
  }

  /// The events that can be sent, with what they carry.
  private func alphabet(of name: String) async throws -> [CaseDescription] {
    let directory = try await client.directory(fresh: false)
    if try client.node(name, in: directory).kind == .composite {
      let plan = try await client.conflictClasses().lazy.compactMap { $0[name] }.first
      return plan?.events ?? []
    }
    let machine = try await client.describe(name)
    return machine.events.filter { machine.alphabet.contains($0.name) }
  }

  private func send(_ event: JSONValue, to name: String) async throws -> Screen.Answer {
    let directory = try await client.directory(fresh: false)
    let what = event.caseText
    guard try client.node(name, in: directory).kind == .composite else {
      switch try await client.send(name, json: event, timeout: Self.patience) {
      case .moved(let version, let state):
        let text = state.stateText(fields: directory.stateFields[name])
        return .done("\(name): \(text)  (version \(version))")
      case .done: return .done("\(name): \(what) taken")
      case .refused(let refusal, _): return .failed("\(name) refused \(what): \(refusal.wording)")
      }
    }
    let reply = try await client.synchronize(
      name, json: event, mode: .try, timeout: Self.patience)
    switch reply {
    case .committed(let transaction, _):
      return .done("\(name): \(what) committed as \(transaction)")
    case .refused(let withholdings):
      return .failed(
        "\(name) refused \(what): \(withholdings.map(\.description).joined(separator: "; "))")
    case .busy(let names):
      return .failed("\(name) is busy: \(names.joined(separator: ", ")); nothing was applied")
    case .unavailable(let node):
      return .failed("'\(node)' does not run; nothing was applied")
    case .unknown(let transaction):
      return .failed("what became of transaction \(transaction) is not known yet")
    }
  }
}
