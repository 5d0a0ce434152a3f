import PipeRuntime
import PipeSupervision

/// What a relay node that keeps no journal holds resident after its start.
struct MemorySection {
  private let setting: Setting

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    try Programs.check()
    let directory = try TemporaryDirectory()
    let standIn = try StandIn(in: directory)
    // It has loaded its libraries by the time that the node is ready.
    var bare = try ChildProcess.spawn(.sleep)
    defer { bare.end() }
    var node = try standIn.start(machine: "Relay", durability: .volatile).process
    defer { node.end() }
    let memory = ProcessMemory(of: node.pid)
    report.add(
      Figure(
        name: "a relay node, resident (VmRSS); /bin/sleep", value: .bytes(memory.resident),
        baseline: .bytes(ProcessMemory(of: bare.pid).resident), target: .atMost(.megabytes(20))))
    report.add(
      Figure(
        name: "its share where pages are shared (PSS)", value: .bytes(memory.proportional),
        baseline: .bytes(ProcessMemory(of: bare.pid).proportional)))
    report.note("durability none; 1 MB is 1,000,000 bytes")
  }
}

/// The memory of a process, as the kernel counts it. Unit: bytes.
struct ProcessMemory {
  private(set) var resident = 0
  private(set) var proportional = 0

  init(of pid: Int32) {
    resident = Self.field("VmRSS:", in: HostMachine.text(of: "/proc/\(pid)/status"))
    proportional = Self.field("Pss:", in: HostMachine.text(of: "/proc/\(pid)/smaps_rollup"))
  }

  private static func field(_ name: String, in text: String) -> Int {
    let line = text.split(separator: "\n").first { $0.hasPrefix(name) }
    let word = line?.dropFirst(name.count).split(whereSeparator: \.isWhitespace).first
    return (word.flatMap { Int($0) } ?? 0) * 1_024
  }
}

extension ChildProcess {
  /// Kills the process, and waits until it is gone.
  mutating func end() {
    signal(.kill)
    wait()
  }
}

extension ChildCommand {
  /// A process that does nothing: what a node is compared with.
  static var sleep: ChildCommand {
    ChildCommand(
      path: "/bin/sleep", arguments: ["600"], environment: ProcessEnvironment.current,
      output: .inherited)
  }
}
