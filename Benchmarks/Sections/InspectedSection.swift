import Dispatch
import Glibc
import PipeMachines
import PipeRuntime
import PipeSupervision

/// Measures what an inspector's page costs two nodes at full rate, in a topology with a hundred
/// idle nodes. The conditions are: no page, an active page, and an inspector that is stopped or
/// killed. Also measures the inspector itself.
struct InspectedSection {
  private enum PageCondition: String, CaseIterable {
    case none = "no page"
    /// A repetition of the first condition. Its ratio shows the noise of the host; smaller
    /// differences have no meaning.
    case again = "no page, again"
    case live = "page"
    case stopped = "page, stopped"
    case killed = "page, killed"
  }

  private let setting: Setting
  private let directory: TemporaryDirectory

  init(_ setting: Setting) throws {
    self.setting = setting
    directory = try TemporaryDirectory()
  }

  func run(_ report: inout Report) throws {
    let count = setting.pick(600_000, quick: 160_000)
    let repeats = setting.pick(7, quick: 3)
    let flow = try Flow(
      hasPayload: false, count: count, idle: setting.pick(100, quick: 20), in: directory)
    var inspector = (share: Samples(), memory: Samples())
    let comparison = try FlowComparison<PageCondition>(rounds: repeats, baseline: .none) {
      try measure(flow.topology, $0, count, &inspector)
    }
    comparison.add(to: &report) { _ in [.time, .processorTime] }
    report.add(
      Figure(
        name: "the inspector, cores of processor time, page looked at",
        value: .count(inspector.share.median), target: .atMost(.count(0.10))))
    report.add(
      Figure(
        name: "the inspector, resident", value: .bytes(Int(inspector.memory.median)),
        target: .atMost(.bytes(80_000_000))))
    report.note(
      "of the sink, medians of \(repeats) × \(count.grouped) events without payload, each a step; judged is the "
        + "median of the ratios in the same round;")
    report.note("what it is for 'no page, again' is the machine's own doing")
  }

  private func measure(
    _ topology: TopologyRun, _ pageCondition: PageCondition, _ count: Int,
    _ inspector: inout (share: Samples, memory: Samples)
  ) throws -> FlowResult {
    var pagePoller: PagePoller?
    if pageCondition != .none && pageCondition != .again {
      pagePoller = try PagePoller(topology.name, in: directory)
    }
    defer { if pageCondition != .killed { pagePoller?.kill() } }
    switch pageCondition {
    case .stopped: pagePoller?.inspector.signal(.stop)
    case .killed: pagePoller?.kill()
    case .none, .again, .live: break
    }
    let pid = pageCondition == .live ? pagePoller?.inspector.pid : nil
    let start = (use: pid.map { ProcessorUse(of: $0) }, time: ContinuousClock.now)
    let before = topology.use(of: "sink")
    let elapsed = try topology.measure("source")
    let use = topology.use(of: "sink").perOperation(of: count, since: before)
    if let pid, let first = start.use {
      let time = ProcessorUse(of: pid).total.time - first.total.time
      let span = ContinuousClock.now - start.time
      inspector.share.add(time / (Double(span.wholeMilliseconds) / 1_000))
      inspector.memory.add(Double(ProcessMemory(of: pid).resident))
    }
    return FlowResult(elapsed: elapsed / Double(count), use: use)
  }
}

/// An inspector with a client that polls like a page, ten times a second.
final class PagePoller {
  private(set) var inspector: ChildProcess
  private let pollState = PollState()

  /// The state that the polling thread shares with other threads.
  private final class PollState: Sendable {
    let isStopped = Locked(false)
    /// The total size of the answers. Unit: bytes.
    let bytes = Locked(0)
    let end = DispatchSemaphore(value: 0)
  }

  /// The pause between two requests of a page. Unit: microseconds.
  private static let pause: UInt32 = 100_000

  init(_ topology: String, in directory: TemporaryDirectory) throws {
    let output = directory.uniquePath("inspector")
    let command = OrchestratorCommand(directory: directory)
    inspector = try command.spawn(
      Programs.inspector, ["web", "-p", topology, "--port", "0"], writingTo: output)
    let start = ContinuousClock.now
    var pageAddress: (port: UInt16, token: String)?
    while pageAddress == nil {
      let exit = inspector.reap()
      guard exit == nil, start.duration(to: .now) < TopologyRun.deadline else {
        throw command.failure(["web"], exit)
      }
      pageAddress = Self.pageAddress(in: HostMachine.text(of: output))
      Blocking.run { try? await Task.sleep(for: .milliseconds(5)) }
    }
    guard let (port, token) = pageAddress else { return }
    DispatchQueue.global().async { [pollState] in
      var cursor = "0"
      while !pollState.isStopped.withLock(\.self) {
        let answer = Self.fetch(port, "/api/changes?after=\(cursor)", token)
        pollState.bytes.withLock { $0 += answer.count }
        if let next = Self.cursor(in: answer) { cursor = next }
        usleep(Self.pause)
      }
      pollState.end.signal()
    }
    while pollState.bytes.withLock(\.self) == 0, start.duration(to: .now) < TopologyRun.deadline {
      Blocking.run { try? await Task.sleep(for: .milliseconds(5)) }
    }
  }

  /// Kills the inspector.
  func kill() {
    pollState.isStopped.withLock { $0 = true }
    inspector.signal(.kill)
    inspector.wait()
    pollState.end.wait()
  }

  /// Returns the port and the token of an address such as `http://127.0.0.1:PORT/#token=TOKEN`.
  private static func pageAddress(in text: String) -> (UInt16, String)? {
    guard text.hasSuffix("\n"), let line = text.split(separator: "\n").first else { return nil }
    let parts = line.split(separator: "#token=")
    guard parts.count == 2,
      let port = parts[0].split(separator: ":").last?.split(separator: "/").first
    else { return nil }
    return UInt16(port).map { ($0, String(parts[1])) }
  }

  /// Returns the cursor from the beginning of an answer's body.
  private static func cursor(in answer: [UInt8]) -> String? {
    let text = String(decoding: answer.prefix(2_000), as: UTF8.self)
    let parts = text.split(separator: "{\"cursor\":\"", maxSplits: 1)
    guard parts.count == 2 else { return nil }
    return parts[1].split(separator: "\"").first.map(String.init)
  }

  private static func fetch(_ port: UInt16, _ path: String, _ token: String) -> [UInt8] {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
    let result = withUnsafePointer(to: address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard result == 0 else { return [] }
    let request = Array(
      ("GET \(path) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nConnection: close\r\n"
        + "Authorization: Bearer \(token)\r\n\r\n").utf8)
    guard send(descriptor, request, request.count, Int32(MSG_NOSIGNAL)) == request.count else {
      return []
    }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = recv(descriptor, &buffer, buffer.count, 0)
      guard count > 0 else { return bytes }
      bytes += buffer[..<count]
    }
  }
}
