import PipeRuntime
import PipeSupervision

/// Measures the memory of a node while many nodes of the same program are running.
struct MemorySection {
  private let setting: Setting

  private static let nodeCount = 20

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    try Programs.check()
    let directory = try TemporaryDirectory()
    let nodeLauncher = try NodeLauncher(in: directory)
    var nodes: [ChildProcess] = []
    var baselineProcesses: [ChildProcess] = []
    defer {
      for index in nodes.indices { nodes[index].end() }
      for index in baselineProcesses.indices { baselineProcesses[index].end() }
    }
    for _ in 0..<Self.nodeCount {
      nodes.append(try nodeLauncher.start(machine: "Relay", durability: .volatile).process)
      // The process of the baseline has loaded its libraries by the time the next node is ready.
      baselineProcesses.append(try ChildProcess.spawn(.sleep))
    }
    let ours = nodes.map { ProcessMemory(of: $0.pid) }
    let baseline = baselineProcesses.map { ProcessMemory(of: $0.pid) }
    func add(_ name: String, _ bytes: KeyPath<ProcessMemory, Int>, atMost limit: Double) {
      report.add(
        Figure(
          name: name, value: Self.median(ours, bytes), baseline: Self.median(baseline, bytes),
          target: .atMost(.megabytes(limit))))
    }
    add("a relay node, resident (VmRSS); /bin/sleep", \.resident, atMost: 16)
    add("what it alone has written to", \.privateDirty, atMost: 2.5)
    add("its share where pages are shared (PSS)", \.proportional, atMost: 7)
    report.note(
      "medians of \(Self.nodeCount) that run at once; durability none; 1 MB is 1,000,000 bytes")
  }

  private static func median(
    _ memories: [ProcessMemory], _ bytes: KeyPath<ProcessMemory, Int>
  ) -> Quantity {
    var samples = Samples()
    for memory in memories { samples.add(Double(memory[keyPath: bytes])) }
    return .bytes(Int(samples.median))
  }
}

/// The memory of a process, as reported by the kernel. Unit: bytes.
struct ProcessMemory {
  let resident: Int
  /// The proportional set size (PSS), which counts a share of each page that several processes map.
  let proportional: Int
  /// The size of modified pages that only this process maps.
  let privateDirty: Int

  init(of pid: Int32) {
    resident = Self.field("VmRSS:", in: HostMachine.text(of: "/proc/\(pid)/status"))
    let rollup = HostMachine.text(of: "/proc/\(pid)/smaps_rollup")
    proportional = Self.field("Pss:", in: rollup)
    privateDirty = Self.field("Private_Dirty:", in: rollup)
  }

  private static func field(_ name: String, in text: String) -> Int {
    let line = text.split(separator: "\n").first { $0.hasPrefix(name) }
    let word = line?.dropFirst(name.count).split(whereSeparator: \.isWhitespace).first
    return (word.flatMap { Int($0) } ?? 0) * 1_024
  }
}

extension ChildProcess {
  /// Kills the process, and waits until it has ended.
  mutating func end() {
    signal(.kill)
    wait()
  }
}

extension ChildCommand {
  /// A process that does nothing. It is the baseline for a node.
  static var sleep: ChildCommand {
    ChildCommand(
      path: "/bin/sleep", arguments: ["600"], environment: ProcessEnvironment.current,
      output: .inherited)
  }
}
