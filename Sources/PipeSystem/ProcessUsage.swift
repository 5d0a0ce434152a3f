import Glibc

/// What a process of this machine has used.
package struct ProcessUsage: Hashable, Sendable {
  /// The time that all its threads have had a processor, since it was started.
  package var cpu: Duration
  /// What it holds in memory now. Unit: bytes.
  package var memoryByteCount: Int

  package init(cpu: Duration, memoryByteCount: Int) {
    self.cpu = cpu
    self.memoryByteCount = memoryByteCount
  }

  /// `nil` where there is no such process.
  package init?(pid: Int32) {
    guard let text = FileSystem.text(of: "/proc/\(pid)/stat") else { return nil }
    self.init(
      stat: text, ticksPerSecond: sysconf(Int32(_SC_CLK_TCK)),
      pageByteCount: sysconf(Int32(_SC_PAGESIZE)))
  }

  /// Reads the text of `/proc/PID/stat`, see proc(5).
  package init?(stat text: String, ticksPerSecond: Int, pageByteCount: Int) {
    // The program's name may have spaces and parentheses in it; what follows has none.
    guard let end = text.lastIndex(of: ")") else { return nil }
    let fields = text[text.index(after: end)...].split { $0 == " " || $0 == "\n" }
    // `state`, the third field, is the first here.
    func field(_ number: Int) -> Int? { number - 3 < fields.count ? Int(fields[number - 3]) : nil }
    guard let user = field(14), let system = field(15), let pages = field(24) else { return nil }
    cpu = .milliseconds((user + system) * 1_000 / ticksPerSecond)
    memoryByteCount = pages * pageByteCount
  }

  /// `20.1 MB`
  package var memoryText: String {
    let tenths = (memoryByteCount + 50_000) / 100_000
    return "\(tenths / 10).\(tenths % 10) MB"
  }
}
