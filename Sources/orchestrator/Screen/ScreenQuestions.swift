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
          guard client.remote == nil else {
            throw CommandError("its program is asked for that, on the host of its orchestrator")
          }
          return try await chart(of: name, directory)
        })
    case .alphabet(let name):
      return .alphabet(of: name, await finding { try await client.alphabet(of: name) })
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
        let delivery = try await client.deliver(event, to: name, timeout: Self.patience)
        return delivery.isTaken ? .done(delivery.wording) : .failed(delivery.wording)
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
}
